"""What Slipstream decided: the threshold, and how many rows it made stale, over training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bench.figures.accuracy import marker_style
from bench.figures.common import Source, caption, counts, of_dataset, plain
from bench.summary import done, policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = {  # column → what it is
    "threshold": "threshold T",
    "stale_share": "stale, of the\nhot rows",
    "untouched_share": "not looked up,\nof the stale rows",
}


def over_training(decisions: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The decisions of the runs that drop stale inputs, with the run's label and the shares of PANELS.

    The controls' decisions are the same until they first drop something, so they are left out.
    """
    stale = cells[[policy(str(text))[1].startswith("stale") for text in cells["settings"]]]
    found = decisions.merge(stale[["run_id", "label"]], on="run_id") if len(stale) else decisions.head(0)
    return found.assign(
        stale_share=found["stale_rows"] / found["hot_rows"],
        untouched_share=found["stale_rows_untouched"] / found["stale_rows"],
    )


def decisions_over_training(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """Slipstream's threshold and the share of stale hot rows, at each decision."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    if cells.empty and len(source.study_cells):
        cells = done(of_dataset(source.study_cells, dataset))
    rows = over_training(source.decisions, cells) if len(cells) else cells
    if rows.empty or rows["threshold"].isna().all():
        return None
    figure, grid = plt.subplots(len(PANELS), sharex=True, figsize=(9, 7))
    found = rows.dropna(subset=["threshold"])
    labels = [str(label) for label in dict.fromkeys(cells["label"]) if (found["label"] == label).any()]
    step = 0.02 * (np.ptp(found["samples_seen"]) or found["samples_seen"].max())
    for axes, (column, title) in zip(grid, PANELS.items(), strict=True):
        for index, label in enumerate(labels):
            _draw(axes, column, index, label, rows[rows["label"] == label], step)
        axes.set_ylabel(title)
        axes.margins(0.08)
        axes.grid(alpha=0.25)
        plain(axes)
    for axes in grid[1:]:
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.4g} %")
    grid[0].set_yscale("log")
    grid[0].yaxis.set_major_formatter("{x:.3g}")
    grid[0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    grid[0].yaxis.set_minor_locator(NullLocator())
    grid[0].set_title(f"What Slipstream decides on {dataset}")
    grid[0].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    grid[-1].set_xlabel("inputs seen at the decision")
    grid[-1].xaxis.set_major_formatter(lambda inputs, _: f"{inputs:,.0f}")
    return caption(figure, _said(rows))


def _draw(axes: Axes, column: str, index: int, label: str, rows: pd.DataFrame, step: float) -> None:
    """A system's medians over its runs, with the least and the most, one epoch after the other.

    Each system a step further right than the one before, since equal decisions would hide each other.
    """
    epochs = rows.groupby("epoch")
    middle = epochs[column].median()
    reach = np.stack([middle - epochs[column].min(), epochs[column].max() - middle])
    axes.errorbar(
        epochs["samples_seen"].median() + index * step, middle, yerr=reach, label=label, linewidth=1, elinewidth=0.7,
        capsize=2, zorder=3, **marker_style(index),
    )  # fmt: skip


def _said(rows: pd.DataFrame) -> str:
    numbers = rows.groupby("label")["run_id"].nunique()
    without = int(rows["threshold"].isna().sum())
    text = (
        "No side is better. The threshold: a row that changed by less is stale. Not looked up: no input of the window "
        "did, so that it could not change. Median, least and most of "
        f"{counts([int(n) for n in numbers], 'runs')} a system. The baseline decides nothing; the controls decide "
        "alike until they first drop inputs."
    )
    return text + (f" {without} of {len(rows)} decisions found no threshold and are not drawn." if without else "")
