"""What takes part in a benchmark: things that can do a round of the same work again and again, and say what it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch

from baselines.clock import MAIN
from baselines.job import Job
from baselines.registry import load_system
from bench.config import resolve
from bench.jobs import make_job
from bench.loop import DATA_WAIT, Loop, warm_up
from bench.outcome import Outcome
from datasets.store import PreparedSet

DENSE_PHASES = ("dense_forward", "dense_backward")


@dataclass(frozen=True)
class Sample:
    """What one round of a contender took. What does not apply is None."""

    contender: str
    round: int
    train_s: float
    seen: int  # inputs; of a matrix product, floating-point operations
    trained: int
    skipped: int = 0
    data_wait_s: float | None = None
    dense_s: float | None = None  # forward and backward of the dense part
    dense_flops: int | None = None

    @property
    def per_s(self) -> float:
        """Inputs seen a second."""
        return self.seen / self.train_s

    def to_dict(self) -> dict[str, Any]:
        """A row of `samples.csv`."""
        return asdict(self)


class Contender(Protocol):
    """Something that is measured."""

    name: str

    def round(self, number: int) -> Sample:
        """Do the work once; the number is that of the epoch's order."""

    def close(self) -> None:
        """Let go of what it holds."""


def contender_job(
    data: PreparedSet, system: str, *, settings: dict[str, Any] | None = None, rows: int, rounds: int, **given: Any
) -> Job:
    """The job of a contender: the first `rows` training inputs, once a round; `given` are other fields of RunConfig.

    Where they leave it open it is `rm2` with SGD, on the CPU, at the data set's own rate of learning.
    """
    fields = {"model": "rm2", "optimizer": "sgd", "device": "cpu", **given, "limit_rows": rows, "epochs": rounds}
    options = {key.replace("_", "-"): value for key, value in fields.items()}
    return make_job(resolve({"system": system, "dataset": data.name, **options}, settings or {}), data)


class Silent:
    """A recorder of nothing."""

    def step(self, **window: Any) -> None:
        """A window of steps."""

    def eval(self, **point: Any) -> None:
        """An evaluation."""

    def decision(self, **row: Any) -> None:
        """What Slipstream decided."""

    def progress(self, samples_seen: int, samples_total: int, train_s: float, loss: float) -> None:
        """How far it is."""


class InTraining:
    """A system in the shared loop, an epoch a round."""

    def __init__(self, name: str, system: str, job: Job) -> None:
        self.name = name
        self._job = job
        self._outcome = Outcome(job.clock)
        self._system = load_system(system).build(job)
        warm_up(job, self._system, steps=2)
        nothing = job.validation.head(0)
        self._loop = Loop(job, self._system, self._outcome, Silent(), nothing, eval_every=0, window_steps=50)

    def round(self, number: int) -> Sample:
        """One epoch."""
        before = self._state()
        with self._job.clock.run():
            self._loop.epoch(number)
            self._loop.close_window()
        after = self._state()
        return Sample(self.name, number, **{key: after[key] - before[key] for key in after})

    def _state(self) -> dict[str, Any]:
        clock, outcome = self._job.clock, self._outcome
        seconds = {name: phase.seconds for (lane, name), phase in clock.phases.items() if lane == MAIN}
        return {
            "train_s": clock.train_s,
            "seen": outcome.samples_seen,
            "trained": outcome.samples_trained,
            "skipped": outcome.samples_skipped,
            "data_wait_s": seconds.get(DATA_WAIT, 0.0),
            "dense_s": sum(seconds.get(name, 0.0) for name in DENSE_PHASES),
            "dense_flops": clock.totals["dense_flops"],
        }

    def close(self) -> None:
        """End its threads and processes."""
        self._system.placement.close()


class Repeated:
    """A piece of work of known size, for rates: matrix products, counting, classification."""

    def __init__(self, name: str, size: int, work: Callable[[], Any], times: int = 1) -> None:
        self.name = name
        self._size, self._work, self._times = size, work, times
        work()  # compiled, allocated, in the caches

    def round(self, number: int) -> Sample:
        """Do it a few times."""
        start = time.perf_counter()
        for _ in range(self._times):
            self._work()
        done = self._size * self._times
        return Sample(self.name, number, train_s=time.perf_counter() - start, seen=done, trained=done)

    def close(self) -> None:
        """Nothing to end."""


def matmul(name: str, dtype: torch.dtype) -> Repeated:
    """The machine's matrix-product rate, at the shape of the model's largest layer over a slice of a batch."""
    left, right = torch.randn(2048, 512, dtype=dtype), torch.randn(512, 512, dtype=dtype)
    return Repeated(name, 2 * 2048 * 512 * 512, lambda: left @ right, times=100)
