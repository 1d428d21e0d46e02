"""Estimates as bars from a neutral value: speed-ups, and the accuracy of skip policies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.figures.common import (
    ORANGE,
    SKY,
    Source,
    by_label,
    caption,
    counts,
    height,
    of_dataset,
    plain,
    rows,
    unfinished,
    without_runs,
)
from bench.stats import Estimate
from bench.summary import difference, policy, speedup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAR = 6.0  # times the median distance from the neutral value: the axis ends before a bar that is as long
WHISKER = 3.0  # times the longest bar: the axis ends before a whisker that is as long
LEAST = 1e-3  # the axis never shows less: differences of nothing but rounding are drawn as none
TICKS = (2, 10, 4, 100, 1.5, 1.25, 1.1, 1.05, 1.02, 1.01)  # with their reciprocals, the most telling first
APART = 0.055  # of the axis: ticks that are closer would print over one another
NAMES = {  # policy, as `bench.summary.policy` names it → as a person does
    "stale": "stale",
    "stale stale=touched-only": "stale, touched rows only",
    "stale skip.what=updates": "stale, updates thrown away",
    "stale skip.what=updates stale=touched-only": "stale, touched rows only, updates thrown away",
    "random": "random",
    "importance": "importance",
    "loss": "lowest loss",
    "none": "none",
}
FASTER: dict[str, Any] = {"color": SKY, "hatch": ""}
SLOWER: dict[str, Any] = {"color": ORANGE, "hatch": "\\\\\\"}
UNDECIDED: dict[str, Any] = {"color": "#CCCCCC", "hatch": "..."}


@dataclass(frozen=True)
class Bar:
    """A row of a panel; no estimate for the row that the others are compared with."""

    name: str
    estimate: Estimate | None
    text: str


@dataclass(frozen=True)
class Scale:
    """An axis around its neutral value, linear or logarithmic, and how far it reaches."""

    neutral: float
    low: float
    high: float

    def clip(self, value: float) -> float:
        """The value, or the end of the axis it lies beyond."""
        return min(max(value, self.low), self.high)


def fit(
    estimates: Sequence[Estimate],
    neutral: float,
    forward: Callable[[float], float] = float,
    back: Callable[[float], float] = float,
) -> Scale:
    """The axis for the bulk of the estimates: a bar or a whisker much longer than the others runs off it.

    `forward` and `back` go from values to places on the axis and from there to values.
    """
    zero = forward(neutral)
    reaches = [abs(forward(e.value) - zero) for e in estimates]
    typical = statistics.median(reaches or [0.0])
    reach = max((r for r in reaches if not typical or r <= FAR * typical), default=0.0)
    ends = [0.0]
    for estimate, far in zip(estimates, reaches, strict=True):
        own = (estimate.value, estimate.low, estimate.high) if far <= reach else (estimate.value,)
        ends += [forward(end) - zero for end in own if end is not None]
    limit = max(WHISKER * reach or max(filter(math.isfinite, map(abs, ends))), LEAST)
    low, high = max(min(ends), -limit), min(max(ends), limit)
    size = max(high - low, limit / WHISKER)
    return Scale(neutral, back(zero + low - 0.08 * size), back(zero + high + 0.08 * size))


def draw(axes: Axes, bars: Sequence[Bar], scale: Scale) -> None:
    """Horizontal bars from the neutral value, each with its interval and its text, the first on top."""
    axes.set_xlim(scale.low, scale.high)
    for place, bar in enumerate(bars):
        axes.text(1.02, place, bar.text, transform=axes.get_yaxis_transform(), va="center", fontsize=9)
        if bar.estimate is not None:
            _bar(axes, place, bar.estimate, bar.text, scale)
    rows(axes, [bar.name for bar in bars])
    axes.axvline(scale.neutral, color="black", linewidth=1)
    plain(axes)


def _bar(axes: Axes, place: int, estimate: Estimate, text: str, scale: Scale) -> None:
    end = scale.clip(estimate.value)
    decided = estimate.holds(scale.neutral) is False
    style = UNDECIDED if not decided else FASTER if estimate.value > scale.neutral else SLOWER
    axes.barh(
        place, end - scale.neutral, left=scale.neutral, height=0.7, edgecolor="black", linewidth=0.6, **style
    )  # fmt: skip
    if end != estimate.value:  # an outlier: its bar ends in an arrow, with the value inside
        left = end < scale.neutral
        _arrow(axes, end, place, left, size=9)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.9}
        axes.annotate(
            f"off the axis: {text.split(' ')[0]}", (end, place), (14 if left else -14, 0), va="center", fontsize=8,
            textcoords="offset points", ha="left" if left else "right", bbox=box, zorder=4,
        )  # fmt: skip
        return
    if estimate.low is None or estimate.high is None:
        return
    low, high = scale.clip(estimate.low), scale.clip(estimate.high)
    axes.plot([low, high], [place, place], color="black", linewidth=1)
    for at, whole in ((low, estimate.low), (high, estimate.high)):
        if at == whole:
            axes.plot([at], [place], "|", color="black", markersize=6)
        else:
            _arrow(axes, at, place, at == scale.low, size=5)


def _arrow(axes: Axes, x: float, y: float, left: bool, size: int) -> None:
    axes.plot([x], [y], "<" if left else ">", color="black", markersize=size, clip_on=False, zorder=5)


def _figure(title: str, panels: Sequence[int]) -> tuple[Figure, list[Axes]]:
    """Panels under one another that share the axis, each as high as its number of rows."""
    import matplotlib.pyplot as plt

    heights = [height(num) for num in panels]
    figure, grid = plt.subplots(
        len(panels), squeeze=False, sharex=True, figsize=(9, sum(heights)), gridspec_kw={"height_ratios": heights}
    )
    grid[0, 0].set_title(title, pad=26 if len(panels) > 1 else 8)
    return figure, list(grid[:, 0])


def speedups(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """Speed-up of each system over the baseline."""
    base = cells[cells["label"] == source.baseline]
    found = [(label, speedup(runs, base)) for label, runs in by_label(cells) if label != source.baseline]
    bars = [Bar(label, estimate, ratio_text(estimate)) for label, estimate in found if estimate]
    estimates = [estimate for _, estimate in found if estimate]
    if not bars:
        return None
    bars += [Bar(label, None, said) for label, said in without_runs(of_dataset(source.cells, dataset)).items()]
    figure, (axes,) = _figure(f"Speed-up over {source.baseline} on {dataset}", [len(bars)])
    scale = fit(estimates, 1.0, log, math.exp)
    draw(axes, bars, scale)
    ratio_axis(axes, scale)
    axes.set_xlabel(f"training time of {source.baseline} / training time of the system (logarithmic)")
    text = (
        f"Further right is faster; the baseline is {source.baseline} (1 = as fast). Geometric means of paired runs "
        f"with their 95 % intervals; {counts([e.n for e in estimates], 'pairs')} a system. Grey and dotted: no "
        "difference shown: the interval holds 1, or too few pairs leave none. An arrowhead: goes on beyond the axis."
    )
    return caption(figure, text)


def ratio_axis(axes: Axes, scale: Scale) -> None:
    """Make the axis logarithmic, with telling ratios and their reciprocals as ticks."""
    axes.set_xscale("log")
    axes.set_xlim(scale.low, scale.high)
    ticks = _ticks(scale)
    axes.set_xticks(ticks, [f"{tick:.3g}" if tick > 1 else f"{tick:.2g}" for tick in ticks])
    axes.set_xticks([], minor=True)


def _ticks(scale: Scale) -> list[float]:
    """Numbers and their reciprocals within a logarithmic axis, as many as print clearly."""
    size = math.log(scale.high / scale.low)
    chosen = [1.0]
    for tick in TICKS:
        if all(abs(math.log(tick / other)) >= APART * size for other in chosen):
            chosen.append(tick)
    both = {*chosen, *(1 / tick for tick in chosen)}
    return sorted(tick for tick in both if scale.low <= tick <= scale.high)


def log(value: float) -> float:
    """The logarithm, of 0 too."""
    return math.log(value) if value > 0 else -math.inf


def ratio_text(estimate: Estimate) -> str:
    """A ratio with its interval."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f} (no interval)"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.{2 if estimate.high < 100 else 0}f}]"


def _gain(estimate: Estimate) -> str:
    half = estimate.half_width
    return f"{estimate.value:+.4f}".replace("-", "−") + (" (too few seeds)" if half is None else f" ± {half:.4f}")


def against_random(cells: pd.DataFrame) -> dict[str, list[Bar]]:
    """A panel for each layout that has runs of skip=random, with a bar for each policy."""
    slipstream = cells[cells["system"] == "slipstream"]
    of = {label: policy(runs["settings"].iloc[0]) for label, runs in by_label(slipstream)}
    references = {(layout, rest): label for label, (layout, name, rest) in reversed(of.items()) if name == "random"}
    panels: dict[str, list[Bar]] = {}
    for label, (layout, name, rest) in of.items():
        if (reference := references.get((layout, rest))) is None:
            continue
        runs, others = (slipstream[slipstream["label"] == one] for one in (label, reference))
        others_set = " ".join(word for word in rest.split() if not word.startswith("slipstream.layout="))
        panel = panels.setdefault(f"layout {layout} {others_set}".strip(), [])
        if label == reference:
            panel.append(Bar("random", None, "the reference"))
        elif estimate := difference(runs, others, "auc_last"):
            panel.append(Bar(NAMES.get(name, name), estimate, _gain(estimate)))
    return {name: bars for name, bars in panels.items() if any(bar.estimate for bar in bars)}


def skip_policies(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """AUC of each Slipstream policy minus that of random dropping on the same layout."""
    panels = against_random(cells)
    estimates = [bar.estimate for bars in panels.values() for bar in bars if bar.estimate]
    if not estimates:
        return None
    figure, grid = _figure(
        f"Slipstream's skip policies against random dropping on {dataset}", list(map(len, panels.values()))
    )
    scale = fit(estimates, 0.0)
    for axes, (name, bars) in zip(grid, panels.items(), strict=True):
        draw(axes, bars, scale)
        axes.annotate(name, (0, 1), (0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=10)
    grid[-1].set_xlabel("AUC minus AUC of skip=random")
    text = (
        "Further right is more accurate; the reference is skip=random on the same layout, 'none' drops nothing. Mean "
        f"of the differences ± half the 95 % interval, paired over seeds; {counts([e.n for e in estimates], 'seeds')} "
        "a policy. Grey and dotted: no difference shown, the interval holds 0 or too few seeds leave none. Arrowhead: "
        "goes on beyond the axis."
    )
    return caption(figure, text + unfinished(source, dataset))
