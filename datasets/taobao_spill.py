"""Events on disk, so ordered that those of some users can be read back together: what bounds the reader's memory.

Each run, a block of the source, is sorted by its users' buckets and appended to one file; a second file holds how many
events each run has of each bucket. Buckets that follow each other make a group, as many as it takes for a good number
of events. A user's bucket is a function of the user's id, and groups depend on the numbers of events in the buckets
alone: so neither depends on how the source was cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets.errors import UserError
from datasets.taobao_draws import scramble
from datasets.taobao_sequences import EVENT

BUCKETS = 256
GROUP_EVENTS = 1 << 20  # of a group, or more
COUNTS = np.dtype(np.uint32)
EVENTS_FILE, COUNTS_FILE = "events.bin", "events_counts.bin"


@dataclass(frozen=True)
class Run:
    """Events by bucket, and within a bucket in their order."""

    events: np.ndarray  # [n] EVENT
    counts: np.ndarray  # [BUCKETS] events of each bucket

    @classmethod
    def of(cls, events: np.ndarray) -> Run:
        """The run of some events in the order of the source."""
        buckets = (scramble(events["user"]) >> np.uint64(56)).astype(np.uint8)
        return cls(events[np.argsort(buckets, kind="stable")], np.bincount(buckets, minlength=BUCKETS))


class Spill:
    """The two files, from a number of runs and events that are there already."""

    def __init__(self, folder: Path, runs: int = 0, events: int = 0) -> None:
        self.runs, self.events = runs, events
        self._paths = [folder / EVENTS_FILE, folder / COUNTS_FILE]
        self._files = [path.open("ab") for path in self._paths]
        for path, file, size in zip(self._paths, self._files, self._sizes(), strict=True):
            if path.stat().st_size < size:
                raise UserError(f"{path}: is shorter than it was; remove {folder} and prepare the set again.")
            file.truncate(size)

    def _sizes(self) -> tuple[int, int]:
        return self.events * EVENT.itemsize, self.runs * BUCKETS * COUNTS.itemsize

    def append(self, run: Run) -> None:
        """Adds a run."""
        for file, array in zip(self._files, (run.events, run.counts.astype(COUNTS)), strict=True):
            file.write(array.tobytes())
        self.runs, self.events = self.runs + 1, self.events + len(run.events)

    def sync(self) -> None:
        """Have the runs on the disk."""
        for file in self._files:
            file.flush()
            os.fsync(file.fileno())

    def groups(self, first: int = 0) -> Iterator[np.ndarray]:
        """The events of each group, run by run, from the group of a number on."""
        self.sync()
        counts = np.fromfile(self._paths[1], COUNTS).reshape(-1, BUCKETS).astype(np.int64)
        ends = np.cumsum(counts.sum(axis=1))
        before = (ends - counts.sum(axis=1))[:, None] + np.cumsum(counts, axis=1) - counts  # [runs, BUCKETS]
        with self._paths[0].open("rb") as file:
            for start, end in group_bounds(counts.sum(axis=0))[first:]:
                sizes = counts[:, start:end].sum(axis=1)
                events = np.empty(int(sizes.sum()), EVENT)
                filled = 0
                for offset, size in zip(before[:, start].tolist(), sizes.tolist(), strict=True):
                    file.seek(offset * EVENT.itemsize)
                    file.readinto(events[filled : filled + size].view(np.uint8).data)
                    filled += size
                yield events

    def close(self) -> None:
        """Closes the files."""
        for file in self._files:
            file.close()


def remove_spill(folder: Path) -> None:
    """Removes the two files, if they are there."""
    for name in (EVENTS_FILE, COUNTS_FILE):
        (folder / name).unlink(missing_ok=True)


def group_bounds(events: np.ndarray) -> list[tuple[int, int]]:
    """(first bucket, end) of each group of buckets of so many events; what is left at the end joins the last group."""
    bounds, start, held = [], 0, 0
    for bucket, count in enumerate(events.tolist()):
        held += count
        if held >= GROUP_EVENTS:
            bounds.append((start, bucket + 1))
            start, held = bucket + 1, 0
    if held:
        bounds = bounds or [(0, 0)]
        bounds[-1] = (bounds[-1][0], len(events))
    return bounds
