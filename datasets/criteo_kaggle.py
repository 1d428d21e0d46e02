"""`criteo-kaggle`: the training file of the Criteo Kaggle display advertising challenge.

The lines are in the order of time, a week of them. As in the DLRM reference, the first six sevenths are for training,
the first half of the rest is the test split and the second half validation; other shares can be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datasets import click_log, criteo
from datasets.click_log import ClickLog, line_counts, write_click_log
from datasets.files import named_in
from datasets.pace import Report
from datasets.settings import Setting
from datasets.text import Block
from datasets.writer import SPLITS, StoreWriter

SUMMARY = "Criteo Kaggle: a week of display ads, 45.8 M rows, 13 dense and 26 categorical features, was it clicked."
NEEDS_SOURCE = True
VERSION = 2
OPTIONS = (
    *click_log.OPTIONS,
    Setting(
        key="train_share",
        default=6 / 7,
        low=0.01,
        high=1.0,
        help="of the lines, from the first; the rest is halved, test first",
    ),
)
DEFAULTS: dict[str, Any] = {
    "model": "rm2",
    "batch_size": 1024,
    "optimizer": "rowwise-adagrad",
    "lr": {"sgd": 0.1, "rowwise-adagrad": 0.02, "adagrad": 0.02},
    "settings": {},
}
PAPER = criteo.paper("rm2", lr=0.01, batch_size=1024)
LAYOUT = criteo.layout(
    "the challenge's train.txt", "as in the challenge's unlabelled test.txt; give its train.txt instead"
)
PUBLISHED_LINES = 45_840_617
IN_ORDER = np.array([SPLITS.index(split) for split in ("train", "test", "validation")])


def find_files(sources: Sequence[Path], options: Mapping[str, Any]) -> list[Path]:
    """The files; a folder stands for the train.txt in it."""
    return [named_in(path, ("train.txt", "train.txt.gz"), "criteo-kaggle") for path in sources]


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the files in the given order as one."""
    lines = line_counts(writer, sources, LAYOUT, report)
    bounds = split_bounds(sum(lines), options["train_share"])
    writer.facts |= {"lines": sum(lines), "published_lines": PUBLISHED_LINES}

    def split(block: Block, index: np.ndarray) -> np.ndarray:
        return IN_ORDER[np.searchsorted(bounds, index, side="right")]

    log = ClickLog(
        layout=LAYOUT, dense=criteo.DENSE, sparse=criteo.SPARSE, convert=criteo.convert, split=split, lines=lines
    )
    write_click_log(writer, "criteo-kaggle", sources, log, options, report)


def split_bounds(lines: int, train_share: float) -> np.ndarray:
    """The first line of the test split, and the first of validation."""
    rest = int(lines * (1 - train_share) + 1e-9)  # so that a seventh of a multiple of seven is whole
    return np.array([lines - rest, lines - rest + (rest + 1) // 2])
