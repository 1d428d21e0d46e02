"""The targets: what has to be reached, what is wanted, and how a round's samples become the measured value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.speed.contenders import Sample
from bench.stats import Estimate, mean_interval

Round = Mapping[str, Sample]  # contender → what it took in one round
Measure = Callable[[Round], float]


@dataclass(frozen=True)
class Limit:
    """What a value has to reach: one line of the table."""

    name: str
    needed: float  # at least, or with `most` at most
    wanted: float
    unit: str = "×"
    most: bool = False  # whether the value has to be at most, not at least

    def verdict(self, value: float) -> str:
        """`reached as wanted`, `reached` or `missed`."""
        for word, limit in (("reached as wanted", self.wanted), ("reached", self.needed)):
            if value <= limit if self.most else value >= limit:
                return word
        return "missed"


@dataclass(frozen=True)
class Target:
    """A limit for what is read off the rounds of a group."""

    limit: Limit
    measure: Measure
    needs: tuple[str, ...]  # contenders
    proportional: bool = True  # ratios and rates are averaged as logarithms

    def estimate(self, rounds: Sequence[Round]) -> Estimate | None:
        """The mean over the rounds that have all it needs and something to measure, with its interval."""
        every = [self.measure(taken) for taken in rounds if all(name in taken for name in self.needs)]
        found = [value for value in every if not math.isnan(value)]
        if not self.proportional or any(value <= 0 for value in found):
            return mean_interval(found)
        logs = mean_interval([math.log(value) for value in found])
        if logs is None:
            return None
        ends = [None if end is None else math.exp(end) for end in (logs.low, logs.high)]
        return Estimate(math.exp(logs.value), ends[0], ends[1], logs.n)


def faster(name: str, than: str, at_least: float, wanted: float, label: str) -> Target:
    """Inputs a second over another's."""

    def measure(taken: Round) -> float:
        return taken[name].per_s / taken[than].per_s

    return Target(Limit(label, at_least, wanted), measure, (name, than))


def trained_faster(name: str, than: str, at_least: float, wanted: float) -> Target:
    """Trained inputs a second over another's."""

    def measure(taken: Round) -> float:
        ours, theirs = taken[name], taken[than]
        return (ours.trained / ours.train_s) / (theirs.trained / theirs.train_s)

    return Target(Limit(f"{name} / {than}, per trained input", at_least, wanted), measure, (name, than))


def share_of_peak(name: str, peak: str, at_least: float, wanted: float) -> Target:
    """FLOP/s of the dense part over the machine's matrix-product rate."""

    def measure(taken: Round) -> float:
        sample = taken[name]
        assert sample.dense_flops is not None and sample.dense_s is not None
        return sample.dense_flops / sample.dense_s / taken[peak].per_s

    return Target(Limit(f"dense FLOP/s of {name} / {peak}", at_least, wanted, unit=""), measure, (name, peak))


def time_saved(skipping: str, none: str, at_least: float, wanted: float) -> Target:
    """Time saved by skipping, over what the skipped inputs would have cost at the average of those trained.

    A round in which nothing was skipped says nothing.
    """

    def measure(taken: Round) -> float:
        kept, everything = taken[skipping], taken[none]
        would_cost = kept.skipped * everything.train_s / everything.trained
        return (everything.train_s - kept.train_s) / would_cost if would_cost else math.nan

    label = f"time that {skipping} saves, of what the skipped would cost"
    return Target(Limit(label, at_least, wanted, unit=""), measure, (skipping, none), proportional=False)


def waiting(name: str, at_most: float, wanted: float) -> Target:
    """Share of the training time spent waiting for data."""

    def measure(taken: Round) -> float:
        return (taken[name].data_wait_s or 0.0) / taken[name].train_s

    label = f"waiting for data, of {name}'s time"
    return Target(Limit(label, at_most, wanted, unit="", most=True), measure, (name,), proportional=False)


def millions_per_s(name: str, at_least: float, wanted: float, label: str) -> Target:
    """Inputs a second, in millions."""
    return Target(Limit(label, at_least, wanted, unit=" M/s"), lambda taken: taken[name].per_s / 1e6, (name,))
