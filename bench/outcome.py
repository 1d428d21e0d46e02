"""What the training loop measured of one run, filled in as it goes, so that an interrupted run keeps what it had."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from baselines.clock import Clock


class Diverged(Exception):
    """The loss is no longer a finite number."""


@dataclass
class Outcome:
    """Measured columns of a run's row in `runs.csv`; None where nothing was measured."""

    clock: Clock
    steps: int = 0
    samples_seen: int = 0
    samples_trained: int = 0
    samples_skipped: int = 0
    eval_s: float = 0.0
    auc_last: float | None = None
    auc_best: float | None = None  # on the test split, at the evaluation whose validation log loss was lowest
    best_at_samples: int | None = None
    logloss_last: float | None = None
    accuracy_last: float | None = None
    base_rate: float | None = None  # share of positives in the test split
    hot_rows_share: float | None = None
    hot_inputs_share: float | None = None
    peak_rss_bytes: int | None = None  # of this process and of those that the system started
    notes: list[str] = field(default_factory=list)


class Recorder(Protocol):
    """Where the loop sends what it learns on the way. The keys are columns of a CSV each, see `bench.results`."""

    def step(self, **window: Any) -> None:
        """first_step, steps, samples, loss, seconds, data_wait_s of a window of steps."""

    def eval(self, **point: Any) -> None:
        """samples_seen, train_s, auc, logloss, accuracy on the test split."""

    def decision(self, **row: Any) -> None:
        """What Slipstream decided in an epoch: the columns of `decisions.csv`."""

    def progress(self, samples_seen: int, samples_total: int, train_s: float, loss: float) -> None:
        """Called at the end of each window of steps."""
