"""Files that users name, and sizes as people say them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from datasets.errors import UserError


def named_in(path: Path, names: Sequence[str], dataset: str) -> Path:
    """The path itself, or, of a folder, the first of the named files in it."""
    if not path.is_dir():
        return path
    for name in names:
        if (path / name).is_file():
            return path / name
    raise UserError(f"--source {path} is a folder without {names[0]}, which {dataset} is made from; give the file.")


def size(num_bytes: int) -> str:
    """Bytes as a person says them."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.1f} {unit}"
    return f"{num_bytes / 1e3:.0f} kB"


def check_room(what: str, needed: int, folder: Path) -> None:
    """UserError, which begins with what needs the bytes, where the disk of a set's work folder has fewer free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"{what}, but {size(free)} are free under {folder.parent}; free some, or have "
            "the data elsewhere (SLIPBENCH_DATA; of reproduce, --out)."
        )
