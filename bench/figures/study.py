"""A study's policies: over the drop ratio, and over the number of training inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bench.figures import lines
from bench.figures.common import Source, caption, counts, of_dataset, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT, TITLE = 4.2, 2.7, 0.7  # inches of a panel, and of what is above the panels
REFERENCES = {"auc_vs_none": "none", "auc_vs_random": "random"}


def skipping_by_drop_ratio(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """What is skipped and what it costs in AUC, over the drop ratio of a study; columns: its sizes and epochs."""
    study = of_dataset(source.study, dataset)
    rows = _drawn(study)
    if rows.empty or rows["drop"].nunique() < 2:
        return None
    groups = {_where(size, epochs): group for (size, epochs), group in rows.groupby(["size", "epochs"], sort=False)}
    figure, grid = _grid(2, len(groups))
    panels = [lines.lines(group, "drop", "auc_vs_none") for group in groups.values()]
    scale = lines.scale_of(panels)
    step = lines.APART * float(np.ptp(rows["drop"]))
    for column, ((title, group), panel) in enumerate(zip(groups.items(), panels, strict=True)):
        _shares(grid[0, column], group, step)
        grid[0, column].set_title(title, fontsize=10)
        lines.draw(grid[1, column], panel, scale, step)
        grid[1, column].set_xlabel("D, the wanted share of hot inputs")
    grid[0, 0].set_ylim(0, 1.1 * rows["skipped_share"].max() or 1.0)
    _labels(grid, ("share of all inputs skipped", "AUC minus none's"))
    _finish(figure, grid, f"Skipping against the drop ratio on {dataset}")
    text = (
        "Above: what is skipped; the controls drop as many as staleness would. Below: higher is more accurate; the "
        "baseline is skip=none on the same layout, at 0. "
    )
    return caption(figure, text + _said(study), grid[-1, len(groups) // 2])


def skipping_by_size(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """AUC of a study's policies minus that of none and of random, over training size; columns: drop ratios."""
    study = of_dataset(source.study, dataset)
    rows = _drawn(study)
    if rows.empty or rows["size"].nunique() < 2:
        return None
    columns = sorted(rows["drop"].unique())
    below = [(epochs, name) for epochs in sorted(rows["epochs"].unique()) for name in REFERENCES]
    figure, grid = _grid(len(below), len(columns))
    panels = {
        (line, column): lines.lines(rows[(rows["drop"] == drop) & (rows["epochs"] == epochs)], "size", name)
        for line, (epochs, name) in enumerate(below)
        for column, drop in enumerate(columns)
    }
    scale = lines.scale_of(list(panels.values()))
    step = float(rows["size"].max() / rows["size"].min()) ** lines.APART
    for place, panel in panels.items():
        grid[place].set_xscale("log")
        lines.draw(grid[place], panel, scale, step, log=True)
        _sizes(grid[place], sorted(rows["size"].unique()))
    for column, drop in enumerate(columns):
        grid[0, column].set_title(f"D = {drop:g}", fontsize=10)
        grid[-1, column].set_xlabel("training inputs")
    _labels(grid, [f"AUC minus {REFERENCES[name]}'s\n{_epochs(epochs)}" for epochs, name in below])
    _finish(figure, grid, f"Skip policies against the number of training inputs on {dataset}")
    text = "Higher is more accurate; the baselines, at 0, are skip=none and, at the same drop ratio, skip=random. "
    return caption(figure, text + _said(study), grid[-1, len(columns) // 2])


def _drawn(study: pd.DataFrame) -> pd.DataFrame:
    """What a study's figures show: the policies beside none, where a run is done."""
    return study[(study["policy"] != "none") & (study["num_done"] > 0)] if len(study) else study


def _grid(num_rows: int, num_columns: int) -> tuple[Figure, Any]:
    import matplotlib.pyplot as plt

    width, tall = max(7.0, WIDTH * num_columns), HEIGHT * num_rows + TITLE
    figure, grid = plt.subplots(
        num_rows, num_columns, squeeze=False, sharex=True, sharey="row", figsize=(width, tall)
    )  # fmt: skip
    figure.subplots_adjust(top=1 - TITLE / tall, wspace=0.08, hspace=0.15)
    return figure, grid


def _shares(axes: Axes, rows: pd.DataFrame, step: float) -> None:
    """The share skipped by each policy, with the place that its line has below."""
    found = {name: group.sort_values("drop") for name, group in rows.groupby("policy", sort=False)}
    names = [name for name in lines.STYLES if name in found]
    for index, name in enumerate(names):
        places = found[name]["drop"] + step * (index - (len(names) - 1) / 2)
        axes.plot(places, found[name]["skipped_share"], label=name, markersize=6, **lines.STYLES[name])
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    plain(axes)
    axes.grid(alpha=0.25)


def _sizes(axes: Axes, sizes: list[int]) -> None:
    axes.set_xticks(sizes, [_short(size) for size in sizes])
    axes.set_xticks([], minor=True)


def _short(size: int) -> str:
    """100k, 1M."""
    return f"{size / 1e6:g}M" if size >= 1e6 else f"{size / 1e3:g}k" if size >= 1e3 else str(size)


def _labels(grid: Any, names: Any) -> None:
    for axes, name in zip(grid[:, 0], names, strict=True):
        axes.set_ylabel(name)


def _finish(figure: Figure, grid: Any, title: str) -> None:
    figure.suptitle(title, y=1 - 0.15 / figure.get_figheight())
    handles, names = max((axes.get_legend_handles_labels() for axes in grid.flat), key=lambda found: len(found[1]))
    grid[0, -1].legend(handles, names, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)


def _where(size: Any, epochs: Any) -> str:
    return f"{size:,} inputs, {_epochs(epochs)}"


def _epochs(epochs: int) -> str:
    return f"{epochs} epoch{'s' if epochs > 1 else ''}"


def _said(study: pd.DataFrame) -> str:
    """What the caption says of runs, intervals, and what is not in a mean."""
    numbers = [int(n) for n in study["num_done"] if n > 0] or [0]
    lost = int(sum(study[f"num_{status}"].sum() for status in ("failed", "diverged", "interrupted", "missing")))
    without = int(study["without_threshold"].sum())
    text = (
        f"Means over {counts(numbers, 'seeds')} a point; bars: 95 % intervals, paired over seeds, where there are "
        "enough, which may go on beyond the axis. An arrowhead: the mean is beyond it."
    )
    text += f" {lost} runs failed or are missing and are in no mean." if lost else ""
    return text + (f" {without} runs found no threshold in some epoch, and skipped nothing in it." if without else "")
