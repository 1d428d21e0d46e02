"""`synthetic`, the embedded default: generated inputs with Criteo's skew and correlated columns, and a known best AUC.

An input is an impression: a latent user and a latent ad, both drawn from a steep popularity law, and a context. The
categorical columns are functions of the user (household, region, segment, …), of the ad (creative, campaign,
advertiser, …) or of the context, as in Criteo, where most columns are near-functions of one another; that is what
makes inputs all of whose lookups are hot. Labels are drawn from a planted model, so the best reachable AUC is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datasets.pace import Report
from datasets.planted import best, intercept, sigmoid
from datasets.schema import RESERVED_ID, Schema, Table
from datasets.settings import Setting
from datasets.writer import SPLITS, StoreWriter

SUMMARY = "Generated impressions, 13 dense and 26 categorical features with Criteo's skew; the best AUC is known."
NEEDS_SOURCE = False
VERSION = 1  # of the generator: a set of another version is made again
OPTIONS = (
    Setting(key="rows", default=260_000, low=1, high=100_000_000, help="training inputs"),
    Setting(key="validation_rows", default=26_000, low=0, high=10_000_000, help="validation inputs"),
    Setting(key="test_rows", default=60_000, low=1, high=10_000_000, help="test inputs"),
    Setting(key="seed", default=0, low=0, help="of everything that is drawn"),
)
DEFAULTS: dict[str, Any] = {
    "model": "small",
    "batch_size": 512,
    "optimizer": "rowwise-adagrad",
    "lr": {"sgd": 1.0, "rowwise-adagrad": 0.03, "adagrad": 0.03},
    "settings": {},
}
PAPER: dict[str, Any] = {"model": "rm2", "batch_size": 1024, "optimizer": "sgd", "lr": {"sgd": 0.01}, "settings": {}}

BASE_RATE = 0.256  # Criteo Kaggle's
BLOCK = 1 << 18  # inputs generated at a time


@dataclass(frozen=True)
class Column:
    """A categorical column: a function of its parent, another column or a latent ("user", "ad"); or drawn freely."""

    name: str
    values: int
    parent: str = ""  # "": drawn for each input by itself
    missing: str = ""  # the block of columns that it goes missing with


# Sizes: Criteo Kaggle's shape, smaller. Blocks and rates of missing values are Criteo's.
LATENT = {"user": 24_000, "ad": 20_000}
COLUMNS = (
    Column("user_id", 24_000, "user"),
    Column("household", 12_000, "user_id", "household"),
    Column("device_id", 6_000, "user_id"),
    Column("segment", 24, "user_id"),
    Column("region", 400, "household"),
    Column("country", 12, "region"),
    Column("device", 14, "device_id"),
    Column("age", 7, "user_id", "profile"),
    Column("language", 18, "user_id", "profile"),
    Column("interest", 90, "user_id", "profile"),
    Column("ad_id", 20_000, "ad", "ad"),
    Column("creative", 14_000, "ad_id", "ad"),
    Column("landing_page", 8_000, "ad_id", "ad"),
    Column("campaign", 2_200, "ad_id", "ad"),
    Column("advertiser", 600, "campaign"),
    Column("category", 30, "advertiser"),
    Column("brand", 250, "advertiser", "brand"),
    Column("format", 4, "creative"),
    Column("palette", 48, "creative", "ad"),
    Column("site", 1_400),
    Column("section", 110, "site"),
    Column("site_kind", 9, "section"),
    Column("hour", 24),
    Column("position", 10),
    Column("exchange", 5),
    Column("referrer", 300, missing="referrer"),
)
BLOCKS = {column.name: column.missing for column in COLUMNS}
DENSE = tuple(f"I{number}" for number in range(1, 14))
# log1p of the value where it is not zero: mean, standard deviation; share of zeros; block; both as Criteo's I1 … I13
DENSE_SHAPE = (
    (1.45, 0.90, 0.44, "history"), (2.74, 2.0, 0.27, ""), (2.35, 1.30, 0.01, "I3"), (1.88, 0.92, 0.07, "recent"),
    (7.30, 2.70, 0.02, "I5"), (3.78, 1.65, 0.06, "I6"), (2.05, 1.25, 0.26, "visits"), (2.32, 1.05, 0.11, ""),
    (3.70, 1.60, 0.03, "visits"), (0.76, 0.20, 0.48, "history"), (1.18, 0.65, 0.27, "visits"),
    (1.15, 0.60, 0.74, "I12"), (2.00, 1.02, 0.06, "recent"),
)  # fmt: skip
MISSING = {
    "ad": 0.039, "profile": 0.414, "household": 0.137, "brand": 0.817, "referrer": 0.30,
    "history": 0.445, "recent": 0.194, "visits": 0.047, "I3": 0.191, "I5": 0.048, "I6": 0.252, "I12": 0.772,
}  # fmt: skip

# The planted model: a sum of terms, each with the standard deviation that it gives the log-odds over the inputs: the
# effect of a column, of a dense feature (linear), or of a pair of columns (the dot product of two vectors, RANK wide).
# Most of it sits on columns of few values, which one pass over the default number of inputs can learn.
PLANTED: dict[tuple[str, ...], float] = {
    ("segment",): 0.56, ("category",): 0.56, ("position",): 0.45, ("interest",): 0.33, ("device",): 0.34,
    ("format",): 0.28, ("hour",): 0.16, ("advertiser",): 0.16, ("site",): 0.09, ("region",): 0.06, ("campaign",): 0.05,
    ("I1",): 0.44, ("I2",): -0.28, ("I6",): 0.38, ("I9",): 0.22, ("I11",): 0.28,
    ("segment", "category"): 0.52,
}  # fmt: skip
RANK = 2
CALIBRATION_ROWS = 100_000  # inputs on which the terms are scaled, and the base rate is met

Drawn = dict[str, np.ndarray]


def popularity(values: int, exponent: float, shift: float) -> np.ndarray:
    """[values] cumulative shares of the Zipf-Mandelbrot law, weight (rank + shift)^-exponent."""
    weights = (np.arange(1, values + 1) + shift) ** -exponent
    return np.cumsum(weights) / weights.sum()


def draw(random: np.random.Generator, cumulative: np.ndarray, count: int) -> np.ndarray:
    """[count] int64 draws from a law given by its cumulative shares."""
    return np.minimum(np.searchsorted(cumulative, random.random(count), side="right"), len(cumulative) - 1)


class World:
    """What does not change from input to input: the hierarchy of the columns, and the planted model."""

    def __init__(self, random: np.random.Generator) -> None:
        self.latent = {name: popularity(values, 1.42, 22.0) for name, values in LATENT.items()}
        self.free = {c.name: popularity(c.values, 1.1, 1.0) for c in COLUMNS if not c.parent}
        sizes = LATENT | {c.name: c.values for c in COLUMNS}
        self.maps = {c.name: _descend(random, sizes[c.parent], c.values) for c in COLUMNS if c.parent}
        # ids carry no trace of popularity; 0 is the reserved row, and the last row stands for a missing value
        self.ids = {c.name: 1 + random.permutation(c.values) for c in COLUMNS}
        self.vectors = {
            term: [random.standard_normal((sizes[name], RANK if len(term) > 1 else 1)) for name in term]
            for term in PLANTED
            if term[0] in sizes
        }
        # how much of each dense feature comes from the user and from the ad
        self.dense_latent = [
            (random.standard_normal(LATENT["user"]), random.standard_normal(LATENT["ad"])) for _ in DENSE
        ]


def _descend(random: np.random.Generator, parents: int, values: int) -> np.ndarray:
    """[parents] int64: the value that each parent belongs to: one to one where the sizes agree, else skewed."""
    if parents == values:
        return random.permutation(values)
    covering = random.permutation(values)[: min(values, parents)]  # every value has a parent
    others = draw(random, popularity(values, 0.8, 2.0), parents - len(covering))
    return random.permutation(np.concatenate([covering, others]))


@dataclass
class Inputs:
    """Generated inputs, without their labels."""

    dense: np.ndarray  # [n, 13] float32, log(1 + x), 0 where x is missing or zero
    ids: np.ndarray  # [n, 26] int32
    values: Drawn  # of each latent and column, [n] int64
    missing: Drawn  # of each block, [n] bool


def generate(world: World, random: np.random.Generator, count: int) -> Inputs:
    """`count` new inputs."""
    values: Drawn = {name: draw(random, law, count) for name, law in world.latent.items()}
    missing = {name: random.random(count) < rate for name, rate in MISSING.items()}
    ids = np.empty((count, len(COLUMNS)), dtype=np.int32)
    for at, column in enumerate(COLUMNS):
        if column.parent:
            values[column.name] = world.maps[column.name][values[column.parent]]
        else:
            values[column.name] = draw(random, world.free[column.name], count)
        ids[:, at] = world.ids[column.name][values[column.name]]
        if column.missing:
            ids[missing[column.missing], at] = column.values + 1
    return Inputs(_dense(world, random, values, missing), ids, values, missing)


def _dense(world: World, random: np.random.Generator, values: Drawn, missing: Drawn) -> np.ndarray:
    count = len(values["user"])
    dense = np.empty((count, len(DENSE)), dtype=np.float32)
    for at, (mean, deviation, zeros, block) in enumerate(DENSE_SHAPE):
        of_user, of_ad = (law[values[name]] for law, name in zip(world.dense_latent[at], LATENT, strict=True))
        normal = 0.7 * random.standard_normal(count) + 0.6 * of_user + 0.39 * of_ad
        whole = np.floor(np.expm1(np.maximum(mean + deviation * normal, 0.0)))  # a count, as Criteo's
        absent = random.random(count) < zeros
        if block:
            absent |= missing[block]
        dense[:, at] = np.where(absent, 0.0, np.log1p(whole))
    return dense


class Planted:
    """The planted model: the true log-odds of an input, from what its stored features show and nothing else."""

    def __init__(self, world: World, random: np.random.Generator) -> None:
        self.vectors = world.vectors
        self.moments = dict.fromkeys(PLANTED, (0.0, 1.0))
        sample = generate(world, random, CALIBRATION_ROWS)
        for term in world.vectors:
            for vectors, name in zip(self.vectors[term], term, strict=True):  # leaves a pair no first-order effect
                vectors -= vectors[sample.values[name]].mean(axis=0)
        terms = {term: self._term(term, sample) for term in PLANTED}
        self.moments = {term: (float(x.mean()), float(x.std())) for term, x in terms.items()}
        self.intercept = 0.0
        self.intercept = intercept(self.log_odds(sample), BASE_RATE)

    def log_odds(self, inputs: Inputs) -> np.ndarray:
        """[n] float64."""
        total = np.full(len(inputs.ids), self.intercept)
        for term, wanted in PLANTED.items():
            mean, deviation = self.moments[term]
            total += wanted / deviation * (self._term(term, inputs) - mean)
        return total

    def _term(self, term: tuple[str, ...], inputs: Inputs) -> np.ndarray:
        """[n]: one term before it is scaled; 0 where a column of it is missing."""
        if term not in self.vectors:
            return inputs.dense[:, DENSE.index(term[0])].astype(np.float64)
        product = np.ones((len(inputs.ids), 1))
        for vectors, name in zip(self.vectors[term], term, strict=True):
            product = product * vectors[inputs.values[name]]
            if BLOCKS[name]:
                product[inputs.missing[BLOCKS[name]]] = 0.0
        return product.sum(axis=1)


def schema() -> Schema:
    """13 dense features and 26 tables; one row more for a missing value where a column can be missing."""
    tables = (Table(name=c.name, rows=1 + c.values + bool(c.missing)) for c in COLUMNS)
    return Schema(dense=DENSE, tables=tuple(tables))


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Generates the three splits, block by block; ids that training does not have become the reserved one."""
    writer.schema = schema()
    world = World(np.random.default_rng([options["seed"], 0]))
    planted = Planted(world, np.random.default_rng([options["seed"], 1]))
    seen = np.zeros(writer.schema.num_rows, dtype=bool)
    offsets = writer.schema.lookup_offsets
    counts = dict(zip(SPLITS, (options["rows"], options["validation_rows"], options["test_rows"]), strict=True))
    unseen, truth = 0, []
    for stream, (split, count) in enumerate(counts.items(), start=2):
        random = np.random.default_rng([options["seed"], stream])
        for first in range(0, count, BLOCK):
            inputs = generate(world, random, min(BLOCK, count - first))
            ids, chances = inputs.ids, sigmoid(planted.log_odds(inputs))
            labels = (random.random(len(ids)) < chances).astype(np.int32)
            if split == "train":
                seen[ids + offsets] = True
            else:
                new = ~seen[ids + offsets]
                unseen += int(new.sum())
                ids[new] = RESERVED_ID
            if split == "test":
                truth.append((labels, chances))
            writer.append(split, inputs.dense, ids, labels)
            report(f"synthetic: {split} {min(first + BLOCK, count):,} of {count:,} inputs")
    writer.facts |= best(*(np.concatenate(parts) for parts in zip(*truth, strict=True)))
    writer.facts["lookups_unseen_in_training"] = unseen
