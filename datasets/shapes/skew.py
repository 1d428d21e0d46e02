"""FAE's pairs of a generated log: how large its hot rows are, and what share of the inputs looks up hot rows only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets.pace import Pace, Report
from datasets.shapes.levels import BLOCK
from datasets.shapes.log import Log
from datasets.shapes.spec import FLOAT_BYTES, MB, Shape
from datasets.threads import in_threads


@dataclass(frozen=True)
class HotSet:
    """The rows with so many accesses or more, and all rows of small tables."""

    least_count: int
    rows: int
    mb: float
    inputs: float  # share of the inputs all of whose lookups are among them


def hot_sets(log: Log, inputs: int, report: Report = lambda line: None) -> list[HotSet]:
    """Of the first inputs of a log, at each of the shape's thresholds. Generates them twice, and writes nothing.

    The thresholds are numbers of accesses at full size, so a log of scale s and s times as many inputs has the shares
    of the whole, and s times its hot rows in large tables.
    """
    shape, blocks = log.shape, range(-(-inputs // BLOCK))
    large = [at for at, column in enumerate(log.columns) if column.name not in shape.always_hot]
    counts = {at: np.zeros(log.schema.tables[at].rows, dtype=np.int32) for at in large}
    pace = Pace(report, f"synthetic-{shape.name}: counted", "inputs", 2 * inputs)
    for block, ids in zip(blocks, in_threads(log.ids, blocks), strict=True):
        for at in large:
            np.add.at(counts[at], ids[: inputs - block * BLOCK, at], 1)
        pace.add(BLOCK)
    hot_inputs = np.zeros(len(shape.least_counts), dtype=np.int64)
    for block, ids in zip(blocks, in_threads(log.ids, blocks), strict=True):
        kept = ids[: inputs - block * BLOCK]
        coldest = np.min([counts[at][kept[:, at]] for at in large], axis=0)
        hot_inputs += [int((coldest >= least).sum()) for least in shape.least_counts]
        pace.add(BLOCK)
    small = sum(column.values for column in log.columns if column.name in shape.always_hot)
    found = []
    for least, hot in zip(shape.least_counts, hot_inputs.tolist(), strict=True):
        rows = small + sum(int((of_table >= least).sum()) for of_table in counts.values())
        found.append(HotSet(least, rows, rows * shape.width * FLOAT_BYTES / MB, hot / inputs))
    return found


def compare(shape: Shape, inputs: int, seed: int, scale: float, report: Report) -> str:
    """FAE's published pairs beside those of the generated inputs, as lines of text; `inputs` 0: scale times all."""
    inputs = inputs or round(shape.inputs * scale)
    found = hot_sets(Log(shape, seed, scale, inputs), inputs, report)
    lines = [
        f"synthetic-{shape.name}, {inputs:,} inputs at scale {scale:g}; sizes in MB at width {shape.width}",
        "accesses   published MB   generated MB   published hot inputs   generated hot inputs",
    ]
    for hot, mb, share in zip(found, shape.hot_mb, shape.hot_inputs, strict=True):
        lines.append(f"≥ {hot.least_count:<8} {mb:>12,.1f} {hot.mb:>14,.1f} {share:>22.1%} {hot.inputs:>22.1%}")
    return "\n".join(lines)
