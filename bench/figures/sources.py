"""Speed-ups as measured here, as modelled on other hardware, and as published: side by side, never mixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.figures.bars import Scale, fit, log, ratio_axis, ratio_text
from bench.figures.common import (
    BLUE,
    GREEN,
    ORANGE,
    Source,
    by_label,
    caption,
    counts,
    height,
    of_dataset,
    plain,
    rows,
    say_in_rows,
    without_runs,
)
from bench.published import speedups as published
from bench.replay.profile import THIS_MACHINE
from bench.stats import Estimate, geometric_mean
from bench.summary import OVER_SETS, POLICY_KEYS, modelled_seconds, parse, speedup, speedups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES: dict[str, dict[str, Any]] = {
    "measured": {"color": BLUE, "marker": "o"},
    "modelled": {"color": ORANGE, "marker": "D"},
    "published": {"color": GREEN, "marker": "s", "markerfacecolor": "white"},
}
PLACES = {"measured": (-0.22, 1.02), "modelled": (0.0, 1.24), "published": (0.22, 1.38)}  # in a row; of the text
GEOMEAN = "geometric mean"


@dataclass(frozen=True)
class Row:
    """A system's speed-ups by source; `failed` says why it has none that was measured."""

    name: str
    found: dict[str, list[tuple[Estimate | None, str]]]  # source → values, or none of one, with what stands beside them
    failed: str = ""


def systems(cells: pd.DataFrame, baseline: str) -> dict[str, pd.DataFrame]:
    """The runs of the systems proper, without the baseline and Slipstream's controls."""
    return {
        label: runs
        for label, runs in by_label(cells)
        if label != baseline and not parse(str(runs["settings"].iloc[0])).keys() & set(POLICY_KEYS)
    }


def on_one(source: Source, dataset: str) -> list[Row]:
    """The rows of a data set."""
    cells = of_dataset(source.cells, dataset)
    base, failed = cells[cells["label"] == source.baseline], without_runs(cells)
    found = []
    for label, runs in systems(cells, source.baseline).items():
        measured, modelled = speedup(runs, base), modelled_speedups(source.replay, runs, base)
        found.append(_row(label, runs, base, dataset, measured, _of_hardware(source, modelled), failed.get(label, "")))
    return found


def over_all(source: Source, sets: list[str]) -> list[Row]:
    """The rows of the geometric mean over data sets; a system without a value on each of them has none."""
    base = source.cells[source.cells["label"] == source.baseline]
    found = []
    for label, runs in systems(source.cells, source.baseline).items():
        pairs = [(of_dataset(runs, name), of_dataset(base, name)) for name in sets]
        ratios = [speedups(*pair) for pair in pairs]
        modelled = _means([modelled_speedups(source.replay, *pair) for pair in pairs])
        missing = [name for name, each in zip(sets, ratios, strict=True) if not each]
        failed = f"no mean: no finished pair of runs on {', '.join(missing)}" if missing else ""
        found.append(_row(label, runs, base, OVER_SETS, geometric_mean(ratios), _of_hardware(source, modelled), failed))
    return found


def _means(models: Sequence[dict[str, Estimate]]) -> dict[str, Estimate]:
    """Of each hardware, the geometric mean over data sets; none where one has no value."""
    names = dict.fromkeys(name for model in models for name in model)
    means = {name: geometric_mean([[m[name].value] if name in m else [] for m in models]) for name in names}
    return {name: mean for name, mean in means.items() if mean}


def hardware_of(source: Source) -> list[str]:
    """What runs were replayed on, in the order in which it is drawn."""
    return sorted(source.replay["hardware"].astype(str).unique()) if len(source.replay) else []


def _of_hardware(source: Source, modelled: dict[str, Estimate]) -> list[tuple[Estimate | None, str]]:
    """The value on each hardware, with its text; that of one that a system was not replayed on is missing."""
    values = [modelled.get(name) for name in hardware_of(source)]
    return [(value, f"{value.value:.2f}" if value else "–") for value in values] if modelled else []


def _row(
    label: str,
    runs: pd.DataFrame,
    base: pd.DataFrame,
    dataset: str,
    measured: Estimate | None,
    modelled: list[tuple[Estimate | None, str]],
    failed: str,
) -> Row:
    system, plain_system = str(runs["system"].iloc[0]), not runs["settings"].iloc[0]
    papers = published(system, str(base["system"].iloc[0]), dataset) if plain_system and len(base) else []
    found: dict[str, list[tuple[Estimate | None, str]]] = {
        "measured": [(measured, ratio_text(measured))] if measured else [],
        "modelled": modelled,
        "published": [(Estimate(value, None, None, 1), f"{value:.2f} ({said})") for value, said in papers],
    }
    return Row(label, found, failed)


def modelled_speedups(replay: pd.DataFrame, runs: pd.DataFrame, base: pd.DataFrame) -> dict[str, Estimate]:
    """For each hardware the speed-up of the modelled times, paired as measured ones are, on the fewest devices."""
    found = {}
    for hardware, replayed in replay.groupby("hardware", sort=True) if len(replay) else ():
        one = replayed[replayed["devices"] == replayed["devices"].min()]
        seconds = modelled_seconds(one).set_axis(one["run_id"])
        mine, others = (
            some.assign(train_s=some["run_id"].map(seconds)).dropna(subset="train_s") for some in (runs, base)
        )
        if ratio := speedup(mine, others):
            found[str(hardware)] = Estimate(ratio.value, None, None, ratio.n)
    return found


def speedups_by_source(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """Speed-up of each system over the baseline as measured, modelled and published."""
    import matplotlib.pyplot as plt

    sets = [str(name) for name in dict.fromkeys(source.cells["dataset"])]
    panels = {name: on_one(source, name) for name in (sets if dataset == OVER_SETS else [dataset]) if name in sets}
    if dataset == OVER_SETS:
        panels[GEOMEAN] = over_all(source, sets)
    values = [e for found in panels.values() for row in found for kind in row.found.values() for e, _ in kind if e]
    if not any(row.found["measured"] for found in panels.values() for row in found):
        return None
    heights = [height(len(found)) for found in panels.values()]
    figure, grid = plt.subplots(
        len(panels), squeeze=False, sharex=True, figsize=(9, sum(heights)), gridspec_kw={"height_ratios": heights}
    )
    scale = fit(values, 1.0, log, math.exp)
    for axes, (name, found) in zip(grid[:, 0], panels.items(), strict=True):
        _panel(axes, found, scale)
        axes.set_title(f"{name}, over {source.baseline}", fontsize=10, loc="left")
    ratio_axis(grid[-1, 0], scale)
    grid[-1, 0].set_xlabel(f"time of {source.baseline} / time of the system (logarithmic)")
    handles, names = grid[0, 0].get_legend_handles_labels()
    grid[0, 0].legend(handles, names, ncols=3, loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    return caption(figure, _said(source, panels))


def _panel(axes: Axes, found: list[Row], scale: Scale) -> None:
    for kind, style in STYLES.items():
        down, right = PLACES[kind]
        axes.plot([], [], linestyle="none", label=kind, **style)
        axes.text(right, 1.0, kind, transform=axes.transAxes, fontsize=8, style="italic", va="bottom")
        for place, row in enumerate(found):
            for number, (estimate, _) in enumerate(row.found[kind]):
                hollow = {"markerfacecolor": "white"} if number else {}  # of the hardware's second
                if estimate:
                    _mark(axes, place + down, estimate, scale, style | hollow)
            text = ", ".join(said for _, said in row.found[kind])
            axes.text(right, place, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    say_in_rows(axes, {place: row.failed for place, row in enumerate(found) if row.failed})
    rows(axes, [row.name for row in found])
    axes.axvline(1.0, color="black", linewidth=1, zorder=0)
    plain(axes)


def _mark(axes: Axes, place: float, estimate: Estimate, scale: Scale, style: dict[str, Any]) -> None:
    """A marker with its interval; at the axis's end an arrow for what lies beyond."""
    at = scale.clip(estimate.value)
    if estimate.low is not None and estimate.high is not None:
        ends = [scale.clip(estimate.low), scale.clip(estimate.high)]
        axes.plot(ends, [place, place], color=style["color"], linewidth=1.2)
    beyond = {"marker": ">" if at < estimate.value else "<"} if at != estimate.value else {}
    axes.plot([at], [place], **(style | beyond), clip_on=False, zorder=3)


def _said(source: Source, panels: dict[str, list[Row]]) -> str:
    numbers = [
        e.n for name, found in panels.items() if name != GEOMEAN for row in found for e, _ in row.found["measured"] if e
    ]
    hardware = ""
    if names := hardware_of(source):
        filled = " (the first filled, others hollow)" if len(names) > 1 else ""
        hardware = (
            f" Modelled: the recorded work replayed on {', '.join(names)}{filled}, on the fewest devices each; "
            f"on {THIS_MACHINE} the run as it was made, elsewhere an epoch of the full set, of those in the papers."
        )
    return (
        f"Further right is faster; the baseline is {source.baseline}, at 1. Measured: 95 % intervals, "
        f"{counts(numbers, 'pairs of runs')} a system and data set.{hardware or ' Nothing was replayed.'} "
        "Published: the papers' own, on servers with GPUs; of a set that is not in the papers, their averages."
    )
