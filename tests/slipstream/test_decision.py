"""The parts of Slipstream's decision: changes, threshold, policies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.clock import Clock
from slipstream.policies import POLICIES, Choice, load_policy
from slipstream.policies.importance import probabilities, sample
from slipstream.sampling import input_changes, search_threshold


def choice(num_inputs: int = 1000, seed: int = 0) -> Choice:
    random = np.random.default_rng(seed)
    return Choice(
        stale=random.random(num_inputs) < 0.3,
        labels=(random.random(num_inputs) < 0.3).astype(np.int32),
        logits=lambda: np.random.default_rng(seed).standard_normal(num_inputs),
        random=random,
        clock=Clock(),
    )


def test_an_input_goes_stale_with_its_alpha_th_smallest_change() -> None:
    changes = np.array([0.1, 0.2, 0.3, np.inf])
    ids = np.array([[0, 1, 2], [2, 1, 3]])
    assert input_changes(changes, ids, alpha=3).tolist() == [0.3, np.inf]
    assert input_changes(changes, ids, alpha=1).tolist() == [0.1, 0.2]


def test_the_threshold_drops_the_target_share_within_its_tolerance() -> None:
    values = np.random.default_rng(0).exponential(0.01, 5000)
    threshold = search_threshold(values, target=0.3, t_max=1.0, tolerance=0.02)
    assert threshold is not None
    assert abs(np.mean(values < threshold) - 0.3) <= 0.02


@pytest.mark.parametrize("values", [np.full(100, 5.0), np.zeros(100)])
def test_no_threshold_is_found_where_the_changes_do_not_allow_one(values: np.ndarray) -> None:
    assert search_threshold(values, target=0.3, t_max=0.1, tolerance=0.08) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_drops_just_as_many_inputs(policy: str) -> None:
    asked = choice()
    kept = load_policy(policy)(asked)
    assert (~kept.keep).sum() == asked.num_dropped


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("drop", [0, 1])
def test_a_policy_may_be_told_to_drop_nothing_or_everything(policy: str, drop: int) -> None:
    asked = choice(50)
    asked.stale[:] = bool(drop)
    kept = load_policy(policy)(asked)
    assert kept.keep.all() if not drop else not kept.keep.any()


def test_staleness_drops_the_stale_inputs() -> None:
    asked = choice()
    assert (load_policy("stale")(asked).keep == ~asked.stale).all()


def test_the_lowest_losses_are_dropped() -> None:
    asked = choice()
    losses = np.logaddexp(0, asked.logits()) - asked.labels * asked.logits()
    keep = load_policy("loss")(asked).keep
    assert losses[~keep].max() <= losses[keep].min()


@given(st.integers(1, 300), st.floats(0, 1), st.integers(0, 3))
def test_importance_keeps_the_number_it_is_asked_for(num_inputs: int, share: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    num_kept = round(share * num_inputs)
    probability = probabilities(random.random(num_inputs), num_kept)
    assert probability.sum() == pytest.approx(num_kept, abs=1e-6)
    assert sample(probability, num_kept, random).sum() == num_kept


def test_importance_weights_leave_sums_unbiased() -> None:
    random = np.random.default_rng(0)
    sizes, values = random.random(400), random.random(400)
    probability = probabilities(sizes, 200)
    assert probability.min() >= 0.05
    estimates = [(values / probability)[sample(probability, 200, random)].sum() for _ in range(2000)]
    assert np.mean(estimates) == pytest.approx(values.sum(), rel=0.01)
