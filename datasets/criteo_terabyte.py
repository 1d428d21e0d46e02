"""`criteo-terabyte`: 24 days of Criteo's click logs, `day_0` to `day_23`, in the format of the Kaggle challenge.

The days before the last one are for training; the first half of the last one is the test split and the second half
validation, as in the DLRM reference. Like the papers, it can leave out a share of the inputs without a click (0.875
there) and take ids modulo a number (`hash_size`: 10, 40 or 100 million there).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datasets import click_log, criteo
from datasets.click_log import NOT_USED, ClickLog, line_counts, uniform, write_click_log
from datasets.errors import UserError
from datasets.pace import Report
from datasets.settings import Setting
from datasets.text import Block
from datasets.writer import StoreWriter

SUMMARY = "Criteo Terabyte: 24 days of display ads, 4.37 G rows, 13 dense and 26 categorical features, was it clicked."
NEEDS_SOURCE = True
OPTIONS = (
    *(
        Setting(key=s.key, default=40_000_000, low=s.low, high=s.high, help=s.help) if s.key == "hash_size" else s
        for s in click_log.OPTIONS
    ),
    Setting(
        key="drop_negatives",
        default=0.875,
        low=0.0,
        high=1.0,
        help="share of the inputs without a click that is left out at random, in all days; 0.875 as the papers",
    ),
    Setting(key="sample_seed", default=123, low=0, high=2**63 - 1, help="of what is left out"),
    Setting(
        key="days",
        default="all",
        choices=("all", "some"),
        help="all: day_0 to day_23 with as many lines as published; some: those that are given, the last one for tests",
    ),
)
DEFAULTS: dict[str, Any] = {
    "model": "rm3",
    "batch_size": 2048,
    "optimizer": "rowwise-adagrad",
    "lr": {"sgd": 0.1, "rowwise-adagrad": 0.02, "adagrad": 0.02},
    "settings": {},
}
PAPER = criteo.paper("rm3", lr=0.1, batch_size=2048)
LAYOUT = criteo.layout(
    "a day of Criteo's click logs", "there is no label; the days of the Criteo Terabyte set have one"
)
TRAIN, VALIDATION, TEST = range(3)  # places in SPLITS
DAY = re.compile(r"day_(\d{1,2})(\.gz)?")
# Lines of each day, as the set's users publish them; they add up to the 4,373,472,329 of the whole.
PUBLISHED_LINES = (
    195_841_983, 199_563_535, 196_792_019, 181_115_208, 152_115_810, 172_548_507, 204_846_845, 200_801_003,
    193_772_492, 198_424_372, 185_778_055, 153_588_700, 169_003_364, 194_216_520, 194_081_279, 187_154_596,
    177_984_934, 163_382_602, 142_061_091, 156_534_237, 193_627_464, 192_215_183, 189_747_893, 178_274_637,
)  # fmt: skip


def day_of(path: Path) -> int:
    """The number in a day's name. UserError where there is none."""
    found = DAY.fullmatch(path.name)
    if not found or int(found[1]) >= len(PUBLISHED_LINES):
        raise UserError(f"--source {path} is not named like a day of criteo-terabyte (day_0 to day_23, or day_0.gz).")
    return int(found[1])


def find_files(sources: Sequence[Path], options: Mapping[str, Any]) -> list[Path]:
    """The days in order, of files and folders. UserError for a day that is missing or given twice."""
    paths = [file for path in sources for file in _files(path)]
    by_day: dict[int, Path] = {}
    for path in paths:
        if (other := by_day.setdefault(day_of(path), path)) != path:
            raise UserError(f"{other} and {path} are the same day of criteo-terabyte; give one of them.")
    wanted = range(len(PUBLISHED_LINES)) if options["days"] == "all" else sorted(by_day)
    if not by_day:
        raise UserError(
            "criteo-terabyte: there is no day_0 to day_23 in what --source gives; give the folder that holds them."
        )
    if missing := [f"day_{day}" for day in wanted if day not in by_day]:
        raise UserError(
            f"criteo-terabyte: there is no {', '.join(missing)} in what --source gives; "
            "`--option days=some` takes the days that are there."
        )
    if len(by_day) < 2:
        raise UserError("criteo-terabyte needs two days or more: the last one is for validation and test.")
    return [by_day[day] for day in wanted]


def _files(path: Path) -> list[Path]:
    try:
        return sorted(file for file in path.iterdir() if DAY.fullmatch(file.name)) if path.is_dir() else [path]
    except OSError as error:
        raise UserError(f"--source {path} cannot be read ({error.strerror}).") from error


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the days in order."""
    if options["days"] == "all":
        lines = [PUBLISHED_LINES[day_of(path)] for path in sources]
    else:
        lines = line_counts(writer, sources, LAYOUT, report)
    writer.facts |= {"lines": sum(lines), "published_lines": sum(PUBLISHED_LINES)}
    log = ClickLog(
        layout=LAYOUT,
        dense=criteo.DENSE,
        sparse=criteo.SPARSE,
        convert=criteo.convert,
        split=splitter(lines, options["drop_negatives"], options["sample_seed"]),
        lines=lines,
        other_lines="as published; is it downloaded whole? `--option days=some` takes days as they are.",
        left_out="inputs without a click, left out at random",
        by_file=True,
    )
    write_click_log(writer, "criteo-terabyte", sources, log, options, report)


def splitter(lines: Sequence[int], drop: float, seed: int) -> Callable[[Block, np.ndarray], np.ndarray]:
    """The split of each line of a block: the last file is halved, and a share of the negatives is left out."""
    last = len(lines) - 1
    label = LAYOUT.columns["label"]

    def split(block: Block, index: np.ndarray) -> np.ndarray:
        split = np.full(len(index), TRAIN)
        if block.source == last:
            split = np.where(block.line_numbers <= (lines[last] + 1) // 2, TEST, VALIDATION)
        left_out = (block.values[:, label] == 0) & (uniform(seed, index) < drop)
        return np.where(left_out, NOT_USED, split)

    return split
