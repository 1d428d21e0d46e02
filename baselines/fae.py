"""`fae`: hot rows copied to the device, mini-batches all hot or all cold (Mahajan et al., PVLDB 15(1):127-140, 2022).

A hot mini-batch runs wholly on the device, a cold one as in `dlrm`. The host keeps all rows; the hot ones are copied
over whenever the kind of mini-batch changes (Embedding Replicator), and the Shuffle Scheduler decides when it does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from baselines.fae_profile import SETTINGS as PROFILE_SETTINGS
from baselines.fae_profile import Profile, profile
from baselines.hot_placement import HotPlacement
from baselines.job import Job
from baselines.placement import log_loss, scores
from baselines.system import Order, Run, System
from datasets.settings import Setting

SUMMARY = "FAE: hot rows copied to the device, all-hot and cold mini-batches, shuffle scheduler"
SETTINGS = (
    *PROFILE_SETTINGS,
    Setting(
        key="fae.schedule",
        default="shuffle",
        choices=("shuffle", "cold-first"),
        help="shuffle: R(50), adapting on the validation loss; cold-first: all cold mini-batches, then all hot ones",
    ),
)
VALIDATION_INPUTS = 10_000  # that the scheduler looks at, at most


def build(job: Job) -> System:
    """Profile the data set (off the clock), place the hot rows, and schedule by kind of input."""
    with job.clock.preparing():
        made = profile(job)
    job.notes.append(f"hot rows: {made.rule}")
    placement = FaePlacement(job, made)
    return System(placement, HotColdSchedule(placement, job))


class FaePlacement(HotPlacement):
    """A copy of the hot rows on the device, current while hot mini-batches are trained."""

    def __init__(self, job: Job, made: Profile) -> None:
        super().__init__(job)
        self.place(made.rows)
        self._hot_inputs = made.inputs
        self.hot_inputs_share = float(made.inputs.mean())

    def is_hot(self, inputs: np.ndarray) -> np.ndarray:
        return self._hot_inputs[inputs]

    def to_hot(self) -> None:
        """Swap from cold mini-batches to hot ones: the host's hot rows go up."""
        with self.clock.phase("synchronize"):
            self.hot = self.host.part(self.hot_rows, self.link.to_device)
            self._count_copy()
        self.hot_is_current = True

    def to_cold(self) -> None:
        """Swap from hot mini-batches to cold ones: the device's hot rows come down."""
        with self.clock.phase("synchronize"):
            self.host.put(self.hot_rows, self.hot, self.link.to_host)
            self._count_copy()
        self.hot_is_current = False

    def _count_copy(self) -> None:
        self.clock.count(rows_read=len(self.hot_rows), rows_written=len(self.hot_rows))

    def update(self, ids: torch.Tensor, grads: torch.Tensor) -> None:
        if not self.hot_is_current:
            return super().update(ids, grads)
        grads = self.pooling.backward(grads)
        slots = self.link.to_device(self.slots[ids].flatten())
        self.count_update(self.hot.update(slots, grads.flatten(0, 1)))


class ShuffleScheduler:
    """The rate R(r): r % of the cold mini-batches, then r % of the hot ones (FAE, Eq. 5, with the text's min and max).

    A loss that went up halves the rate, down to R(1); a loss that went down `patience` times in a row doubles it, up
    to R(100).
    """

    def __init__(self, rate: float = 50.0, patience: int = 4) -> None:
        self.rate = rate
        self.patience = patience
        self._last: float | None = None
        self._decreases = 0

    def update(self, loss: float) -> float:
        """The rate after a schedule that ended with this loss."""
        if self._last is not None:
            self._decreases = self._decreases + 1 if loss < self._last else 0
            if loss >= self._last:
                self.rate = max(self.rate / 2, 1.0)
            elif self._decreases >= self.patience:
                self.rate, self._decreases = min(self.rate * 2, 100.0), 0
        self._last = loss
        return self.rate


class HotColdSchedule:
    """Turns an epoch's order into runs of cold and of hot mini-batches, cold first.

    Hot inputs that do not fill a mini-batch are trained with the cold ones, so that an epoch has as many steps as in
    any other system. `min_hot_batches` is how long a run of hot mini-batches is at least.
    """

    def __init__(self, placement: FaePlacement, job: Job) -> None:
        self.min_hot_batches = 1
        self._placement = placement
        self._job = job
        self._adapts = job.settings["fae.schedule"] == "shuffle"
        self._scheduler = ShuffleScheduler(50.0 if self._adapts else 100.0)

    def __call__(self, order: Order) -> Iterator[Run]:
        size = self._job.batch_size
        hot_inputs = self._placement.is_hot(order)
        hot = order[hot_inputs]
        left_over = hot[len(hot) // size * size :]
        cold_inputs = ~hot_inputs
        cold_inputs[np.isin(order, left_over, assume_unique=True)] = True
        cold, hot = order[cold_inputs], hot[: len(hot) - len(left_over)]
        num_cold, num_hot = -(-len(cold) // size), len(hot) // size
        while len(cold) or len(hot):
            cold_batches = max(1, round(self._scheduler.rate / 100 * num_cold))
            hot_batches = max(1, self.min_hot_batches, round(self._scheduler.rate / 100 * num_hot))
            if len(cold):
                yield Run(cold[: cold_batches * size], "cold")
            yield from self._hot_run(hot[: hot_batches * size])
            cold, hot = cold[cold_batches * size :], hot[hot_batches * size :]
            if self._adapts and len(self._job.validation):
                self._scheduler.update(self._validation_loss())

    def _hot_run(self, inputs: np.ndarray) -> Iterator[Run]:
        if len(inputs):
            self._placement.to_hot()
            yield Run(inputs, "hot")
            self._placement.to_cold()

    def _validation_loss(self) -> float:
        with self._job.clock.phase("validation"):
            validation = self._job.validation.head(VALIDATION_INPUTS)
            return log_loss(scores(self._placement, validation), validation.labels)
