"""How many inputs a hot set covers: measured, beside FAE's published sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.figures.common import BLUE, GREEN, GREY, ORANGE, PINK, RED, Source, caption, counts, plain
from bench.published import figures
from bench.summary import policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLOAT_BYTES = 4
SIZE, INPUTS = "hot_table_size_at_t=", "hot_inputs_at_t="  # metrics of FAE, Fig. 5, before the threshold
SETS = {  # published set → colour, marker
    "criteo-kaggle": (ORANGE, "o"),
    "criteo-terabyte": (GREEN, "s"),
    "avazu": (PINK, "^"),
    "taobao": (GREY, "D"),
}
LAYOUTS = {"fae": (BLUE, "*"), "hotline": (RED, "P")}


def published() -> pd.DataFrame:
    """FAE's hot sets: dataset, where, share of rows (0 to 1), share of inputs.

    Fig. 5 gives the hot rows' size; as a share it is divided by the full tables' rows x width x 4 bytes (Table 2).
    """
    fae = [row for row in figures() if row["source"] == "FAE"]
    value = {(row["where"], row["dataset"], row["metric"]): float(row["value"]) for row in fae}
    found = []
    for (where, dataset, metric), number in value.items():
        if metric == "hot_rows":
            found.append((dataset, where, number / 100, value[where, dataset, "hot_inputs"] / 100))
        elif metric.startswith(SIZE) and ("Table 2", dataset, "rows") in value:
            whole = value["Table 2", dataset, "rows"] * value["Table 2", dataset, "row_width"] * FLOAT_BYTES
            inputs = value[where, dataset, metric.replace(SIZE, INPUTS)] / 100
            found.append((dataset, where, number / whole, inputs))  # megabytes by millions of rows
    return pd.DataFrame(found, columns=["dataset", "where", "rows", "inputs"])


def by_layout(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The runs whose hot set was counted, by the layout that it is for."""
    counted = cells.dropna(subset=["hot_rows_share", "hot_inputs_share"])
    counted = counted[counted["hot_rows_share"] > 0]
    layouts = [
        policy(str(settings))[0] if system == "slipstream" else str(system)
        for system, settings in zip(counted["system"], counted["settings"], strict=True)
    ]
    return {str(layout): runs for layout, runs in counted.groupby(layouts, sort=False)}


def coverage(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """Share of inputs that look up hot rows only, against the share of rows that are hot."""
    import matplotlib.pyplot as plt

    measured = by_layout(cells) if len(cells) else {}
    if not measured:
        return None
    figure, axes = plt.subplots(figsize=(9, 5))
    for name, points in published().groupby("dataset", sort=False):
        colour, marker = SETS.get(str(name), ("black", "h"))
        how: dict[str, Any] = {"color": colour, "marker": marker, "markerfacecolor": "white", "zorder": 2}
        chart, printed = points[points["where"] == "Fig. 5"], points[points["where"] != "Fig. 5"]
        axes.plot(chart["rows"], chart["inputs"], ":", linewidth=1, label=f"published: {name}, Fig. 5", **how)
        label = f"published: {name}, Fig. 1B"
        axes.plot(printed["rows"], printed["inputs"], "x", color=colour, markersize=9, label=label)
    for layout, runs in measured.items():
        colour, marker = LAYOUTS.get(layout, ("black", "X"))
        axes.plot(
            runs["hot_rows_share"], runs["hot_inputs_share"], marker, color=colour, markersize=11, zorder=3,
            markeredgecolor="black", label=f"measured: {dataset}, {layout}'s layout",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.05)
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_formatter(lambda share, _: f"{100 * share:g} %")
    axes.grid(alpha=0.3)
    plain(axes)
    axes.set_title(f"What hot rows cover on {dataset}, and what FAE published")
    axes.set(xlabel="hot rows, share of all rows (logarithmic)", ylabel="inputs that look up hot rows only")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    runs_each = counts([len(runs) for runs in measured.values()], "runs")
    text = (
        "Higher and further left is better: fewer rows cover more inputs. The published points, of other data or of "
        f"full size, are what to compare with. Measured: {runs_each} a layout, many at the same place. Published: FAE, "
        "Fig. 5 (read off the chart; sizes as shares of the tables in its Table 2) and Fig. 1B (printed)."
    )
    return caption(figure, text)
