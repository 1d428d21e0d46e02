"""Statistics of a comparison, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MIN_PAIRS = 3  # two leave an interval of six times their spread to either side, which says nothing


@dataclass(frozen=True)
class Estimate:
    """A value, its interval (None for fewer than MIN_PAIRS pairs), and the number of pairs behind it."""

    value: float
    low: float | None
    high: float | None
    n: int

    def holds(self, value: float) -> bool | None:
        """Whether the interval holds a value; None where there is no interval."""
        return None if self.low is None or self.high is None else self.low <= value <= self.high

    @property
    def half_width(self) -> float | None:
        """Half the interval's width."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Estimate | None:
    """The mean with its interval by Student's t: mean ± t · s / √n.

    Student (1908), The probable error of a mean, Biometrika 6(1). None for no values.
    """
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n < MIN_PAIRS:
        return Estimate(mean, None, None, n)
    from scipy.stats import t  # half a second to import, so only where it is needed

    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(t.ppf((1 + confidence) / 2, n - 1)) * spread / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def paired_difference(pairs: Sequence[tuple[float, float]], confidence: float = 0.95) -> Estimate | None:
    """The mean of first − second over pairs, with its interval: the paired t-test turned around.

    Montgomery, Design and Analysis of Experiments, section 2.5 (the paired comparison design).
    """
    return mean_interval([first - second for first, second in pairs], confidence)


def paired_ratio(pairs: Sequence[tuple[float, float]], confidence: float = 0.95) -> Estimate | None:
    """The geometric mean of first / second over pairs of positive numbers, with its interval, taken on the logarithms.

    Ratios of times are skewed and their logarithms much less; Fleming and Wallace (1986), How not to lie with
    statistics, CACM 29(3), for the geometric mean; Kalibera and Jones (2013), Rigorous benchmarking in reasonable
    time, ISMM, for intervals of speed-ups.
    """
    logs = mean_interval([math.log(first) - math.log(second) for first, second in pairs], confidence)
    if logs is None or logs.low is None or logs.high is None:
        return None if logs is None else Estimate(math.exp(logs.value), None, None, logs.n)
    return Estimate(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high), logs.n)


NO_DIFFERENCE = "no significant difference"
NO_INTERVAL = "too few pairs"


def verdict(estimate: Estimate | None, neutral: float, above: str, below: str) -> str:
    """What the interval says: `above` or `below` the neutral value, or that it cannot tell."""
    if estimate is None:
        return ""
    holds = estimate.holds(neutral)
    if holds is None:
        return NO_INTERVAL
    return NO_DIFFERENCE if holds else above if estimate.value > neutral else below
