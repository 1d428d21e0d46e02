"""Statistics of a comparison, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    half = _half_width([_variance(values) / n], [n - 1], confidence)
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
    ratios = geometric_mean([[first / second for first, second in pairs]], confidence)
    return None if ratios is None else replace(ratios, n=len(pairs))


def geometric_mean(groups: Sequence[Sequence[float]], confidence: float = 0.95) -> Estimate | None:
    """The geometric mean over groups of positive ratios, such as one group a data set, each group weighing alike.

    On logarithms it is the mean of the groups' means, with the variance Σ sᵢ² / nᵢ / k² of k independent means, and
    degrees of freedom by Satterthwaite (1946), An approximate distribution of estimates of variance components,
    Biometrics Bulletin 2(6). So the interval is about these groups: it holds what repeating the runs would change, and
    nothing about other data sets. Fleming and Wallace (1986), cited above, for the geometric mean over benchmarks.

    `n` is the number of groups. None without groups or for an empty one; no interval where a group has fewer than
    MIN_PAIRS ratios.
    """
    if not groups or not all(groups):
        return None
    logs = [[math.log(ratio) for ratio in group] for group in groups]
    means = [math.fsum(group) / len(group) for group in logs]
    value, k = math.fsum(means) / len(means), len(groups)
    if min(map(len, groups)) < MIN_PAIRS:
        return Estimate(math.exp(value), None, None, k)
    variances = [_variance(group) / len(group) / k**2 for group in logs]
    half = _half_width(variances, [len(group) - 1 for group in groups], confidence)
    return Estimate(math.exp(value), math.exp(value - half), math.exp(value + half), k)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _half_width(variances: Sequence[float], freedoms: Sequence[int], confidence: float) -> float:
    """Half the interval of a sum of independent means with these variances and degrees of freedom."""
    from scipy.stats import t  # half a second to import, so only where it is needed

    variance = math.fsum(variances)
    if not variance:
        return 0.0
    shares = [part / variance for part in variances]
    freedom = 1 / math.fsum(share**2 / df for share, df in zip(shares, freedoms, strict=True))
    return float(t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(variance)


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
