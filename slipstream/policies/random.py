"""`random`: drop as many hot inputs, at random. The decision is off the clock, so that it costs what dropping costs."""

from __future__ import annotations

import numpy as np

from slipstream.policies import Choice, Kept


def choose(choice: Choice) -> Kept:
    with choice.clock.paused():
        keep = np.ones(len(choice.stale), bool)
        keep[choice.random.choice(len(keep), choice.num_dropped, replace=False)] = False
    return Kept(keep)
