"""`avazu`: the training file of the Avazu click-through rate challenge, ten days of mobile ads.

The `id` of a line names it and is never a feature. The hour of the day is the one dense feature, as in the papers; the
other 21 columns are categorical. A whole-number column's value is its own key (−1 in C20 means unknown, and is a value
like any other); the others are hexadecimal. The papers split at random, so that a model is tested on hours that it was
trained on; `split=time` puts the last lines into validation and test instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datasets import click_log
from datasets.click_log import ClickLog, Inputs, line_counts, log_dense, split_bounds, to_keys, uniform, write_click_log
from datasets.criteo import paper
from datasets.files import named_in
from datasets.layout import EMPTY, Field, Layout
from datasets.pace import Report
from datasets.settings import Setting
from datasets.text import Block
from datasets.writer import StoreWriter

SUMMARY = "Avazu: ten days of mobile ads, 40.4 M rows, the hour and 21 categorical features, was it clicked."
NEEDS_SOURCE = True
OPTIONS = (
    *click_log.OPTIONS,
    Setting(
        key="split",
        default="random",
        choices=("random", "time"),
        help="80/10/10 at random, as the papers, or by time: lines are in its order",
    ),
    Setting(key="split_seed", default=123, low=0, high=2**63 - 1, help="of the random split; 123 is the papers'"),
)
DEFAULTS: dict[str, Any] = {
    "model": "rm4",
    "batch_size": 1024,
    "optimizer": "rowwise-adagrad",
    "lr": {"sgd": 0.1, "rowwise-adagrad": 0.02, "adagrad": 0.02},
    "settings": {},
}
PAPER = paper("rm4", lr=0.01, batch_size=1024)
PUBLISHED_LINES = 40_428_967
TRAIN_SHARE = 0.8

DENSE = ("hour",)
HEX = (
    "site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category", "device_id", "device_ip",
    "device_model",
)  # fmt: skip
SPARSE = ("C1", "banner_pos", *HEX, "device_type", "device_conn_type", *(f"C{number}" for number in range(14, 22)))
LAYOUT = Layout(
    what="the challenge's train.csv",
    header=True,
    fields=(
        Field(name="id", kind="unused"),
        Field(name="click", low=0, high=1),
        Field(name="hour", low=0, high=99_999_999, modulus=100, remainders=24),
        *(
            Field(name=name, kind="hex", empty=True)
            if name in HEX
            else Field(name=name, low=-1, high=2**31 - 1, empty=True)
            for name in SPARSE
        ),
    ),
    widths={23: "as in the challenge's unlabelled test.csv; give its train.csv instead"},
)
UNKNOWN = (1 << 32) - 1  # the key of −1


def find_files(sources: Sequence[Path], options: Mapping[str, Any]) -> list[Path]:
    """The files; a folder stands for the train.csv in it."""
    return [named_in(path, ("train.csv", "train.csv.gz", "train.gz"), "avazu") for path in sources]


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the files in the given order as one."""
    lines = line_counts(writer, sources, LAYOUT, report)
    bounds = split_bounds(sum(lines), TRAIN_SHARE)
    writer.facts |= {"lines": sum(lines), "published_lines": PUBLISHED_LINES}

    def split(block: Block, index: np.ndarray) -> np.ndarray:
        if options["split"] == "time":
            return np.searchsorted(bounds, index, side="right")
        return np.searchsorted([TRAIN_SHARE, (1 + TRAIN_SHARE) / 2], uniform(options["split_seed"], index), "right")

    log = ClickLog(layout=LAYOUT, dense=DENSE, sparse=SPARSE, convert=convert, split=split, lines=lines)
    write_click_log(writer, "avazu", sources, log, options, report)


def convert(block: Block) -> Inputs:
    """Labels, the hour of the day (0 to 23, from YYMMDDHH) on a logarithmic scale, and keys."""
    values, at = block.values, LAYOUT.columns
    sparse = values[:, at[SPARSE[0]] :]
    keys = to_keys(np.where((sparse < 0) & (sparse != EMPTY), UNKNOWN, sparse))
    return Inputs(log_dense(values[:, [at["hour"]]] % 100), keys, values[:, at["click"]].astype(np.int32))
