"""Slipstream on its layouts: the window, what is dropped, and what the controls have in common with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from baselines.hot_placement import HotPlacement
from baselines.job import Job
from baselines.system import System
from datasets.errors import UserError
from slipstream.policies import POLICIES
from slipstream.snapshot import SnapshotBlock
from tests.small import assert_hot_and_cold, build, epoch_runs, make_job, train_epochs

LAYOUTS = ("fae", "hotline")
NUM_INPUTS = 32 * 40 + 11


def slipstream(layout: str, steps: int = 1, **settings: Any) -> tuple[Job, System]:
    """A job of 41 mini-batches in which most inputs are hot, and its system."""
    keys = {
        "slipstream.layout": layout,
        "layout.hot_bytes": "9000" if steps == 1 else "11000",
        "slipstream.window": "0.2",
        "slipstream.tolerance": "0.2",
    }
    if layout == "hotline":
        keys["hotline.learning_share"] = "0.2"
    given = keys | {key.replace("__", "."): str(value) for key, value in settings.items()}
    job = make_job("slipstream", num_inputs=NUM_INPUTS, settings=given, steps=steps)
    return job, build("slipstream", job)


@pytest.mark.parametrize(("steps", "alpha"), [(1, 0), (3, 1)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_some_hot_inputs_are_skipped_in_every_epoch_and_every_input_is_dealt_with_once(
    layout: str, steps: int, alpha: int
) -> None:
    job, system = slipstream(layout, steps, slipstream__alpha=alpha)
    for epoch in range(2):
        walk = train_epochs(job, system, first=epoch)
        skipped = walk.skipped
        assert sorted(np.concatenate([walk.trained, skipped])) == list(range(NUM_INPUTS))
        assert 0.05 * NUM_INPUTS < len(skipped) < 0.5 * NUM_INPUTS
        assert isinstance(system.placement, HotPlacement)
        assert system.placement.is_hot(skipped).all()
    system.placement.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_controls_drop_as_many_inputs_as_staleness_does(layout: str) -> None:
    counts = {}
    for policy in POLICIES:
        job, system = slipstream(layout, skip=policy)
        counts[policy] = len(train_epochs(job, system).skipped)
        system.placement.close()
    assert len(set(counts.values())) == 1, counts


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("policy", ["stale", "random"])
def test_every_epochs_decision_is_kept(layout: str, policy: str) -> None:
    job, system = slipstream(layout, skip=policy)
    for epoch in range(2):
        walk = train_epochs(job, system, first=epoch)
        (row,) = job.decisions
        job.decisions.clear()
        assert row["inputs_dropped"] == len(walk.skipped) > 0
        assert row["hot_inputs_left"] == row["sampled_inputs"]  # fewer than are sampled at least
        dropped = row["inputs_dropped"] / row["hot_inputs_left"]
        assert row["sample_drop_ratio"] == pytest.approx(dropped) and 0 < row["threshold"] < 1
        assert 0 < row["stale_rows_untouched"] <= row["stale_rows"] <= row["hot_rows"]
        assert isinstance(system.placement, HotPlacement) and row["hot_rows"] == len(system.placement.hot_rows)
    system.placement.close()


def test_touched_rows_only_leave_no_untouched_row_stale() -> None:
    job, system = slipstream("fae", stale="touched-only")
    train_epochs(job, system)
    assert job.decisions[0]["stale_rows_untouched"] == 0 < job.decisions[0]["stale_rows"]
    system.placement.close()


def test_an_epoch_without_a_threshold_says_so() -> None:
    job, system = slipstream("fae", slipstream__t_max=0)
    walk = train_epochs(job, system)
    (row,) = job.decisions
    assert row["threshold"] is None and row["iterations"] == 25 and row["inputs_dropped"] == len(walk.skipped) == 0
    assert "stale_rows" not in row
    system.placement.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_skipping_it_is_the_system_of_its_layout(layout: str) -> None:
    job, system = slipstream(layout, skip="none")
    shared = {key: value for key, value in job.settings.items() if key.startswith(("layout", layout))}
    other_job = make_job(layout, num_inputs=NUM_INPUTS, settings=shared)
    other = build(layout, other_job)
    walks = train_epochs(job, system, 2), train_epochs(other_job, other, 2)
    assert walks[0].losses == walks[1].losses
    assert_hot_and_cold(job, walks[0].runs)
    assert torch.equal(system.placement.rows(), other.placement.rows())
    system.placement.close(), other.placement.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_importance_trains_the_rest_of_the_epoch_with_weights(layout: str) -> None:
    job, system = slipstream(layout, skip="importance")
    walk = train_epochs(job, system)
    assert len(walk.skipped) > 0
    first = next(number for number, run in enumerate(walk.runs) if run.kind == "skipped") - 1
    rest = [run for run in walk.runs[first:] if run.kind != "skipped"]
    assert all(run.weights is None for run in walk.runs[:first])
    weights = np.concatenate([np.empty(0), *(run.weights for run in rest if run.weights is not None)])
    assert len(weights) == sum(len(run.inputs) for run in rest)
    assert weights.max() > 1
    system.placement.close()


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (1, "alpha is 5, more than the 4 lookups of an input;"),
        (3, "than the 3 lookups of an input's shortest sequence;"),
    ],
)
def test_an_alpha_that_no_input_can_reach_is_refused(steps: int, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        slipstream("fae", steps, slipstream__alpha=5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_smaller_alpha_drops_inputs_that_have_a_row_which_is_never_stale(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changes(block: SnapshotBlock) -> np.ndarray:
        found = real(block)
        found[: job.schema.table_offsets[1]] = np.inf  # every input looks up one row of the first table
        return found

    real = SnapshotBlock.changes
    monkeypatch.setattr(SnapshotBlock, "changes", changes)
    skipped = {}
    for alpha in (0, 3):
        job, system = slipstream(layout, slipstream__alpha=alpha)
        skipped[alpha] = len(train_epochs(job, system).skipped)
        system.placement.close()
    assert skipped[0] == 0 < skipped[3]


def test_snapshots_come_after_their_share_of_hot_mini_batches_and_in_one_run() -> None:
    job, system = slipstream("fae", slipstream__start=0.2, slipstream__window=0.4)
    runs = list(epoch_runs(job, system, 0))
    assert isinstance(system.placement, HotPlacement)
    hot_batches = int(system.placement.is_hot(np.arange(NUM_INPUTS)).sum()) / job.batch_size
    hot = [run for run in runs if run.kind == "hot"]
    assert len(hot[0].inputs) == round(0.2 * hot_batches) * job.batch_size
    assert len(hot[1].inputs) == round(0.4 * hot_batches) * job.batch_size


def test_on_hotlines_layout_kept_inputs_are_cut_into_full_mini_batches() -> None:
    job, system = slipstream("hotline")
    runs = [run for run in epoch_runs(job, system, 0) if run.kind in ("cold", "mixed")]
    assert all(len(run.inputs) % job.batch_size == 0 for run in runs[:-1])
    system.placement.close()


def test_staleness_pays_for_its_decision_and_random_dropping_does_not() -> None:
    phases = {}
    for policy in ("stale", "random", "loss"):
        job, system = slipstream("fae", skip=policy)
        train_epochs(job, system)
        phases[policy] = {name for _, name in job.clock.phases}
    assert {"snapshot", "threshold", "classify"} <= phases["stale"]
    assert not {"snapshot", "threshold", "classify", "score"} & phases["random"]
    assert "score" in phases["loss"]


def test_a_row_that_was_not_touched_is_stale_only_if_it_may_be() -> None:
    job, system = slipstream("fae", stale="touched-only")
    train_epochs(job, system)
    assert any("0.0% of these not touched" in note for note in job.notes), job.notes


def test_throwing_updates_away_trains_all_inputs_and_leaves_stale_rows_as_they_are() -> None:
    job, system = slipstream("fae", skip__what="updates")
    walk = train_epochs(job, system)
    assert len(walk.trained) == NUM_INPUTS and len(walk.skipped) == 0
    assert job.clock.totals["row_updates_skipped"] > 0
    placement = system.placement
    assert isinstance(placement, HotPlacement)
    frozen = placement.host.frozen
    assert int(frozen.sum()) > len(job.schema.tables)
    before = placement.rows().clone()
    runs = epoch_runs(job, system, 1)
    next(runs)
    assert int(placement.host.frozen.sum()) == len(job.schema.tables), "a new epoch begins with no stale rows"
    assert torch.equal(before, placement.rows())


@pytest.mark.parametrize("policy", ["random", "loss", "none"])
def test_updates_are_thrown_away_for_staleness_only(policy: str) -> None:
    with pytest.raises(UserError, match="skip=stale only"):
        slipstream("fae", skip=policy, skip__what="updates")


def test_a_threshold_that_is_not_found_is_noted_and_nothing_is_skipped() -> None:
    job, system = slipstream("fae", slipstream__t_max="0")
    assert len(train_epochs(job, system).skipped) == 0
    assert "no threshold found" in job.notes
