"""Which raw ids get a row, and which row: what plain dictionaries say, whatever the blocks."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import vocabulary
from datasets.errors import UserError
from datasets.keys import MISSING
from datasets.schema import Table
from datasets.vocabulary import Exact, Hashed, Vocabulary, distinct, encode, starts
from datasets.writer import KEYS, StoreWriter

KEY = st.sampled_from([0, 1, 2, 3, 63, 64, 2**31, 2**32 - 1, MISSING]) | st.integers(0, MISSING)
BLOCKS = st.lists(st.lists(KEY, max_size=20), max_size=8)
SIZES = st.sampled_from([1, 2, 3, 62, 63, 64, 65, 127, 1000, 100_000])


def ranks(keys: list[int], min_count: int) -> dict[int, int]:
    """Key → id: those that are there often enough, from 1 in their order."""
    counts = Counter(keys)
    return {key: rank for rank, key in enumerate(sorted(k for k in counts if counts[k] >= min_count), start=1)}


def filled(found: Vocabulary, blocks: list[list[int]], min_count: int) -> Vocabulary:
    for block in blocks:
        found.add(np.array(block, np.int64))
    found.close(min_count)
    return found


@settings(deadline=None)  # the first call compiles
@given(BLOCKS, st.integers(1, 4), st.lists(KEY))
def test_exact_ids_are_those_of_a_dictionary(blocks: list[list[int]], min_count: int, asked: list[int]) -> None:
    wanted = ranks([key for block in blocks for key in block], min_count)
    found = filled(Exact(counts=min_count > 1), blocks, min_count)
    asked += [key for block in blocks for key in block]
    ids = found.ids(np.array(asked, np.int64))
    assert ids.dtype == np.int32
    assert ids.tolist() == [wanted.get(key, 0) for key in asked]
    assert len(found) == len(wanted)


@settings(deadline=None)
@given(BLOCKS, st.integers(1, 4), SIZES, st.lists(KEY))
def test_hashed_ids_are_those_of_a_dictionary_of_remainders(
    blocks: list[list[int]], min_count: int, size: int, asked: list[int]
) -> None:
    def place(key: int) -> int:
        return size if key == MISSING else key % size

    wanted = ranks([place(key) for block in blocks for key in block], min_count)
    found = filled(Hashed(size, counts=min_count > 1), blocks, min_count)
    asked += [key for block in blocks for key in block]
    ids = found.ids(np.array(asked, np.int64))
    assert ids.dtype == np.int32
    assert ids.tolist() == [wanted.get(place(key), 0) for key in asked]
    assert len(found) == len(wanted) <= size + 1


@pytest.mark.parametrize("min_count", [1, 254, 255])
def test_thresholds_up_to_the_largest_count(min_count: int) -> None:
    blocks = [[7] * 250, [8] * 600, [7] * 4, [9]]
    for found in (Exact(counts=True), Hashed(10, counts=True)):
        ids = filled(found, blocks, min_count).ids(np.array([7, 8, 9]))
        assert ids.tolist() == {1: [1, 2, 3], 254: [1, 2, 0], 255: [0, 1, 0]}[min_count]


def test_the_memory_of_hashing_does_not_grow_with_the_keys() -> None:
    random = np.random.default_rng(0)
    found = Hashed(10_000, counts=False)
    for _ in range(50):
        found.add(random.integers(0, MISSING + 1, 5000))
    assert found._known.words.nbytes == 8 * (10_000 // 64 + 1)
    found.close(1)
    assert len(found) in (10_000, 10_001)  # with the missing id, or without
    assert found._known.words.nbytes + found._known._before.nbytes < 2000


def test_the_memory_of_exact_ids_grows_with_distinct_keys_alone() -> None:
    found = Exact(counts=False)
    most = 0
    for number in range(200):
        found.add(np.arange(1000) + number % 2)
        most = max(most, len(found._keys) + found._pending)
    found.close(1)
    assert len(found) == 1001 and most <= 3 * 1001


def test_the_largest_table_has_ids_of_32_bits() -> None:
    size = vocabulary.OPTIONS[-1].high
    assert vocabulary.OPTIONS[-1].key == "hash_size" and size is not None
    most_rows = int(size) + 1 + 1  # with the missing id's and the reserved one
    assert most_rows - 1 <= np.iinfo(np.int32).max
    Table(name="x", rows=most_rows)


@given(st.lists(st.integers(-5, 5)))
def test_distinct_values_are_counted(values: list[int]) -> None:
    found, counts = distinct(np.array(values, np.int64))
    assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == Counter(values)
    assert found.tolist() == sorted(set(values))
    assert starts(found).tolist() == list(range(len(found)))


SPLIT_KEYS = st.lists(st.lists(KEY, min_size=4, max_size=4), max_size=12)


@settings(max_examples=40, deadline=None)
@given(
    splits=st.tuples(st.lists(st.lists(KEY, min_size=4, max_size=4), min_size=1, max_size=12), SPLIT_KEYS, SPLIT_KEYS),
    vocab=st.sampled_from(["all", "train"]),
    hash_size=st.sampled_from([0, 3, 50]),
    min_count=st.integers(1, 2),
    block=st.sampled_from([1, 2, 5, 100]),
)
def test_tables_share_nothing_and_steps_share_a_table(
    tmp_path_factory: pytest.TempPathFactory,
    splits: tuple[list[list[int]], ...],
    vocab: str,
    hash_size: int,
    min_count: int,
    block: int,
) -> None:
    """Two tables of two steps each: columns a0 a1 b0 b1."""

    def place(key: int) -> int:
        return key if not hash_size else hash_size if key == MISSING else key % hash_size

    counted = splits if vocab == "all" else splits[:1]
    wanted = [
        ranks([place(row[column]) for rows in counted for row in rows for column in (at, at + 1)], min_count)
        for at in (0, 2)
    ]
    options = {"vocab": vocab, "hash_size": hash_size, "min_count": min_count}
    folder = tmp_path_factory.mktemp("any")
    with StoreWriter(folder, "toy", options) as writer, mock.patch.object(vocabulary, "BLOCK", block):
        for split, rows in zip(("train", "validation", "test"), splits, strict=True):
            if rows:
                zeros = np.zeros(len(rows), np.int32)
                writer.append_keys(split, np.zeros((len(rows), 2), np.float32), np.array(rows, np.int64), zeros)
        if not any(wanted):
            with pytest.raises(UserError, match=r"^min_count=2 leaves no id in any table, .* lower it\.$"):
                encode(writer, ("d",), ("a", "b"), options, lambda line: None, steps=2)
            return
        encode(writer, ("d",), ("a", "b"), options, lambda line: None, steps=2)
        writer.remove_keys()
        writer.finish()
        facts, schema = writer.facts, writer.schema
    assert not list(folder.glob(f"*{KEYS}*"))
    assert schema is not None and schema.steps == 2
    assert [table.rows for table in schema.tables] == [1 + max(1, len(known)) for known in wanted]
    unknown: list[int] = []
    trained = [{row[column] for row in splits[0] for column in (2 * table, 2 * table + 1)} for table in range(2)]
    for split, rows in zip(("train", "validation", "test"), splits, strict=True):
        ids = [[wanted[column // 2].get(place(row[column]), 0) for column in range(4)] for row in rows]
        np.testing.assert_array_equal(np.load(folder / f"{split}_sparse.npy"), np.array(ids, np.int32).reshape(-1, 4))
        known = [{place(key) for key in trained[column // 2]} for column in range(4)]  # of the table, in any step
        lookups = [(c, row[c], given[c]) for row, given in zip(rows, ids, strict=True) for c in range(4)]
        unknown.append(sum(place(key) not in known[c] or given == 0 for c, key, given in lookups))
    assert facts["lookups_too_rare"] == unknown[0]
    assert facts.get("lookups_unseen_in_training", 0) == unknown[1] + unknown[2]
