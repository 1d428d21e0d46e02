"""`loss`: drop the hot inputs of lowest loss, by a forward pass with the current weights, which is on the clock."""

from __future__ import annotations

import numpy as np

from slipstream.policies import Choice, Kept


def choose(choice: Choice) -> Kept:
    logits = choice.logits()
    losses = np.logaddexp(0, logits) - choice.labels * logits
    keep = np.ones(len(losses), bool)
    keep[np.argsort(losses, kind="stable")[: choice.num_dropped]] = False
    return Kept(keep)
