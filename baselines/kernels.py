"""The hot loops: gather rows, update each row of a batch once, count and classify lookups.

On the CPU the update is one fused pass over the batch's gradients: lookups are sorted by row, the sorted list is cut
into one part a thread at row boundaries, and each thread sums a row's gradients and applies the optimizer to that row.
No two threads touch the same row, the sums run in the order of the batch, and no gradient of the table's size is made.
numba compiles the loops without the interpreter's lock; threads come from a pool of our own, since a system may update
and gather at the same time, which numba's own thread pool does not allow. `plain_update` is the same in torch's
operators: the reference that the loops are tested against, and what runs on a GPU.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
from numba import njit

from baselines.devices import HOST
from baselines.optimizer import EPS

FREE, RESERVED, STALE = 0, 1, 2  # what `frozen` says of a row
SHARED = -1  # what `find_shared` says of a row that several inputs look up
MIN_PART = 2048  # lookups below which another thread costs more than it saves


def gather(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """[n, D]: the rows [n] of a matrix [rows, D]."""
    return weights.index_select(0, rows)


def update(
    weights: torch.Tensor,
    state: torch.Tensor,
    frozen: torch.Tensor,
    rows: torch.Tensor,
    grads: torch.Tensor,
    lr: float,
) -> tuple[int, int]:
    """Apply the gradients [n, D] of lookups [n] to the rows they looked up, each row once, in place.

    The state's width tells the optimizer (baselines.optimizer.row_state). `frozen` [rows] uint8 says which rows are
    left as they are: FREE, RESERVED or STALE. Returns how many rows were written, and how many stale ones were not.
    """
    if weights.device != HOST:
        return plain_update(weights, state, frozen, rows, grads, lr)
    if len(rows) == 0:
        return 0, 0
    ordered, order = torch.sort(rows, stable=True)
    parts = max(1, min(torch.get_num_threads(), len(rows) // MIN_PART))
    cuts = np.linspace(0, len(rows), parts + 1).astype(np.int64)
    arrays = (weights, state, frozen, ordered, order, grads.contiguous())
    shared = [array.numpy() for array in arrays]
    scale = weights.numpy().dtype.type
    calls = [(*shared, scale(lr), scale(EPS), cuts[part], cuts[part + 1]) for part in range(parts)]
    others = [_pool(parts - 1).submit(_update, *call) for call in calls[1:]] if parts > 1 else []
    done = [_update(*calls[0]), *(other.result() for other in others)]
    return sum(int(d[0]) for d in done), sum(int(d[1]) for d in done)


def plain_update(
    weights: torch.Tensor,
    state: torch.Tensor,
    frozen: torch.Tensor,
    rows: torch.Tensor,
    grads: torch.Tensor,
    lr: float,
) -> tuple[int, int]:
    """`update` in torch's operators, on any device."""
    unique, where = torch.unique(rows, return_inverse=True)
    summed = grads.new_zeros(len(unique), grads.shape[1]).index_add_(0, where, grads)
    kinds = frozen[unique]
    free = kinds == FREE
    touched, summed = unique[free], summed[free]
    if state.shape[1] == 0:  # SGD
        step = summed
    else:  # row-wise Adagrad, Adagrad
        square = summed.square().mean(1, keepdim=True) if state.shape[1] == 1 else summed.square()
        state[touched] += square
        step = summed / (state[touched].sqrt() + EPS)
    weights[touched] -= lr * step
    return len(touched), int((kinds == STALE).sum())


def marked_lookups(marks: np.ndarray, row_ids: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """[n, Q] int64: how many lookups of each input [n, C] are of rows that `marks` [rows] bool marks.

    `parts` [Q, 2] int64 are the first lookup and the one after the last of each part that is counted by itself.
    """
    return _marked_lookups(marks, row_ids, parts)


def count_distinct(seen: np.ndarray, mark: int, row_ids: np.ndarray) -> int:
    """How many different rows lookups [n, C] are of. `seen` [R] int64 is scratch; `mark` is new in each call."""
    return int(_count_distinct(seen, mark, row_ids))


def warm() -> None:
    """Compile, or load from numba's cache, what a run may call, so that no system pays for it on the clock."""
    ids = np.zeros((1, 1), np.int64)
    marked_lookups(np.zeros(1, bool), ids, np.array([[0, 1]]))
    count_lookups(np.zeros(1, np.int64), ids)
    count_distinct(np.zeros(1, np.int64), 1, ids)
    find_shared(np.zeros(1, np.int64), 0, ids)


def count_lookups(counts: np.ndarray, row_ids: np.ndarray) -> None:
    """Add one to counts [R] int64 for each lookup [n, C]."""
    _count_lookups(counts, row_ids)


def find_shared(seen_by: np.ndarray, first: int, row_ids: np.ndarray) -> None:
    """Set seen_by [R] int64 to SHARED for rows that two inputs look up, of this call [n, C] or of earlier ones.

    It starts as zeros; a row of one input only has 1 + the input's number there. `first` is that of the first input.
    """
    _find_shared(seen_by, first, row_ids)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="row-update")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child of fork has none of its parent's threads


@njit(nogil=True, cache=True)
def _row_start(ordered, position):  # type: ignore[no-untyped-def]
    """The first position, at or after the given one, where a row begins."""
    while 0 < position < len(ordered) and ordered[position] == ordered[position - 1]:
        position += 1
    return position


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _update(weights, state, frozen, ordered, order, grads, lr, eps, first, last):  # type: ignore[no-untyped-def]
    width = weights.shape[1]
    total = np.empty(width, weights.dtype)
    position, last = _row_start(ordered, first), _row_start(ordered, last)
    written, skipped = 0, 0
    while position < last:
        row = ordered[position]
        total[:] = 0
        while position < last and ordered[position] == row:
            grad = grads[order[position]]
            for d in range(width):
                total[d] += grad[d]
            position += 1
        if frozen[row]:
            skipped += frozen[row] == STALE
            continue
        written += 1
        if state.shape[1] == 0:  # SGD
            for d in range(width):
                weights[row, d] -= lr * total[d]
        elif state.shape[1] == 1:  # row-wise Adagrad
            square = weights.dtype.type(0)
            for d in range(width):
                square += total[d] * total[d]
            state[row, 0] += square / weights.dtype.type(width)
            scale = lr / (np.sqrt(state[row, 0]) + eps)
            for d in range(width):
                weights[row, d] -= scale * total[d]
        else:  # Adagrad
            for d in range(width):
                state[row, d] += total[d] * total[d]
                weights[row, d] -= lr * total[d] / (np.sqrt(state[row, d]) + eps)
    return written, skipped


@njit(nogil=True, cache=True)
def _marked_lookups(marks, row_ids, parts):  # type: ignore[no-untyped-def]
    found = np.zeros((len(row_ids), len(parts)), np.int64)
    for i in range(len(row_ids)):
        for q in range(len(parts)):
            for c in range(parts[q, 0], parts[q, 1]):
                found[i, q] += marks[row_ids[i, c]]
    return found


@njit(nogil=True, cache=True)
def _count_lookups(counts, row_ids):  # type: ignore[no-untyped-def]
    for i in range(len(row_ids)):
        for c in range(row_ids.shape[1]):
            counts[row_ids[i, c]] += 1


@njit(nogil=True, cache=True)
def _count_distinct(seen, mark, row_ids):  # type: ignore[no-untyped-def]
    distinct = 0
    for i in range(len(row_ids)):
        for c in range(row_ids.shape[1]):
            if seen[row_ids[i, c]] != mark:
                seen[row_ids[i, c]] = mark
                distinct += 1
    return distinct


@njit(nogil=True, cache=True)
def _find_shared(seen_by, first, row_ids):  # type: ignore[no-untyped-def]
    for i in range(len(row_ids)):
        number = 1 + first + i
        for c in range(row_ids.shape[1]):
            row = row_ids[i, c]
            if seen_by[row] != number:
                seen_by[row] = number if seen_by[row] == 0 else SHARED
