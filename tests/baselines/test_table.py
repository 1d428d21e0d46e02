"""Embedding tables: first rows, parts, and putting them back."""

from __future__ import annotations

import pytest
import torch

from baselines import kernels
from baselines.model import initial_rows
from baselines.optimizer import OPTIMIZERS
from baselines.table import EmbeddingTable, initial_table
from tests.small import make_schema

SCHEMA = make_schema([5, 8, 3])


def make_table(optimizer: str = "adagrad", dtype: torch.dtype = torch.float32) -> EmbeddingTable:
    return initial_table(SCHEMA, 4, optimizer, 0.1, dtype, seed=7)


def test_rows_lie_table_after_table() -> None:
    rows = make_table().weights
    assert rows.shape == (16, 4)
    assert torch.equal(rows[5:13], initial_rows(SCHEMA, 4, seed=7, table=1))


def test_first_rows_are_the_same_in_every_precision() -> None:
    assert torch.equal(make_table(dtype=torch.float64).weights, make_table().weights.double())


def test_reserved_rows_are_never_updated() -> None:
    table = make_table()
    assert torch.nonzero(table.frozen).flatten().tolist() == [0, 5, 13]
    assert table.update(torch.tensor([0, 1, 5]), torch.ones(3, 4)) == (1, 0)  # and do not count as thrown away
    assert not table.weights[[0, 5, 13]].any()


def test_stale_rows_are_left_until_others_are() -> None:
    table, rows = make_table(), torch.tensor([0, 1, 1, 2, 6])
    before = table.weights.clone()
    for stale, counts in (([0, 1, 2], (1, 2)), ([6], (2, 1)), ([], (3, 0))):
        marks = torch.zeros(len(table), dtype=torch.bool)
        marks[stale] = True
        table.freeze(marks)
        assert table.update(rows, torch.ones(5, 4)) == counts
        assert (table.frozen[[0, 5, 13]] == kernels.RESERVED).all()
        changed = torch.nonzero((table.weights != before).any(dim=1)).flatten()
        assert not set(changed.tolist()) & set(stale)
        before = table.weights.clone()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_part_put_back_undoes_an_update(optimizer: str) -> None:
    table = make_table(optimizer)
    rows, grads = torch.tensor([1, 6, 7, 14]), torch.ones(4, 4)
    table.update(rows, grads)
    weights, state = table.weights.clone(), table.state.clone()
    part = table.part(rows, torch.clone)
    table.update(rows, grads)
    assert not torch.equal(table.weights, weights)
    table.put(rows, part, torch.clone)
    assert torch.equal(table.weights, weights)
    assert torch.equal(table.state, state)


def test_a_part_is_a_copy() -> None:
    table = make_table()
    part = table.part(torch.tensor([1, 2]), torch.clone)
    before = table.weights.clone()
    part.update(torch.tensor([0, 1]), torch.ones(2, 4))
    assert torch.equal(table.weights, before)
