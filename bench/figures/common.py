"""What the figures share. Readable in grey: every series has a hatch or a marker of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
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

    cells: pd.DataFrame  # runs with `label` and `pair`
    evals: pd.DataFrame
    phases: pd.DataFrame
    baseline: str


def by_label(cells: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The runs of each system, in the order of the comparison."""
    for label, rows in cells.groupby("label", sort=False):
        yield str(label), rows


def counts(numbers: list[int], of: str) -> str:
    """How many runs or pairs stand behind each value."""
    low, high = min(numbers), max(numbers)
    return f"n = {low} {of}" if low == high else f"n = {low} to {high} {of}"


def caption(figure: Figure, text: str) -> Figure:
    """Lines of text under the lowest panel."""
    figure.axes[-1].annotate(
        textwrap.fill(text, CAPTION_WIDTH), (0.5, 0.0), (0, -42), xycoords="axes fraction",
        textcoords="offset points", ha="center", va="top", fontsize=8,
    )  # fmt: skip
    return figure


def plain(axes: Axes) -> None:
    """No frame above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)


def rows(axes: Axes, names: list[str]) -> None:
    """One row for each name, the first on top; a row keeps its height where there are few."""
    pad = max(0.0, (3 - len(names)) / 2)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4 + pad, -0.6 - pad)


def height(num_rows: int) -> float:
    """Inches of a panel with so many rows."""
    return 1.2 + 0.34 * max(3, num_rows)
