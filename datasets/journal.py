"""What a preparation that was stopped leaves behind: which of its parts are finished, and on what they depend."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

JOURNAL = "journal.json"


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
        journal = cls(folder / JOURNAL, identity, [stamp(path) for path in files])
        try:
            found = json.loads(journal.path.read_text(encoding="utf-8"))
            same = found["identity"] == json.loads(json.dumps(identity))
            checkpoints = [Checkpoint(**fields) for fields in found["checkpoints"]] if same else []
            old = [list(source) for source in found["sources"]]
        except (OSError, ValueError, KeyError, TypeError):
            return journal
        new = [list(source) for source in journal.sources]
        journal.checkpoints = [
            point for point in checkpoints if old[: point.uses] == new[: point.uses] and point.uses <= len(new)
        ]
        return journal

    def add(self, point: Checkpoint) -> None:
        """Write a checkpoint down; what it stands for has to be on the disk already."""
        self.checkpoints = [old for old in self.checkpoints if old.uses < point.uses] + [point]
        fields = {
            "identity": dict(self.identity),
            "sources": [list(source) for source in self.sources],
            "checkpoints": [asdict(old) for old in self.checkpoints],
        }
        write_whole(self.path, json.dumps(fields, indent=1) + "\n")


def stamp(path: Path) -> list[Any]:
    """What tells that a file is still the same without reading it."""
    status = path.stat()
    return [path.name, status.st_size, status.st_mtime_ns]


def write_whole(path: Path, text: str) -> None:
    """Write a small file so that it is there whole or as it was, whatever happens."""
    new = path.with_name(path.name + ".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
