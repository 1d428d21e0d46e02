"""Which rows and inputs are hot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import hotset
from datasets.errors import UserError
from datasets.store import Split
from tests.small import make_job, make_schema, make_split


def split_of(ids: list[list[int]], rows: tuple[int, ...], steps: int = 1) -> Split:
    """A split without dense features that looks up just these ids."""
    table = np.array(ids, np.int32)
    schema = make_schema(rows, dense=False, steps=steps)
    return Split(schema, np.empty((len(table), 0), np.float32), table, np.zeros(len(table), np.int32))


def test_accesses_are_counted_over_the_named_inputs_only() -> None:
    split = split_of([[1, 1], [1, 2], [2, 2]], rows=(3, 3))
    assert hotset.count_accesses(split, np.array([0, 1])).tolist() == [0, 2, 0, 0, 1, 1]


def test_rows_are_ranked_by_count_and_then_by_id() -> None:
    assert hotset.ranked(np.array([0, 2, 5, 2, 0, 1])).tolist() == [2, 1, 3, 5]


def test_the_budget_is_the_fewest_rows_that_make_the_share_of_inputs_hot() -> None:
    split = split_of([[1], [1], [1], [2], [2], [3]], rows=(5,))
    inputs = np.arange(6)
    counts = hotset.count_accesses(split, inputs)
    assert hotset.rows_for_share(split, inputs, counts, 0.5) == 1  # row 1 alone covers three of six
    assert hotset.rows_for_share(split, inputs, counts, 0.75) == 2
    assert hotset.rows_for_share(split, inputs, counts, 1.0) == 3  # row 3 vouches for nobody but itself: take all


def test_a_row_that_one_input_looks_up_in_every_step_vouches_for_nobody() -> None:
    split = split_of([[1, 1, 1], [2, 2, 2], [3, 3, 4], [3, 4, 4]], rows=(6,), steps=3)
    inputs = np.arange(4)
    counts = hotset.count_accesses(split, inputs)
    assert hotset.ranked(counts).tolist() == [1, 2, 3, 4]
    assert hotset.shared_rows(split, inputs).tolist() == [False, False, False, True, True, False]
    assert hotset.rows_for_share(split, inputs, counts, 0.5) == 4  # of all rows by count, of which two cover half


@given(num_rows=st.integers(1, 60), seed=st.integers(0, 5), steps=st.sampled_from([1, 3]))
def test_an_input_is_hot_when_all_its_lookups_in_all_steps_are(num_rows: int, seed: int, steps: int) -> None:
    split = make_split(make_schema((40, 30, 9), steps=steps), 200, seed)
    inputs = np.arange(len(split))
    rows = hotset.hot_rows(hotset.count_accesses(split, inputs), num_rows, split.schema.reserved_rows)
    marks = np.isin(np.arange(split.schema.num_rows), rows)
    expected = marks[split.row_ids(inputs)].all(axis=1)
    assert (hotset.hot_inputs(split, inputs, marks) == expected).all()


@pytest.mark.parametrize(("given", "rows"), [("31", 0), ("32", 1), ("3200", 100)])
def test_a_budget_in_bytes_is_cut_into_rows(given: str, rows: int) -> None:
    job = make_job("fae", settings={"layout.hot_bytes": given})  # rows of 8 float32
    inputs = np.arange(len(job.train))
    assert hotset.budget_rows(job, job.train, inputs, hotset.count_accesses(job.train, inputs)) == rows


@pytest.mark.parametrize("given", ["0", "-5", "many", "1e6"])
def test_a_budget_that_is_no_number_of_bytes_is_refused(given: str) -> None:
    job = replace(make_job("fae"), settings={"layout.hot_bytes": given})
    with pytest.raises(UserError, match="auto"):
        hotset.budget_rows(job, job.train, np.arange(3), np.ones(job.schema.num_rows, np.int64))
