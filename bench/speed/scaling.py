"""How cost grows: samples/s and memory over table rows, batch size, threads, and lookups a table.

Each point is a process of its own, `python -m bench.speed.scaling`, so that its peak memory is its own; the points of
an axis take turns, round by round. The inputs are drawn in memory: one skewed id a lookup, half of an axis' cost being
where rows lie and not what they mean.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch

from baselines import process
from baselines.clock import Clock
from baselines.job import Job
from baselines.model import MODELS
from bench.run import peak_of
from bench.speed.contenders import InTraining
from datasets.schema import Schema, Table
from datasets.store import Split

TABLES, DENSE, WIDTH = 26, 13, 16
ROUNDS = 3
INPUTS = 65_536
BYTES_PER_ROW = WIDTH * 4 + 1  # a row in float32, and its mark
SHARE_OF_MEMORY = 0.6  # of what is free, that the largest tables may take


@dataclass(frozen=True)
class Point:
    """One measured case."""

    axis: str
    rows: int = 3_400_000  # of all tables together
    batch_size: int = 2048
    threads: int = 2
    lookups: int = 1  # of a table
    inputs: int = INPUTS


def points(threads: int, free_bytes: int) -> list[Point]:
    """All points of all axes. Tables grow from 1 M rows to what memory allows."""
    base = Point("", threads=threads)
    most = int(free_bytes * SHARE_OF_MEMORY) // BYTES_PER_ROW
    rows = [n for n in (1_000_000, 3_400_000, 10_000_000, 33_800_000, 100_000_000, 300_000_000) if n <= most]
    return [
        *(replace(base, axis="rows", rows=n) for n in rows),
        *(replace(base, axis="batch_size", batch_size=n) for n in (128, 512, 2048, 8192, 32_768)),
        *(replace(base, axis="threads", threads=n) for n in range(1, threads + 1)),
        *(replace(base, axis="lookups", lookups=n, inputs=INPUTS // 4) for n in (1, 10)),
    ]


def growth(threads: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row a point and round: the point, its round, samples/s, and the peak memory of its process."""
    table = []
    todo = points(threads, psutil.virtual_memory().available)
    for number in range(ROUNDS):
        for place, point in enumerate(todo, 1):
            found = _in_a_process(point)
            table.append({**asdict(point), "round": number, **found})
            say(f"growth, round {number + 1} of {ROUNDS}, {place} of {len(todo)}: {point.axis} "
                f"{getattr(point, point.axis):,}: {found['samples_per_s']:,.0f}/s")  # fmt: skip
    return table


def _in_a_process(point: Point) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.speed.scaling", json.dumps(asdict(point))]
    environment = os.environ | {"OMP_NUM_THREADS": str(point.threads)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(point: Point) -> dict[str, Any]:
    """Samples/s of the second of two epochs of `dlrm`, and the peak memory of this process."""
    process.set_up(point.threads)
    split = draw(point)
    with tempfile.TemporaryDirectory() as cache:
        job = Job(
            schema=split.schema, train=split, validation=split.head(0), model=MODELS["rm2"], optimizer="sgd", lr=0.01,
            precision="fp32", batch_size=point.batch_size, epochs=2, seed=0, device=torch.device("cpu"),
            threads=point.threads, settings={}, clock=Clock(), cache_dir=Path(cache),
        )  # fmt: skip
        contender = InTraining("dlrm", "dlrm", job)
        rate = [contender.round(number).per_s for number in range(2)][-1]
        contender.close()
    return {"samples_per_s": rate, "peak_rss_bytes": peak_of("self")}


def draw(point: Point) -> Split:
    """Inputs over equal tables, each id's popularity falling with it: half of the lookups are of 0.1 % of the rows."""
    random = np.random.default_rng(0)
    rows = max(2, point.rows // TABLES)
    tables = tuple(Table(name=f"t{number}", rows=rows, lookups=point.lookups) for number in range(TABLES))
    schema = Schema(dense=tuple(f"d{number}" for number in range(DENSE)), tables=tables)
    chances = random.random((point.inputs, TABLES * point.lookups), np.float32) ** 10
    ids = (1 + (rows - 1) * chances).astype(np.int32).clip(1, rows - 1)
    dense = random.standard_normal((point.inputs, DENSE), np.float32)
    return Split(schema, dense, ids, random.integers(0, 2, point.inputs, np.int32))


AXES = {
    "rows": "rows of all tables",
    "batch_size": "batch size",
    "threads": "threads",
    "lookups": "lookups a table",
}


def plot_growth(out: Path) -> None:
    """`growth.png` and `growth.pdf`, from `growth.csv` alone: samples/s above, peak memory below, an axis a column."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    table = pd.read_csv(out / "growth.csv")
    figure, panels = plt.subplots(2, len(AXES), figsize=(13, 6), sharey="row", layout="constrained")
    for column, (axis, label) in enumerate(AXES.items()):
        by_value = table[table["axis"] == axis].groupby(axis)
        for row, (measured, unit) in enumerate((("samples_per_s", 1e3), ("peak_rss_bytes", 1e9))):
            middle, low, high = (by_value[measured].quantile(q) / unit for q in (0.5, 0.0, 1.0))
            panel = panels[row, column]
            spread = [middle - low, high - middle]
            panel.errorbar(middle.index, middle, yerr=spread, marker="o", color="#0072B2", capsize=3)
            panel.set(xscale="log", xlabel=label, ylim=(0, None))
            panel.set_xticks(middle.index, [_short(value) for value in middle.index], rotation=30, minor=False)
            panel.minorticks_off()
            panel.grid(alpha=0.3)
    panels[0, 0].set_ylabel("thousand samples/s\n(higher is better)")
    panels[1, 0].set_ylabel("memory of the process in GB\n(lower is better)")
    runs = table.groupby(["axis", "rows", "batch_size", "threads", "lookups"]).size().min()
    figure.suptitle(f"How cost grows: dlrm, rm2, SGD; medians of n = {runs} processes a point, bars: all of them")
    for kind in ("png", "pdf"):
        figure.savefig(out / f"growth.{kind}", dpi=130)
    plt.close(figure)


def _short(value: float) -> str:
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value:,.0f}"


if __name__ == "__main__":
    print(json.dumps(measure(Point(**json.loads(sys.argv[1])))))
