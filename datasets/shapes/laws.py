"""Popularity laws: how often each value of a column occurs, and how uniform numbers become values that often."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

CELL_BITS = 18
CELLS = 1 << CELL_BITS  # equal parts of the unit interval: a uniform number is kept as the part that it lies in
BELOW_HEAD = 0.95  # of the last head's share: the most that a value after the heads gets
STEPS, SLOPE_STEPS = 45, 20  # of a bisection


def bisect(low: float, high: float, above: Callable[[float], bool], steps: int = STEPS) -> float:
    """Where `above` turns true between low and high; it must not turn back."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return (low + high) / 2


def popularity(values: int, heads: tuple[float, ...], slope: float, least: float = 0.0) -> np.ndarray:
    """[values] float64 shares, adding up to 1: the heads, then a Zipf-Mandelbrot law (r + shift) ** -slope.

    The law is shifted so far that none of its values is as frequent as a head, and raised so that none falls below
    `least`. ValueError where the heads leave too little for that.
    """
    top = np.array(heads[:values], dtype=np.float64)
    others = values - len(top)
    if not others:
        return top / top.sum()
    free = 1.0 - top.sum() - least * others
    if free < 0:
        raise ValueError(f"{values} values, each at least {least:g}, do not fit beside heads of {top.sum():g}")
    ranks = np.arange(1, others + 1, dtype=np.float64)

    def law(shift: float) -> np.ndarray:
        weights = (ranks + shift) ** -slope
        shares: np.ndarray = least + free * weights / weights.sum()
        return shares

    shift = 0.0
    if len(top) and law(shift)[0] > BELOW_HEAD * top[-1]:
        shift = bisect(0.0, 100.0 * values, lambda at: bool(law(at)[0] <= BELOW_HEAD * top[-1]))
    return np.concatenate([top, law(shift)])


def slope_of(values: int, heads: tuple[float, ...], top10: float) -> float:
    """The slope with which the ten most frequent values have the given share together."""
    return bisect(0.1, 4.0, lambda slope: bool(popularity(values, heads, slope)[:10].sum() >= top10), SLOPE_STEPS)


def quantiles(shares: np.ndarray, cells: int = CELLS) -> np.ndarray:
    """[cells] int32: the value of each part of the unit interval, in order; every value has one part or more."""
    index = np.arange(len(shares))
    ends = np.floor(cells * np.cumsum(shares) / shares.sum()).astype(np.int64)
    ends[-1] = cells
    ends = np.maximum.accumulate(np.maximum(ends, 1) - index) + index  # one part more than the value before
    ends = np.minimum(ends, cells - index[::-1])  # and one left for each of those after
    return np.repeat(index.astype(np.int32), np.diff(ends, prepend=0))


class Decline:
    """Expected counts that fall from `high` to `low` as a power of the rank, with a given mean over the values.

    With r from 1 to q, the count at r is high · r ** -g, where q ** g = high / low; the mean fixes g. It has to lie
    between low and the mean of an exponential decline, (high - low) / ln(high / low); ValueError where it does not.
    """

    def __init__(self, low: float, high: float, mean: float) -> None:
        log_ratio = math.log(high / low)
        if not low < mean < (high - low) / log_ratio:
            raise ValueError(f"counts from {high:.1f} to {low:.1f} cannot have the mean {mean:.1f}")

        def of(power: float) -> float:
            end = math.exp(log_ratio / power)
            return high * math.expm1((1 - power) * math.log(end)) / ((1 - power) * (end - 1))

        power = bisect(log_ratio / 100, 200.0, lambda at: of(at) >= mean)
        self._end = math.exp(log_ratio / power)
        self._exponent = 1 - power
        self._growth = math.expm1(self._exponent * math.log(self._end))

    def rank(self, uniform: np.ndarray) -> np.ndarray:
        """[n] float64 in [0, 1): the relative rank of the value that each uniform number falls on."""
        at = (1.0 + uniform * self._growth) ** (1.0 / self._exponent)
        return np.minimum((at - 1.0) / (self._end - 1.0), np.nextafter(1.0, 0.0))


class Scatter:
    """A bijection of 0 … values-1 onto 1 … values that leaves no trace of the order: multiplication modulo values."""

    def __init__(self, values: int, random: np.random.Generator) -> None:
        self._values = values
        factor = int(values * (0.3 + 0.4 * random.random())) | 1
        while math.gcd(factor, values) > 1:
            factor += 2
        self._factor, self._start = factor, int(random.integers(values))

    def __call__(self, value: np.ndarray) -> np.ndarray:
        """[n] int32 ids of [n] int64 values."""
        product = value * self._factor + self._start
        product -= product // self._values * self._values  # NumPy divides by a constant far faster than it takes a %
        return (product + 1).astype(np.int32)
