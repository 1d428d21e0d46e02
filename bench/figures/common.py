"""What the figures share. Readable in grey: every series has a hatch or a marker of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart with any kind of colour vision; the hatches and markers do it without colour.
BLUE, ORANGE, GREEN, RED, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9"
PINK, GREY = "#CC79A7", "#999999"
COLOURS = (BLUE, ORANGE, GREEN, RED, SKY, PINK, GREY)  # all dark enough for a line on white
CAPTION_WIDTH = 110  # characters


@dataclass(frozen=True)
class Source:
    """What the figures are drawn from."""

    cells: pd.DataFrame  # runs of the last comparison, failed ones too, with `label` and `pair`
    evals: pd.DataFrame
    phases: pd.DataFrame
    baseline: str
    decisions: pd.DataFrame = field(default_factory=pd.DataFrame)
    study: pd.DataFrame = field(default_factory=pd.DataFrame)  # as study.csv; empty without a study, as is the next
    study_cells: pd.DataFrame = field(default_factory=pd.DataFrame)  # the runs behind it, with `label`
    replay: pd.DataFrame = field(default_factory=pd.DataFrame)  # replay.csv; empty where nothing was replayed


def by_label(cells: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The runs of each system, in the order of the comparison."""
    for label, rows in cells.groupby("label", sort=False):
        yield str(label), rows


def of_dataset(frame: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """The rows of a data set."""
    return frame[frame["dataset"] == dataset] if len(frame) else frame


def without_runs(cells: pd.DataFrame) -> dict[str, str]:
    """The systems that no run finished of, each with what became of its runs: `failed`, `2 failed, 1 diverged`."""
    said = {}
    for label, runs in by_label(cells):
        if not (runs["status"] == "done").any():
            ends = runs["status"].value_counts()
            said[label] = ", ".join(f"{count} {status}" for status, count in ends.items())
    return said


def unfinished(source: Source, dataset: str) -> str:
    """What a caption says of systems that are not in the figure, since no run of them finished; begins with a blank."""
    failed = without_runs(of_dataset(source.cells, dataset))
    return f" No finished run: {'; '.join(f'{label} ({said})' for label, said in failed.items())}." if failed else ""


def counts(numbers: list[int], of: str) -> str:
    """How many runs or pairs stand behind each value."""
    low, high = min(numbers), max(numbers)
    return f"n = {low} {of}" if low == high else f"n = {low} to {high} {of}"


def caption(figure: Figure, text: str, under: Axes | None = None) -> Figure:
    """Lines of text under a panel, the last one if none is named."""
    (under or figure.axes[-1]).annotate(
        textwrap.fill(text, CAPTION_WIDTH), (0.5, 0.0), (0, -42), xycoords="axes fraction",
        textcoords="offset points", ha="center", va="top", fontsize=8,
    )  # fmt: skip
    return figure


def plain(axes: Axes) -> None:
    """No frame above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)


def say_in_rows(axes: Axes, said_at: dict[int, str]) -> None:
    """Text in place of a bar, by the number of the row: what became of the runs of a system."""
    for place, said in said_at.items():
        axes.text(0.01, place, said, transform=axes.get_yaxis_transform(), va="center", fontsize=9, style="italic")


def rows(axes: Axes, names: list[str]) -> None:
    """One row for each name, the first on top; a row keeps its height where there are few."""
    pad = max(0.0, (3 - len(names)) / 2)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4 + pad, -0.6 - pad)


def height(num_rows: int) -> float:
    """Inches of a panel with so many rows."""
    return 1.2 + 0.34 * max(3, num_rows)
