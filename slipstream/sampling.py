"""Sampling Block: the threshold T under which a row's change makes it stale, sought on a sample of hot inputs."""

from __future__ import annotations

import numpy as np

MAX_STEPS = 25


def input_changes(changes: np.ndarray, row_ids: np.ndarray, alpha: int) -> np.ndarray:
    """[n]: the threshold above which each input [n, C] has alpha stale lookups: its alpha-th smallest change."""
    return np.partition(changes[row_ids], alpha - 1, axis=1)[:, alpha - 1]


def search_threshold(droppable_above: np.ndarray, target: float, t_max: float, tolerance: float) -> float | None:
    """T in [0, t_max] at which the share of droppable inputs is within `tolerance` of the target drop ratio D.

    Bisection, at most 25 steps, as in the authors' code (papers' section 1.4). An input is droppable where T is above
    its value of `droppable_above`. None where no T was found.
    """
    low, high = 0.0, t_max
    for _ in range(MAX_STEPS):
        threshold = (low + high) / 2
        ratio = float(np.mean(droppable_above < threshold))
        if abs(ratio - target) <= tolerance:
            return threshold
        low, high = (threshold, high) if ratio < target else (low, threshold)
    return None
