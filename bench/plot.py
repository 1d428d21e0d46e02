"""The figures of a results folder, from its CSVs alone. Readable in grey: every series has a hatch or a marker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.results import read, read_rows
from bench.stats import Estimate
from bench.summary import difference, done, policy, speedup
from datasets.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart with any kind of colour vision; the hatches and markers do it without colour.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#999999", "#FFFFFF")
DARK = tuple(colour for colour in COLOURS if colour not in ("#F0E442", "#FFFFFF"))  # dark enough for a line on white
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "ooo", "---", "+++", "|||")
MARKERS = "osD^vP*X<>"
LINES = ("-", "--", ":", "-.")
MOST_PHASES = 8  # that a person tells apart; the smaller ones are drawn together


@dataclass(frozen=True)
class Source:
    """What the figures are drawn from."""

    cells: pd.DataFrame  # runs with `label` and `pair`
    evals: pd.DataFrame
    phases: pd.DataFrame
    baseline: str


def load(out: Path) -> Source:
    """The runs of the folder's last comparison, or all its runs where there was none. UserError for an empty folder."""
    runs = read(out, "runs")
    if runs.empty:
        raise UserError(f"there are no runs in {out}; make some with `slipbench run` or `slipbench compare`.")
    chosen = pd.DataFrame(read_rows(out / "cells.csv"))
    summary = pd.DataFrame(read_rows(out / "compare.csv"))
    if len(chosen) and len(summary):
        cells = chosen[["label", "pair", "run_id"]].astype({"pair": int}).merge(runs, on="run_id")
        baseline = str(summary["baseline"].iloc[0])
    else:
        same = ["dataset", "system", "settings", "seed", "repeat"]
        cells = runs.drop_duplicates(same, keep="last").assign(pair=lambda rows: rows["repeat"])
        cells["label"] = (cells["system"] + " " + cells["settings"]).str.strip()
        baseline = "dlrm" if "dlrm" in set(cells["label"]) else str(cells["label"].iloc[0])
    return Source(cells, read(out, "evals"), read(out, "phases"), baseline)


def plot(out: Path) -> list[Path]:
    """Draw every figure that the folder has data for, as PNG and PDF in `figures/`, and return their paths."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    source, folder = load(out), out / "figures"
    paths = []
    try:
        folder.mkdir(exist_ok=True)
        for dataset in dict.fromkeys(source.cells["dataset"]):
            cells = done(source.cells[source.cells["dataset"] == dataset])
            for name, draw in FIGURES.items():
                figure = draw(source, cells, str(dataset)) if len(cells) else None
                if figure is None:
                    continue
                for kind in ("png", "pdf"):
                    figure.savefig(folder / f"{name}-{dataset}.{kind}", dpi=150, bbox_inches="tight")
                paths.append(folder / f"{name}-{dataset}.png")
                plt.close(figure)
    except OSError as error:
        raise UserError(f"cannot write figures to {folder}: {error.strerror}.") from None
    return paths


def _groups(cells: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for label, rows in cells.groupby("label", sort=False):
        yield str(label), rows


def _figure(title: str, num_bars: int = 8) -> tuple[Figure, Axes]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, max(3.0, 1.2 + 0.34 * num_bars)))
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _caption(figure: Figure, text: str) -> Figure:
    figure.axes[0].annotate(
        text, (0.5, 0.0), (0, -40), xycoords="axes fraction", textcoords="offset points", ha="center", va="top",
        fontsize=8,
    )  # fmt: skip
    return figure


def _estimates(axes: Axes, estimates: list[tuple[str, Estimate]], neutral: float, form: str) -> None:
    """Horizontal bars from the neutral value, each with its interval, the first on top."""
    for place, (_, estimate) in enumerate(estimates):
        width = estimate.value - neutral
        style: dict[str, Any] = {
            "color": COLOURS[0] if width >= 0 else COLOURS[3],
            "hatch": "" if width >= 0 else "///",
        }
        axes.barh(place, width, left=neutral, edgecolor="black", linewidth=0.6, **style)
        if estimate.half_width is not None and estimate.low is not None and estimate.high is not None:
            error = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
            axes.errorbar(estimate.value, place, xerr=error, color="black", capsize=3, linewidth=1)
        axes.text(1.01, place, format(estimate.value, form), transform=axes.get_yaxis_transform(), va="center")
    axes.set_xlim(_limits([estimate for _, estimate in estimates], neutral))
    axes.set_yticks(range(len(estimates)), [label for label, _ in estimates])
    axes.invert_yaxis()
    axes.axvline(neutral, color="black", linewidth=1)


def _limits(estimates: list[Estimate], neutral: float) -> tuple[float, float]:
    """Ends of the axis: all values in full, but an interval many times as wide as they are far runs off the figure."""
    ends = [neutral, *(end for e in estimates for end in (e.value, e.low, e.high) if end is not None)]
    reach = 3 * max(abs(estimate.value - neutral) for estimate in estimates) or max(map(abs, ends)) or 1.0
    low, high = max(min(ends), neutral - reach), min(max(ends), neutral + reach)
    margin = 0.05 * (high - low) or reach
    return low - margin, high + margin


def _counts(estimates: list[tuple[str, Estimate]]) -> str:
    low, high = min(e.n for _, e in estimates), max(e.n for _, e in estimates)
    return f"n = {low} pairs" if low == high else f"n = {low} to {high} pairs"


def speedups(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """Speed-up of each system over the baseline."""
    base = cells[cells["label"] == source.baseline]
    found = [(label, speedup(rows, base)) for label, rows in _groups(cells) if label != source.baseline]
    estimates = [(label, estimate) for label, estimate in found if estimate]
    if not estimates:
        return None
    figure, axes = _figure(f"Speed-up over {source.baseline} on {dataset}", len(estimates))
    _estimates(axes, estimates, 1.0, ".2f")
    axes.set_xlabel(f"training time of {source.baseline} / training time of the system")
    return _caption(
        figure, f"Longer to the right is faster. Whiskers: 95 % intervals of paired runs, {_counts(estimates)}."
    )


def accuracy_over_time(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """AUC on the test split against training time: each evaluation, averaged over runs."""
    points = source.evals.merge(cells[["run_id", "label", "seed"]], on="run_id").dropna(subset=["auc"])
    if points.empty:
        return None
    figure, axes = _figure(f"Accuracy against time on {dataset}", 12)
    for index, label in enumerate(dict.fromkeys(cells["label"])):
        line = points[points["label"] == label].groupby("samples_seen")[["train_s", "auc"]].mean()
        style = f"{MARKERS[index % len(MARKERS)]}{LINES[index // len(MARKERS) % len(LINES)]}"
        colour = DARK[index % len(DARK)]
        axes.plot(line["train_s"], line["auc"], style, color=colour, label=label, markersize=5)
    axes.set(xlabel="training time in s", ylabel="AUC on the test split")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    n = cells["run_id"].nunique()
    return _caption(figure, f"Higher and further left is better. Means over seeds and repeats; n = {n} runs in all.")


def time_by_phase(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """Where the time on the clock goes: the phases of the main lane, stacked."""
    phases = source.phases[source.phases["lane"] == "main"].merge(cells[["run_id", "label"]], on="run_id")
    if phases.empty:
        return None
    runs = cells.groupby("label", sort=False)["run_id"].nunique()
    seconds = phases.pivot_table(index="label", columns="phase", values="seconds", aggfunc="sum", fill_value=0.0)
    seconds = seconds.reindex(runs.index).fillna(0.0).div(runs, axis=0)
    order = list(seconds.sum().sort_values(ascending=False).index)
    if len(order) > MOST_PHASES + 1:
        rest = order[MOST_PHASES:]
        seconds[f"{len(rest)} smaller phases"] = seconds[rest].sum(axis=1)
        order = [*order[:MOST_PHASES], f"{len(rest)} smaller phases"]
    figure, axes = _figure(f"Where time goes on {dataset}", len(seconds))
    left = pd.Series(0.0, index=seconds.index)
    for phase, colour, hatch in zip(order, COLOURS, HATCHES, strict=False):
        style: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "black", "linewidth": 0.4}
        axes.barh(range(len(seconds)), seconds[phase], left=left, label=phase, **style)
        left = left + seconds[phase]
    axes.set_yticks(range(len(seconds)), list(seconds.index))
    axes.invert_yaxis()
    axes.set_xlabel("training time in s, mean of the runs")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    text = (
        f"Shorter is better. Phases of the main lane add up to the training time; n = {int(runs.max())} runs a system"
    )
    return _caption(figure, f"{text}. What runs beside it is in phases.csv.")


def skip_policies(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """AUC of each Slipstream policy less that of random dropping on the same layout."""
    rows = cells[cells["system"] == "slipstream"]
    of = {label: policy(group["settings"].iloc[0]) for label, group in _groups(rows)}
    estimates = []
    for label, (layout, name, rest) in of.items():
        same = [other for other, key in of.items() if key == (layout, "random", rest) and name != "random"]
        for reference in same[:1]:
            group = rows[rows["label"] == label]
            if estimate := difference(group, rows[rows["label"] == reference], "auc_last"):
                estimates.append((f"{name} ({layout} layout)", estimate))
    if not estimates:
        return None
    figure, axes = _figure(f"Skip policies against random dropping on {dataset}", len(estimates))
    _estimates(axes, estimates, 0.0, "+.4f")
    axes.set_xlabel("AUC less that of skip=random on the same layout")
    text = "Further right is more accurate; skip=none drops nothing. 95 % intervals, paired over seeds"
    return _caption(figure, f"{text}, {_counts(estimates)}.")


FIGURES: dict[str, Callable[[Source, pd.DataFrame, str], Figure | None]] = {
    "speedup": speedups,
    "accuracy-over-time": accuracy_over_time,
    "time-by-phase": time_by_phase,
    "skip-policies": skip_policies,
}
