"""Whether a prepared set is still what was made: sizes and values, as at every opening, and checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets.errors import UserError
from datasets.meta import FILES
from datasets.pace import Pace, Report
from datasets.registry import load_dataset
from datasets.settings import resolve
from datasets.store import PreparedSet, open_set, rebuild_command
from datasets.writer import META, SPLITS, checksum


def verify(name: str, report: Report = lambda line: None, root: Path | None = None) -> str:
    """A sentence that says that all is well. UserError, with the command that rebuilds the set, where it is not."""
    prepared = open_set(name, root)
    module, files = load_dataset(name), prepared.meta["files"]
    _check_meta(prepared, module)
    total = sum(files[file]["bytes"] for file in FILES)
    pace = Pace(report, f"{name}: checking", "bytes", total)
    for file in FILES:
        if (found := checksum(prepared.path / file)) != files[file]["sha256"]:
            command = rebuild_command(name, module, prepared.meta["options"])
            raise UserError(
                f"{prepared.path / file} is not what was made: its SHA-256 begins with {found[:12]}, expected "
                f"{files[file]['sha256'][:12]}; make data set {name} with: {command}"
            )
        pace.add(files[file]["bytes"])
    return f"{name}: {len(FILES)} files, {total:,} bytes, all as they were made (fingerprint {prepared.fingerprint})"


def _check_meta(prepared: PreparedSet, module: Any) -> None:
    """UserError for a `meta.json` whose options are none of the data set's, or whose counts are not the files'."""
    made = prepared.meta["options"]
    try:
        same = resolve(module.OPTIONS, made, f"data set {prepared.name}") == made
    except UserError:
        same = False
    counted = {split: int((getattr(prepared, split).labels == 1).sum()) for split in SPLITS}
    positives = {split: prepared.meta["splits"][split]["positives"] for split in SPLITS}
    if not same or counted != positives:
        what = f"positives {positives}, the files have {counted}" if same else f"options {made}"
        raise UserError(
            f"{prepared.path / META} was changed: it says {what}; "
            f"make data set {prepared.name} with: {rebuild_command(prepared.name, module)}"
        )
