"""Accuracy against training time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.figures.common import COLOURS, Source, by_label, caption, counts, plain, unfinished

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vP*X<>"  # with COLOURS, 70 pairs; hollow after the first ten, so that grey tells twenty
FENCE = 3.0  # times the range of the middle half: a system that ends further out is off the axis (Tukey's far out)
AROUND = (
    (6, 4),
    (6, -11),
    (-13, 4),
    (-13, -11),
    (-3, 8),
    (-3, -16),
    (16, -3),
    (-22, -3),
    (16, 10),
    (-22, 10),
)  # points


def curve(points: pd.DataFrame) -> pd.DataFrame:
    """By number of the evaluation: median time, mean AUC over seeds, and the standard errors of both over seeds.

    Not by the samples seen, which differ by seed where a system skips.
    """
    points = points.assign(number=points.groupby("run_id").cumcount())
    seeds = points.groupby(["number", "seed"])[["train_s", "auc"]].mean()
    errors = seeds.groupby("number").sem().add_suffix("_error")
    by_number = points.groupby("number")
    return pd.concat([by_number["train_s"].median(), by_number["auc"].mean(), errors], axis=1)


def axis(curves: dict[str, pd.DataFrame]) -> tuple[float, float]:
    """Ends of the axis of AUC: all systems but those whose last AUC is further from the others' than these span."""
    last = pd.Series({label: line["auc"].iloc[-1] for label, line in curves.items()})
    first, third = last.quantile(0.25), last.quantile(0.75)
    fence = FENCE * (third - first)
    bulk = last[(last >= first - fence) & (last <= third + fence)] if fence > 0 else last
    span = bulk.max() - bulk.min()
    inside = last[(last >= bulk.min() - span) & (last <= bulk.max() + span)].index
    lines = pd.concat([curves[label] for label in inside])
    error = lines["auc_error"].fillna(0.0)
    low, high = (lines["auc"] - error).min(), (lines["auc"] + error).max()
    margin = 0.08 * (high - low) or 0.01
    return float(low - margin), float(high + margin)


def accuracy_over_time(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """AUC on the test split against training time: each evaluation of each system."""
    import matplotlib.pyplot as plt

    points = source.evals.merge(cells[["run_id", "label", "seed"]], on="run_id").dropna(subset=["auc"])
    if points.empty:
        return None
    labels = [label for label, _ in by_label(cells) if (points["label"] == label).any()]
    curves = {label: curve(points[points["label"] == label]) for label in labels}
    figure, axes = plt.subplots(figsize=(9, 5.5))
    low, high = axis(curves)
    axes.set_ylim(low, high)
    for index, (label, line) in enumerate(curves.items()):
        name = f"{index + 1}  {label}{' (baseline)' if label == source.baseline else ''}"
        _line(axes, index, line, name)
    axes.margins(x=0.08)
    axes.grid(alpha=0.3)
    plain(axes)
    axes.set_title(f"Accuracy against training time on {dataset}")
    axes.set(xlabel="training time in s", ylabel="AUC on the test split")
    ends = {index: line.iloc[-1] for index, line in enumerate(curves.values())}
    _off(axes, {index: end for index, end in ends.items() if not low <= end["auc"] <= high}, list(curves))
    _numbers(axes, {index: end for index, end in ends.items() if low <= end["auc"] <= high})
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    runs = [len(rows) for label, rows in by_label(cells) if label in curves]
    text = (
        f"Higher and further left is better; the baseline is {source.baseline}. {counts(runs, 'runs')} a system: "
        "median time, mean AUC, as in the table; bars: standard errors over seeds, where there are several. "
        "Numbers: see the legend. At an arrow, a system lies beyond the axis."
    )
    return caption(figure, text + unfinished(source, dataset))


def marker_style(index: int) -> dict[str, Any]:
    """Of the system of that number: its colour, and a marker that does without colour."""
    colour = COLOURS[index % len(COLOURS)]
    hollow = index // len(MARKERS) % 2 == 1
    return {
        "marker": MARKERS[index % len(MARKERS)], "color": colour, "markersize": 7,
        "markerfacecolor": "white" if hollow else colour, "markeredgecolor": colour if hollow else "black",
        "markeredgewidth": 1.5 if hollow else 0.5,
    }  # fmt: skip


def _line(axes: Axes, index: int, line: pd.DataFrame, name: str) -> None:
    """A system's evaluations; a line only where there are several, bars only where seeds differ."""
    join = "-" if len(line) > 1 else "none"
    axes.errorbar(
        line["train_s"], line["auc"], xerr=_bars(line["train_s_error"]), yerr=_bars(line["auc_error"]),
        linestyle=join, linewidth=1, elinewidth=0.7, ecolor="#AAAAAA", label=name, zorder=3, **marker_style(index),
    )  # fmt: skip


def _bars(errors: pd.Series) -> pd.Series | None:
    return errors.fillna(0.0) if (errors.fillna(0.0) > 0).any() else None


def _off(axes: Axes, ends: dict[int, pd.Series], labels: list[str]) -> None:
    """An arrow at the edge for each system that lies beyond it, with its AUC."""
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    middle = (left + right) / 2
    inwards = sorted(ends.items(), key=lambda item: -abs(item[1]["train_s"] - middle), reverse=True)
    for rank, (index, end) in enumerate(inwards):  # the outer the higher, so that no arrow crosses a text
        at_left, below = end["train_s"] < middle, end["auc"] < low
        axes.annotate(
            f" {index + 1}  {labels[index]}: AUC {end['auc']:.4f} ", (end["train_s"], low if below else high),
            (0, (1 if below else -1) * (22 + 14 * rank)), textcoords="offset points", fontsize=8,
            ha="left" if at_left else "right", va="center", zorder=4,
            arrowprops={
                "arrowstyle": "-|>", "color": COLOURS[index % len(COLOURS)], "linewidth": 1.5,
                "shrinkA": 0, "shrinkB": 0, "relpos": (0 if at_left else 1, 0.5), "patchA": None,
            },
        )  # fmt: skip


def _numbers(axes: Axes, ends: dict[int, pd.Series]) -> None:
    """Each system's number beside its last point, where it covers the least of the others."""
    places = {index: axes.transData.transform((end["train_s"], end["auc"])) for index, end in ends.items()}
    scale = axes.figure.dpi / 72
    taken = [(float(x), float(y)) for x, y in places.values()]
    for index, (x, y) in places.items():
        centres = [(x + (dx + 4) * scale, y + (dy + 4) * scale) for dx, dy in AROUND]
        room = [min(abs(cx - tx) + abs(cy - ty) for tx, ty in taken) for cx, cy in centres]
        free = next((at for at, space in enumerate(room) if space > 9 * scale), room.index(max(room)))
        taken.append(centres[free])
        axes.annotate(
            str(index + 1), (ends[index]["train_s"], ends[index]["auc"]), AROUND[free], textcoords="offset points",
            fontsize=8, zorder=6,
        )  # fmt: skip
