"""The training loop: what it leaves behind, when it evaluates, when it stops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from baselines.clock import Clock
from baselines.job import Job
from baselines.placement import Placement
from baselines.system import Order, Run, System
from bench import loop
from bench.outcome import Diverged, Outcome
from datasets.loader import Batch
from datasets.store import Split
from tests.small import Notebook, Time, build, hot_settings, make_job, make_split


class Expensive(Notebook):
    """A recorder that takes its time."""

    def __init__(self, time: Time) -> None:
        super().__init__()
        self._time = time

    def step(self, **window: Any) -> None:
        """Remember it, for long."""
        self._time.passes(1e9)
        super().step(**window)


def run(job: Job, system: str = "dlrm", test: Split | None = None, **options: Any) -> tuple[Outcome, Notebook]:
    built, outcome, notebook = build(system, job), Outcome(job.clock), Notebook()
    test = make_split(job.schema, 200, seed=9) if test is None else test
    try:
        loop.train(job, built, outcome, notebook, test=test, **options)
    finally:
        built.placement.close()
    return outcome, notebook


def test_windows_add_up_to_the_run() -> None:
    outcome, notebook = run(make_job(), window_steps=4)
    assert [window["steps"] for window in notebook.steps] == [4, 4, 4, 2]
    assert sum(window["samples"] for window in notebook.steps) == outcome.samples_trained == 2 * (32 * 6 + 11)


def test_decisions_are_recorded_when_they_are_made() -> None:
    settings = {**hot_settings("slipstream"), "layout.hot_bytes": "9000"}
    job = make_job("slipstream", num_inputs=32 * 40 + 11, settings=settings)
    outcome, notebook = run(job, "slipstream")
    assert [row["epoch"] for row in notebook.decisions] == [0, 1] and job.decisions == []
    assert sum(row["inputs_dropped"] for row in notebook.decisions) == outcome.samples_skipped > 0
    first, second = notebook.decisions
    assert 0 < first["samples_seen"] < len(job.train) < second["samples_seen"] < 2 * len(job.train)
    assert 0 < first["train_s"] < second["train_s"] < job.clock.train_s


def test_evaluation_comes_whenever_so_many_samples_were_seen_and_at_the_end() -> None:
    _, notebook = run(make_job(epochs=1), eval_every=100)
    assert [point["samples_seen"] for point in notebook.evals] == [128, 203]


def test_an_evaluation_at_the_end_is_made_once() -> None:
    _, notebook = run(make_job(epochs=1, num_inputs=64), eval_every=32)
    assert [point["samples_seen"] for point in notebook.evals] == [32, 64]


def test_steps_and_schedule_are_on_the_clock_and_warm_up_evaluation_and_files_are_not() -> None:
    time = Time()
    job = make_job(epochs=1, clock=Clock(now=time))
    system, outcome, notebook = costly(job, time), Outcome(job.clock), Expensive(time)
    test = make_split(job.schema, 200, seed=9)
    loop.train(job, system, outcome, notebook, test=test, eval_every=100, window_steps=1, warmup_steps=5)
    assert len(notebook.steps) == 7
    assert job.clock.train_s == 7 * 1 + 10
    assert [window["seconds"] for window in notebook.steps] == [11, *[1] * 6]
    assert [point["train_s"] for point in notebook.evals] == [14, 17]
    assert outcome.eval_s == 2 * 2 * 1e3  # twice, of two splits
    assert job.clock.prepare_s == 0


def costly(job: Job, time: Time) -> System:
    """A system whose every act takes a time of its own."""

    class Costly(Placement):
        step_s = 1e6  # of the warm-up

        def train(self, batch: Batch) -> torch.Tensor:
            time.passes(self.step_s)
            return super().train(batch)

        def logits(self, batch: Batch) -> torch.Tensor:
            time.passes(1e3)
            return super().logits(batch)

        def save(self, ids: torch.Tensor) -> Any:
            time.passes(1e6)
            return super().save(ids)

        def restore(self, saved: Any) -> None:
            super().restore(saved)
            time.passes(1e6)
            self.step_s = 1

    def schedule(order: Order) -> Iterator[Run]:
        time.passes(10)
        yield Run(order)

    return System(Costly(job), schedule)


def test_skipped_samples_count_as_seen_but_not_as_trained() -> None:
    job = make_job("slipstream", num_inputs=32 * 40, settings={"layout.hot_bytes": "9000", "slipstream.window": "0.2"})
    outcome, _ = run(job, "slipstream")
    assert outcome.samples_skipped > 0
    assert outcome.samples_seen == outcome.samples_trained + outcome.samples_skipped == 2 * 32 * 40


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    with pytest.raises(Diverged, match="lower --lr"):
        run(make_job(lr=1e30), window_steps=2)


def test_a_test_split_of_one_class_has_no_auc() -> None:
    job = make_job(epochs=1)
    test = replace(make_split(job.schema, 50, seed=9), labels=np.ones(50, np.int32))
    outcome, _ = run(job, test=test)
    assert outcome.auc_last is None
    assert any("one class" in note for note in outcome.notes)
    assert outcome.logloss_last is not None and math.isfinite(outcome.logloss_last)


def test_the_best_evaluation_is_chosen_on_the_validation_split() -> None:
    outcome, notebook = run(make_job(epochs=6, lr=0.5, optimizer="adagrad"), eval_every=203)
    at = {point["samples_seen"]: point["auc"] for point in notebook.evals}
    assert outcome.best_at_samples is not None
    assert outcome.auc_best == at[outcome.best_at_samples]


def test_evaluation_sees_every_row_of_the_split() -> None:
    job = make_job(epochs=1)
    system = build("dlrm", job)
    from baselines.placement import EVAL_BATCH, scores

    split = make_split(job.schema, EVAL_BATCH + 7, seed=4, lowest_id=0)
    logits = scores(system.placement, split)
    assert len(logits) == EVAL_BATCH + 7
    one = scores(system.placement, split, np.array([EVAL_BATCH + 6]))
    assert torch.allclose(torch.tensor(one[0]), torch.tensor(logits[-1]), atol=1e-6)
