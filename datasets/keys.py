"""Raw ids before they have rows: numbers of 32 bits, or missing."""

from __future__ import annotations

import numpy as np
from numba import njit

MISSING = 1 << 32  # the key of a missing id, beyond every real one
BITS = 32  # of a word


def pack(keys: np.ndarray) -> np.ndarray:
    """[n, C + words] uint32 of keys [n, C] int64: the keys, then a bit each for the missing ones.

    ValueError for a key that is not in 0 … MISSING.
    """
    packed = np.zeros((len(keys), keys.shape[1] + num_words(keys.shape[1])), np.uint32)
    if _pack(keys, packed):
        raise ValueError("a key is not in 0 … 2³²")
    return packed


def unpack(packed: np.ndarray, column: int, num_columns: int) -> np.ndarray:
    """[n] int64: the keys of one column."""
    keys = np.empty(len(packed), np.int64)
    _unpack(packed, column, num_columns + column // BITS, np.uint32(column % BITS), keys)
    return keys


def num_words(num_columns: int) -> int:
    """Words that hold a bit for each column."""
    return -(-num_columns // BITS)


@njit(nogil=True, cache=True)
def _pack(keys, packed):  # type: ignore[no-untyped-def]
    columns, bad = keys.shape[1], 0
    for c in range(columns):  # column by column, as the keys lie
        word, bit = columns + c // BITS, np.uint32(1) << np.uint32(c % BITS)
        for i in range(len(keys)):
            key = keys[i, c]
            bad += key < 0 or key > MISSING
            if key == MISSING:
                packed[i, word] |= bit
            else:
                packed[i, c] = np.uint32(key)
    return bad


@njit(nogil=True, cache=True)
def _unpack(packed, column, word, bit, keys):  # type: ignore[no-untyped-def]
    for i in range(len(keys)):
        missing = (packed[i, word] >> bit) & np.uint32(1)
        keys[i] = MISSING if missing else np.int64(packed[i, column])
