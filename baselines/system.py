"""What a training system is made of: a placement, a schedule and a skip. Everything else is shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from baselines.clock import Clock
from baselines.model import Model
from datasets.schema import Schema
from datasets.store import Split

if TYPE_CHECKING:
    from baselines.placement import Placement

Kind = Literal["plain", "cold", "hot", "mixed", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything a system is given; the same for all systems of a comparison."""

    schema: Schema
    train: Split
    validation: Split  # all that an adapting system may look at beside the training inputs
    model: Model
    optimizer: str  # one of baselines.optimizer.OPTIMIZERS
    lr: float
    precision: str  # fp32, bf16 or fp64
    batch_size: int
    epochs: int
    seed: int
    device: torch.device
    threads: int
    settings: Mapping[str, Any]  # every declared setting of the system, defaults filled in
    clock: Clock
    cache_dir: Path  # where what is worth keeping between runs on this data set may be stored
    notes: list[str] = field(default_factory=list)  # sentences for the run's row

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows and of the dense master weights."""
        return torch.float64 if self.precision == "fp64" else torch.float32


@dataclass(frozen=True)
class Run:
    """A stretch of the epoch that is trained without a decision in between, in mini-batches of the job's size."""

    inputs: np.ndarray  # [n] int64, indices of training inputs, in order
    kind: Kind = "plain"
    weights: np.ndarray | None = None  # [n] float32, factors of the inputs' losses


Order = np.ndarray  # [N] int64, the epoch's order of the training inputs, the same for every system
Schedule = Callable[[Order], Iterator[Run]]
Skip = Callable[[Order, Iterator[Run]], Iterator[Run]]


def in_order(order: Order) -> Iterator[Run]:
    """The schedule of the systems that have none."""
    yield Run(order)


def keep_all(order: Order, runs: Iterator[Run]) -> Iterator[Run]:
    """The skip of the systems that have none."""
    return runs


@dataclass
class System:
    """A training system: where rows live, the order in which inputs are trained, and what is not trained.

    `schedule` and `skip` are generators: what they do between two runs is on the clock, after the run before has been
    trained and before the next one is.
    """

    placement: Placement
    schedule: Schedule = in_order
    skip: Skip = keep_all
