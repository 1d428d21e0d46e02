"""Snapshot Block (Slipstream, arXiv 2404.04270): two copies of the hot rows, and how far each row moved in between."""

from __future__ import annotations

import numpy as np

from baselines.hot_placement import HotPlacement
from baselines.work import DEVICE


class SnapshotBlock:
    """The hot rows as they were when the block was made (snapshot A)."""

    def __init__(self, placement: HotPlacement) -> None:
        self._placement = placement
        self._before = placement.hot.weights.clone()
        placement.count_copy(len(placement.hot), DEVICE, DEVICE)

    def changes(self) -> np.ndarray:
        """[R] float64: the largest change over a row's width between snapshot A and now (B); infinite for cold rows."""
        moved = (self._placement.hot.weights - self._before).abs().amax(dim=1)
        self._placement.clock.count(DEVICE, lookups_scanned=2 * len(moved))
        changes = np.full(len(self._placement.slots), np.inf)
        changes[self._placement.hot_rows.numpy()] = self._placement.link.to_host(moved.double()).numpy()
        return changes
