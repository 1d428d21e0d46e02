"""Where time on the clock goes, phases grouped by what they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from bench.figures.common import (
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    SKY,
    Source,
    by_label,
    caption,
    counts,
    height,
    plain,
    rows,
    unfinished,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHER = "other"
PURPOSES = {  # purpose → its phases, both in the order of the pipeline; a phase that is not here is OTHER
    "waiting for data": ("order", "data_wait"),
    "decisions": ("learning", "hot_inputs", "snapshot", "threshold", "classify", "score", "validation"),
    "copies and synchronisation": ("copy_inputs", "split", "wait_for_stage", "write_back", "synchronize"),
    "embedding lookup and update": (
        "pull", "embedding_forward", "hot_forward", "mixed_forward",
        "embedding_update", "hot_update", "cold_update", "push",
    ),
    "dense network": ("dense_forward", "dense_backward", "dense_update"),
    OTHER: (),
}  # fmt: skip
STYLES: dict[str, dict[str, Any]] = {
    "waiting for data": {"color": PINK, "hatch": "xxx"},
    "decisions": {"color": ORANGE, "hatch": "\\\\\\"},
    "copies and synchronisation": {"color": SKY, "hatch": "..."},
    "embedding lookup and update": {"color": GREEN, "hatch": "///"},
    "dense network": {"color": BLUE, "hatch": ""},
    OTHER: {"color": "white", "hatch": ""},
}
OF = {phase: purpose for purpose, phases in PURPOSES.items() for phase in phases}


def median_phases(phases: pd.DataFrame, cells: pd.DataFrame) -> pd.Series:
    """Seconds by phase of the run with the median training time (of the two in the middle: their mean).

    Medians phase by phase would not add up; these do, to the median of `train_s`, which the table shows.
    """
    order = cells[cells["run_id"].isin(phases["run_id"])].sort_values("train_s", kind="stable")["run_id"].tolist()
    middle = {order[(len(order) - 1) // 2], order[len(order) // 2]} if order else set()
    seconds = phases[phases["run_id"].isin(middle)].groupby("phase")["seconds"].sum()
    return seconds / max(len(middle), 1)


def by_purpose(phases: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Seconds with a row for each system and a column for each phase, under its purpose, in the pipeline's order."""
    table = pd.DataFrame({label: median_phases(phases, runs) for label, runs in by_label(cells)}).T.fillna(0.0)
    known = list(OF)
    columns = sorted(table.columns, key=lambda phase: (known.index(phase) if phase in OF else len(known), phase))
    table = table[columns]
    table.columns = pd.MultiIndex.from_tuples([(OF.get(phase, OTHER), phase) for phase in columns])
    return table


def time_by_phase(source: Source, cells: pd.DataFrame, dataset: str) -> Figure | None:
    """Where the time on the clock goes: the phases of the main lane by purpose, stacked."""
    import matplotlib.pyplot as plt

    main = source.phases[(source.phases["lane"] == "main") & source.phases["run_id"].isin(cells["run_id"])]
    if main.empty:
        return None
    seconds = by_purpose(main, cells)
    places = range(len(seconds))
    figure, axes = plt.subplots(figsize=(9, height(len(seconds))))
    left = pd.Series(0.0, index=seconds.index)
    for purpose, style in STYLES.items():
        if purpose not in seconds.columns.get_level_values(0):
            continue
        part = seconds.loc[:, [purpose]]
        phases = list(part.columns.get_level_values(1))
        width = part.sum(axis=1)
        names = ", ".join(f"\n  {phase}" if at and at % 3 == 0 else phase for at, phase in enumerate(phases))
        label = purpose if phases == [purpose] else f"{purpose}:\n  {names}".replace(", \n", ",\n")
        axes.barh(places, width, left=left, height=0.7, label=label, edgecolor="black", linewidth=0.4, **style)
        left = left + width
    for place, total in zip(places, left, strict=True):
        axes.text(total, place, f" {total:.2f}", va="center", fontsize=8)
    axes.set_xlim(0, 1.08 * (left.max() or 1.0))
    rows(axes, [f"{label} (baseline)" if label == source.baseline else str(label) for label in seconds.index])
    plain(axes)
    axes.set_title(f"Where training time goes on {dataset}")
    axes.set_xlabel("training time in s")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, labelspacing=0.9)
    runs = [len(rows) for _, rows in by_label(cells)]
    text = (
        f"Shorter is better; the baseline is {source.baseline}. Each bar is the run with the median training time (of "
        "an even number, the mean of the two in the middle), so its length is the table's train s; "
        f"{counts(runs, 'runs')} a system. The main lane only; what runs beside it is in phases.csv."
    )
    return caption(figure, text + unfinished(source, dataset))
