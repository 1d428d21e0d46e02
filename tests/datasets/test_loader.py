"""The order of an epoch and its mini-batches."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.loader import batches, epoch_order, read
from datasets.store import Split
from tests.datasets.conftest import SCHEMA, block


def split_of(rows: int) -> Split:
    dense, ids, labels = block(rows)
    dense[:, 0] = np.arange(rows)  # says which input it is
    return Split(SCHEMA, dense, ids, labels)


@given(st.integers(0, 300), st.integers(0, 5), st.integers(0, 5), st.integers(1, 40), st.booleans())
def test_order_visits_every_input_once(rows: int, seed: int, epoch: int, block_rows: int, whole: bool) -> None:
    order = epoch_order(rows, seed, epoch, whole=rows if whole else 0, block=block_rows)
    np.testing.assert_array_equal(np.sort(order), np.arange(rows))
    np.testing.assert_array_equal(order, epoch_order(rows, seed, epoch, whole=rows if whole else 0, block=block_rows))


def test_order_depends_on_seed_and_epoch() -> None:
    orders = {tuple(epoch_order(50, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_order_of_a_large_set_stays_near_one_place() -> None:
    order = epoch_order(95, 0, 0, whole=10, block=10)
    starts = list(range(0, 95, 10))
    at = 0
    visited = []
    while at < 95:
        size = 5 if order[at] // 10 == 9 else 10
        assert len(set(order[at : at + size] // 10)) == 1
        visited.append(int(order[at] // 10 * 10))
        at += size
    assert sorted(visited) == starts != visited


@given(st.integers(0, 90), st.integers(1, 40))
def test_batches_cover_the_inputs_in_order(rows: int, batch_size: int) -> None:
    split = split_of(rows)
    order = epoch_order(rows, 1, 2)
    found = list(batches(split, order, batch_size))
    assert [len(batch) for batch in found] == [len(order[i : i + batch_size]) for i in range(0, rows, batch_size)]
    if rows:
        np.testing.assert_array_equal(np.concatenate([batch.dense[:, 0].numpy() for batch in found]), order)
        np.testing.assert_array_equal(np.concatenate([batch.ids.numpy() for batch in found]), split.row_ids(order))
        np.testing.assert_array_equal(np.concatenate([batch.labels.numpy() for batch in found]), split.labels[order])


def test_last_batch_is_short() -> None:
    assert [len(batch) for batch in batches(split_of(10), np.arange(10), 4)] == [4, 4, 2]


def test_weights_go_with_their_inputs() -> None:
    weights = np.linspace(1, 2, 10, dtype=np.float32)
    found = list(batches(split_of(10), np.arange(10)[::-1].copy(), 4, weights))
    assert found[2].weights is not None
    np.testing.assert_array_equal(found[2].weights.numpy(), weights[8:])
    chosen = found[0].select(found[0].dense[:, 0] > 7)
    assert chosen.weights is not None and len(chosen) == len(chosen.weights) == 2


def test_error_reaches_the_reader() -> None:
    with pytest.raises(IndexError):
        list(batches(split_of(10), np.array([0, 1, 2, 99]), 2))


def test_reader_that_stops_early_ends_the_thread() -> None:
    reading = batches(split_of(1000), np.arange(1000), 1)
    next(reading)
    reading.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name == "loader"]


def test_read_leaves_the_split_as_it_is() -> None:
    split = split_of(6)
    batch = read(split, np.array([1, 2]))
    batch.dense.zero_()
    assert split.dense[2, 0] == 2
