"""The rule by which a scaled-down run stands for an epoch of the full set."""

from __future__ import annotations

import pytest

from bench.published import published_name
from bench.replay.extrapolate import FullSize, full_epoch
from tests.bench.replay.small import between, plain_steps, work

FULL = FullSize(inputs=1000, hot_rows=60)  # ten times the inputs and three times the hot rows


def test_mini_batches_grow_with_the_inputs() -> None:
    (steps,) = full_epoch(work(plain_steps([1, 2, 3, 4, 1], [5, 6, 7, 8, 1])), FULL).steps
    assert steps.amounts.tolist() == [[10, 20, 30, 40, 10], [50, 60, 70, 80, 10]]


def test_between_them_each_amount_grows_with_what_it_comes_from() -> None:
    (steps,) = full_epoch(work(between([20, 1280, 400, 9])), FULL).steps
    assert steps.amounts.tolist() == [[60, 3840, 4000, 9]]  # hot rows, hot rows, inputs, neither


def test_a_run_of_several_epochs_stands_for_one() -> None:
    grown = full_epoch(work(plain_steps([2, 2, 2, 2, 1]), between([2, 2, 2, 2]), epochs=2), FULL)
    assert [steps.amounts.tolist() for steps in grown.steps] == [[[10, 10, 10, 10, 5]], [[3, 3, 10, 1]]]
    assert (grown.facts.inputs, grown.facts.epochs, grown.facts.hot_rows) == (1000, 1, 60)


@pytest.mark.parametrize(
    ("dataset", "published"),
    [("synthetic-kaggle", "criteo-kaggle"), ("synthetic-taobao", "taobao"), ("avazu", "avazu"), ("mine", "mine")],
)
def test_generated_sets_stand_for_the_published_ones(dataset: str, published: str) -> None:
    assert published_name(dataset) == published
