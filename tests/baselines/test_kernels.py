"""The fused row update against the same in torch's operators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import kernels
from baselines.optimizer import OPTIMIZERS, row_state

Case = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def make_case(num_rows: int, width: int, num_lookups: int, dtype: torch.dtype, seed: int) -> Case:
    """Weights [rows, D], frozen [rows] of all kinds, rows looked up [n], gradients [n, D]."""
    random = torch.Generator().manual_seed(seed)
    weights = torch.randn(num_rows, width, generator=random, dtype=dtype)
    kinds = torch.tensor([kernels.FREE] * 6 + [kernels.RESERVED, kernels.STALE], dtype=torch.uint8)
    frozen = kinds[torch.randint(len(kinds), (num_rows,), generator=random)]
    rows = torch.randint(num_rows, (num_lookups,), generator=random)
    return weights, frozen, rows, torch.randn(num_lookups, width, generator=random, dtype=dtype)


def assert_same_as_plain(case: Case, optimizer: str) -> None:
    weights, frozen, rows, grads = case
    state = row_state(optimizer, weights).add_(0.1)  # away from zero, where rounding turns into full steps
    plain_weights, plain_state, before = weights.clone(), state.clone(), weights.clone()
    counts = kernels.update(weights, state, frozen, rows, grads, lr=0.1)
    assert counts == kernels.plain_update(plain_weights, plain_state, frozen, rows, grads, lr=0.1)
    tolerance = 1e-10 if weights.dtype == torch.float64 else 1e-4
    torch.testing.assert_close(weights, plain_weights, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(state, plain_state, rtol=tolerance, atol=tolerance)
    untouched = frozen != kernels.FREE
    untouched[torch.tensor([row for row in range(len(weights)) if row not in set(rows.tolist())], dtype=int)] = True
    assert torch.equal(weights[untouched], before[untouched])


@settings(max_examples=80, deadline=None)
@given(
    num_rows=st.integers(1, 50),
    width=st.sampled_from([1, 3, 4, 16, 17]),
    num_lookups=st.sampled_from([0, 1, 2, 7, 300]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    optimizer=st.sampled_from(OPTIMIZERS),
    seed=st.integers(0, 1000),
)
def test_update_of_any_shape(
    num_rows: int, width: int, num_lookups: int, dtype: torch.dtype, optimizer: str, seed: int
) -> None:
    assert_same_as_plain(make_case(num_rows, width, num_lookups, dtype, seed), optimizer)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("num_rows", [1, 2, 5, 3000])  # few rows: some threads find no row of their own
def test_update_with_several_threads(num_rows: int, optimizer: str) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert_same_as_plain(make_case(num_rows, 3, 5 * kernels.MIN_PART, torch.float64, seed=1), optimizer)
    finally:
        torch.set_num_threads(before)


def test_update_takes_gradients_that_are_not_contiguous() -> None:
    weights, frozen, rows, grads = make_case(20, 4, 30, torch.float64, seed=2)
    assert_same_as_plain((weights, frozen, rows, grads.t().contiguous().t()), "sgd")


@settings(deadline=None)
@given(
    lookups=st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 3)), max_size=60),
    width=st.sampled_from([1, 16, 17]),
    threads=st.integers(1, 3),
)
def test_rows_of_two_tables_are_read_and_updated_by_their_places(
    lookups: list[tuple[int, int]], width: int, threads: int
) -> None:
    """A lookup with a place is of the first table; each row of the others gets one place in the second."""
    lookups *= 1 + threads * kernels.MIN_PART // max(1, len(lookups))
    rows, places = torch.tensor(lookups, dtype=torch.int64).view(-1, 2).t().contiguous()
    is_first = places >= 0
    unique = kernels.place(rows, places)
    assert unique.tolist() == list(dict.fromkeys(rows[~is_first].tolist()))
    first, every = torch.randn(4, width, dtype=torch.float64), torch.randn(10, width, dtype=torch.float64)
    second = every[unique]
    found = kernels.gather_both(first, second, places)
    assert torch.equal(found[is_first], first[places[is_first]])
    assert torch.equal(found[~is_first], every[rows[~is_first]])
    before, free = second.clone(), torch.zeros(len(second), dtype=torch.uint8)
    grads = torch.randn(len(rows), width, dtype=torch.float64)
    kernels.update(second, row_state("sgd", second), free, -1 - places, grads, lr=1.0)
    expected = before.index_add(0, -1 - places[~is_first], grads[~is_first], alpha=-1)
    torch.testing.assert_close(second, expected)


@given(kinds=st.lists(st.booleans(), max_size=20), lookups=st.integers(1, 4))
@settings(deadline=None)
def test_inputs_of_rows_with_slots_come_first_in_their_order(kinds: list[bool], lookups: int) -> None:
    slots = torch.tensor([3, -1, 0, -1, 7])
    random = torch.Generator().manual_seed(len(kinds))
    ids = torch.tensor([0, 2, 4])[torch.randint(3, (len(kinds), lookups), generator=random)]
    for number, is_first in enumerate(kinds):
        if not is_first:
            ids[number, number % lookups] = 1 + 2 * (number % 2)
    places, order, count = kernels.split(slots, ids)
    expected = [n for n, is_first in enumerate(kinds) if is_first] + [
        n for n, is_first in enumerate(kinds) if not is_first
    ]
    assert (order.tolist(), count) == (expected, sum(kinds))
    assert torch.equal(places, slots[ids[order]])


def test_distinct() -> None:
    found, places = kernels.distinct(torch.tensor([7, 3, 7, 7, 9]))
    assert found.tolist() == [7, 3, 9]
    assert places.tolist() == [0, 1, 0, 0, 2]


def test_gather() -> None:
    weights = torch.arange(12.0).view(4, 3)
    assert kernels.gather(weights, torch.tensor([3, 0, 3])).tolist() == [[9, 10, 11], [0, 1, 2], [9, 10, 11]]


def test_lookups_of_marked_rows_are_counted_for_the_named_inputs() -> None:
    marks = np.array([True, False, True, True])
    ids, offsets = np.array([[0, 0, 0], [1, 0, -1], [3, 1, -2]], np.int32), np.array([0, 1, 2])
    inputs = np.array([2, 0, 1])  # whose rows are 3 2 0, 0 1 2, and 1 1 1
    assert kernels.marked_lookups(marks, ids, offsets, inputs, np.array([[0, 3]])).tolist() == [[3], [2], [0]]
    parts = np.array([[0, 1], [1, 3]])
    assert kernels.marked_lookups(marks, ids, offsets, inputs, parts).tolist() == [[1, 2], [1, 1], [0, 0]]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_lookups_are_counted_table_by_table(threads: int) -> None:
    random, before = np.random.default_rng(threads), torch.get_num_threads()
    offsets = np.array([0, 0, 4, 10])  # two lookups of the first table
    ids = random.integers(0, 4, (3 * kernels.MIN_PART, 4)).astype(np.int32)
    inputs = random.permutation(len(ids))[: 2 * kernels.MIN_PART + 1]
    counts = np.zeros(14, np.int64)
    torch.set_num_threads(threads)
    try:
        kernels.count_lookups(counts, ids, offsets, inputs)
    finally:
        torch.set_num_threads(before)
    assert counts.tolist() == np.bincount((ids[inputs] + offsets).ravel(), minlength=14).tolist()


def test_find_shared() -> None:
    seen_by = np.zeros(5, np.int64)
    kernels.find_shared(seen_by, 0, np.array([[0, 0, 1], [1, 2, 2]]))
    kernels.find_shared(seen_by, 2, np.array([[1, 3, 0]]))
    assert (seen_by == kernels.SHARED).tolist() == [True, True, False, False, False]
