"""Which hot inputs to drop, when staleness would drop so many: one policy a file, so that staleness can be judged.

A policy is a function `choose(choice) -> Kept` in a module named here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from baselines.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a policy may look at. All arrays are over the hot inputs [n] that are left in the epoch."""

    stale: np.ndarray  # bool: what staleness drops
    labels: np.ndarray
    logits: Callable[[], np.ndarray]  # a forward pass over all of them with the weights as they are, on the clock
    random: np.random.Generator
    clock: Clock

    @property
    def num_dropped(self) -> int:
        """How many inputs every policy drops."""
        return int(self.stale.sum())


@dataclass(frozen=True)
class Kept:
    """A policy's decision."""

    keep: np.ndarray  # [n] bool
    weights: np.ndarray | None = None  # [n] float32, factors of the losses of the inputs that are kept


POLICIES = ("stale", "random", "loss", "importance")  # beside `none`, which is the layout's own system


def load_policy(name: str) -> Callable[[Choice], Kept]:
    """The `choose` of a policy."""
    choose: Callable[[Choice], Kept] = importlib.import_module(f"slipstream.policies.{name}").choose
    return choose
