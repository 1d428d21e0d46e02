"""Sets of whole numbers below a bound: a bit each, with how many members come before one; and a byte each."""

from __future__ import annotations

import numpy as np
from numba import njit


class BitSet:
    """Numbers in 0 … size - 1; `size` bits of memory, and half as many again once `close` has counted them."""

    def __init__(self, size: int) -> None:
        self.words = np.zeros(-(-size // 64), np.uint64)
        self._before = np.empty(0, np.int32)  # members in the words before each

    def add(self, numbers: np.ndarray) -> None:
        """Numbers [n] int64 become members."""
        _add(self.words, numbers)

    def close(self) -> None:
        """Count; nothing is added any more."""
        members = np.bitwise_count(self.words).astype(np.int32)
        self._before = np.cumsum(members, dtype=np.int32) - members

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """[n] int32: the place of each number among the members, from 1, and 0 for those that are none."""
        found = np.empty(len(numbers), np.int32)
        _places(self.words, self._before, numbers, found)
        return found

    def __len__(self) -> int:
        return int(np.bitwise_count(self.words).sum(dtype=np.int64))


@njit(nogil=True, cache=True)
def _add(words, numbers):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        words[numbers[i] >> 6] |= np.uint64(1) << np.uint64(numbers[i] & 63)


@njit(nogil=True, cache=True)
def _places(words, before, numbers, found):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        at, bit = numbers[i] >> 6, np.uint64(numbers[i] & 63)
        word = words[at]
        found[i] = 0
        if (word >> bit) & np.uint64(1):
            below = word & ((np.uint64(1) << bit) - np.uint64(1))
            # how many bits are set, by halves (Warren, Hacker's Delight, chapter 5)
            below = below - ((below >> np.uint64(1)) & np.uint64(0x5555555555555555))
            below = (below & np.uint64(0x3333333333333333)) + ((below >> np.uint64(2)) & np.uint64(0x3333333333333333))
            below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            found[i] = before[at] + np.int64((below * np.uint64(0x0101010101010101)) >> np.uint64(56)) + 1


def mark(flags: np.ndarray, numbers: np.ndarray) -> int:
    """Set flags [size] bool of numbers [n, m] int32; how many of these are 0, whose flag stays as it is."""
    return int(_mark(flags, numbers))


def count_unmarked(flags: np.ndarray, numbers: np.ndarray) -> int:
    """How many of the numbers [n, m] int32 have no flag."""
    return int(_count_unmarked(flags, numbers))


@njit(nogil=True, cache=True)
def _mark(flags, numbers):  # type: ignore[no-untyped-def]
    zeros = 0
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            number = numbers[i, j]
            if number:
                flags[number] = True
            else:
                zeros += 1
    return zeros


@njit(nogil=True, cache=True)
def _count_unmarked(flags, numbers):  # type: ignore[no-untyped-def]
    found = 0
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            found += not flags[numbers[i, j]]
    return found
