"""What moves: bytes over the link each way, and rows written, by system."""

from __future__ import annotations

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
    say_in_rows,
    without_runs,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = (  # column of runs.csv, what it is, its unit
    ("link_to_device_bytes", "host to device, MB", 1e6),
    ("link_to_host_bytes", "device to host, MB", 1e6),
    ("rows_written", "rows written, million", 1e6),
)
SAME = 0.005  # a ratio nearer to 1 is drawn as no difference: hot sets differ a little between seeds
LESS: dict[str, Any] = {"color": SKY, "hatch": ""}
MORE: dict[str, Any] = {"color": ORANGE, "hatch": "\\\\\\"}
EQUAL: dict[str, Any] = {"color": "#CCCCCC", "hatch": "..."}


def per_epoch(cells: pd.DataFrame) -> pd.DataFrame:
    """Means over runs of the columns of PANELS by epoch, with a row for each system; NaN for not counted."""
    columns = [column for column, _, _ in PANELS]
    each = cells[columns].div(cells["epochs"], axis=0)
    return each.groupby(cells["label"], sort=False).mean()


def traffic(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """Bytes over the link each way and rows written, an epoch of each system."""
    import matplotlib.pyplot as plt

    if cells.empty:
        return None
    failed = without_runs(of_dataset(source.cells, dataset))
    amounts = per_epoch(cells)
    names = [*amounts.index, *failed]
    figure, grid = plt.subplots(1, len(PANELS), sharey=True, figsize=(14, height(len(names))))
    for axes, (column, title, unit) in zip(grid, PANELS, strict=True):
        _panel(axes, amounts[column] / unit, source.baseline)
        axes.set_xlabel(title)
        say_in_rows(axes, dict(enumerate(failed.values(), len(amounts))))
    rows(grid[0], [f"{name} (baseline)" if name == source.baseline else name for name in names])
    grid[1].set_title(f"What moves in an epoch on {dataset}")
    text = (
        f"Shorter moves less; the baseline is {source.baseline} (dashed), × is the ratio to it. Striped: more than the "
        f"baseline, dotted: within {SAME:.1%} of it. Mean of {counts([len(r) for _, r in by_label(cells)], 'runs')} a "
        "system. Counted, not timed, also where host and device are one CPU; what parameter servers and workers "
        "exchange is not in it (net_bytes in runs.csv)."
    )
    return caption(figure, text, grid[1])


def _panel(axes: Axes, amounts: pd.Series, baseline: str) -> None:
    base = float(amounts.fillna(0.0).get(baseline, 0.0))
    for place, amount in enumerate(amounts):
        if pd.isna(amount):
            axes.text(0, place, " not counted", va="center", fontsize=8, style="italic")
            continue
        ratio = amount / base if base else None
        style = EQUAL if ratio is None or abs(ratio - 1) < SAME else LESS if ratio < 1 else MORE
        axes.barh(place, amount, height=0.7, edgecolor="black", linewidth=0.6, **style)
        times = f"  ×{ratio:.2f}" if ratio is not None and amounts.index[place] != baseline else ""
        axes.annotate(
            f"{amount:,.4g}{times}", (amount, place), (4, 0), textcoords="offset points", va="center", fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
    if base:
        axes.axvline(base, color="black", linewidth=1, linestyle="--", zorder=0)
    axes.set_xlim(0, 1.3 * (amounts.fillna(0.0).max() or 1.0))
    plain(axes)
