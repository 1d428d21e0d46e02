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
from baselines.threads import shares, together

FREE, RESERVED, STALE = 0, 1, 2  # what `frozen` says of a row
SHARED = -1  # what `find_shared` says of a row that several inputs look up
MIN_PART = 16384  # lookups below which another thread costs more than it saves


def gather(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """[n, D]: the rows [n] of a matrix [rows, D]."""
    return weights.index_select(0, rows)


def gather_both(hot: torch.Tensor, cold: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """[n, D]: rows of two matrices; a place p [n] is row p of `hot`, or where it is negative, row -1 - p of `cold`."""
    if hot.device != HOST:
        is_hot = places >= 0
        found = hot.new_empty(len(places), hot.shape[1])
        found[is_hot], found[~is_hot] = hot[places[is_hot]], cold[~places[~is_hot]]
        return found
    found = hot.new_empty(len(places), hot.shape[1])
    arrays = [array.numpy() for array in (hot, cold, places.contiguous(), found)]
    together(_gather_both, [(*arrays, part.start, part.stop) for part in shares(len(places), MIN_PART)])
    return found


def split(slots: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Which inputs look up only rows that have a slot, slots [R] being negative for others: those inputs come first.

    Of row ids [B, C], on the host: the slots [B, C] of the inputs in their new order, that order [B], which keeps each
    kind's own, and the number of the first kind.
    """
    places, order, count = _split(slots.numpy(), ids.numpy())
    return torch.from_numpy(places), torch.from_numpy(order), int(count)


def distinct(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The different ones among rows [n] on the host, in the order of the first of each, and the place of every row."""
    places = torch.full_like(rows, -1)
    found = place(rows, places)
    return found, places.neg_().sub_(1)


def place(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Give a place to the lookups of rows [n], on the host, that have none: a negative number in places [n].

    The rows that these look up, each once, are returned; their place p is written as -1 - p, as `gather_both` reads it.
    """
    return torch.from_numpy(_place(rows.numpy(), places.numpy()))


def update(
    weights: torch.Tensor,
    state: torch.Tensor,
    frozen: torch.Tensor,
    rows: torch.Tensor,
    grads: torch.Tensor,
    lr: float,
) -> tuple[int, int]:
    """Apply the gradients [n, D] of lookups [n] to the rows they looked up, each row once, in place.

    Lookups whose row is negative are of another table, and left out.

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
    done = together(_update, [(*shared, scale(lr), scale(EPS), part, parts) for part in range(parts)])
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
    own = rows >= 0
    rows, grads = rows[own], grads[own]
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


def marked_lookups(
    marks: np.ndarray, ids: np.ndarray, offsets: np.ndarray, inputs: np.ndarray, parts: np.ndarray
) -> np.ndarray:
    """[n, Q] int64: how many lookups of each named input are of rows that `marks` [R] bool marks.

    A lookup's row id is its id [N, C] plus its table's offset [C]. `parts` [Q, 2] int64 are the first lookup and the
    one after the last of each part that is counted by itself.
    """
    most = 2 * len(inputs) > len(ids)  # then all of them, in the order in which they lie, is quicker
    asked = np.arange(len(ids)) if most else inputs
    stretches = [asked[part] for part in shares(len(asked), MIN_PART)]
    found = np.concatenate(together(_marked_lookups, [(marks, ids, offsets, some, parts) for some in stretches]))
    return found[inputs] if most else found


def count_lookups(counts: np.ndarray, ids: np.ndarray, offsets: np.ndarray, inputs: np.ndarray) -> None:
    """Add one to counts [R] int64 for each lookup of the named inputs; ids and offsets as above.

    Threads count different tables, whose rows are different ones. Inputs are read in the order in which they lie.
    """
    inputs = np.sort(inputs)
    tables = np.flatnonzero(np.diff(offsets, prepend=-1))  # the first lookup of each
    ends = [*tables, len(offsets)]
    columns = [(ends[part.start], ends[part.stop]) for part in shares(len(tables), 1)]
    together(_count_lookups, [(counts, ids, offsets, inputs, first, last) for first, last in columns])


def count_distinct(seen: np.ndarray, mark: int, row_ids: np.ndarray) -> int:
    """How many different rows lookups [n, C] are of. `seen` [R] int64 is scratch; `mark` is new in each call."""
    return int(_count_distinct(seen, mark, row_ids))


def warm() -> None:
    """Compile, or load from numba's cache, what a run may call, so that no system pays for it on the clock."""
    ids = np.zeros((1, 1), np.int64)
    first, offsets = np.zeros(1, np.int64), np.zeros(1, np.int64)
    marked_lookups(np.zeros(1, bool), ids.astype(np.int32), offsets, first, np.array([[0, 1]]))
    count_lookups(np.zeros(1, np.int64), ids.astype(np.int32), offsets, first)
    count_distinct(np.zeros(1, np.int64), 1, ids)
    find_shared(np.zeros(1, np.int64), 0, ids)


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


@njit(nogil=True, cache=True)
def _hash_table(most):  # type: ignore[no-untyped-def]
    """A hash table with open addressing, for so many rows: slots with a place in a list, or -1; and the list."""
    size = 2
    while size < 2 * most:
        size *= 2
    return np.full(size, -1, np.int32), np.empty(most, np.int64)


@njit(nogil=True, cache=True)
def _place_of(row, slots, found, count):  # type: ignore[no-untyped-def]
    """The row's place in the list `found` of `count` rows, after adding it where it is new."""
    last = len(slots) - 1
    slot = np.int64(_mixed(row) & np.uint64(last))
    while slots[slot] >= 0:
        if found[slots[slot]] == row:
            return np.int64(slots[slot])
        slot = (slot + 1) & last
    slots[slot], found[count] = count, row
    return count


@njit(nogil=True, cache=True)
def _place(rows, places):  # type: ignore[no-untyped-def]
    most = 0
    for k in range(len(rows)):
        most += places[k] < 0
    slots, found = _hash_table(most)
    count = 0
    for k in range(len(rows)):
        if places[k] < 0:
            number = _place_of(rows[k], slots, found, count)
            count = max(count, number + 1)
            places[k] = -1 - number
    return found[:count].copy()


@njit(nogil=True, cache=True)
def _split(slots, ids):  # type: ignore[no-untyped-def]
    places, order = np.empty_like(ids), np.empty(len(ids), np.int64)
    first, last = 0, len(ids)  # the second kind is filled in from the end, and turned around
    for k in range(len(ids)):
        lowest = np.int64(0)
        for c in range(ids.shape[1]):
            slot = slots[np.uint64(ids[k, c])]
            places[first, c] = slot
            lowest = min(lowest, slot)
        if lowest < 0:
            last -= 1
            order[last] = k
        else:
            order[first] = k
            first += 1
    order[first:] = order[first:][::-1].copy()
    for place in range(first, len(ids)):
        for c in range(ids.shape[1]):
            places[place, c] = slots[np.uint64(ids[order[place], c])]
    return places, order, first


@njit(nogil=True, cache=True)
def _gather_both(hot, cold, places, found, first, last):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        place = places[k]
        if place >= 0:
            for d in range(hot.shape[1]):
                found[k, d] = hot[place, d]
        else:
            for d in range(hot.shape[1]):
                found[k, d] = cold[-1 - place, d]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _update(weights, state, frozen, rows, grads, lr, eps, part, parts):  # type: ignore[no-untyped-def]
    width = weights.shape[1]
    num_own = 0
    for k in range(len(rows)):
        num_own += rows[k] >= 0 and _part_of(_mixed(rows[k]), parts) == part
    places, own = _hash_table(num_own)
    sums = np.empty((num_own, width), weights.dtype)
    count = 0
    for k in range(len(rows)):
        if rows[k] < 0 or _part_of(_mixed(rows[k]), parts) != part:
            continue
        place = _place_of(rows[k], places, own, count)
        if place == count:
            count += 1
            for d in range(width):
                sums[place, d] = grads[k, d]
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
def _marked_lookups(marks, ids, offsets, inputs, parts):  # type: ignore[no-untyped-def]
    # unsigned, since numba takes negative indices from the end, and looks at each to tell: half of the time
    found = np.zeros((len(inputs), len(parts)), np.int64)
    for k in range(len(inputs)):
        row = np.uint64(inputs[k])
        for q in range(len(parts)):
            marked = np.int64(0)
            for c in range(np.uint64(parts[q, 0]), np.uint64(parts[q, 1])):
                marked += marks[np.uint64(offsets[c] + ids[row, c])]
            found[k, q] = marked
    return found


@njit(nogil=True, cache=True)
def _count_lookups(counts, ids, offsets, inputs, first, last):  # type: ignore[no-untyped-def]
    for k in range(len(inputs)):
        row = np.uint64(inputs[k])
        for c in range(np.uint64(first), np.uint64(last)):
            counts[np.uint64(offsets[c] + ids[row, c])] += 1


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
