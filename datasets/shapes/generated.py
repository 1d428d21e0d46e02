"""What the generated sets do alike: their options, and writing a log as a prepared set.

A log is one sequence of inputs in time: those for training, then validation, then test. Ids of the last two that
training does not have become the reserved one. A table has as many rows as values were published, and the reserved one.

A log of scale s has s times as many values in its large tables and in each level of popularity. With s times as many
inputs, a value is looked up as often as at full size: the share of inputs whose rows all have k accesses or more is the
same for any k, and the hot rows of large tables are s times as many. That is how small sets stand for large ones. With
more or fewer inputs it is a longer or shorter piece of the same log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from datasets.files import check_room, size
from datasets.pace import Pace, Report
from datasets.planted import best, sigmoid
from datasets.schema import RESERVED_ID
from datasets.settings import Setting
from datasets.shapes.labels import Planted
from datasets.shapes.levels import BLOCK
from datasets.shapes.log import Inputs, Log
from datasets.shapes.spec import Shape
from datasets.threads import in_threads
from datasets.writer import SPLITS, StoreWriter

VERSION = 1  # of the generator: a set of another version is made again
OPTIONS = (
    Setting(key="rows", default=1_000_000, low=1, high=1_000_000_000, help="training inputs"),
    Setting(key="validation_rows", default=50_000, low=0, high=100_000_000, help="validation inputs"),
    Setting(key="test_rows", default=50_000, low=1, high=100_000_000, help="test inputs"),
    Setting(key="seed", default=0, low=0, help="of everything that is drawn"),
    Setting(
        key="scale",
        default=1.0,
        low=0.001,
        high=1.0,
        help="of the large tables; scale times the published number of inputs look up a row as often as all do there",
    ),
)


def defaults(model: str, lr: float) -> dict[str, Any]:
    """How the set is trained unless the user says otherwise; `lr` of the Adagrads.

    Of four seeds on 100,000 inputs of the Kaggle shape, one ended at AUC 0.735 instead of 0.79 at lr 0.01, and none at
    lr 0.005.
    """
    rates = {"sgd": 0.3, "rowwise-adagrad": lr, "adagrad": lr}
    return {"model": model, "batch_size": 1024, "optimizer": "rowwise-adagrad", "lr": rates, "settings": {}}


@dataclass(frozen=True)
class Labelled:
    """Inputs that follow one another, with their labels."""

    first: int  # place of the first one in the log
    inputs: Inputs
    labels: np.ndarray  # [n] int32
    chances: np.ndarray  # [n] float64, the true probabilities

    def part(self, wanted: slice) -> Labelled:
        """Those at the wanted places of the log (views)."""
        start, end = (min(max(at - self.first, 0), len(self.labels)) for at in (wanted.start, wanted.stop))
        part = slice(start, end)
        return Labelled(self.first + start, self.inputs.part(part), self.labels[part], self.chances[part])

    @property
    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and probabilities, without what they were made from."""
        return self.labels.copy(), self.chances.copy()


def labelled(log: Log, planted: Planted, block: int, raw: bool = False) -> Labelled:
    """A block as it is in the prepared set, or, `raw`, in the text that such a set would be prepared from."""
    inputs = log.inputs(block, counts=raw)
    chances = sigmoid(planted.log_odds(inputs) + (math.log(log.shape.negatives_kept) if raw else 0.0))
    labels = (log.label_draws(block) < chances).astype(np.int32)
    return Labelled(block * BLOCK, inputs, labels, chances)


def write(
    shape: Shape, writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report
) -> None:
    """Generates block by block, and goes on with the block after the last finished part."""
    ends = np.cumsum([options[f"{key}rows"] for key in ("", "validation_", "test_")]).tolist()
    log = Log(shape, options["seed"], options["scale"], length=ends[-1])
    make = partial(labelled, log, Planted(log, options["seed"]))
    writer.schema = log.schema
    if not writer.has_parts:
        _check_room(shape, log, ends[-1], writer.folder, report)
    done, unseen = writer.state.get("blocks", 0), writer.state.get("unseen", 0)
    seen = Seen(log, ends[0], done, report)
    truth = [made.part(slice(*ends[1:])).truth for made in in_threads(make, range(ends[1] // BLOCK, done))]
    pace = Pace(report, f"synthetic-{shape.name}", "inputs", ends[-1], min(done * BLOCK, ends[-1]))
    for made in in_threads(make, range(done, -(-ends[-1] // BLOCK))):
        for split, (start, end) in zip(SPLITS, pairwise([0, *ends]), strict=True):
            part = made.part(slice(start, end))
            if not len(part.labels):
                continue
            if split == "train":
                seen.add(part.inputs.ids)
            else:
                unseen += seen.reserve_others(part.inputs.ids)
            if split == "test":
                truth.append(part.truth)
            writer.append(split, part.inputs.dense, part.inputs.ids, part.labels)
        pace.add(min(BLOCK, ends[-1] - made.first))
        writer.finish_part(blocks=made.first // BLOCK + 1, unseen=unseen)
    pace.end()
    writer.facts |= best(*(np.concatenate(parts) for parts in zip(*truth, strict=True)))
    writer.facts["lookups_unseen_in_training"] = unseen


def _check_room(shape: Shape, log: Log, inputs: int, folder: Path, report: Report) -> None:
    """Says what the files will take. UserError where the disk cannot hold them."""
    needed = 4 * (log.schema.num_dense + log.schema.num_lookups + 1) * inputs
    check_room(f"synthetic-{shape.name}: {inputs:,} inputs need {size(needed)} on the disk", needed, folder)
    report(f"synthetic-{shape.name}: {inputs:,} inputs; {size(needed)} on the disk")


class Seen:
    """The rows that training inputs look up. Those of blocks that are done are found by generating their ids again."""

    def __init__(self, log: Log, train: int, done: int, report: Report) -> None:
        self._offsets = log.schema.table_offsets[:-1].tolist()
        self._rows = np.zeros(log.schema.num_rows, dtype=bool)
        blocks = range(min(done, -(-train // BLOCK)))
        pace = Pace(report, f"synthetic-{log.shape.name}: ids of what is done", "inputs", len(blocks) * BLOCK)
        for block, ids in zip(blocks, in_threads(log.ids, blocks), strict=True):
            self.add(ids[: train - block * BLOCK])
            pace.add(len(ids))

    def add(self, ids: np.ndarray) -> None:
        """Rows of training inputs, [n, C]."""
        for at, offset in enumerate(self._offsets):
            self._rows[ids[:, at] + offset] = True

    def reserve_others(self, ids: np.ndarray) -> int:
        """Turns ids [n, C] that training does not have into the reserved one, in place; says how many."""
        found = 0
        for at, offset in enumerate(self._offsets):
            others = ~self._rows[ids[:, at] + offset]
            ids[others, at] = RESERVED_ID
            found += int(others.sum())
        return found
