"""What a training system is made of: a placement, a schedule and a skip. Everything else is shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from baselines.placement import Placement

# What a run's inputs are to a system with hot rows: trained from the host (cold), all hot, or both in one mini-batch
# (mixed). Slipstream decides in the first run that is not cold. Systems without hot rows have plain runs.
Kind = Literal["plain", "cold", "hot", "mixed", "skipped"]


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
