"""A generated log: any block of it is a function of the seed and its number, so it can be as long as one likes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.schema import Schema, Table
from datasets.shapes.features import DRAW_BITS, MISSING, IntegerFeature, SmallColumn
from datasets.shapes.laws import CELL_BITS
from datasets.shapes.levels import BLOCK, FIRST, GOLDEN, SILVER, WORD_BITS, LevelColumn, block_levels, cells, rotation
from datasets.shapes.spec import Shape

ROTATIONS = {"entity": GOLDEN, "user": SILVER}  # the latent numbers that large tables follow; others are random
HOURS_A_DAY = 24
WORLD, IDS, DENSE, LABELS = range(4)  # streams of random numbers: each can be drawn without the others


@dataclass(frozen=True)
class Draws:
    """The inputs of a block before their dense features. They are drawn level by level, and then take their places."""

    ids: np.ndarray  # [n, C] int32, in the order of the log
    places: np.ndarray  # [n] int64: those of the inputs as they were drawn
    latents: dict[str, np.ndarray]  # each [n] int64, parts of the unit interval, as they were drawn


@dataclass(frozen=True)
class Inputs:
    """Inputs of a block, in the order of the log, without their labels."""

    dense: np.ndarray  # [n, F] float32
    ids: np.ndarray  # [n, C] int32
    counts: np.ndarray | None  # [n, F] int32 as in the raw text, MISSING where there is none; where asked for

    def part(self, part: slice) -> Inputs:
        """Some of them (views)."""
        return Inputs(self.dense[part], self.ids[part], None if self.counts is None else self.counts[part])


class Log:
    """The inputs of a shape at some seed and scale; `length` is that of the whole log, which its hours go by."""

    def __init__(self, shape: Shape, seed: int, scale: float, length: int) -> None:
        self.shape, self._seed, self._length = shape, seed, length
        random = np.random.default_rng([seed, WORLD])
        self.columns: list[LevelColumn | SmallColumn] = [
            LevelColumn(shape, column, scale, random) if column.levels else SmallColumn(column, random)
            for column in shape.columns
        ]
        self.dense = [IntegerFeature(dense) for dense in shape.dense]
        self._levels = block_levels(shape)
        self._starts = random.integers(1 << (WORD_BITS - 1), size=(len(ROTATIONS), len(self._levels))).tolist()
        followed = {column.follows for column in shape.columns} | {dense.follows for dense in shape.dense}
        self._free = sorted(followed - set(ROTATIONS) - {""})
        rare = {column.block: column.rare_share for column in self.columns if isinstance(column, LevelColumn)}
        self._id_blocks = {  # a large table's rare value is never missing, the others the more often
            name: shape.missing[name] / (1 - rare.get(name, 0.0))
            for name in sorted({column.block for column in shape.columns} - {""})
        }
        self._dense_blocks = sorted({dense.block for dense in shape.dense} - {""})
        self.schema = Schema(
            dense=shape.dense_names,
            tables=tuple(Table(name=column.name, rows=1 + column.values) for column in self.columns),
        )

    def _random(self, stream: int, block: int) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64([self._seed, stream, block]))

    def draws(self, block: int) -> Draws:
        """The ids of a block's inputs, and what else depends on the same random numbers."""
        random = self._random(IDS, block)
        places = random.permutation(BLOCK)
        serials = [block * count + np.arange(count) for count in self._levels]
        words = {
            name: [rotation(own, step, start) for own, start in zip(serials, starts, strict=True)]
            for (name, step), starts in zip(ROTATIONS.items(), self._starts, strict=True)
        }
        latents = {name: cells(np.concatenate(of_level)) for name, of_level in words.items()}
        latents |= {name: random.integers(1 << CELL_BITS, size=BLOCK) for name in self._free}
        missing = {name: random.random(BLOCK, np.float32) < share for name, share in self._id_blocks.items()}
        ids = np.empty((BLOCK, len(self.columns)), dtype=np.int32)
        for at, column in enumerate(self.columns):
            if isinstance(column, LevelColumn):
                of_level = words[column.follows]
                ids[places, at] = _large(column, serials, of_level, latents[column.follows], missing, random)
            else:
                ids[places, at] = column.table[column.source.cells(latents, random)]
        for at, column in enumerate(self.columns):
            if column.block and column.missing_id is not None:
                ids[places[missing[column.block]], at] = column.missing_id
        return Draws(ids, places, latents)

    def ids(self, block: int) -> np.ndarray:
        """[n, C] int32 ids of a block's inputs."""
        return self.draws(block).ids

    def inputs(self, block: int, counts: bool = False) -> Inputs:
        """A block's inputs; with the integers of the raw text where `counts` is set."""
        draws = self.draws(block)
        random = self._random(DENSE, block)
        missing = {
            name: draws.places[random.random(BLOCK, np.float32) < self.shape.missing[name]]
            for name in self._dense_blocks
        }
        dense = np.empty((BLOCK, len(self.dense)), dtype=np.float32)
        whole = np.empty((BLOCK, len(self.dense)), dtype=np.int32) if counts else None
        for at, feature in enumerate(self.dense):
            found = feature.source.cells(draws.latents, random)
            dense[draws.places, at] = feature.logs[found]
            if whole is not None:
                whole[draws.places, at] = feature.counts[found]
            if feature.block:
                dense[missing[feature.block], at] = 0.0
                if whole is not None:
                    whole[missing[feature.block], at] = MISSING
        if self.shape.hours:
            hour = self.hours(block) % HOURS_A_DAY
            dense = np.concatenate([np.log1p(hour).astype(np.float32)[:, None], dense], axis=1)
        return Inputs(dense, draws.ids, whole)

    def hours(self, block: int) -> np.ndarray:
        """[n] int64: hours since the start of the log; inputs after its length go on at the same rate."""
        return (block * BLOCK + np.arange(BLOCK)) * self.shape.hours // self._length

    def label_draws(self, block: int) -> np.ndarray:
        """[n] float64 in [0, 1): a label is positive where its probability is above."""
        return self._random(LABELS, block).random(BLOCK)


def _large(
    column: LevelColumn,
    serials: list[np.ndarray],
    words: list[np.ndarray],
    latent: np.ndarray,
    missing: dict[str, np.ndarray],
    random: np.random.Generator,
) -> np.ndarray:
    """[n] int32 ids of a large table; where they are values of a later level, the column's block is not missing."""
    count = len(serials[FIRST])
    parts, at = [column.first_level(latent[:count])], count
    for level in range(FIRST + 1, len(serials)):
        count = len(serials[level])
        draws = random.integers(1 << DRAW_BITS, size=count, dtype=np.uint32)
        ids, own = column.other_level(level, serials[level], words[level], draws)
        if column.block:
            missing[column.block][at : at + count] &= False if own is None else ~own
        parts.append(ids)
        at += count
    return np.concatenate(parts)
