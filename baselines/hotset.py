"""Which rows are hot, and which inputs: access counts, the ranking by count, the budget, and the classification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from baselines import kernels
from baselines.job import Job
from datasets.errors import UserError
from datasets.settings import Setting
from datasets.store import Split

AUTO_SHARE = 0.75  # of the inputs, that `auto` makes hot
AUTO_BYTES = 256 << 20  # and what it takes at most
CHUNK = 1 << 16  # inputs read at a time

HOT_BYTES = Setting(
    key="layout.hot_bytes",
    default="auto",
    help="bytes of rows kept on the device; auto: the fewest rows that make 75 % of the inputs hot, at most 256 MiB",
)


def count_accesses(split: Split, inputs: np.ndarray) -> np.ndarray:
    """[R] int64: how often the named inputs look up each row."""
    counts = np.zeros(split.schema.num_rows, np.int64)
    kernels.count_lookups(counts, np.asarray(split.ids), split.schema.lookup_offsets, inputs)
    return counts


def ranked(counts: np.ndarray) -> np.ndarray:
    """The row ids that were accessed, most accessed first, and in order of their id where counts are equal."""
    seen = np.flatnonzero(counts)
    return seen[np.argsort(-counts[seen], kind="stable")]


def budget_rows(job: Job, split: Split, inputs: np.ndarray, counts: np.ndarray) -> int:
    """How many rows `layout.hot_bytes` has room for; `auto` looks at the inputs that the counts come from."""
    setting = job.settings[HOT_BYTES.key]
    row_bytes = job.model.dim * job.dtype.itemsize
    if setting == "auto":
        return min(rows_for_share(split, inputs, counts, AUTO_SHARE), AUTO_BYTES // row_bytes)
    check(job.settings)
    return int(setting) // row_bytes


def check(settings: Mapping[str, Any]) -> None:
    """UserError where `layout.hot_bytes` is neither auto nor a number of bytes."""
    setting = settings[HOT_BYTES.key]
    if setting != "auto" and not (setting.isascii() and setting.isdigit() and int(setting) > 0):
        raise UserError(f"{HOT_BYTES.key} takes auto or a number of bytes, got '{setting}'.")


def rows_for_share(split: Split, inputs: np.ndarray, counts: np.ndarray, share: float) -> int:
    """How many rows, most accessed first, make a share of the inputs hot; all that were accessed if none do.

    An input does not vouch for itself: a row that only this input accessed does not count as covered, else every
    sample would be covered by the rows it happens to hold.
    """
    rows = ranked(counts)
    rank = np.full(len(counts), len(counts), np.int64)
    rank[rows] = np.arange(len(rows))
    rank[~shared_rows(split, inputs)] = len(counts)
    coldest = np.concatenate([rank[split.row_ids(part)].max(axis=1) for part in _chunks(inputs)])
    needed = np.sort(coldest)[int(np.ceil(share * len(coldest))) - 1] + 1
    return int(min(needed, len(rows)))


def shared_rows(split: Split, inputs: np.ndarray) -> np.ndarray:
    """[R] bool: the rows that at least two of the named inputs look up; an input may look one up in many steps."""
    seen_by = np.zeros(split.schema.num_rows, np.int64)
    for number, part in enumerate(_chunks(inputs)):
        kernels.find_shared(seen_by, number * CHUNK, split.row_ids(part))
    return seen_by == kernels.SHARED


def hot_rows(counts: np.ndarray, num_rows: int, reserved: np.ndarray) -> np.ndarray:
    """The `num_rows` most accessed rows, and the reserved rows: they are few, and never change."""
    rows = ranked(counts)
    return np.union1d(rows[:num_rows], reserved)


def count_marked(split: Split, inputs: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """[n, Q] int64: how many lookups, in each sequence of the named inputs, are of rows that marks [R] bool marks."""
    sequences = np.array([(part.start, part.stop) for part in split.schema.sequences])
    return kernels.marked_lookups(marks, np.asarray(split.ids), split.schema.lookup_offsets, inputs, sequences)


def hot_inputs(split: Split, inputs: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """[n] bool: which of the named inputs look up, in all steps, only rows that marks [R] bool marks."""
    return count_marked(split, inputs, marks).sum(axis=1) == split.schema.num_lookups


def _chunks(inputs: np.ndarray) -> Iterator[np.ndarray]:
    return (inputs[first : first + CHUNK] for first in range(0, len(inputs), CHUNK))
