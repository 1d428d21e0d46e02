"""About how long runs will take, before they are started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare import Cell, weight
from bench.results import read
from bench.summary import done

ASIDE_S = 4.0  # seconds a run takes beside its inputs: tables, warm-up, evaluation


def seconds_left(todo: Sequence[Cell], out: Path, inputs_per_s: float | None = None) -> float | None:
    """Seconds that the runs of one data set take, by the rate of the folder's finished runs on it.

    Where none is finished, by the rate that is given, or None.
    """
    measured = inputs_per_s_in(out, todo[0].config.dataset) if todo else None
    rate = measured or inputs_per_s
    if rate is None:
        return None
    return sum(ASIDE_S + weight(cell.config) / rate for cell in todo)


def inputs_per_s_in(out: Path, dataset: str) -> float | None:
    """Inputs seen in a second of training and evaluation by a folder's finished runs on a set; None without any."""
    runs = done(read(out, "runs"))
    own = runs[runs["dataset"] == dataset]
    seconds = own[["train_s", "eval_s", "prepare_s"]].sum(axis=1).sum()
    inputs = own["samples_seen"].sum()
    return float(inputs / seconds) if seconds and inputs else None
