"""One epoch of Slipstream: warm up on hot inputs, snapshot A, a window, snapshot B, decide, train what is kept."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import chain
from typing import cast

import numpy as np
import torch

from baselines.fae import HotColdSchedule
from baselines.hot_placement import HotPlacement
from baselines.job import Job
from baselines.system import Order, Run, System
from slipstream.classifier import Decision, InputClassifier
from slipstream.snapshot import SnapshotBlock


class StaleSkip:
    """Passes the layout's runs on, and drops inputs from them once the epoch's decision is made.

    Every epoch starts anew: nothing is stale, and what was dropped before is a candidate again.
    """

    def __init__(self, job: Job, layout: System) -> None:
        self._job = job
        self._placement = cast(HotPlacement, layout.placement)
        self._schedule = layout.schedule
        self._classifier = InputClassifier(job, self._placement)

    def __call__(self, order: Order, runs: Iterator[Run]) -> Iterator[Run]:
        self._thaw()
        self._reserve_window(order)
        left = np.ones(len(order), bool)  # [N], the inputs that are still to come
        for run in runs:
            if run.kind != "cold":
                decision, rest = yield from self._watch(order[left[order]], run)
                yield from decision.apply(chain([rest], runs), self._job.batch_size)
                return
            left[run.inputs] = False
            yield run

    def _watch(self, rest: np.ndarray, run: Run) -> Generator[Run, None, tuple[Decision, Run]]:
        """Take both snapshots within the first run of hot inputs; the decision, and what is left of the run.

        `rest` are the inputs that are left in the epoch, those of the run among them.
        """
        with self._job.clock.phase("hot_inputs"):  # whatever is dropped, it has to be known what is hot
            hot = np.zeros(len(self._job.train), bool)
            hot[rest] = self._placement.is_hot(rest)
        start, window = self._window(int(hot.sum()))
        warm_up, run = self._split(run, hot, start)
        yield warm_up
        with self._classifier.phase("snapshot"):
            snapshot = SnapshotBlock(self._placement)
        watched, run = self._split(run, hot, window)
        yield watched
        with self._classifier.phase("snapshot"):
            changes = snapshot.changes()
        hot[warm_up.inputs], hot[watched.inputs] = False, False
        return self._classifier.decide(changes, watched.inputs, rest[hot[rest]]), run

    def _window(self, num_hot: int) -> tuple[int, int]:
        """Hot mini-batches before snapshot A, and from A to B."""
        batches = num_hot / self._job.batch_size
        share = self._job.settings
        return max(1, round(share["slipstream.start"] * batches)), max(1, round(share["slipstream.window"] * batches))

    def _reserve_window(self, order: Order) -> None:
        """Have FAE's first run of hot mini-batches hold both snapshots."""
        if isinstance(self._schedule, HotColdSchedule):
            self._schedule.first_hot_batches = sum(self._window(int(self._placement.is_hot(order).sum())))

    def _split(self, run: Run, hot: np.ndarray, hot_batches: int) -> tuple[Run, Run]:
        """The first whole mini-batches that hold `hot_batches` mini-batches' worth of hot inputs, and the others."""
        size = self._job.batch_size
        seen = np.cumsum(hot[run.inputs])
        at = int(np.searchsorted(seen, hot_batches * size)) + 1  # inputs up to the one that makes it so many
        at = min(-(-at // size) * size, len(run.inputs))
        return replace(run, inputs=run.inputs[:at]), replace(run, inputs=run.inputs[at:])

    def _thaw(self) -> None:
        """Forget the stale rows of the epoch before."""
        if self._job.settings["skip.what"] == "updates":
            self._placement.freeze(torch.zeros(self._job.schema.num_rows, dtype=torch.bool))
