"""The hot loops: gather rows, update each row of a batch once, count and classify lookups.

On the CPU the update is one fused pass over the batch's gradients: each thread has the rows that a hash gives it, sums
their gradients, finding a row's sum by a hash table, and applies the optimizer to each. No two threads touch the same
row, the sums run in the order of the batch whatever the number of threads, nothing is sorted, and no gradient of the
table's size is made.
numba compiles the loops without the interpreter's lock. `plain_update` is the same in torch's operators: the reference
that the loops are tested against, and what runs on a GPU.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from baselines.devices import HOST
from baselines.optimizer import EPS
from baselines.threads import shares, submit

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
    arrays = (weights, state, frozen, rows.contiguous(), grads.contiguous())
    shared = [array.numpy() for array in arrays]
    scale = weights.numpy().dtype.type
    parts = len(shares(len(rows), MIN_PART))
    calls = [(*shared, scale(lr), scale(EPS), part, parts) for part in range(parts)]
    others = [submit(_update, *call) for call in calls[1:]]
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


@njit(nogil=True, cache=True)
def _mixed(row):  # type: ignore[no-untyped-def]
    """A row id with its bits spread out, as unsigned 64 bits (Fibonacci hashing, Knuth, TAOCP 3, 6.4)."""
    product = np.uint64(row) * np.uint64(0x9E3779B97F4A7C15)
    return product ^ (product >> np.uint64(32))


@njit(nogil=True, cache=True)
def _part_of(mixed, parts):  # type: ignore[no-untyped-def]
    """Which of the parts a row belongs to, by the upper half of its mixed bits."""
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32))


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _update(weights, state, frozen, rows, grads, lr, eps, part, parts):  # type: ignore[no-untyped-def]
    width = weights.shape[1]
    num_own = 0
    for k in range(len(rows)):
        num_own += _part_of(_mixed(rows[k]), parts) == part
    size = 2
    while size < 2 * num_own:
        size *= 2
    places = np.full(size, -1, np.int32)  # a hash table with open addressing: place in `own`, or -1
    own = np.empty(num_own, np.int64)
    sums = np.empty((num_own, width), weights.dtype)
    count = 0
    for k in range(len(rows)):
        mixed = _mixed(rows[k])
        if _part_of(mixed, parts) != part:
            continue
        slot = np.int64(mixed & np.uint64(size - 1))
        while places[slot] >= 0 and own[places[slot]] != rows[k]:
            slot = (slot + 1) & (size - 1)
        place = places[slot]
        if place < 0:
            places[slot] = count
            own[count] = rows[k]
            for d in range(width):
                sums[count, d] = grads[k, d]
            count += 1
        else:
            for d in range(width):
                sums[place, d] += grads[k, d]
    written, skipped = 0, 0
    for place in range(count):
        row, total = own[place], sums[place]
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
