"""The one training loop. Warm-up, clock, evaluation, progress and what is recorded are its; systems do the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from baselines import kernels
from baselines.clock import MAIN, Phase
from baselines.job import Job
from baselines.placement import scores
from baselines.system import Run, System
from baselines.work import BETWEEN
from bench import metrics
from bench.outcome import Diverged, Outcome, Recorder
from datasets.loader import Batch, batches, epoch_order
from datasets.store import Split

DATA_WAIT = "data_wait"
ADVICE = "try a lower --lr."


def train(
    job: Job,
    system: System,
    outcome: Outcome,
    recorder: Recorder,
    *,
    test: Split,
    eval_every: int = 0,
    warmup_steps: int = 5,
    window_steps: int = 50,
) -> None:
    """Train for the job's epochs, filling in the outcome as it goes.

    `eval_every` is in samples seen, 0 for the end only. Raises Diverged when the loss of a window is not finite.
    """
    warm_up(job, system, warmup_steps)
    loop = Loop(job, system, outcome, recorder, test, eval_every, window_steps)
    with job.clock.run():
        for epoch in range(job.epochs):
            loop.epoch(epoch)
        loop.close_window()
    loop.evaluate()


def warm_up(job: Job, system: System, steps: int) -> None:
    """Run the first steps of the first epoch off the clock, and then undo all that they changed."""
    kernels.warm()
    inputs = epoch_order(len(job.train), job.seed, 0)[: steps * job.batch_size]
    if len(inputs) == 0:
        return
    ids = torch.from_numpy(job.train.row_ids(inputs)).flatten()
    saved, random = system.placement.save(ids), torch.get_rng_state()
    for batch in batches(job.train, inputs, job.batch_size):
        system.placement.train(batch)
    system.placement.restore(saved)
    torch.set_rng_state(random)


class Loop:
    """The state of a run between its steps."""

    def __init__(
        self,
        job: Job,
        system: System,
        outcome: Outcome,
        recorder: Recorder,
        test: Split,
        eval_every: int,
        window_steps: int,
    ) -> None:
        self.job, self.system, self.outcome, self.recorder, self.test = job, system, outcome, recorder, test
        self.clock = job.clock
        self._eval_every = eval_every
        self._window_steps = window_steps
        self._samples_total = job.epochs * len(job.train)
        self._best_logloss = math.inf
        self._evaluated_at = -1
        self._loss = torch.zeros((), dtype=torch.float64, device=job.device)  # summed where it arises
        self._open_window()

    def epoch(self, epoch: int) -> None:
        """One pass over the order of the epoch, as the system schedules it."""
        with self.clock.phase("order"):
            order = epoch_order(len(self.job.train), self.job.seed, epoch)
        for run in self.system.skip(order, self.system.schedule(order)):
            self.clock.end_step(BETWEEN, steps=0)
            self._fetch_decisions(epoch)
            if run.kind == "skipped":
                self._skip(run)
            else:
                self._train(run)
        self.clock.end_step(BETWEEN, steps=0)
        self._fetch_decisions(epoch)
        self.outcome.hot_rows_share = self.system.placement.hot_rows_share
        self.outcome.hot_inputs_share = self.system.placement.hot_inputs_share

    def _fetch_decisions(self, epoch: int) -> None:
        """Record what the system has decided since the last run of inputs."""
        while self.job.decisions:
            with self.clock.paused():
                when = {"epoch": epoch, "samples_seen": self.outcome.samples_seen, "train_s": self.clock.train_s}
                self.recorder.decision(**when, **self.job.decisions.pop(0))

    def _skip(self, run: Run) -> None:
        self.outcome.samples_skipped += len(run.inputs)
        self._see(len(run.inputs))

    def _train(self, run: Run) -> None:
        source = batches(self.job.train, run.inputs, self.job.batch_size, run.weights)
        for batch in self._waiting(source):
            loss = self.system.placement.train(batch)
            self.clock.end_step(run.kind)
            self._loss = self._loss + loss.double() * self.job.batch_size
            self._window_samples += len(batch)
            self.outcome.steps += 1
            self.outcome.samples_trained += len(batch)
            self._see(len(batch))
            if self.outcome.steps - self._first_step >= self._window_steps:
                self.close_window()

    def _waiting(self, source: Iterator[Batch]) -> Iterator[Batch]:
        """The batches of a source, the time spent waiting for each in a phase of its own."""
        while True:
            with self.clock.phase(DATA_WAIT):
                batch = next(source, None)
            if batch is None:
                return
            yield batch

    def _see(self, samples: int) -> None:
        before = self.outcome.samples_seen
        self.outcome.samples_seen += samples
        every = self._eval_every
        if every and before // every != self.outcome.samples_seen // every:
            self.evaluate()

    def _open_window(self) -> None:
        self._first_step = self.outcome.steps
        self._window_samples = 0
        self._loss = torch.zeros_like(self._loss)
        self._window_start = self.clock.train_s
        self._wait_start = self._data_wait_s()

    def close_window(self) -> None:
        """Read the loss of the steps since the last window, and record it. Raises Diverged if it is not finite."""
        steps = self.outcome.steps - self._first_step
        if not steps:
            return
        mean = self._loss.item() / self._window_samples
        with self.clock.paused():
            self.recorder.step(
                first_step=self._first_step,
                steps=steps,
                samples=self._window_samples,
                loss=mean,
                seconds=self.clock.train_s - self._window_start,
                data_wait_s=self._data_wait_s() - self._wait_start,
            )
            self.recorder.progress(self.outcome.samples_seen, self._samples_total, self.clock.train_s, mean)
        if not math.isfinite(mean):
            last = self.outcome.steps
            raise Diverged(f"the loss is {mean} between steps {self._first_step} and {last}; {ADVICE}")
        self._open_window()

    def _data_wait_s(self) -> float:
        return self.clock.phases.get((MAIN, DATA_WAIT), Phase()).seconds

    def evaluate(self) -> None:
        """Test and validation split, off the clock; the validation log loss alone says which evaluation was best."""
        if self._evaluated_at == self.outcome.samples_seen:
            return
        self._evaluated_at = self.outcome.samples_seen
        with self.clock.paused():
            start = self.clock.now()
            self._evaluate()
            self.outcome.eval_s += self.clock.now() - start

    def _evaluate(self) -> None:
        outcome, labels = self.outcome, np.asarray(self.test.labels)
        logits = scores(self.system.placement, self.test)
        if not np.isfinite(logits).all():
            raise Diverged(f"the model's scores are not finite after {outcome.samples_seen:,} samples; {ADVICE}")
        outcome.auc_last = metrics.auc(logits, labels)
        outcome.logloss_last = metrics.log_loss(logits, labels) if len(labels) else None
        outcome.accuracy_last = metrics.accuracy(logits, labels) if len(labels) else None
        outcome.base_rate = float(labels.mean()) if len(labels) else None
        self._note_missing_auc()
        self._keep_best()
        self.recorder.eval(
            samples_seen=outcome.samples_seen,
            train_s=self.clock.train_s,
            auc=outcome.auc_last,
            logloss=outcome.logloss_last,
            accuracy=outcome.accuracy_last,
        )

    def _note_missing_auc(self) -> None:
        note = "the test split holds one class only, so it has no AUC"
        if self.outcome.auc_last is None and note not in self.outcome.notes:
            self.outcome.notes.append(note)

    def _keep_best(self) -> None:
        validation = self.job.validation
        if len(validation) == 0:
            return
        logloss = metrics.log_loss(scores(self.system.placement, validation), np.asarray(validation.labels))
        if logloss < self._best_logloss:
            self._best_logloss = logloss
            self.outcome.auc_best = self.outcome.auc_last
            self.outcome.best_at_samples = self.outcome.samples_seen
