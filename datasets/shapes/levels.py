"""Large tables: every input belongs to a level of popularity, and looks up values of that level.

An input of level l has the serial number s within it. In the first levels a value is the quantile of a rotation,
frac(s · a + b) with a badly approximable a: after any number of inputs each value has come up as often as expected,
give or take one, where independent draws would scatter by the root of the count, and values expected 6 times would
often be found fewer than 4 times. In the last level values are new ones, as rare ids in a log are: s sweeps over them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from datasets.shapes.laws import CELL_BITS, CELLS, Decline, Scatter, popularity, quantiles
from datasets.shapes.spec import Column, Shape

BLOCK = 1 << 15  # inputs that are generated at a time; every block has the same number of each level
WORD_BITS = 64
GOLDEN = 0x9E3779B97F4A7C15  # 2⁶⁴ · (√5 - 1) / 2
SILVER = 0x6A09E667F3BCC909  # 2⁶⁴ · (√2 - 1)
FIRST = 0  # the level of the most frequent values, which inputs of other levels look up as well
# Expected counts stay so far inside their level's thresholds, since a rotation misses by one or so
LOW_FACTOR, LOW_MORE = 1.05, 1.2
HIGH_FACTOR, HIGH_LESS = 0.985, 1.5
FIRST_FACTOR = 1.2  # the first level's draws are partly independent, and scatter more
# A column with few values of a level serves some of its inputs only, so many accesses a value: in the last level as
# given, in the others a share of the mean of an exponential decline
LAST_COUNT, MIDDLE_FILL = 2.55, 0.97


def block_levels(shape: Shape) -> list[int]:
    """Inputs of each level in a block."""
    exact = np.array(shape.shares) * BLOCK
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: BLOCK - int(counts.sum())]] += 1
    return [int(count) for count in counts]


def rotation(serials: np.ndarray, step: int, start: int) -> np.ndarray:
    """[n] uint64: frac(serial · step + start), where 2⁶⁴ stands for 1."""
    words: np.ndarray = serials.astype(np.uint64) * np.uint64(step) + np.uint64(start)
    return words


def cells(words: np.ndarray) -> np.ndarray:
    """[n] int64: the part of the unit interval that each word lies in."""
    return (words >> np.uint64(WORD_BITS - CELL_BITS)).astype(np.int64)


@dataclass(frozen=True)
class Part:
    """The values that a column has in a level after the first."""

    first: int  # its first value
    share: float  # of the level's inputs that look one of them up
    law: Decline | None  # None: they are swept over,
    pace: float  # so many values an input
    start: int  # of a rotation of its own, where `share` < 1

    @classmethod
    def of(cls, shape: Shape, column: Column, level: int, first: int, start: int) -> Part:
        """The part of a level, all counts at full size."""
        values, inputs = column.levels[level], shape.shares[level] * shape.inputs
        served = column.served[level] if column.served else None
        if level == len(shape.shares) - 1:
            share = served or min(1.0, values * LAST_COUNT / inputs)
            return cls(first, share, None, values / (share * inputs), start)
        low = LOW_FACTOR * shape.least_counts[level] + LOW_MORE
        high = HIGH_FACTOR * shape.least_counts[level - 1] - HIGH_LESS
        share = served or min(1.0, values * MIDDLE_FILL * (high - low) / math.log(high / low) / inputs)
        return cls(first, share, Decline(low, high, share * inputs / values), 0.0, start)

    def split(self, serials: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Which of the inputs, consecutive ones, look up a value of this part (None: all), and their own serials."""
        if self.share >= 1:
            return None, serials
        before = np.floor(np.append(serials, serials[-1:] + 1) * self.share).astype(np.int64)
        chosen = np.diff(before) > 0
        return chosen, before[:-1][chosen]


class LevelColumn:
    """Generates the ids of one large table."""

    def __init__(self, shape: Shape, column: Column, scale: float, random: np.random.Generator) -> None:
        self.name, self.follows, self.block = column.name, column.follows, column.block
        sizes = [max(1, round(scale * values)) for values in column.levels]
        sizes[FIRST] = max(2, sizes[FIRST])
        firsts = np.cumsum([0, *sizes]).tolist()
        self.values = max(round(scale * column.values), firsts[-1])
        self._scatter = Scatter(self.values, random)
        self._sizes, self._last = sizes, firsts[-2]
        starts = random.integers(1 << (WORD_BITS - 1), size=len(sizes)).tolist()
        self._parts = [Part.of(shape, column, level, firsts[level], starts[level]) for level in range(1, len(sizes))]
        self.rare_share = 0.0  # of all inputs: those that look up a value of their own, later level
        self._table, self._present = self._first_level(shape, column)
        self.missing_id = int(self._scatter(np.zeros(1, dtype=np.int64))[0]) if column.missing or column.block else None

    def _first_level(self, shape: Shape, column: Column) -> tuple[np.ndarray, int]:
        """The ids of the parts of the unit interval, and the first part that does not stand for a missing value.

        A missing value is the first value. Either it is drawn like the others, but by inputs of this level only, so
        that all columns with the same latent number miss it together; or a block decides, whatever the level is.
        """
        own = shape.shares[FIRST]
        others = sum((1 - part.share) * share for part, share in zip(self._parts, shape.shares[1:], strict=True))
        absent = column.missing or (shape.missing[column.block] if column.block else 0.0)
        draws = own + others - absent  # of present values, as shares of all inputs
        self.rare_share = 1 - own - others
        has_missing = int(absent > 0)
        heads = tuple(head * (1 - absent) / draws for head in column.heads)
        least = FIRST_FACTOR * shape.least_counts[FIRST] / (draws * shape.inputs)
        law = popularity(self._sizes[FIRST] - has_missing, heads, column.slope, least)
        first = round(CELLS * column.missing / own)
        values = np.concatenate([np.zeros(first, dtype=np.int32), has_missing + quantiles(law, CELLS - first)])
        return self._scatter(values.astype(np.int64)), first

    def first_level(self, at: np.ndarray) -> np.ndarray:
        """[n] int32 ids of inputs of the first level, by the parts of the unit interval of their latent numbers."""
        return self._table[at]

    def other_level(
        self, level: int, serials: np.ndarray, latent: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """[n] int32 ids of consecutive inputs of a later level, and which of them are its own values (None: all).

        `serials` [n] int64, `latent` [n] uint64; `words` [n] uint32, random, for those that look up the first level's.
        """
        part = self._parts[level - 1]
        chosen, own = part.split(serials)
        if part.law is None:
            value = np.floor(own * part.pace).astype(np.int64) % (self.values - self._last)
        else:
            turned = latent if chosen is None else rotation(own, GOLDEN, part.start)
            rank = part.law.rank((turned >> np.uint64(11)) * 2.0**-53)
            value = np.floor(rank * self._sizes[level]).astype(np.int64)
        ids = self._scatter(part.first + value)
        if chosen is None:
            return ids, None
        spread = (words.astype(np.int64) * (CELLS - self._present)) >> 32
        mixed = self._table[self._present + spread]
        mixed[chosen] = ids
        return mixed, chosen
