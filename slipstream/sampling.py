"""Sampling Block: the threshold T under which a row's change makes it stale, sought on a sample of hot inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datasets.schema import Schema

MAX_STEPS = 25
NO_THRESHOLD = "no threshold found"  # the note of a run where none drops about as many inputs as wanted


@dataclass(frozen=True)
class Search:
    """How a search for the threshold T ended. The fields are columns of decisions.csv."""

    threshold: float | None = None  # None where none was found
    iterations: int = 0
    sampled_inputs: int = 0
    sample_drop_ratio: float | None = None  # share of the sample that was droppable at the last T tried


def stale_lookups(schema: Schema, alpha: int) -> list[tuple[slice, int]]:
    """Each sequence of an input's lookups, and how many of them make the input stale: alpha, or all where that is 0."""
    return [(part, alpha or part.stop - part.start) for part in schema.sequences]


def input_changes(
    changes: np.ndarray, reserved: np.ndarray, row_ids: np.ndarray, needed: Sequence[tuple[slice, int]]
) -> np.ndarray:
    """[n]: the threshold above which each input [n, C] is stale, by the changes of rows [R] and `stale_lookups`.

    That of a sequence is its alpha-th smallest change; an input is stale where all its sequences are. Reserved rows
    (bool [R]), which fill short histories up and never change, do not count: of a sequence with fewer than alpha other
    lookups, all of these are needed.
    """
    each = []
    for part, alpha in needed:
        filled = reserved[row_ids[:, part]]
        ordered = np.sort(np.where(filled, np.inf, changes[row_ids[:, part]]), axis=1)
        last = np.minimum(alpha, (~filled).sum(axis=1)) - 1
        found = np.take_along_axis(ordered, np.maximum(last, 0)[:, None], axis=1)[:, 0]
        each.append(np.where(last < 0, -np.inf, found))
    return np.max(each, axis=0)


def search_threshold(droppable_above: np.ndarray, target: float, t_max: float, tolerance: float) -> Search:
    """T in [0, t_max] at which the share of droppable inputs is within `tolerance` of the target drop ratio D.

    Bisection, at most 25 steps, as in the authors' code (papers' section 1.4). An input is droppable where T is above
    its value of `droppable_above` [n], n > 0.
    """
    low, high, ratio = 0.0, t_max, 0.0
    for step in range(MAX_STEPS):
        threshold = (low + high) / 2
        ratio = float(np.mean(droppable_above < threshold))
        if abs(ratio - target) <= tolerance:
            return Search(threshold, step + 1, len(droppable_above), ratio)
        low, high = (threshold, high) if ratio < target else (low, threshold)
    return Search(None, MAX_STEPS, len(droppable_above), ratio)
