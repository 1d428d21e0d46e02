"""Generated Taobao: the published skew, tastes that can be learnt, and the same events as text."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from datasets import writer
from datasets.schema import RESERVED_ID
from datasets.store import open_set, prepare
from datasets.synthetic_taobao import blocks, write_text
from datasets.taobao_sequences import Group, Rules
from datasets.taobao_world import (
    BEHAVIOUR_SHARES,
    BLOCK_USERS,
    CATEGORIES,
    FIRST_SECOND,
    LAST_SECOND,
    LEVELS,
    USERS,
    World,
)

RULES = Rules(points_per_user=10, validation_share=0.1, test_share=0.1, seed=0)
SCALE = 0.02
ROW_BYTES, MIB = 64, 2**20
# FAE (PVLDB 15(1), Figure 5), Taobao: share of all accesses that makes a row hot → hot tables in MiB, hot inputs in %
PUBLISHED = {1e-5: (1.0, 0.0), 1e-6: (45.0, 1.0), 1e-7: (117.0, 27.1), 1e-8: (240.0, 92.5)}


@pytest.fixture(scope="module")
def train() -> np.ndarray:
    """[N, 63] keys of the training inputs of a world of that scale."""
    world = World(0, SCALE)
    groups = (Group(events) for events in blocks(world, world.users))
    return np.concatenate([part.keys for group in groups for part in group.inputs(RULES) if part.split == "train"])


def test_hot_sizes_and_shares_are_as_published(train: np.ndarray) -> None:
    """With sizes in proportion and thresholds as numbers of accesses, a small world stands for the whole one."""
    tables = train[:, :21], train[:, 21:42]
    counts = [np.bincount(keys.ravel()) for keys in tables]
    accesses = 21 * len(train) / SCALE  # of a table, in the whole world
    for threshold, (size, share) in PUBLISHED.items():
        hot = [count >= threshold * accesses for count in counts]
        rows = sum(int(rows.sum()) for rows in hot) / SCALE + CATEGORIES  # tables below 1 MB are always hot
        inputs = np.logical_and(*(rows[keys].all(axis=1) for rows, keys in zip(hot, tables, strict=True)))
        assert 100 * inputs.mean() == pytest.approx(share, abs=2.5)
        if size > 1:
            assert rows * ROW_BYTES / MIB == pytest.approx(size, rel=0.05)


def test_sizes_are_as_published() -> None:
    world = World(0)
    assert (world.users, world.items.sum(), CATEGORIES) == (987_994, 4_162_024, 9_439)
    assert world.lengths.mean() * USERS == pytest.approx(100_150_807, rel=0.005)
    assert (World(0, 0.5).items == [level.items // 2 for level in LEVELS]).all()


def test_a_block_is_a_function_of_seed_and_number() -> None:
    world = World(5, SCALE)
    first = world.block(3)
    world.block(0)
    assert (world.block(3) == first).all() and (World(5, SCALE).block(3) == first).all()
    for other in (world.block(2), World(6, SCALE).block(3)):
        assert len(other) == len(first) and (other["item"] != first["item"]).mean() > 0.9
    assert world.block(2)["user"].max() < first["user"].min()


def test_events_are_as_they_should_be() -> None:
    events = World(0).block(1)
    assert (events["user"].min(), events["user"].max()) == (BLOCK_USERS + 1, 2 * BLOCK_USERS)
    assert events["time"].min() >= FIRST_SECOND and events["time"].max() <= LAST_SECOND
    same_user = np.diff(events["user"].astype(np.int64)) == 0
    assert (np.diff(events["time"].astype(np.int64))[same_user] > 0).all()
    shares = np.bincount(events["behaviour"]) / len(events)
    np.testing.assert_allclose(shares, list(BEHAVIOUR_SHARES.values()), atol=0.003)
    pairs = np.unique(events[["item", "category"]])
    assert len(np.unique(pairs["item"])) == len(pairs)  # an item has one category
    assert events["category"].min() >= 1 and events["category"].max() <= CATEGORIES
    popular = np.sort(np.bincount(events["category"], minlength=CATEGORIES))[::-1] / len(events)
    assert popular[:94].sum() == pytest.approx(0.495, abs=0.02)  # the top 1 % of categories, in a slice of the real set
    assert popular[:944].sum() == pytest.approx(0.81, abs=0.04)


def test_taste_tells_a_real_candidate_from_a_popular_one(train: np.ndarray) -> None:
    group = Group(World(0, SCALE).block(0))
    scores, labels = [], []
    for part in group.inputs(RULES):
        categories = part.keys[:, 42:]
        scores.append((categories[:, :-1] == categories[:, -1:]).sum(axis=1))
        labels.append(part.labels)
    assert roc_auc_score(np.concatenate(labels), np.concatenate(scores)) > 0.8


def test_read_from_text_it_is_the_same_set(tmp_path: Path) -> None:
    silent = lambda line: None  # noqa: E731
    (plain,) = write_text(tmp_path, users=700, seed=3, scale=SCALE, report=silent)
    (packed,) = write_text(tmp_path, users=700, seed=3, scale=SCALE, gz=True, report=silent)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"UserBehavior.csv", "UserBehavior.csv.gz"}
    read = prepare("taobao", [packed], {"seed": 3}, tmp_path / "data")
    generated = open_set("synthetic-taobao", tmp_path / "data", {"seed": 3, "scale": SCALE, "users": 700})
    assert read.meta["files"] == generated.meta["files"]
    assert read.schema == generated.schema and read.meta["rows_dropped"] == generated.meta["rows_dropped"]


def test_rows_are_as_many_as_asked_for(tmp_path: Path) -> None:
    prepared = open_set("synthetic-taobao", tmp_path / "a", {"rows": 30_000, "scale": SCALE, "vocab": "train"})
    assert len(prepared.train) == 30_000 and prepared.train.labels.mean() == pytest.approx(0.5, abs=0.02)
    assert len(prepared.test) == len(prepared.validation) > 3_000
    assert not (prepared.train.ids == RESERVED_ID).any() and (prepared.test.ids == RESERVED_ID).any()
    whole = open_set("synthetic-taobao", tmp_path / "c", {"rows": 30_000, "scale": SCALE, "split": "users"})
    assert len(whole.train) == 30_000 and len(whole.test) > 3_000
    few = open_set("synthetic-taobao", tmp_path / "b", {"rows": 30_000, "users": 100, "scale": SCALE})
    assert 500 < len(few.train) < 800


def test_killed_it_goes_on_to_the_same_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"users": BLOCK_USERS + 300, "scale": SCALE, "points_per_user": 1, "test_share": 0.0}
    whole = prepare("synthetic-taobao", [], options, tmp_path / "whole")
    monkeypatch.setattr(writer, "PART_S", 0.0)
    append, calls = writer.StoreWriter.append_keys, [0]

    def sometimes(*args: object) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        append(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(writer.StoreWriter, "append_keys", sometimes)
    with pytest.raises(KeyboardInterrupt):
        prepare("synthetic-taobao", [], options, tmp_path / "again")
    again = prepare("synthetic-taobao", [], options, tmp_path / "again")
    assert calls[0] == 3 and again.meta == whole.meta
