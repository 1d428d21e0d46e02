"""What a preparation that was stopped leaves behind: which of its parts are finished, and on what they depend."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

JOURNAL = "journal.txt"  # a checksum of the rest, then JSON


@dataclass(frozen=True)
class Checkpoint:
    """A moment at which everything before was written whole."""

    uses: int  # source files that it depends on, from the first
    state: Mapping[str, Any]  # what the data set's module needs in order to go on
    kept: Mapping[str, Any]  # what the writer needs: rows of each file, counters


@dataclass
class Journal:
    """The checkpoints of a preparation; those of other options or of changed sources do not count."""

    path: Path
    identity: Mapping[str, Any]  # options and versions: what the result depends on beside the sources
    sources: Sequence[Sequence[Any]] = ()  # name, size and time of change of each source file
    checkpoints: list[Checkpoint] = field(default_factory=list)  # the latest for each number of sources

    @classmethod
    def open(cls, folder: Path, identity: Mapping[str, Any], files: Sequence[Path]) -> Journal:
        """The journal in a folder, with the checkpoints that still hold; empty where there is none."""
        new = [stamp(path) for path in files]
        journal = cls(folder / JOURNAL, identity, new)
        found = _read(journal.path)
        if found is None or found["identity"] != json.loads(json.dumps(identity)):
            return journal
        old = found["sources"]
        if len(old) == len(new):  # with another file after it, what was the last one would be no more
            points = [Checkpoint(**fields) for fields in found["checkpoints"]]
            journal.checkpoints = [point for point in points if old[: point.uses] == new[: point.uses]]
        return journal

    def add(self, point: Checkpoint) -> None:
        """Write a checkpoint down; what it stands for has to be on the disk already."""
        self.checkpoints = [old for old in self.checkpoints if old.uses < point.uses] + [point]
        fields = {
            "identity": dict(self.identity),
            "sources": [list(source) for source in self.sources],
            "checkpoints": [asdict(old) for old in self.checkpoints],
        }
        text = json.dumps(fields, indent=1) + "\n"
        write_whole(self.path, _digest(text) + "\n" + text)


def unfinished(folder: Path) -> Mapping[str, Any] | None:
    """What a preparation that was stopped in a folder depends on; None where there is none."""
    found = _read(folder / JOURNAL)
    identity: Mapping[str, Any] | None = found["identity"] if found and found["checkpoints"] else None
    return identity


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    """What a journal says; None where there is none, or where it is not as it was written."""
    try:
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    found: dict[str, Any] | None = json.loads(text) if digest == _digest(text) else None
    return found


def stamp(path: Path) -> list[Any]:
    """What tells that a file is still the same without reading it."""
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, text: str) -> None:
    """Write a small file so that it is there whole or as it was, whatever happens."""
    new = path.with_name(path.name + ".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
