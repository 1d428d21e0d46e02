"""`slipstream`: skip the hot inputs whose rows have gone stale (Maboud et al., DATE 2025, arXiv 2404.04270).

It sits on another system's layout, FAE's or Hotline's, and changes nothing of its placement and schedule. In every
epoch it warms up on hot inputs, takes a snapshot of the hot rows (A), trains a window, takes another (B), seeks the
threshold under which a row's change makes it stale, classifies the hot inputs that are left, and drops those whose
lookups are stale. What is kept is cut into full mini-batches again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import cast

import numpy as np
import torch

from baselines import fae, hotline
from baselines.fae import HotColdSchedule
from baselines.hot_placement import HotPlacement
from baselines.hotset import count_marked
from baselines.placement import scores
from baselines.system import Job, Order, Run, System
from datasets.errors import UserError
from datasets.settings import Setting
from slipstream.policies import POLICIES, Choice, Kept, load_policy
from slipstream.sampling import input_changes, search_threshold
from slipstream.snapshot import SnapshotBlock

SUMMARY = "Slipstream: on FAE's or Hotline's layout, skips hot inputs whose rows have stopped changing"
LAYOUTS: dict[str, Callable[[Job], System]] = {"fae": fae.build, "hotline": hotline.build}
MIN_SAMPLE = 4096  # hot inputs that the threshold is sought on, at least
OWN_SETTINGS = (
    Setting(key="slipstream.layout", default="fae", choices=tuple(LAYOUTS), help="the system whose layout it uses"),
    Setting(key="skip", default="stale", choices=(*POLICIES, "none"), help="which hot inputs are dropped"),
    Setting(
        key="skip.what",
        default="inputs",
        choices=("inputs", "updates"),
        help="inputs: not trained at all; updates: trained, but the gradients of stale rows are thrown away",
    ),
    Setting(
        key="stale",
        default="all",
        choices=("all", "touched-only"),
        help="touched-only: a row that no input of the window looked up is not stale",
    ),
    Setting(key="slipstream.drop", default=0.3, low=0.0, high=1.0, help="D, the share of hot inputs to drop"),
    Setting(key="slipstream.tolerance", default=0.08, low=0.0, high=1.0, help="how far from D is near enough"),
    Setting(key="slipstream.t_max", default=1.0, low=0.0, help="the largest threshold T"),
    Setting(key="slipstream.alpha", default=0, low=0, help="stale lookups that make an input stale; 0: all of them"),
    Setting(
        key="slipstream.start", default=0.035, low=0.0, high=1.0, help="snapshot A, in hot mini-batches of an epoch"
    ),
    Setting(key="slipstream.window", default=0.03, low=0.0, high=1.0, help="from A to snapshot B, likewise (p)"),
    Setting(key="slipstream.sample", default=0.001, low=0.0, high=1.0, help="share of hot inputs to seek T on"),
)
SETTINGS = tuple({s.key: s for s in (*OWN_SETTINGS, *fae.SETTINGS, *hotline.SETTINGS)}.values())


def build(job: Job) -> System:
    """The layout's system, with skipping."""
    settings = job.settings
    if settings["skip.what"] == "updates" and settings["skip"] != "stale":
        raise UserError(f"skip.what=updates goes with skip=stale only, not with skip={settings['skip']}.")
    if settings["slipstream.alpha"] > job.schema.num_lookups:
        raise UserError(f"slipstream.alpha is more than the {job.schema.num_lookups} lookups of an input.")
    layout = LAYOUTS[settings["slipstream.layout"]](job)
    if settings["skip"] == "none":
        return layout
    return replace(layout, skip=StaleSkip(job, layout))


class StaleSkip:
    """Passes the layout's runs on, and drops inputs from them once the epoch's decision is made."""

    def __init__(self, job: Job, layout: System) -> None:
        self._job = job
        self._placement = cast(HotPlacement, layout.placement)
        self._schedule = layout.schedule
        self._choose = load_policy(job.settings["skip"])
        self._random = np.random.default_rng([job.seed, 0x511])
        self._alpha = job.settings["slipstream.alpha"] or job.schema.num_lookups
        self._dropped = np.zeros(len(job.train), bool)  # the epoch's decision
        self._weights: np.ndarray | None = None

    def __call__(self, order: Order, runs: Iterator[Run]) -> Iterator[Run]:
        """One epoch. `left` marks the inputs that no run has named yet."""
        left = np.ones(len(order), bool)
        self._dropped, self._weights = np.zeros(len(order), bool), None
        self._thaw()
        self._reserve_window(order)
        for run in runs:
            left[run.inputs] = False
            if run.kind != "cold":
                yield from self._first_hot_run(order, left, run)
                break
            yield run
        for run in runs:
            yield from self._filtered(run)

    def _first_hot_run(self, order: Order, left: np.ndarray, run: Run) -> Iterator[Run]:
        """Warm-up, snapshot A, the window, snapshot B; then the decision, and what it leaves of the run."""
        left[run.inputs] = True
        rest = order[left[order]]
        with self._deciding("classify"):
            hot = np.zeros(len(order), bool)
            hot[rest] = self._placement.is_hot(rest)
        start, window = self._window(int(hot.sum()))
        warm_up, run = self._split(run, hot, start)
        yield warm_up
        with self._deciding("snapshot"):
            snapshot = SnapshotBlock(self._placement)
        watched, run = self._split(run, hot, window)
        yield watched
        left[warm_up.inputs], left[watched.inputs] = False, False
        rest = order[left[order] & hot[order]]
        if len(rest):
            self._decide(snapshot, watched.inputs, rest)
        yield from self._filtered(run)

    def _window(self, num_hot: int) -> tuple[int, int]:
        """Hot mini-batches before snapshot A, and from A to B."""
        batches = num_hot / self._job.batch_size
        share = self._job.settings
        return max(1, round(share["slipstream.start"] * batches)), max(1, round(share["slipstream.window"] * batches))

    def _reserve_window(self, order: Order) -> None:
        """Have FAE's first run of hot mini-batches hold both snapshots."""
        if isinstance(self._schedule, HotColdSchedule):
            start, window = self._window(int(self._placement.is_hot(order).sum()))
            self._schedule.min_hot_batches = start + window

    def _split(self, run: Run, hot: np.ndarray, hot_batches: int) -> tuple[Run, Run]:
        """The first whole mini-batches that hold `hot_batches` mini-batches' worth of hot inputs, and the others."""
        size = self._job.batch_size
        seen = np.cumsum(hot[run.inputs])
        at = int(np.searchsorted(seen, hot_batches * size)) + 1  # inputs up to the one that makes it so many
        at = min(-(-at // size) * size, len(run.inputs))
        return replace(run, inputs=run.inputs[:at]), replace(run, inputs=run.inputs[at:])

    def _decide(self, snapshot: SnapshotBlock, watched: np.ndarray, rest: np.ndarray) -> None:
        """Seek the threshold, classify the hot inputs that are left [n], and let the policy choose among them."""
        with self._deciding("snapshot"):
            changes = snapshot.changes()
        touched = self._touched(watched)
        if self._job.settings["stale"] == "touched-only":
            changes[~touched] = np.inf
        with self._deciding("threshold"):
            threshold = self._threshold(changes, rest)
        if threshold is None:
            self._job.notes.append("no threshold found")
            return
        stale_rows = changes < threshold
        self._note(threshold, stale_rows, touched)
        if self._job.settings["skip.what"] == "updates":
            with self._deciding("classify"):
                self._placement.freeze(torch.from_numpy(stale_rows))
            return
        with self._deciding("classify"):
            stale = self._stale_inputs(stale_rows, rest)
        kept = self._ask_policy(stale, rest)
        self._dropped[rest] = ~kept.keep
        if kept.weights is not None:
            self._weights = np.ones(len(self._dropped), np.float32)
            self._weights[rest] = kept.weights

    def _threshold(self, changes: np.ndarray, rest: np.ndarray) -> float | None:
        settings = self._job.settings
        size = min(len(rest), max(MIN_SAMPLE, round(settings["slipstream.sample"] * len(rest))))
        sample = self._random.choice(rest, size, replace=False)
        values = input_changes(changes, self._job.train.row_ids(sample), self._alpha)
        target, tolerance = settings["slipstream.drop"], settings["slipstream.tolerance"]
        return search_threshold(values, target, settings["slipstream.t_max"], tolerance)

    def _stale_inputs(self, stale_rows: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Input Classifier Block: [n] bool, which inputs have at least alpha stale lookups."""
        return count_marked(self._job.train, inputs, stale_rows, self._job.threads) >= self._alpha

    def _ask_policy(self, stale: np.ndarray, rest: np.ndarray) -> Kept:
        def logits() -> np.ndarray:
            with self._job.clock.phase("score"):
                return scores(self._placement, self._job.train, rest)

        labels = np.asarray(self._job.train.labels[rest])
        choice = Choice(stale=stale, labels=labels, logits=logits, random=self._random, clock=self._job.clock)
        return self._choose(choice)

    def _filtered(self, run: Run) -> Iterator[Run]:
        """The run without the dropped inputs, and these as skipped."""
        dropped = self._dropped[run.inputs]
        kept = run.inputs[~dropped]
        if len(kept):
            yield Run(kept, run.kind, None if self._weights is None else self._weights[kept])
        if dropped.any():
            yield Run(run.inputs[dropped], "skipped")

    def _thaw(self) -> None:
        if self._job.settings["skip.what"] == "updates":
            self._placement.freeze(torch.zeros(len(self._placement.slots), dtype=torch.bool))

    def _touched(self, watched: np.ndarray) -> np.ndarray:
        """[R] bool: the rows that an input of the window looked up."""
        touched = np.zeros(len(self._placement.slots), bool)
        touched[self._job.train.row_ids(watched)] = True
        return touched

    def _note(self, threshold: float, stale_rows: np.ndarray, touched: np.ndarray) -> None:
        with self._job.clock.paused():
            stale, hot = int(stale_rows.sum()), len(self._placement.hot_rows)
            untouched = int((stale_rows & ~touched).sum()) / max(stale, 1)
            self._job.notes.append(
                f"T={threshold:.3g}: {stale / hot:.1%} of the hot rows stale, {untouched:.1%} of these not touched"
            )

    def _deciding(self, phase: str) -> AbstractContextManager[None]:
        """Staleness pays for its decision; the controls are only told how many inputs it would drop."""
        clock = self._job.clock
        return clock.phase(phase) if self._job.settings["skip"] == "stale" else clock.paused()
