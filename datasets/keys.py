"""Raw ids before they have rows: numbers of 32 bits, or missing."""

from __future__ import annotations

import numpy as np

MISSING = 1 << 32  # the key of a missing id, beyond every real one
BITS = 32  # of a word


def pack(keys: np.ndarray) -> np.ndarray:
    """[n, C + words] uint32 of keys [n, C] int64 in 0 … MISSING: the keys, then a bit each for the missing ones."""
    missing = keys == MISSING
    packed = np.zeros((len(keys), keys.shape[1] + num_words(keys.shape[1])), np.uint32)
    packed[:, : keys.shape[1]] = np.where(missing, 0, keys)
    for column in np.flatnonzero(missing.any(axis=0)).tolist():
        word, bit = keys.shape[1] + column // BITS, np.uint32(1 << column % BITS)
        packed[:, word] |= np.where(missing[:, column], bit, np.uint32(0))
    return packed


def unpack(packed: np.ndarray, column: int, num_columns: int) -> np.ndarray:
    """[n] int64: the keys of one column."""
    keys = packed[:, column].astype(np.int64)
    missing = (packed[:, num_columns + column // BITS] >> np.uint32(column % BITS)) & np.uint32(1)
    keys[missing.astype(bool)] = MISSING
    return keys


def num_words(num_columns: int) -> int:
    """Words that hold a bit for each column."""
    return -(-num_columns // BITS)
