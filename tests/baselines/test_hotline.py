"""Hotline: the learning phase, the µ-batches, and where rows live. That it computes what dlrm does: test_agreement."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from baselines.hot_placement import HotPlacement
from baselines.hotline import LANE
from baselines.system import System
from tests.small import assert_hot_and_cold, build, epoch_runs, make_job, run_batches, train_epochs

HOT = {"layout.hot_bytes": "3000", "hotline.learning_share": "0.3"}


def placement_of(system: System) -> HotPlacement:
    assert isinstance(system.placement, HotPlacement)
    return system.placement


def test_accesses_are_learned_in_the_first_mini_batches_of_the_first_epoch_only() -> None:
    job = make_job("hotline", settings=HOT)
    system = build("hotline", job)
    first = list(epoch_runs(job, system, 0))
    assert [(run.kind, len(run.inputs)) for run in first] == [("cold", 64), ("mixed", len(job.train) - 64)]
    assert [run.kind for run in epoch_runs(job, system, 1)] == ["mixed"]
    learned = placement_of(system).hot_rows.numpy()
    assert np.isin(learned, np.union1d(job.train.row_ids(first[0].inputs), job.schema.reserved_rows)).all()


def test_hot_rows_live_on_the_device_and_cold_rows_on_the_host() -> None:
    job = make_job("hotline", settings=HOT)
    system = build("hotline", job)
    placement = placement_of(system)
    for _ in epoch_runs(job, system, 0):
        pass
    before_host, before_hot = placement.host.weights.clone(), placement.hot.weights.clone()
    train_epochs(job, system, 1)
    on_host = (placement.host.weights != before_host).any(dim=1)
    assert on_host.any() and (placement.hot.weights != before_hot).any()
    assert not on_host[placement.hot_rows].any(), "the host's stale copy of a hot row was written"


@pytest.mark.parametrize("gather", ["auto", "beside", "after"])
def test_cold_rows_are_staged_in_a_lane_of_their_own_and_written_back(gather: str) -> None:
    job = make_job("hotline", settings=HOT | {"hotline.gather": gather})
    train_epochs(job, build("hotline", job), 2)
    staged = job.clock.phases[(LANE, "stage")]
    assert staged.calls > 0 and staged.amounts["rows"] > 0 and staged.amounts["bytes"] > 0
    assert job.clock.phases[("main", "write_back")].amounts["rows"] == staged.amounts["rows"]


def test_cold_rows_are_staged_beside_the_popular_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gathering thread waits for the popular µ-batch's backward pass, which must not have waited for it."""
    job = make_job("hotline", settings=HOT | {"hotline.gather": "beside"})
    system = build("hotline", job)
    placement: Any = system.placement
    popular_is_done = threading.Event()
    stage, backward = placement._stage, placement.dense.backward

    def staged_late(*arguments: Any) -> Any:
        assert popular_is_done.wait(timeout=5), "the popular µ-batch waits for the cold rows"
        return stage(*arguments)

    def backward_first(*arguments: Any) -> Any:
        result = backward(*arguments)
        popular_is_done.set()
        return result

    *_, run = epoch_runs(job, system, 0)
    monkeypatch.setattr(placement, "_stage", staged_late)
    monkeypatch.setattr(placement.dense, "backward", backward_first)
    with job.clock.run():
        placement.train(next(run_batches(job, run)))
    assert_hot_and_cold(job, [run])
    placement.close()


def test_a_micro_batch_may_be_empty() -> None:
    for hot_bytes in ("32", "1000000"):  # next to nothing is hot; everything is
        job = make_job("hotline", settings={"layout.hot_bytes": hot_bytes})
        system = build("hotline", job)
        losses = train_epochs(job, system, 2).losses
        assert len(losses) == 14 and np.isfinite(losses).all()


def test_a_lookup_reads_each_row_where_it_lives() -> None:
    job = make_job("hotline", settings=HOT)
    system = build("hotline", job)
    train_epochs(job, system, 1)
    placement = placement_of(system)
    ids = torch.from_numpy(job.validation.row_ids(np.arange(len(job.validation))))
    assert torch.equal(placement.lookup(ids), placement.rows()[ids])
