"""Input Classifier Block: from the rows' changes to the inputs that are dropped for the rest of the epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from baselines.hot_placement import HotPlacement
from baselines.hotset import count_marked
from baselines.job import Job
from baselines.placement import scores
from baselines.system import Kind, Run
from slipstream.policies import Choice, Kept, load_policy
from slipstream.sampling import NO_THRESHOLD, Search, input_changes, search_threshold, stale_lookups

MIN_SAMPLE = 4096  # hot inputs that the threshold is sought on, at least


@dataclass
class Decision:
    """What is dropped from the rest of an epoch."""

    dropped: np.ndarray  # [N] bool
    weights: np.ndarray | None = None  # [N] float32, factors of the losses

    def kept(self, inputs: np.ndarray, kind: Kind) -> Iterator[Run]:
        """The inputs, none of them dropped, as a run."""
        if len(inputs):
            yield Run(inputs, kind, None if self.weights is None else self.weights[inputs])

    def apply(self, runs: Iterable[Run], batch_size: int) -> Iterator[Run]:
        """The runs without the dropped inputs, and these as skipped.

        What is kept of hot runs is cut into full mini-batches again: what does not fill one waits for the next hot run,
        and at the end of the epoch is trained as cold inputs are, which any input may be.
        """
        waiting = np.empty(0, np.int64)
        for run in runs:
            dropped = self.dropped[run.inputs]
            kept = run.inputs[~dropped]
            if run.kind == "hot" and dropped.any():
                kept = np.concatenate([waiting, kept])
                kept, waiting = np.split(kept, [len(kept) // batch_size * batch_size])
            yield from self.kept(kept, run.kind)
            if dropped.any():
                yield Run(run.inputs[dropped], "skipped")
        yield from self.kept(waiting, "cold")


class InputClassifier:
    """Seeks the threshold, marks stale rows, and has the policy choose among the hot inputs that are left."""

    def __init__(self, job: Job, placement: HotPlacement) -> None:
        self._job = job
        self._placement = placement
        self._choose = load_policy(job.settings["skip"])
        self._random = np.random.default_rng([job.seed, 0x511])
        self._needed = stale_lookups(job.schema, job.settings["slipstream.alpha"])
        self._reserved = np.zeros(job.schema.num_rows, bool)
        self._reserved[job.schema.reserved_rows] = True

    def decide(self, changes: np.ndarray, watched: np.ndarray, rest: np.ndarray) -> Decision:
        """The decision about the hot inputs `rest` [n], from the changes of rows [R] while `watched` were trained.

        What it was made from is left in the job's `decisions`.
        """
        job = self._job
        decision = Decision(np.zeros(len(job.train), bool))
        row: dict[str, Any] = {"hot_rows": len(self._placement.hot_rows), "hot_inputs_left": len(rest)}
        job.decisions.append(row)
        touched = self._touched(watched)
        if job.settings["stale"] == "touched-only":
            changes = np.where(touched, changes, np.inf)
        search = self._search(changes, rest) if len(rest) else Search()
        row |= {**asdict(search), "inputs_dropped": 0}
        if search.threshold is None:
            job.notes.append(NO_THRESHOLD)
            return decision
        stale_rows = changes < search.threshold
        row |= self._note(search.threshold, stale_rows, touched)
        if job.settings["skip.what"] == "updates":
            with self.phase("classify"):
                self._placement.freeze(torch.from_numpy(stale_rows))
            return decision
        kept = self._ask_policy(self._stale_inputs(stale_rows, rest), rest)
        decision.dropped[rest] = ~kept.keep
        if kept.weights is not None:
            decision.weights = np.ones(len(job.train), np.float32)
            decision.weights[rest] = kept.weights
        row["inputs_dropped"] = len(rest) - int(kept.keep.sum())
        return decision

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Staleness pays for its decision; the controls are only told how many inputs it would drop."""
        clock = self._job.clock
        return clock.phase(name) if self._job.settings["skip"] == "stale" else clock.paused()

    def _search(self, changes: np.ndarray, rest: np.ndarray) -> Search:
        settings = self._job.settings
        with self.phase("threshold"):
            size = min(len(rest), max(MIN_SAMPLE, round(settings["slipstream.sample"] * len(rest))))
            sample = self._random.choice(rest, size, replace=False)
            values = input_changes(changes, self._reserved, self._job.train.row_ids(sample), self._needed)
            self._job.clock.count(lookups_scanned=size * self._job.schema.num_lookups)
            target, tolerance = settings["slipstream.drop"], settings["slipstream.tolerance"]
            return search_threshold(values, target, settings["slipstream.t_max"], tolerance)

    def _stale_inputs(self, stale_rows: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """[n] bool: which inputs have at least alpha stale lookups in each of their sequences."""
        with self.phase("classify"):
            lengths = np.array([part.stop - part.start for part, _ in self._needed])
            needed = np.array([alpha for _, alpha in self._needed])
            if (needed == lengths).all():  # then it makes no difference whether reserved rows count
                return np.all(self._count(inputs, stale_rows | self._reserved) == lengths, axis=1)
            others = lengths - self._count(inputs, self._reserved)
            return np.all(self._count(inputs, stale_rows & ~self._reserved) >= np.minimum(needed, others), axis=1)

    def _count(self, inputs: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """[n, Q]: lookups of marked rows in each sequence of the inputs."""
        self._job.clock.count(lookups_scanned=len(inputs) * self._job.schema.num_lookups)
        return count_marked(self._job.train, inputs, marks)

    def _ask_policy(self, stale: np.ndarray, rest: np.ndarray) -> Kept:
        def logits() -> np.ndarray:
            with self._job.clock.phase("score"):
                return scores(self._placement, self._job.train, rest)

        labels = np.asarray(self._job.train.labels[rest])
        return self._choose(
            Choice(stale=stale, labels=labels, logits=logits, random=self._random, clock=self._job.clock)
        )

    def _touched(self, watched: np.ndarray) -> np.ndarray:
        """[R] bool: the rows that an input of the window looked up."""
        decides = self._job.settings["stale"] == "touched-only"  # otherwise it is only noted
        with self.phase("classify") if decides else self._job.clock.paused():
            touched = np.zeros(self._job.schema.num_rows, bool)
            touched[self._job.train.row_ids(watched)] = True
        return touched

    def _note(self, threshold: float, stale_rows: np.ndarray, touched: np.ndarray) -> dict[str, int]:
        """Say how many rows are stale; returned for decisions.csv."""
        with self._job.clock.paused():
            stale, hot = int(stale_rows.sum()), len(self._placement.hot_rows)
            untouched = int((stale_rows & ~touched).sum())
            share = untouched / max(stale, 1)
            self._job.notes.append(
                f"T={threshold:.3g}: {stale / hot:.1%} of the hot rows stale, {share:.1%} of these not touched"
            )
        return {"stale_rows": stale, "stale_rows_untouched": untouched}
