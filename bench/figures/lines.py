"""Estimates as lines over a number that was varied: what the figures of a study and of the decisions share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.figures.bars import Scale, fit
from bench.figures.common import BLUE, GREEN, GREY, RED, plain
from bench.stats import Estimate
from bench.table import estimate_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = Sequence[tuple[float, Estimate]]  # values of what was varied, with their estimates
STYLES: dict[str, dict[str, Any]] = {  # policy → its colour, and the marker and dashes that do without colour
    "stale": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "random": {"color": "black", "marker": "s", "linestyle": "--", "markerfacecolor": "white"},
    "importance": {"color": GREEN, "marker": "D", "linestyle": "-."},
    "loss": {"color": RED, "marker": "v", "linestyle": ":"},
    "none": {"color": GREY, "marker": "X", "linestyle": (0, (1, 3))},
}
APART = 0.018  # of the axis: markers at the same place stand side by side


def lines(rows: pd.DataFrame, over: str, name: str) -> dict[str, Line]:
    """The estimates `name` of each policy over a column, in its order; those without a value are left out."""
    found = {}
    for policy, group in rows.sort_values(over).groupby("policy", sort=False):
        pairs = [(float(row[over]), estimate_of(row, name)) for _, row in group.iterrows()]
        if line := [(at, estimate) for at, estimate in pairs if estimate]:
            found[str(policy)] = line
    return {policy: found[policy] for policy in STYLES if policy in found}


def scale_of(panels: Sequence[Mapping[str, Line]]) -> Scale:
    """An axis for the bulk of all the panels' estimates, around 0."""
    return fit([estimate for panel in panels for line in panel.values() for _, estimate in line], 0.0)


def draw(axes: Axes, panel: Mapping[str, Line], scale: Scale, step: float, log: bool = False) -> None:
    """Lines with their intervals, and 0; what lies beyond the axis is an arrow with its number.

    `step` is how far markers at one place are moved apart: a difference, or a ratio on a logarithmic axis.
    """
    axes.axhline(0, color="black", linewidth=0.8, zorder=0)
    axes.set_ylim(scale.low, scale.high)
    for index, (policy, line) in enumerate(panel.items()):
        shift = index - (len(panel) - 1) / 2
        places = [at * step**shift if log else at + step * shift for at, _ in line]
        values = [e.value if scale.low <= e.value <= scale.high else float("nan") for _, e in line]
        halves = [(estimate.half_width or 0.0) for _, estimate in line]
        axes.errorbar(
            places, values, yerr=halves, label=policy, capsize=3, elinewidth=0.8, linewidth=1.4, markersize=6, zorder=3,
            **STYLES[policy],
        )  # fmt: skip
        for place, (_, estimate) in zip(places, line, strict=True):
            if scale.clip(estimate.value) != estimate.value:
                _beyond(axes, place, estimate.value, scale, policy)
    plain(axes)
    axes.grid(alpha=0.25)


def _beyond(axes: Axes, place: float, value: float, scale: Scale, policy: str) -> None:
    below = value < scale.low
    colour = STYLES[policy]["color"]
    end = scale.low if below else scale.high
    axes.plot([place], [end], "v" if below else "^", color=colour, markersize=8, clip_on=False, zorder=4)
    axes.annotate(
        f"{policy} {value:+.3f}".replace("-", "−"), (place, end), (0, 9 if below else -9), textcoords="offset points",
        ha="center", va="bottom" if below else "top", fontsize=7, rotation=90, color=colour,
    )  # fmt: skip
