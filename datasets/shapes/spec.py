"""What is published of a data set's shape: its columns, how popular their values are, how many inputs are hot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

MB = 1_000_000  # bytes
FLOAT_BYTES = 4
THRESHOLDS = (1e-5, 1e-6, 1e-7, 1e-8)  # FAE's access thresholds: 1e-3 % … 1e-6 % of the accesses into a table
ALWAYS_HOT_BYTES = MB  # FAE: a smaller table is hot as a whole


@dataclass(frozen=True, kw_only=True)
class Column:
    """A categorical column. Shares are those of the inputs in which it is not missing."""

    name: str
    values: int  # published number of distinct values, a missing one counted as a value where there is one
    heads: tuple[float, ...] = ()  # shares of the most frequent values
    top10: float | None = None  # share of the ten most frequent values together; fixes the slope
    slope: float = 1.0
    follows: str = ""  # the latent number that its value is a function of; "": drawn for each input by itself
    shift: float = 0.0  # by how much of the unit interval the latent number is rotated first
    block: str = ""  # the block of features that it is missing with
    missing: float = 0.0  # a large table's missing value, as one of the values of its first level: share of all inputs
    levels: tuple[int, ...] = ()  # of a large table: its number of values in each level
    served: tuple[float, ...] = ()  # and the share of each level's inputs that look one of them up, where it is known


@dataclass(frozen=True, kw_only=True)
class Dense:
    """An integer feature: log1p of the value is normal where it is not zero."""

    name: str
    mean: float
    deviation: float
    zeros: float  # share of zeros, of the inputs in which it is not missing
    block: str = ""
    follows: str = ""  # of one half of the inputs; the other half draws by itself
    shift: float = 0.0
    negative: float = 0.0  # of the zeros in the store: -1 in the raw text


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A published data set. A *level* is what FAE's access thresholds cut the rows, and with them the inputs, into."""

    name: str
    inputs: int  # training inputs at full size
    width: int  # of a row, in the papers' model
    hot_mb: tuple[float, ...]  # FAE, figure 5: size of the hot rows at each threshold
    hot_inputs: tuple[float, ...]  # and the share of inputs that look up hot rows only
    columns: tuple[Column, ...]
    dense: tuple[Dense, ...]
    missing: Mapping[str, float]  # share of the inputs that a block of features is missing in
    base_rate: float  # of positive labels
    best_auc: float
    planted: Mapping[tuple[str, ...], float]  # the terms of the log-odds, see `labels.py`
    hours: int = 0  # that the log lasts; the hour of the day is then the first dense feature
    negatives_kept: float = 1.0  # share of the raw negative inputs that the papers' preparation keeps

    @cached_property
    def dense_names(self) -> tuple[str, ...]:
        """The dense features in order."""
        return (*(("hour",) if self.hours else ()), *(dense.name for dense in self.dense))

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """Share of the inputs in each level: those that are hot at its threshold and were not at the one before."""
        return tuple(now - before for now, before in zip(self.hot_inputs, (0.0, *self.hot_inputs), strict=False))

    @cached_property
    def least_counts(self) -> tuple[int, ...]:
        """Accesses that make a row hot, at each threshold."""
        return tuple(math.ceil(round(threshold * self.inputs, 6)) for threshold in THRESHOLDS)

    @cached_property
    def always_hot(self) -> tuple[str, ...]:
        """The columns whose tables are hot as a whole."""
        return tuple(c.name for c in self.columns if c.values * self.width * FLOAT_BYTES < ALWAYS_HOT_BYTES)
