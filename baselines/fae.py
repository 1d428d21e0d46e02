"""`fae`: hot rows copied to the device, mini-batches all hot or all cold (Mahajan et al., PVLDB 15(1):127-140, 2022).

A hot mini-batch runs wholly on the device, a cold one as in `dlrm`. The host keeps all rows; the hot ones are copied
over whenever the kind of mini-batch changes (Embedding Replicator), and the Shuffle Scheduler decides when it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from baselines import hotset
from baselines.fae_profile import SETTINGS as PROFILE_SETTINGS
from baselines.fae_profile import Profile, profile
from baselines.hot_placement import HotPlacement
from baselines.job import Job
from baselines.placement import log_loss, scores
from baselines.system import Order, Run, System
from baselines.work import DEVICE, HOST
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
check = hotset.check


def build(job: Job) -> System:
    """Profile the data set (off the clock), place the hot rows, and schedule by kind of input."""
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
        """[n] bool: which training inputs look up hot rows only, by the profile."""
        return self._hot_inputs[inputs]

    def to_hot(self) -> None:
        """Swap from cold mini-batches to hot ones: the host's hot rows go up."""
        with self.clock.phase("synchronize"):
            self.hot = self.host.part(self.hot_rows, self.link.to_device)
            self.count_copy(len(self.hot_rows), HOST, DEVICE)
        self.hot_is_current = True

    def to_cold(self) -> None:
        """Swap from hot mini-batches to cold ones: the device's hot rows come down."""
        with self.clock.phase("synchronize"):
            self.host.put(self.hot_rows, self.hot, self.link.to_host)
            self.count_copy(len(self.hot_rows), DEVICE, HOST)
        self.hot_is_current = False


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
    any other system. `first_hot_batches` is how long an epoch's first run of hot mini-batches is at least.
    """

    def __init__(self, placement: FaePlacement, job: Job) -> None:
        self.first_hot_batches = 1
        self._placement = placement
        self._job = job
        self._adapts = job.settings["fae.schedule"] == "shuffle"
        self._scheduler = ShuffleScheduler(50.0 if self._adapts else 100.0)
        self._epochs_left = job.epochs

    def __call__(self, order: Order) -> Iterator[Run]:
        self._epochs_left -= 1
        size = self._job.batch_size
        cold, hot = self._by_kind(order)
        num_cold, num_hot = math.ceil(len(cold) / size), len(hot) // size
        at_least = self.first_hot_batches
        while len(cold) or len(hot):
            share = self._scheduler.rate / 100
            cold_inputs = math.ceil(share * num_cold) * size
            hot_inputs = max(at_least, math.ceil(share * num_hot)) * size
            at_least = 1
            if len(cold):
                yield Run(cold[:cold_inputs], "cold")
            yield from self._hot_run(hot[:hot_inputs])
            cold, hot = cold[cold_inputs:], hot[hot_inputs:]
            if self._adapts and len(self._job.validation) and (len(cold) or len(hot) or self._epochs_left):
                self._scheduler.update(self._validation_loss())

    def _by_kind(self, order: Order) -> tuple[np.ndarray, np.ndarray]:
        """Cold and hot inputs, each in the order of the epoch; the hot ones fill their mini-batches."""
        is_hot = self._placement.is_hot(order)
        hot = order[is_hot]
        left_over = hot[len(hot) // self._job.batch_size * self._job.batch_size :]
        is_hot[np.isin(order, left_over, assume_unique=True)] = False
        return order[~is_hot], order[is_hot]

    def _hot_run(self, inputs: np.ndarray) -> Iterator[Run]:
        if len(inputs):
            self._placement.to_hot()
            yield Run(inputs, "hot")
            self._placement.to_cold()

    def _validation_loss(self) -> float:
        with self._job.clock.phase("validation"):
            validation = self._job.validation.head(VALIDATION_INPUTS)
            return log_loss(scores(self._placement, validation), validation.labels)
