"""`taobao`: UserBehavior.csv, nine days of Taobao (Tianchi, data set 649), as time series for TBSM (`rm1`).

A line is user_id, item_id, category_id, behaviour, timestamp; there is no header, and users need not stand together.
Lines are sorted into buckets of users on disk, then turned into inputs one group of users after the other
(`taobao_sequences` says how); both go on after a kill. Memory holds a block of lines or a group of users, and the
distinct ids. The published file has some timestamps outside its nine days, which are left out and counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from datasets.click_log import OPTIONS as COMMON_OPTIONS
from datasets.click_log import check_lines, line_counts
from datasets.errors import UserError, unknown
from datasets.files import check_room, named_in, size
from datasets.keys import num_words
from datasets.layout import LARGEST_ID, Field, Layout
from datasets.pace import Pace, Report, duration
from datasets.settings import Setting
from datasets.taobao_sequences import BEHAVIOURS, DENSE, EVENT, STEPS, TABLES, Group, Rules
from datasets.taobao_spill import Run, Spill, remove_spill
from datasets.text import SKIP, Block, Position, parse, raw_blocks, read_converted
from datasets.vocabulary import encode
from datasets.writer import BAD_ROWS, ON_BAD_ROW, StoreWriter

NAME = "taobao"
SUMMARY = "Taobao's UserBehavior: 100 M events in sequences of 21, was the last one real; three tables, for rm1."
NEEDS_SOURCE = True
VERSION = 2  # of how events become inputs: a set of another version is made again
SEQUENCE_OPTIONS = (
    Setting(key="points_per_user", default=10, low=1, high=1000, help="inputs of a user, at most"),
    Setting(
        key="validation_share",
        default=0.1,
        low=0.0,
        high=0.4,
        help="of a user's inputs, before those for test; or of users",
    ),
    Setting(key="test_share", default=0.1, low=0.0, high=0.4, help="of a user's inputs, the last ones; or of users"),
    Setting(
        key="negatives",
        default="popular",
        choices=("popular", "uniform"),
        help="items that are not the user's: each as often as it occurs, or each distinct one as often as any other",
    ),
    Setting(
        key="split",
        default="places",
        choices=("places", "users"),
        help="hold back each user's last inputs, or all inputs of some users",
    ),
    Setting(key="seed", default=0, low=0, high=2**63 - 1, help="of everything that is drawn"),
)
OPTIONS = (
    *COMMON_OPTIONS,
    *SEQUENCE_OPTIONS,
    Setting(key="behaviours", default="all", help=f"which events count: all, or some of {','.join(BEHAVIOURS)}"),
    Setting(
        key="period",
        default="published",
        choices=("published", "any"),
        help="leave out events outside 25 November to 3 December 2017 in Beijing, or take any",
    ),
)
DEFAULTS: dict[str, Any] = {
    "model": "rm1",
    "batch_size": 256,
    "optimizer": "adagrad",
    "lr": {"sgd": 1.0, "rowwise-adagrad": 0.03, "adagrad": 0.05},
    "settings": {"hotline.learning_share": 0.2, "slipstream.alpha": 4, "slipstream.window": 0.05},
}
PAPER: dict[str, Any] = {
    "model": "rm1",
    "batch_size": 256,
    "optimizer": "adagrad",
    "lr": {"adagrad": 0.05},
    "settings": {"slipstream.alpha": 4, "slipstream.window": 0.05},
}

PERIOD = 1_511_539_200, 1_512_316_799  # first and last second
AFTER_PARSING = 6.0  # seconds in all for each second that one processor parses, measured on two
PUBLISHED = {"published_lines": 100_150_807, "published_users": 987_994}
LAYOUT = Layout(
    what="Tianchi's UserBehavior.csv",
    fields=(
        *(Field(name=f"{table}_id", low=0, high=LARGEST_ID) for table in TABLES),
        Field(name="behaviour", kind="word", choices=BEHAVIOURS),
        Field(name="timestamp", low=-(2**31), high=2**31 - 1),
    ),
)
OUTSIDE, OTHER_BEHAVIOUR = "events outside the period", "events of other behaviours"
REPEATED, SHORT, LONELY = (
    "events that are there twice",
    "events of users with fewer than 21",
    "events of users with every item",
)


def find_files(sources: Sequence[Path], options: Mapping[str, Any]) -> list[Path]:
    """The files; a folder stands for the UserBehavior.csv in it."""
    return [named_in(path, ("UserBehavior.csv", "UserBehavior.csv.gz"), NAME) for path in sources]


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the files in the given order as one. What was finished before a kill is not done again."""
    wanted = _behaviours(options["behaviours"])
    for path in sources:
        writer.add_source(path)
    if writer.state.get("stage", "read") in ("read", "build"):
        spill = Spill(writer.folder, writer.state.get("runs", 0), writer.state.get("events", 0))
        try:
            if "group" not in writer.state:
                _read(writer, spill, sources, wanted, options, report)
            _build(writer, spill, rules(options), report)
            writer.finish_part(force=True, stage="count")
        finally:
            spill.close()
    remove_spill(writer.folder)
    encode(writer, DENSE, TABLES, options, report, steps=STEPS)
    writer.remove_keys()


def rules(options: Mapping[str, Any]) -> Rules:
    """The part of the options that sequences are made by."""
    return Rules(**{option.key: options[option.key] for option in SEQUENCE_OPTIONS})


def append(writer: StoreWriter, group: Group, rules: Rules, most: int | None = None) -> None:
    """Adds a group's inputs, and counts what is not in them; at most so many training inputs in all."""
    for inputs in group.inputs(rules):
        left = len(inputs.labels)
        if most is not None and inputs.split == "train":
            left = min(left, most - writer.rows("train"))
        if left:
            writer.append_keys(inputs.split, inputs.dense[:left], inputs.keys[:left], inputs.labels[:left])
    lonely = int(group.sizes[group.lonely].sum())
    count = {
        "users": len(group.sizes) - int(group.lonely.sum()),
        "events": len(group.events) - lonely,
        "users_with_fewer_than_21_events": group.short_users,
    }
    for name, number in count.items():
        writer.facts[name] = writer.facts.get(name, 0) + number
    writer.drop(LONELY, lonely)
    writer.drop(REPEATED, group.repeated)
    writer.drop(SHORT, group.short_events)


def _behaviours(chosen: str) -> np.ndarray:
    """[behaviours] bool: which of them count."""
    names = BEHAVIOURS if chosen == "all" else tuple(name.strip() for name in chosen.split(","))
    for name in names:
        if name not in BEHAVIOURS:
            raise unknown("behaviour", name, BEHAVIOURS)
    return np.isin(BEHAVIOURS, names)


def _read(
    writer: StoreWriter,
    spill: Spill,
    sources: Sequence[Path],
    wanted: np.ndarray,
    options: Mapping[str, Any],
    report: Report,
) -> None:
    """Sorts the lines into the buckets."""
    lines = line_counts(writer, sources, LAYOUT, report)
    if not sum(lines):
        raise UserError(f"{', '.join(map(str, sources))}: there is no line in it; {NAME} needs {LAYOUT.what}.")
    start = Position(**writer.state.get("position", {}))
    done = sum(lines[: start.source]) + start.line
    if not done:
        report(_estimate(sources, sum(lines), options["points_per_user"], writer.folder))
    writer.facts |= {"lines": sum(lines)} | PUBLISHED
    low, high = PERIOD if options["period"] == "published" else (-(2**31), 2**31 - 1)

    def convert(block: Block) -> tuple[Run, int, int]:
        user, item, category, behaviour, second = block.values.T
        inside = (second >= low) & (second <= high)
        keep = inside & wanted[behaviour]
        events = np.empty(int(keep.sum()), EVENT)
        events["user"], events["item"], events["category"] = user[keep], item[keep], category[keep]
        events["behaviour"], events["time"] = behaviour[keep], second[keep]
        return Run.of(events), int((~inside).sum()), int((inside & ~keep).sum())

    pace = Pace(report, NAME, "lines", sum(lines), done)
    end = start
    for item in read_converted(sources, LAYOUT, convert, options[ON_BAD_ROW], start):
        check_lines(sources, lines, LAYOUT.header, end, item.block.source)
        end = item.block.end
        run, outside, other = item.made
        spill.append(run)
        writer.drop(BAD_ROWS, item.block.bad)
        writer.drop(OUTSIDE, outside)
        writer.drop(OTHER_BEHAVIOUR, other)
        pace.add(item.block.lines)
        spill.sync()
        writer.finish_part(stage="read", position=asdict(end), lines=lines, runs=spill.runs, events=spill.events)
    pace.end()
    check_lines(sources, lines, LAYOUT.header, end, len(sources))


def _build(writer: StoreWriter, spill: Spill, rules: Rules, report: Report) -> None:
    """Turns the buckets into inputs, group by group."""
    first, built = writer.state.get("group", 0), writer.state.get("built", 0)
    done: dict[str, Any] = {"stage": "build", "runs": spill.runs, "events": spill.events}
    spill.sync()
    writer.finish_part(force=True, group=first, built=built, **done)
    pace = Pace(report, f"{NAME}: making sequences", "events", spill.events, built)
    for number, events in enumerate(spill.groups(first), start=first):
        append(writer, Group(events), rules)
        pace.add(len(events))
        writer.finish_part(group=number + 1, built=pace.done, **done)
    pace.end()


def _estimate(sources: Sequence[Path], lines: int, points_per_user: int, folder: Path) -> str:
    """What is to come, for as many events a user as published. UserError where the disk cannot hold it."""
    inputs = lines * points_per_user * PUBLISHED["published_users"] // PUBLISHED["published_lines"]
    columns = len(TABLES) * STEPS
    final = 4 * inputs * (STEPS * len(DENSE) + columns + 1)
    work = lines * EVENT.itemsize + 4 * inputs * (columns + num_words(columns))
    what = f"{NAME}: {lines:,} lines need about {size(final + work)} on the disk while they are prepared"
    check_room(what, final + work, folder)
    raw = next(raw_blocks(sources, LAYOUT, Position()))
    begin = time.perf_counter()
    parse(raw, sources[raw.source], LAYOUT, SKIP)
    left = duration((time.perf_counter() - begin) / raw.lines * lines * AFTER_PARSING)
    return f"{NAME}: {lines:,} lines; about {size(final)} on the disk, {size(final + work)} while it is made, {left}"
