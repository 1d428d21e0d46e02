"""What every system must do, those of third parties included.

One build and two epochs through the real training loop a case; many questions to it. Time passes in training steps,
warm-up steps and evaluations alone, so many seconds each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from baselines.clock import Clock
from baselines.job import Job
from baselines.placement import Placement, scores
from baselines.registry import load_system, system_names
from baselines.system import Order, Run, System
from bench import loop
from bench.outcome import Outcome
from datasets.loader import Batch, epoch_order
from tests.small import (
    Notebook,
    Time,
    assert_hot_and_cold,
    build,
    dense_weights,
    epoch_batches,
    hot_settings,
    make_job,
    make_split,
)

CASES = [
    (name, optimizer, precision, steps)
    for name in system_names()
    for optimizer, precision, steps in [
        *[("sgd", "fp32", 1), ("rowwise-adagrad", "bf16", 1), ("adagrad", "fp32", 1)],
        ("rowwise-adagrad", "bf16", 3),
    ]
    if name != "xdl" or optimizer == "adagrad"  # elsewhere the same as xdl-cpu, and every case starts a process
]


STEP_S, WARM_UP_S, EVALUATION_S = 1.0, 1000.0, 1_000_000.0


@dataclass
class Evidence:
    """A system after two epochs, and what was seen on the way."""

    name: str
    job: Job
    system: System
    outcome: Outcome
    runs: list[list[Run]] = field(default_factory=list)  # of each epoch
    losses: list[float] = field(default_factory=list)
    rows: torch.Tensor = field(default_factory=lambda: torch.empty(0))  # after the last step


def make_contract_job(name: str, optimizer: str, precision: str, steps: int = 1, clock: Clock | None = None) -> Job:
    """22 mini-batches an epoch, hot ones and cold ones."""
    return make_job(
        name,
        optimizer=optimizer,
        precision=precision,
        steps=steps,
        num_inputs=700,
        settings=hot_settings(name, steps=steps),
        clock=clock,
    )


def train(name: str, job: Job, system: System, warmup_steps: int, time: Time | None = None) -> Evidence:
    """All epochs of the job, through the real loop."""
    found = Evidence(name, job, system, Outcome(job.clock))

    def skip(order: Order, runs: Iterator[Run]) -> Iterator[Run]:
        found.runs.append([])
        for run in system.skip(order, runs):
            found.runs[-1].append(run)
            yield run

    notebook, test = Notebook(), make_split(job.schema, 50, seed=9)
    with pytest.MonkeyPatch.context() as patch:
        if time is not None:
            charge(patch, system.placement, time)
        options: dict[str, Any] = {"test": test, "eval_every": 350, "warmup_steps": warmup_steps, "window_steps": 1}
        loop.train(job, replace(system, skip=skip), found.outcome, notebook, **options)
    found.losses = [window["loss"] for window in notebook.steps]
    found.rows = system.placement.rows().clone()
    return found


def charge(patch: pytest.MonkeyPatch, placement: Placement, time: Time) -> None:
    """Have time pass: in a step, in a step of the warm-up, which ends with `restore`, and in an evaluation."""
    step_s = [WARM_UP_S]

    def after(function: Callable[..., Any], seconds: Callable[[], float]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            result = function(*arguments)
            time.passes(seconds())
            return result

        return call

    def restore(saved: Any) -> None:
        placement_restore(saved)
        step_s[0] = STEP_S

    placement_restore = placement.restore
    patch.setattr(placement, "restore", restore)
    patch.setattr(placement, "train", after(placement.train, lambda: step_s[0]))
    patch.setattr(loop, "scores", after(loop.scores, lambda: EVALUATION_S))


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def evidence(request: pytest.FixtureRequest) -> Iterator[Evidence]:
    name, optimizer, precision, steps = request.param
    time = Time()
    job = make_contract_job(name, optimizer, precision, steps, Clock(now=time))
    system = build(name, job)
    try:
        yield train(name, job, system, warmup_steps=5, time=time)
    finally:
        system.placement.close()
        system.placement.close()  # twice must do no harm


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


def test_what_crosses_is_counted(evidence: Evidence) -> None:
    totals = evidence.job.clock.totals
    assert (totals["link_to_device_bytes"] > 0) == (evidence.name != "xdl-cpu")
    assert (totals["net_bytes"] > 0) == evidence.name.startswith("xdl")


def test_steps_are_on_the_clock_and_warm_up_and_evaluation_are_not(evidence: Evidence) -> None:
    outcome = evidence.outcome
    assert outcome.samples_seen == 2 * len(evidence.job.train)
    assert evidence.job.clock.train_s == len(evidence.losses) * STEP_S
    assert outcome.eval_s == 4 * 2 * EVALUATION_S  # every half epoch, of two splits


def test_hot_and_cold_inputs_occur_and_slipstream_skips_some(evidence: Evidence) -> None:
    for runs in evidence.runs:
        assert_hot_and_cold(evidence.job, runs)
    if "skip" in evidence.job.settings:
        assert evidence.outcome.samples_skipped > 0


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


def test_a_weight_of_two_is_as_good_as_an_input_twice(evidence: Evidence) -> None:
    placement = evidence.system.placement
    batch = next(epoch_batches(evidence.job, System(placement), 5))
    first = torch.arange(len(batch)) < len(batch) // 2
    half = batch.select(first)
    weighted = replace(batch, weights=2 * first.float())
    twice = Batch(*(torch.cat([part, part]) for part in (half.dense, half.ids, half.labels)))
    saved, before, ends = placement.save(batch.ids.flatten()), state(evidence), []
    for given in (batch, weighted, twice):
        placement.train(given)
        ends.append(state(evidence) - before)
        placement.restore(saved)
    plain, weighted_step, twice_step = ends
    off = float((weighted_step - twice_step).norm() / twice_step.norm())
    assert off < (0.05 if evidence.job.precision == "bf16" else 1e-3)
    assert float((plain - twice_step).norm() / twice_step.norm()) > 0.1


def test_updates_of_reserved_rows_do_not_count_as_skipped(evidence: Evidence) -> None:
    job, placement = evidence.job, evidence.system.placement
    batch = next(epoch_batches(job, System(placement), 6))
    ids = batch.ids.clone()
    ids[:5] = torch.from_numpy(job.schema.reserved_rows[job.schema.lookup_tables])
    assert count(evidence, replace(batch, ids=ids), "row_updates_skipped") == 0
    assert job.clock.totals["row_updates_skipped"] == 0
    assert not placement.rows()[torch.from_numpy(job.schema.reserved_rows)].any()


def test_frozen_rows_are_left(evidence: Evidence) -> None:
    job, placement = evidence.job, evidence.system.placement
    batch = next(epoch_batches(job, System(placement), 6))
    frozen = torch.unique(batch.ids)[::2]
    marks = torch.zeros(job.schema.num_rows, dtype=torch.bool)
    marks[frozen] = True
    before = placement.rows().clone()
    try:
        placement.freeze(marks)
    except NotImplementedError:  # as FBGEMM has no such rows
        assert "skip.what" not in job.settings
        return
    assert count(evidence, batch, "row_updates_skipped") == len(frozen)
    changed = (placement.rows() != before).any(dim=1)
    assert not changed[frozen].any()
    assert changed[torch.unique(batch.ids)[1::2]].any()
    placement.freeze(torch.zeros_like(marks))
    assert count(evidence, batch, "row_updates_skipped") == 0
    assert (placement.rows() != before).any(dim=1)[frozen].any()


def count(evidence: Evidence, batch: Batch, counter: str) -> int:
    """What training a batch adds to a counter."""
    clock = evidence.job.clock
    before = clock.totals[counter]
    with clock.run():
        evidence.system.placement.train(batch)
    return clock.totals[counter] - before


def test_warm_up_leaves_no_trace(evidence: Evidence) -> None:
    """With Adagrad only, which has a state to restore: another build a case is enough."""
    if evidence.job.optimizer == "adagrad":
        job = make_contract_job(evidence.name, evidence.job.optimizer, evidence.job.precision)
        assert_same(evidence, train(evidence.name, job, build(evidence.name, job), warmup_steps=0))


class Remembering(Placement):
    """Breaks the rule that `restore` undoes what the warm-up changed."""

    steps = 0

    def train(self, batch: Batch) -> torch.Tensor:
        self.steps += 1
        return super().train(replace(batch, weights=torch.full((len(batch),), 1.0 / self.steps)))


def test_a_placement_that_remembers_the_warm_up_is_caught() -> None:
    jobs = [make_contract_job("dlrm", "sgd", "fp32") for _ in range(2)]
    cold, warm = (train("", job, System(Remembering(job)), steps) for job, steps in zip(jobs, (0, 5), strict=True))
    with pytest.raises(AssertionError):
        assert_same(cold, warm)


def assert_same(one: Evidence, other: Evidence) -> None:
    """The same losses and the same rows; and the system is let go of."""
    other.system.placement.close()
    assert len(one.losses) > 22
    assert one.losses == other.losses
    assert torch.equal(one.rows, other.rows)


def state(evidence: Evidence) -> torch.Tensor:
    """All rows and dense weights as one vector."""
    rows = evidence.system.placement.rows().flatten()
    return torch.cat([rows, dense_weights(evidence.system, evidence.job)])
