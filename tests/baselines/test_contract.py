"""What every system must do, those of third parties included. One build and two epochs a case; many questions to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from baselines.clock import MAIN, Clock
from baselines.job import Job
from baselines.placement import scores
from baselines.registry import load_system, system_names
from baselines.system import Run, System
from datasets.loader import batches, epoch_order
from tests.small import build, dense_weights, epoch_batches, epoch_runs, make_job

CASES = [
    (name, optimizer, precision)
    for name in system_names()
    for optimizer, precision in [("sgd", "fp32"), ("rowwise-adagrad", "bf16"), ("adagrad", "fp32")]
    if name != "xdl" or optimizer == "sgd"  # elsewhere the same as xdl-cpu, and every case starts a process
]


@dataclass
class Evidence:
    """A system after two epochs, and what was seen on the way."""

    job: Job
    system: System
    runs: list[list[Run]] = field(default_factory=list)  # of each epoch
    losses: list[float] = field(default_factory=list)
    train_s: float = 0.0


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def evidence(request: pytest.FixtureRequest) -> Iterator[Evidence]:
    name, optimizer, precision = request.param
    ticks = itertools.count()
    clock = Clock(now=lambda: float(next(ticks)))
    job = make_job(name, optimizer=optimizer, precision=precision, num_inputs=700, clock=clock)
    system = build(name, job)
    found = Evidence(job, system)
    try:
        with clock.run():
            for epoch in range(2):
                train_epoch(found, epoch)
        found.train_s = clock.train_s
        yield found
    finally:
        system.placement.close()
        system.placement.close()  # twice must do no harm


def train_epoch(found: Evidence, epoch: int) -> None:
    found.runs.append([])
    for run in epoch_runs(found.job, found.system, epoch):
        found.runs[-1].append(run)
        if run.kind != "skipped":
            for batch in batches(found.job.train, run.inputs, found.job.batch_size, run.weights):
                found.losses.append(float(found.system.placement.train(batch)))


def test_says_what_it_is(evidence: Evidence) -> None:
    for name in system_names():
        module = load_system(name)
        assert module.SUMMARY and "\n" not in module.SUMMARY
        assert all(setting.help for setting in module.SETTINGS)


def test_every_input_is_dealt_with_once_an_epoch(evidence: Evidence) -> None:
    for epoch, runs in enumerate(evidence.runs):
        seen = np.concatenate([run.inputs for run in runs])
        assert np.array_equal(np.sort(seen), np.arange(len(evidence.job.train)))
        assert np.array_equal(np.sort(epoch_order(len(seen), evidence.job.seed, epoch)), np.sort(seen))


def test_it_learns(evidence: Evidence) -> None:
    assert np.isfinite(evidence.losses).all()
    fifth = len(evidence.losses) // 5
    assert np.mean(evidence.losses[-fifth:]) < np.mean(evidence.losses[:fifth])


def test_reserved_rows_stay_zero(evidence: Evidence) -> None:
    reserved = torch.from_numpy(evidence.job.schema.reserved_rows)
    assert not evidence.system.placement.rows()[reserved].any()


def test_rows_are_those_of_the_job(evidence: Evidence) -> None:
    rows = evidence.system.placement.rows()
    assert rows.shape == (evidence.job.schema.num_rows, evidence.job.model.dim)
    assert rows.dtype == evidence.job.dtype
    assert rows.isfinite().all()


def test_reads_and_writes_are_counted(evidence: Evidence) -> None:
    totals = evidence.job.clock.totals
    assert totals["rows_read"] > 0
    assert totals["rows_written"] > 0
    assert totals["dense_flops"] > 0


def test_phases_of_main_add_up(evidence: Evidence) -> None:
    phases = evidence.job.clock.phases
    assert sum(phase.seconds for (lane, _), phase in phases.items() if lane == MAIN) == evidence.train_s


def test_evaluation_takes_any_id(evidence: Evidence) -> None:
    job, placement = evidence.job, evidence.system.placement
    assert (job.validation.ids == 0).any()  # ids that were never trained
    logits = scores(placement, job.validation)
    assert logits.shape == (len(job.validation),)
    assert np.isfinite(logits).all()
    assert np.array_equal(logits, scores(placement, job.validation))


def test_restore_undoes_training(evidence: Evidence) -> None:
    """More than once, and training again ends in the same place, so the optimizers' states are back as well."""
    job, placement = evidence.job, evidence.system.placement
    some = list(itertools.islice(epoch_batches(job, System(placement), 5), 3))
    saved = placement.save(torch.cat([batch.ids.flatten() for batch in some]))
    before = state(evidence)
    ends = []
    for _ in range(3):
        for batch in some:
            placement.train(batch)
        ends.append(state(evidence))
        assert not torch.equal(ends[-1], before)
        placement.restore(saved)
        assert torch.equal(state(evidence), before)
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def test_frozen_rows_are_left(evidence: Evidence) -> None:
    job, placement = evidence.job, evidence.system.placement
    batch = next(epoch_batches(job, System(placement), 6))
    frozen = torch.unique(batch.ids)[::2]
    marks = torch.zeros(job.schema.num_rows, dtype=torch.bool)
    marks[frozen] = True
    before = placement.rows().clone()
    placement.freeze(marks)
    placement.train(batch)
    changed = (placement.rows() != before).any(dim=1)
    assert not changed[frozen].any()
    assert changed[torch.unique(batch.ids)[1::2]].any()
    placement.freeze(torch.zeros_like(marks))
    placement.train(batch)
    assert (placement.rows() != before).any(dim=1)[frozen].any()


def state(evidence: Evidence) -> torch.Tensor:
    """All rows and dense weights as one vector."""
    rows = evidence.system.placement.rows().flatten()
    return torch.cat([rows, dense_weights(evidence.system, evidence.job)])
