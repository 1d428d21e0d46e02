"""Whether a prepared set is still what was made: sizes and values, as at every opening, and checksums."""

from __future__ import annotations

from pathlib import Path

from datasets.errors import UserError
from datasets.meta import FILES
from datasets.pace import Pace, Report
from datasets.registry import load_dataset
from datasets.store import open_set, rebuild_command
from datasets.writer import checksum


def verify(name: str, report: Report = lambda line: None, root: Path | None = None) -> str:
    """A sentence that says that all is well. UserError, with the command that rebuilds the set, where it is not."""
    prepared = open_set(name, root)
    files = prepared.meta["files"]
    total = sum(files[file]["bytes"] for file in FILES)
    pace = Pace(report, f"{name}: checking", "bytes", total)
    for file in FILES:
        if (found := checksum(prepared.path / file)) != files[file]["sha256"]:
            command = rebuild_command(name, load_dataset(name), prepared.meta["options"])
            raise UserError(
                f"{prepared.path / file} is not what was made: its SHA-256 begins with {found[:12]}, expected "
                f"{files[file]['sha256'][:12]}; make data set {name} with: {command}"
            )
        pace.add(files[file]["bytes"])
    return f"{name}: {len(FILES)} files, {total:,} bytes, all as they were made (fingerprint {prepared.fingerprint})"
