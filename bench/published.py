"""The papers' published speed-ups. They stand beside the measured ones and are never mixed with them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path

FIGURES = Path(__file__).resolve().parent.parent / "results" / "published" / "figures.csv"
AVERAGES = ("geomean", "average")  # what the papers give over all of their sets
CHART = "speedup_over_xdl_1gpu"
ABSTRACT = "_speedup_over"  # `fae_speedup_over` of `xdl`: the abstract's speed-up of FAE over XDL
GPUS = {"xdl-cpu": "0"}  # of a system's bar that is looked up; one GPU for all others


@cache
def figures(path: Path = FIGURES) -> tuple[dict[str, str], ...]:
    """Every published figure; none where the file is not installed."""
    if not path.exists():
        return ()
    with path.open(newline="") as file:
        return tuple(csv.DictReader(file))


def published_name(dataset: str) -> str:
    """The published data set that a set is, or is generated after; its own name where there is none."""
    twins = {"synthetic-kaggle": "criteo-kaggle", "synthetic-terabyte": "criteo-terabyte"}
    return twins.get(dataset, dataset.removeprefix("synthetic-"))


def speedups(system: str, baseline: str, dataset: str) -> list[tuple[float, str]]:
    """Published speed-ups of a system over a baseline on a data set, each with its source.

    A generated set stands for the one whose skew it has; another that is not in the papers gets their averages. The
    bars of two systems are divided only where they stand in the same chart, since the papers disagree about the same
    baseline.
    """
    rows, dataset = figures(), published_name(dataset)
    places: Iterable[str] = (dataset,) if any(row["dataset"] == dataset for row in rows) else AVERAGES
    bars = {
        (row["source"], row["system"]): float(row["value"])
        for row in rows
        if row["metric"] == CHART and row["dataset"] in places and row["gpus"] == GPUS.get(row["system"], "1")
    }
    sources = dict.fromkeys(source for source, name in bars if name == system and (source, baseline) in bars)
    found = [(bars[source, system] / bars[source, baseline], source) for source in sources if system != baseline]
    return found + [
        (float(row["value"]), f"{row['source']} {row['where']}")
        for row in rows
        if row["metric"] == system + ABSTRACT and row["system"] == baseline and row["dataset"] in AVERAGES
    ]


def speedups_text(system: str, baseline: str, dataset: str) -> str:
    """The published speed-ups as a table's cell: value and source."""
    return ", ".join(f"{value:.2f} ({source})" for value, source in speedups(system, baseline, dataset))
