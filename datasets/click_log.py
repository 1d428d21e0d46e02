"""One labelled input a line: from raw text files to a prepared set, streamed, and resumable at every few seconds' work.

What a data set adds is its layout, what a block of lines means, and which split a line goes to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datasets.errors import UserError
from datasets.files import check_room, size
from datasets.keys import MISSING, num_words
from datasets.layout import EMPTY, Layout
from datasets.pace import Pace, Report, duration
from datasets.settings import Setting
from datasets.text import REFUSE, SKIP, Block, Position, count_lines, parse, raw_blocks, read_converted
from datasets.vocabulary import OPTIONS as VOCABULARY_OPTIONS
from datasets.vocabulary import encode
from datasets.writer import BAD_ROWS, ON_BAD_ROW, SPLITS, StoreWriter

OPTIONS = (
    *VOCABULARY_OPTIONS,
    Setting(
        key=ON_BAD_ROW,
        default=REFUSE,
        choices=(REFUSE, SKIP),
        help="refuse a file with a line that cannot be read, or skip such lines and count them",
    ),
)
AS_COUNTED = "as counted; did the file change?"
NOT_USED = -1  # the split of a line that is left out
AFTER_PARSING = 0.6  # seconds of everything else for each second of parsing, as measured on two cores


@dataclass(frozen=True)
class Inputs:
    """A block of lines as inputs."""

    dense: np.ndarray  # [n, F] float32
    keys: np.ndarray  # [n, C] int64, MISSING where there is none
    labels: np.ndarray  # [n] int32


@dataclass(frozen=True, kw_only=True)
class ClickLog:
    """How a data set's files become inputs."""

    layout: Layout
    dense: tuple[str, ...]
    sparse: tuple[str, ...]
    convert: Callable[[Block], Inputs]
    # (block, index [n] of its lines over all files) → [n] index of the split in SPLITS, or NOT_USED
    split: Callable[[Block, np.ndarray], np.ndarray]
    lines: Sequence[int]  # of each file
    other_lines: str = AS_COUNTED  # what a person is told of a file that has more or fewer
    left_out: str = ""  # the reason for NOT_USED
    by_file: bool = False  # whether what a file gives depends on those before it alone


def log_dense(values: np.ndarray) -> np.ndarray:
    """[n, F] float32: log(1 + x), 0 where x is missing or negative (EMPTY is), as the papers'."""
    return np.log1p(np.maximum(values, 0)).astype(np.float32)


def to_keys(values: np.ndarray) -> np.ndarray:
    """[n, C] int64 keys of ids."""
    return np.where(values == EMPTY, MISSING, values)


def uniform(seed: int, index: np.ndarray) -> np.ndarray:
    """[n] float64 in [0, 1) of ascending line numbers: a function of seed and number, however lines are read."""
    if not len(index):
        return np.empty(0)
    first = int(index[0]) // 4 * 4
    bits = np.random.Philox(key=seed).advance(first // 4)  # which gives four numbers a step
    return np.random.Generator(bits).random(int(index[-1]) - first + 1)[index - first]


def split_bounds(lines: int, train_share: float) -> np.ndarray:
    """The first line of validation, and the first of test."""
    train = int(lines * train_share)
    return np.array([train, train + (lines - train) // 2])


def line_counts(writer: StoreWriter, sources: Sequence[Path], layout: Layout, report: Report) -> list[int]:
    """Lines of each file; what was counted before a kill is not counted again."""
    read = writer.state.get("position", {}).get("source", -1) + 1  # files that have not changed since
    known: list[int] = writer.state.get("lines", [])[:read]
    pace = Pace(report, "counting lines", "lines")
    return known + [count_lines(path, layout, pace.add) for path in sources[len(known) :]]


def write_click_log(
    writer: StoreWriter, name: str, sources: Sequence[Path], log: ClickLog, options: Mapping[str, Any], report: Report
) -> None:
    """Reads the files once, then gives ids. What was finished before a kill is not done again."""
    for path in sources:
        writer.add_source(path)
    if writer.state.get("stage", "read") == "read":
        _read(writer, name, sources, log, options, report)
    encode(writer, log.dense, log.sparse, options, report)
    writer.remove_keys()


def _read(
    writer: StoreWriter, name: str, sources: Sequence[Path], log: ClickLog, options: Mapping[str, Any], report: Report
) -> None:
    start = Position(**writer.state.get("position", {}))
    starts = np.concatenate([[0], np.cumsum(log.lines)])  # lines in the files before each
    done = int(starts[start.source]) + start.line - (log.layout.header and start.line > 0)
    total = int(starts[-1])
    if not total:
        list(raw_blocks(sources, log.layout, start))  # a header that is wrong is named first
        raise UserError(f"{', '.join(map(str, sources))}: there is no line in it; {name} needs {log.layout.what}.")
    if not done:
        report(estimate(name, sources, log, writer.folder))
    pace = Pace(report, name, "lines", total, done)
    end = start
    for item in read_converted(sources, log.layout, log.convert, options[ON_BAD_ROW], start):
        block, made = item.block, item.made
        if block.source != end.source:
            check_lines(sources, log.lines, log.layout.header, end, block.source, log.other_lines)
        end = block.end
        index = starts[block.source] + block.line_numbers - 1 - log.layout.header
        split = log.split(block, index)
        for number, split_name in enumerate(SPLITS):
            which = np.flatnonzero(split == number)
            if len(which):
                rows: Any = slice(int(which[0]), int(which[-1]) + 1)  # a view where they lie side by side
                rows = rows if rows.stop - rows.start == len(which) else which
                writer.append_keys(split_name, made.dense[rows], made.keys[rows], made.labels[rows])
        writer.drop(BAD_ROWS, block.bad)
        writer.drop(log.left_out, int((split == NOT_USED).sum()))
        uses = block.source + 1 if log.by_file else None
        pace.add(block.lines)
        writer.finish_part(uses, position=asdict(block.end), stage="read", lines=list(log.lines))
    pace.end()
    check_lines(sources, log.lines, log.layout.header, end, len(sources), log.other_lines)


def check_lines(
    sources: Sequence[Path], lines: Sequence[int], header: bool, end: Position, upto: int, other: str = AS_COUNTED
) -> None:
    """UserError for a file, from the one that was read last up to another, that ends with other lines than expected."""
    for source in range(end.source, upto):
        found = max(0, end.line - header) if source == end.source else 0
        if found != lines[source]:
            raise UserError(f"{sources[source]}: {found:,} lines, not {lines[source]:,} {other}")


def estimate(name: str, sources: Sequence[Path], log: ClickLog, folder: Path) -> str:
    """What is to come, judged by the first lines. UserError where the disk cannot hold it."""
    lines = sum(log.lines)
    rate, used = _first_lines(sources, log)
    width = 4 * (len(log.dense) + len(log.sparse) + 1)
    final = round(lines * used) * width
    work = round(lines * used) * 4 * (len(log.sparse) + num_words(len(log.sparse)))
    what = f"{name}: {lines:,} lines need about {size(final + work)} on the disk while they are prepared"
    check_room(what, final + work, folder)
    text = f"{name}: {lines:,} lines; about {size(final)} on the disk, {size(final + work)} while it is made"
    return text + (f", about {duration(lines / rate * (1 + AFTER_PARSING))}" if rate else "")


def _first_lines(sources: Sequence[Path], log: ClickLog) -> tuple[float, float]:
    """(lines a second, share of them that is used) of the first block; (0, 1) where there is none."""
    for raw in raw_blocks(sources, log.layout, Position()):
        begin = time.perf_counter()
        block = parse(raw, sources[raw.source], log.layout, SKIP)
        log.convert(block)
        rate = raw.lines / (time.perf_counter() - begin)
        split = log.split(block, block.line_numbers - 1 - log.layout.header)
        return rate, float(np.mean(split != NOT_USED)) if len(split) else 1.0
    return 0.0, 1.0
