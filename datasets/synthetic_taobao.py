"""`synthetic-taobao`: generated events with the published skew of Taobao's, made into inputs as `taobao` makes them.

`taobao_world` says how events are generated. A world of scale 1 has the published numbers of users and items; a smaller
one has fewer of both and the same skew: with sizes taken in proportion and thresholds as the same numbers of accesses,
FAE's pairs come out alike, which is how a small set stands for a large one.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from datasets.errors import UserError
from datasets.pace import Pace, Report
from datasets.settings import Setting
from datasets.taobao import DEFAULTS, PAPER, SEQUENCE_OPTIONS, append, rules
from datasets.taobao_sequences import BEHAVIOURS, DENSE, STEPS, TABLES, Group, split_sizes
from datasets.taobao_world import BLOCK_USERS, World
from datasets.vocabulary import OPTIONS as VOCABULARY_OPTIONS
from datasets.vocabulary import encode
from datasets.writer import StoreWriter

EVENTS_A_USER = 101.6  # on average

__all__ = ["DEFAULTS", "NEEDS_SOURCE", "OPTIONS", "PAPER", "SUMMARY", "VERSION", "write", "write_text"]

NAME = "synthetic-taobao"
SUMMARY = "Generated events with Taobao's skew in sequences of 21, was the last one real; three tables, for rm1."
NEEDS_SOURCE = False
VERSION = 2  # of the generator: a set of another version is made again
OPTIONS = (
    Setting(key="scale", default=0.03, low=0.0001, high=1.0, help="of the published numbers of users and items"),
    Setting(
        key="users",
        default=0,
        low=0,
        high=10**9,
        help="users that are generated; 0: as many as rows take or scale says",
    ),
    Setting(key="rows", default=0, low=0, high=10**9, help="training inputs, at most; 0: all those of the users"),
    *SEQUENCE_OPTIONS,
    *VOCABULARY_OPTIONS,
)
ZIPPING = 1  # gzip's level: the fastest


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Generates block by block; each is a group of users of its own. What was finished before a kill is kept."""
    if writer.state.get("stage", "generate") == "generate":
        _generate(writer, options, report)
        writer.finish_part(force=True, stage="count")
    encode(writer, DENSE, TABLES, options, report, steps=STEPS)
    writer.remove_keys()


def _generate(writer: StoreWriter, options: Mapping[str, Any], report: Report) -> None:
    world, made, rows = World(options["seed"], options["scale"]), rules(options), options["rows"]
    of_a_block = int(split_sizes(world.lengths, made)[:, 0].sum())
    users = options["users"] or (-(-rows // of_a_block) * BLOCK_USERS if rows else world.users)
    until_full = bool(rows) and not options["users"]  # where users are split, blocks have more and fewer rows
    number = writer.state.get("block", 0)
    pace = Pace(report, NAME, "users", users, min(users, number * BLOCK_USERS))
    while writer.rows("train") < rows if until_full else number * BLOCK_USERS < users:
        events = world.block(number)
        append(writer, Group(events if until_full else events[events["user"] <= users]), made, rows or None)
        pace.add(min(BLOCK_USERS, users - pace.done))
        number += 1
        writer.finish_part(stage="generate", block=number)
    pace.end()


def blocks(world: World, users: int) -> Iterator[np.ndarray]:
    """The events of so many users, block by block."""
    for number in range(-(-users // BLOCK_USERS)):
        events = world.block(number)
        yield events[events["user"] <= users]


def write_text(
    folder: Path, *, users: int = 0, seed: int = 0, scale: float = 1.0, gz: bool = False, report: Report
) -> list[Path]:
    """The events as UserBehavior.csv in a folder, compressed or not; 0 users: as many as the scale says.

    The file appears under its name when it is whole.
    """
    world = World(seed, scale)
    users = users or world.users
    path = folder / f"UserBehavior.csv{'.gz' if gz else ''}"
    if path.exists():
        raise UserError(f"{path} is there already; move it away or choose another folder.")
    new = path.with_name(path.name + ".new")
    pace = Pace(report, path.name, "events")
    try:
        with _opened(new, gz) as file:
            for events in blocks(world, users):
                file.write(text_of(events))
                pace.add(len(events))
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    pace.end()
    return [path]


def text_of(events: np.ndarray) -> bytes:
    """Lines of user_id, item_id, category_id, behaviour, timestamp."""
    columns = {name: np.ascontiguousarray(events[name]) for name in (*TABLES, "behaviour", "time")}
    frame = pl.DataFrame(columns).with_columns(pl.Series(BEHAVIOURS).gather(columns["behaviour"]).alias("behaviour"))
    return frame.write_csv(include_header=False).encode()


@contextmanager
def _opened(path: Path, gz: bool) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if not gz:
            yield file
            return
        with gzip.GzipFile(path.stem, "wb", ZIPPING, file, mtime=0) as zipped:  # the same bytes each time
            yield zipped  # type: ignore[misc]
