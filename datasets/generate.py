"""Generated sets as raw text: the files that the readers of the real sets take, at any number of lines."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets import raw, synthetic_taobao
from datasets.errors import UserError, unknown
from datasets.pace import Report
from datasets.settings import Setting, resolve
from datasets.shapes.skew import compare

TAOBAO = "synthetic-taobao"
SHAPES = {name: form.shape for name, form in raw.FORMATS.items()}
NAMES = (*raw.FORMATS, TAOBAO)
SETTINGS = (
    Setting(key="rows", default=1_000_000, low=1, high=10_000_000_000, help="lines, in all files together"),
    Setting(key="seed", default=0, low=0, high=2**63 - 1, help="of everything that is drawn"),
    Setting(key="scale", default=1.0, low=0.001, high=1.0, help="of the large tables"),
)


def generate(name: str, folder: Path, given: Mapping[str, Any], gz: bool, report: Report) -> list[Path]:
    """Writes the files of a set into a folder and returns them. UserError for a name without a raw format, a file
    that is there already, or a folder that cannot be written."""
    if name not in NAMES:
        raise unknown("generated data set with a raw text format", name, NAMES)
    options = resolve(SETTINGS, given, "data generate")
    rows, seed, scale = options["rows"], options["seed"], options["scale"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if name == TAOBAO:
            users = max(1, round(rows / synthetic_taobao.EVENTS_A_USER))
            return synthetic_taobao.write_text(folder, users=users, seed=seed, scale=scale, gz=gz, report=report)
        return raw.write_text(name, folder, rows, seed=seed, scale=scale, gz=gz, report=report)
    except OSError as error:
        why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise UserError(f"cannot write to {folder}: {why}; choose another --out.") from error


def skew(name: str, given: Mapping[str, Any], report: Report) -> str:
    """FAE's published hot sets beside those of a generated set, counted without writing it (`rows` 0: all inputs)."""
    if name not in SHAPES:
        raise unknown("generated data set whose skew can be counted", name, SHAPES)
    options = resolve([replace(SETTINGS[0], default=0, low=0), *SETTINGS[1:]], given, "data skew")
    return compare(SHAPES[name], options["rows"], options["seed"], options["scale"], report)
