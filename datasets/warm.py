"""What is compiled or loaded at its first use, used once: a signal that comes just then is lost in foreign code."""

from __future__ import annotations

import numpy as np
import polars as pl

from datasets.bits import BitSet, count_unmarked, mark
from datasets.keys import pack, unpack
from datasets.search import SortedKeys


def warm() -> None:
    """Compile the loops over keys, or take them from their cache, and have Polars meet NumPy."""
    keys = np.zeros((1, 1), np.int64)
    for order in (keys, np.asfortranarray(np.zeros((2, 2), np.int64)), np.zeros((2, 2), np.int64)):
        unpack(pack(order), 0, order.shape[1])
    SortedKeys(keys[0]).places(keys[0])
    members = BitSet(1)
    members.add(keys[0])
    members.close()
    members.places(keys[0])
    flags, numbers = np.zeros(1, bool), np.zeros((1, 2), np.int32)
    mark(flags, numbers[:, :1])
    count_unmarked(flags, numbers[:, :1])
    pl.DataFrame({"x": [0], "y": [0]}).to_numpy()
