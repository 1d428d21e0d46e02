"""`importance`: keep an input with probability proportional to |p - y|, and weigh what is kept by 1 / probability.

This project's own extension. |p - y| is the size of the loss's gradient by the logit, from a forward pass with the
current weights, which is on the clock. The probability is at least 0.05, and the weights leave the gradient of the
epoch unbiased. Sampling is systematic over a random order, which keeps exactly as many inputs as the probabilities add
up to.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from slipstream.policies import Choice, Kept

FLOOR = 0.05


def choose(choice: Choice) -> Kept:
    num_kept = len(choice.stale) - choice.num_dropped
    probability = probabilities(np.abs(expit(choice.logits()) - choice.labels), num_kept)
    keep = sample(probability, num_kept, choice.random)
    return Kept(keep, (1 / probability).astype(np.float32))


def probabilities(sizes: np.ndarray, num_kept: int) -> np.ndarray:
    """[n] clip(c · sizes, 0.05, 1) with the c whose sum is `num_kept`; never below what that sum allows."""
    floor = min(FLOOR, num_kept / max(len(sizes), 1))
    sizes = np.maximum(sizes, 1e-12)
    low, high = 0.0, 1.0 / sizes.min(initial=1.0)
    for _ in range(100):
        scale = (low + high) / 2
        low, high = (scale, high) if np.clip(scale * sizes, floor, 1).sum() < num_kept else (low, scale)
    return np.clip(high * sizes, floor, 1)


def sample(probability: np.ndarray, num_kept: int, random: np.random.Generator) -> np.ndarray:
    """[n] bool with `num_kept` set, each with its probability: equal steps through the sum of a random order."""
    keep = np.zeros(len(probability), bool)
    if num_kept == 0:
        return keep
    order = random.permutation(len(probability))
    ends = np.cumsum(probability[order])
    marks = (np.arange(num_kept) + random.random()) * (ends[-1] / num_kept)
    keep[order[np.minimum(np.searchsorted(ends, marks, side="right"), len(order) - 1)]] = True
    return keep
