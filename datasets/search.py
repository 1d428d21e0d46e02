"""Where keys stand in a sorted list, millions a second: the list is cut into ranges by the keys' highest bits.

A binary search of ten million keys misses the cache twenty times; the keys of Criteo are hashes, so a table with about
as many ranges as keys leaves one or two to look at. Keys that crowd into few ranges are searched by halving there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MOST_RANGES = 1 << 24


class SortedKeys:
    """Distinct keys [n] int64, ascending and not negative."""

    def __init__(self, keys: np.ndarray) -> None:
        self.keys = keys
        bits = int(keys[-1]).bit_length() if len(keys) else 1
        ranges = min(MOST_RANGES, 1 << max(len(keys) - 1, 1).bit_length())
        self._shift = max(0, bits - ranges.bit_length() + 1)
        last = (int(keys[-1]) >> self._shift) if len(keys) else 0
        edges = np.arange(last + 2, dtype=np.int64) << self._shift
        self._starts = np.searchsorted(keys, edges).astype(np.int64)  # [ranges + 1] first key of each range

    def places(self, wanted: np.ndarray) -> np.ndarray:
        """[n] int32: the place of each key, from 1, and 0 for keys that are not there."""
        found = np.empty(len(wanted), np.int32)
        _places(self.keys, self._starts, self._shift, np.ascontiguousarray(wanted), found)
        return found


@njit(nogil=True, cache=True)
def _places(keys, starts, shift, wanted, found):  # type: ignore[no-untyped-def]
    for i in range(len(wanted)):
        key = wanted[i]
        at = key >> shift
        found[i] = 0
        if at >= len(starts) - 1:
            continue
        low, high = starts[at], starts[at + 1]
        while high - low > 4:
            middle = (low + high) // 2
            if keys[middle] <= key:
                low = middle
            else:
                high = middle
        for place in range(low, high):
            if keys[place] == key:
                found[i] = place + 1
                break
