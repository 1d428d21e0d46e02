"""The parts of Slipstream's decision: changes, threshold, policies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.clock import Clock
from baselines.hot_placement import HotPlacement
from baselines.system import Run
from slipstream.classifier import Decision, InputClassifier
from slipstream.policies import POLICIES, Choice, load_policy
from slipstream.policies.importance import probabilities, sample
from slipstream.sampling import input_changes, search_threshold, stale_lookups
from tests.small import build, hot_settings, make_job, make_schema


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
    changes, schema = np.array([0.1, 0.2, 0.3, np.inf]), make_schema((2, 2), lookups=(1, 2))
    ids = np.array([[0, 1, 2], [2, 1, 3]])
    assert input_changes(changes, changes < 0, ids, stale_lookups(schema, 0)).tolist() == [0.3, np.inf]
    assert input_changes(changes, changes < 0, ids, stale_lookups(schema, 3)).tolist() == [0.3, np.inf]
    assert input_changes(changes, changes < 0, ids, stale_lookups(schema, 1)).tolist() == [0.1, 0.2]


def test_in_a_time_series_alpha_counts_in_each_tables_sequence_and_the_slowest_decides() -> None:
    schema = make_schema((4, 4), lookups=(1, 2), steps=3)  # sequences of 3 and of 6 lookups
    changes = np.arange(1.0, 9)
    ids = np.array([[0, 1, 1, 4, 5, 6, 7, 7, 7], [3, 3, 3, 4, 4, 4, 4, 4, 5]])
    assert input_changes(changes, changes < 0, ids, stale_lookups(schema, 1)).tolist() == [5, 5]
    assert input_changes(changes, changes < 0, ids, stale_lookups(schema, 3)).tolist() == [7, 5]
    assert input_changes(changes, changes < 0, ids, stale_lookups(schema, 0)).tolist() == [8, 6]


def test_reserved_rows_that_fill_a_history_up_do_not_make_an_input_stale() -> None:
    schema = make_schema((9,), steps=5)
    changes = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8])  # the reserved row never changes
    reserved = np.arange(9) == 0
    ids = np.array([[0, 0, 0, 0, 8], [0, 0, 0, 7, 8], [0, 3, 4, 5, 6], [0, 0, 0, 0, 0]])
    found = [input_changes(changes, reserved, ids, stale_lookups(schema, alpha)).tolist() for alpha in (1, 2, 4, 0)]
    assert found == [[8, 7, 3, -np.inf], [8, 8, 4, -np.inf], [8, 8, 6, -np.inf], [8, 8, 6, -np.inf]]


@pytest.mark.parametrize("alpha", [0, 1, 2, 3])
def test_the_classifier_drops_what_the_sample_says_with_filled_histories_too(alpha: int) -> None:
    settings = hot_settings("slipstream", steps=3) | {"slipstream.alpha": alpha, "slipstream.tolerance": "0.2"}
    job = make_job("slipstream", steps=3, settings=settings)
    job.train.ids[::2, 0] = 0  # the oldest step of the first table is filled up
    job.train.ids[::4, 1] = 0
    placement = build("slipstream", job).placement
    assert isinstance(placement, HotPlacement)
    changes = np.random.default_rng(alpha).random(job.schema.num_rows)
    changes[job.schema.reserved_rows] = 0
    inputs = np.arange(len(job.train))
    classifier = InputClassifier(job, placement)
    stale = changes < 0.7
    reserved = np.isin(np.arange(job.schema.num_rows), job.schema.reserved_rows)
    values = input_changes(changes, reserved, job.train.row_ids(inputs), stale_lookups(job.schema, alpha))
    assert 0 < (values < 0.7).mean() < 1
    assert (classifier._stale_inputs(stale, inputs) == (values < 0.7)).all()


def test_the_threshold_drops_the_target_share_within_its_tolerance() -> None:
    values = np.random.default_rng(0).exponential(0.01, 5000)
    found = search_threshold(values, target=0.3, t_max=1.0, tolerance=0.02)
    assert found.threshold is not None and found.sample_drop_ratio == np.mean(values < found.threshold)
    assert abs(found.sample_drop_ratio - 0.3) <= 0.02 and found.sampled_inputs == 5000


def test_the_search_counts_its_steps() -> None:
    """Values spread evenly over [0, 1): T = 1/2 drops half of them, 1/4 a quarter, 3/8 three eighths."""
    values = np.arange(1000) / 1000
    assert search_threshold(values, target=0.5, t_max=1.0, tolerance=0.01).iterations == 1
    assert search_threshold(values, target=0.375, t_max=1.0, tolerance=0.01).iterations == 3


@pytest.mark.parametrize("values", [np.full(100, 5.0), np.zeros(100)])
def test_no_threshold_is_found_where_the_changes_do_not_allow_one(values: np.ndarray) -> None:
    found = search_threshold(values, target=0.3, t_max=0.1, tolerance=0.08)
    assert found.threshold is None and found.iterations == 25
    assert found.sample_drop_ratio == (values < 0.1).mean()


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


@pytest.mark.parametrize("kind", ["hot", "mixed"])
def test_what_is_kept_keeps_its_weights(kind: str) -> None:
    decision = Decision(np.arange(12) % 3 == 1, np.arange(12, dtype=np.float32))
    order = np.random.default_rng(0).permutation(12)
    runs = list(decision.apply([Run(order[:7], kind), Run(order[7:], kind)], batch_size=4))  # type: ignore[arg-type]
    trained = [run for run in runs if run.kind != "skipped"]
    for run in trained:
        assert run.weights is not None and (run.weights == run.inputs).all()
    assert sorted(np.concatenate([run.inputs for run in trained])) == [0, 2, 3, 5, 6, 8, 9, 11]


@pytest.mark.parametrize("alpha", [0, 1, 2, 3])
def test_what_is_dropped_has_alpha_stale_lookups_in_every_sequence(alpha: int) -> None:
    """And what is kept has not. Rows have not changed, or without end, so that any threshold finds the same inputs."""
    settings = hot_settings("slipstream", steps=3) | {"slipstream.alpha": alpha, "slipstream.tolerance": 1}
    job = make_job("slipstream", settings=settings, steps=3, lookups=(1, 2, 1, 1))
    placement = build("slipstream", job).placement
    assert isinstance(placement, HotPlacement)
    changes = np.where(np.random.default_rng(0).random(job.schema.num_rows) < 0.8, 0, np.inf)
    inputs = np.arange(len(job.train))
    row_ids = job.train.row_ids(inputs)
    stale = changes[row_ids] == 0
    sequences = stale[:, :3], stale[:, 3:9], stale[:, 9:12], stale[:, 12:]
    expected = np.all([part.sum(axis=1) >= (alpha or part.shape[1]) for part in sequences], axis=0)
    assert 0.1 < expected.mean() < 1
    assert (
        input_changes(changes, changes < 0, row_ids, stale_lookups(job.schema, alpha)) == 0
    ).tolist() == expected.tolist()
    dropped = InputClassifier(job, placement).decide(changes, inputs[:0], inputs).dropped
    assert dropped.tolist() == expected.tolist()


@pytest.mark.parametrize(("alpha", "drops"), [(0, False), (4, False), (3, True), (1, True)])
def test_inputs_that_never_have_all_rows_stale_are_dropped_by_a_smaller_alpha_only(alpha: int, drops: bool) -> None:
    job = make_job("slipstream", settings=hot_settings("slipstream") | {"slipstream.alpha": alpha})
    placement = build("slipstream", job).placement
    assert isinstance(placement, HotPlacement)
    changes = np.random.default_rng(0).random(job.schema.num_rows) / 10
    changes[: job.schema.table_offsets[1]] = np.inf  # every input looks up one row of the first table
    inputs = np.arange(len(job.train))
    decision = InputClassifier(job, placement).decide(changes, inputs[:0], inputs)
    assert decision.dropped.any() == drops
    assert ("no threshold found" in job.notes) == (not drops)
