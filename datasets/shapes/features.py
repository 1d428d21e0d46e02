"""Small tables and integer features: each a quantile function of a uniform number, of its own or a latent one's."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from datasets.shapes.laws import CELL_BITS, CELLS, popularity, quantiles, slope_of
from datasets.shapes.spec import Column, Dense

DRAW_BITS = 32
DENSE_BITS, LEAST_BITS, PARTS_A_VALUE = 15, 14, 64  # small tables are looked up far faster than those beyond a cache
MISSING = np.iinfo(np.int32).min  # in place of the count of an integer feature
MOST = 400_000  # the largest count: larger ones cannot be told apart by a float32 of their logarithm


class Source:
    """The parts of the unit interval, 2 ** bits of them, that a feature's uniform numbers lie in."""

    def __init__(self, follows: str, shift: float, always: bool, bits: int) -> None:
        self.follows, self.always = follows, always
        self._turn, self._coarser, self._own_bits = round(shift * CELLS), CELL_BITS - bits, DRAW_BITS - bits

    def cells(self, latents: dict[str, np.ndarray], random: np.random.Generator) -> np.ndarray:
        """[n] int64. A feature that does not always follow its latent number does in every other input, at random."""
        if self.follows and self.always:
            return self._turned(latents)
        count = len(next(iter(latents.values())))
        words = random.integers(1 << DRAW_BITS, size=count, dtype=np.uint32)
        own = (words >> np.uint32(self._own_bits)).astype(np.int64)
        return np.where(words & np.uint32(1), self._turned(latents), own) if self.follows else own

    def _turned(self, latents: dict[str, np.ndarray]) -> np.ndarray:
        turned: np.ndarray = ((latents[self.follows] + self._turn) & (CELLS - 1)) >> self._coarser
        return turned


class SmallColumn:
    """Generates the ids of one small table."""

    def __init__(self, column: Column, random: np.random.Generator) -> None:
        self.name, self.block, self.values = column.name, column.block, column.values
        bits = min(CELL_BITS, max(LEAST_BITS, (PARTS_A_VALUE * column.values).bit_length()))
        self.source = Source(column.follows, column.shift, always=True, bits=bits)
        ids = 1 + random.permutation(column.values).astype(np.int32)  # no trace of popularity; 0 is reserved
        present = column.values - bool(column.block)
        slope = column.slope if column.top10 is None else slope_of(present, column.heads, column.top10)
        self.table = ids[quantiles(popularity(present, column.heads, slope), 1 << bits)]
        self.missing_id = int(ids[-1]) if column.block else None


class IntegerFeature:
    """Generates one integer feature: its count as in the raw text, and log(1 + count) as in the store."""

    def __init__(self, dense: Dense) -> None:
        self.name, self.block = dense.name, dense.block
        self.source = Source(dense.follows, dense.shift, always=False, bits=DENSE_BITS)
        middle = (np.arange(1 << DENSE_BITS) + 0.5) / (1 << DENSE_BITS)
        normal = ndtri(np.clip((middle - dense.zeros) / (1 - dense.zeros), 1e-9, 1.0))  # zeros are the lowest
        counts = np.minimum(np.floor(np.expm1(np.maximum(dense.mean + dense.deviation * normal, 0.0))), MOST)
        counts[middle < dense.zeros] = 0
        counts[middle < dense.negative * dense.zeros] = -1
        self.counts = counts.astype(np.int32)
        self.logs = np.log1p(np.maximum(counts, 0)).astype(np.float32)
