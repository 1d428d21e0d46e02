"""From keys to ids: which raw ids get a row, and which row. Exact, or hashed to a bounded number of rows.

A table's ids are ranked by key, from 1; the reserved id 0 is everybody else's: ids that training does not have
(`vocab=train`), or that it has fewer than `min_count` times. With `hash_size` a key is first taken modulo that number,
as the papers cap Criteo Terabyte's tables; what is kept is then one bit for each possible value, so that memory does
not grow with the data. Without, it grows with the number of distinct ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from datasets.bits import BitSet, count_unmarked, mark
from datasets.errors import NothingLeft
from datasets.keys import MISSING, num_words, unpack
from datasets.npy import NpyStream, read_rows
from datasets.pace import Pace, Report
from datasets.schema import Schema, Table
from datasets.search import SortedKeys
from datasets.settings import Setting
from datasets.threads import in_threads
from datasets.writer import ENCODED, KEY_TYPE, KEYS, PARTS, SPLITS, VOCABULARY, StoreWriter, file_name

BLOCK = 1 << 17  # inputs whose keys are looked at together
MOST_COUNTED = 255  # counts stop there

OPTIONS = (
    Setting(
        key="vocab",
        default="all",
        choices=("all", "train"),
        help="give rows to the ids of the whole set, as the papers, or to those of the training split only",
    ),
    Setting(
        key="min_count",
        default=1,
        low=1,
        high=MOST_COUNTED,
        help="ids that occur less often share the reserved row (counted where vocab says)",
    ),
    Setting(
        key="hash_size",
        default=0,
        low=0,
        high=200_000_000,
        help="take ids modulo this number, so that no table has more rows (and one for missing ids); 0: exact ids",
    ),
)


class Vocabulary(Protocol):
    """The ids of one table."""

    def add(self, keys: np.ndarray) -> None:
        """Count keys [n] int64."""

    def close(self, min_count: int) -> None:
        """No more keys come; those that came less than `min_count` times are forgotten."""

    @property
    def kept(self) -> np.ndarray:
        """All that it has to know, once it is closed."""

    def load(self, kept: np.ndarray) -> None:
        """Be what another one was when it was closed."""

    def ids(self, keys: np.ndarray) -> np.ndarray:
        """[n] int32 from 1, and 0 for keys that are not known."""

    def __len__(self) -> int: ...


class Exact:
    """All distinct keys, sorted."""

    def __init__(self, counts: bool) -> None:
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64) if counts else None
        self._new: list[np.ndarray] = []
        self._new_counts: list[np.ndarray] = []
        self._pending = 0

    def add(self, keys: np.ndarray) -> None:
        new, counts = distinct(keys)
        self._new.append(new)
        if self._counts is not None:
            self._new_counts.append(counts)
        self._pending += len(new)
        if self._pending > len(self._keys):  # merged as they double, so that each key is sorted a few times only
            self._merge()

    def _merge(self) -> None:
        keys = np.concatenate([self._keys, *self._new])
        if self._counts is None:
            self._keys, _ = distinct(keys)
        else:
            counts = np.concatenate([self._counts, *self._new_counts])
            order = np.argsort(keys, kind="stable")
            keys = keys[order]
            first = starts(keys)
            self._keys = keys[first]
            self._counts = np.add.reduceat(counts[order], first) if len(first) else counts
        self._new, self._new_counts, self._pending = [], [], 0

    def close(self, min_count: int) -> None:
        self._merge()
        if self._counts is not None:
            self._keys = self._keys[self._counts >= min_count]
            self._counts = None
        self._sorted = SortedKeys(self._keys)

    @property
    def kept(self) -> np.ndarray:
        return self._keys

    def load(self, kept: np.ndarray) -> None:
        self._keys, self._sorted = kept, SortedKeys(kept)

    def ids(self, keys: np.ndarray) -> np.ndarray:
        return self._sorted.places(keys)

    def __len__(self) -> int:
        return len(self._keys)


class Hashed:
    """A bit for each remainder of the keys modulo `size`, and one for a missing id."""

    def __init__(self, size: int, counts: bool) -> None:
        self._size = size
        self._known = BitSet(size + 1)
        self._counts = np.zeros(size + 1, np.uint8) if counts else None

    def _places(self, keys: np.ndarray) -> np.ndarray:
        return np.where(keys == MISSING, self._size, keys % self._size)

    def add(self, keys: np.ndarray) -> None:
        if self._counts is None:
            self._known.add(self._places(keys))
        else:
            places, counts = distinct(self._places(keys))
            self._counts[places] = np.minimum(self._counts[places] + counts, MOST_COUNTED)

    def close(self, min_count: int) -> None:
        if self._counts is not None:
            self._known.add(np.flatnonzero(self._counts >= min_count))
            self._counts = None
        self._known.close()

    @property
    def kept(self) -> np.ndarray:
        return self._known.words

    def load(self, kept: np.ndarray) -> None:
        self._known.words = kept
        self._known.close()

    def ids(self, keys: np.ndarray) -> np.ndarray:
        return self._known.places(self._places(keys))

    def __len__(self) -> int:
        return len(self._known)


def starts(ascending: np.ndarray) -> np.ndarray:
    """Where each run of equal values begins."""
    if not len(ascending):
        return np.empty(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(ascending[1:] != ascending[:-1]) + 1])


def distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values, ascending, and how often each occurs. Sorting is several times as quick as NumPy's `unique`."""
    ordered = np.sort(values)
    first = starts(ordered)
    return ordered[first], np.diff(first, append=len(ordered))


def encode(
    writer: StoreWriter,
    dense: Sequence[str],
    tables: Sequence[str],
    options: Mapping[str, Any],
    report: Report,
    steps: int = 1,
) -> None:
    """Turns the keys that were appended into ids, and sets the writer's schema.

    `tables` are names of tables of one lookup a step; the keys' columns stand table by table, step by step. What is
    done is kept: the module only has to come here again after a kill, with `writer.state` as it finds it.
    """
    if writer.state.get("stage") == ENCODED:
        writer.schema = Schema.from_dict(writer.state["schema"])
        return
    writer.flush()
    columns = len(tables) * steps
    if writer.state.get("stage") not in ("count", "encode"):
        writer.finish_part(force=True, **{**writer.state, "stage": "count"})
    vocabularies = _vocabularies(writer, len(tables), steps, options, report)
    if writer.rows("train") and not any(map(len, vocabularies)):
        raise NothingLeft(
            f"min_count={options['min_count']} leaves no id in any table, and all inputs would look the same; lower it."
        )
    sizes = [1 + max(1, len(vocabulary)) for vocabulary in vocabularies]
    writer.schema = Schema(
        dense=tuple(dense),
        tables=tuple(Table(name=name, rows=rows) for name, rows in zip(tables, sizes, strict=True)),
        steps=steps,
    )
    total = sum(writer.rows(split) for split in SPLITS)
    pace = Pace(report, "giving ids", "inputs", total, sum(writer.rows(split, "sparse") for split in SPLITS))
    trained = _trained(writer, sizes, steps)

    def look_up(packed: np.ndarray, split: str) -> tuple[np.ndarray, int]:
        """The ids [n, C] of a block, and how many of them have no row, or a row without training."""
        ids, unknown = np.empty((len(packed), columns), np.int32), 0
        for table, vocabulary in enumerate(vocabularies):
            part = ids[:, table * steps : (table + 1) * steps]
            for step in range(steps):
                part[:, step] = vocabulary.ids(unpack(packed, table * steps + step, columns))
            unknown += (mark if split == "train" else count_unmarked)(trained[table], part)
        return ids, unknown

    for split in SPLITS:
        fact = "lookups_too_rare" if split == "train" else "lookups_unseen_in_training"
        blocks = _packed(writer, split, columns, first=writer.rows(split, "sparse"))
        for ids, unknown in in_threads(partial(look_up, split=split), blocks):
            writer.facts[fact] = writer.facts.get(fact, 0) + unknown
            writer.append_ids(split, ids)
            pace.add(len(ids))
            writer.finish_part(**{**writer.state, "stage": "encode"})
    pace.end()
    writer.finish_part(force=True, **{**writer.state, "stage": "encode"})


def _trained(writer: StoreWriter, sizes: Sequence[int], steps: int) -> list[np.ndarray]:
    """[rows] bool of each table: the rows that training inputs look up, where ids were given before a kill already."""
    trained = [np.zeros(rows, bool) for rows in sizes]
    path, columns = writer.folder / file_name("train", "sparse"), len(sizes) * steps
    if rows := writer.rows("train", "sparse"):
        for ids in read_rows(path, columns, PARTS["sparse"], rows, BLOCK):
            for table, marks in enumerate(trained):
                mark(marks, ids[:, table * steps : (table + 1) * steps])
    return trained


def _vocabularies(
    writer: StoreWriter, num_tables: int, steps: int, options: Mapping[str, Any], report: Report
) -> list[Vocabulary]:
    """The vocabulary of each table: counted and kept, or as it was counted before a kill."""
    paths = [writer.folder / f"{VOCABULARY}{table}.npy" for table in range(num_tables)]
    if writer.state["stage"] == "encode":
        made = _new(num_tables, options)
        with suppress(OSError, EOFError, ValueError):  # of a file that is gone or damaged: then they are counted again
            for vocabulary, path in zip(made, paths, strict=True):
                vocabulary.load(np.load(path, allow_pickle=False).reshape(-1))
            return made
    made = _count(writer, num_tables, steps, options, report)
    for vocabulary, path in zip(made, paths, strict=True):
        stream = NpyStream(path, 1, vocabulary.kept.dtype)  # np.save would not say that the disk is full
        stream.append(vocabulary.kept.reshape(-1, 1))
        stream.close()
    writer.finish_part(force=True, **{**writer.state, "stage": "encode"})
    return made


def _new(num_tables: int, options: Mapping[str, Any]) -> list[Vocabulary]:
    counts, size = options["min_count"] > 1, options["hash_size"]
    return [Hashed(size, counts) if size else Exact(counts) for _ in range(num_tables)]


def _count(
    writer: StoreWriter, num_tables: int, steps: int, options: Mapping[str, Any], report: Report
) -> list[Vocabulary]:
    """The vocabulary of each table."""
    made = _new(num_tables, options)
    splits = SPLITS if options["vocab"] == "all" else SPLITS[:1]
    columns = num_tables * steps
    pace = Pace(report, "counting ids", "inputs", sum(writer.rows(split) for split in splits))
    with ThreadPoolExecutor(thread_name_prefix="count") as pool:
        for split in splits:
            for packed in _packed(writer, split, columns):

                def add(table: int, packed: np.ndarray = packed) -> None:
                    for column in range(table * steps, (table + 1) * steps):
                        made[table].add(unpack(packed, column, columns))

                list(pool.map(add, range(num_tables)))
                pace.add(len(packed))
        list(pool.map(lambda vocabulary: vocabulary.close(options["min_count"]), made))
    pace.end()
    return made


def _packed(writer: StoreWriter, split: str, columns: int, first: int = 0) -> Iterator[np.ndarray]:
    path: Path = writer.folder / file_name(split, KEYS)
    if writer.rows(split, KEYS) > first:
        yield from read_rows(path, columns + num_words(columns), KEY_TYPE, writer.rows(split, KEYS), BLOCK, first)
