"""Sets generated in the shape of published ones: their skew, sizes and labels; blocks, splits and resuming."""

from __future__ import annotations

import dataclasses
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from datasets import files, store, writer
from datasets.errors import UserError
from datasets.schema import RESERVED_ID
from datasets.shapes import avazu, generated, kaggle, terabyte
from datasets.shapes.labels import Planted
from datasets.shapes.laws import Decline, Scatter, popularity, quantiles, slope_of
from datasets.shapes.levels import BLOCK, LevelColumn, block_levels
from datasets.shapes.log import Log
from datasets.shapes.skew import hot_sets
from datasets.shapes.spec import FLOAT_BYTES, MB, Shape
from datasets.store import PreparedSet, prepare

MODULES = {"kaggle": kaggle, "terabyte": terabyte, "avazu": avazu}
SCALE = 0.005
FEW = {"rows": 70_000, "validation_rows": 20_000, "test_rows": 20_000, "scale": SCALE}  # 4 blocks; splits end in three


@pytest.fixture(params=MODULES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return MODULES[request.param]


@cache
def full(name: str) -> Log:
    """A log with the published table sizes."""
    return Log(MODULES[name].SHAPE, 0, 1.0, 1)


@pytest.fixture(scope="module")
def logs() -> dict[str, Log]:
    """Small logs, as long as the published sets by their scale."""
    return {name: Log(m.SHAPE, 0, SCALE, round(SCALE * m.SHAPE.inputs)) for name, m in MODULES.items()}


def make(root: Path, **options: Any) -> PreparedSet:
    """Prepares the Avazu shape, whose blocks take least time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "load_dataset", lambda name: avazu)
        return prepare("synthetic-avazu", (), FEW | options, root)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> PreparedSet:
    return make(tmp_path_factory.mktemp("whole"))


def test_published_pairs_of_hot_size_and_hot_inputs(module: ModuleType, logs: dict[str, Log]) -> None:
    shape: Shape = module.SHAPE
    small_mb = sum(c.values for c in shape.columns if not c.levels) * shape.width * FLOAT_BYTES / MB
    found = hot_sets(logs[shape.name], round(SCALE * shape.inputs))
    for at, (hot, mb, share) in enumerate(zip(found, shape.hot_mb, shape.hot_inputs, strict=True)):
        assert hot.inputs == pytest.approx(share, abs=0.005)
        if (shape.name, at) != ("avazu", 0):  # printed as about 1 MB; its small tables have more
            assert small_mb + (hot.mb - small_mb) / SCALE == pytest.approx(mb, rel=0.05)


def test_published_table_sizes(module: ModuleType) -> None:
    shape: Shape = module.SHAPE
    assert [t.rows for t in full(shape.name).schema.tables] == [1 + column.values for column in shape.columns]
    small = {column.name for column in shape.columns if not column.levels}
    assert small == set(shape.always_hot)
    for at, (least, mb) in enumerate(zip(shape.least_counts, shape.hot_mb, strict=True)):
        rows = sum(sum(column.levels[: at + 1]) if column.levels else column.values for column in shape.columns)
        assert least >= 1
        if (shape.name, at) != ("avazu", 0):
            assert rows * shape.width * FLOAT_BYTES / MB == pytest.approx(mb, rel=0.02)
    for column in shape.columns:
        assert sum(column.levels) <= column.values


def test_most_frequent_values_have_their_published_shares(module: ModuleType) -> None:
    log, shape = full(module.SHAPE.name), module.SHAPE
    ids = np.concatenate([log.ids(block) for block in range(2)])
    for at, (column, made) in enumerate(zip(shape.columns, log.columns, strict=True)):
        assert ids[:, at].min() > RESERVED_ID and ids[:, at].max() <= column.values == made.values
        counts = np.bincount(ids[:, at], minlength=len(column.heads))
        absent = 0.0
        if made.missing_id is not None:
            absent = counts[made.missing_id] / len(ids)
            assert absent == pytest.approx(column.missing or shape.missing[column.block], abs=0.01)
            counts[made.missing_id] = 0
        shares = np.sort(counts)[::-1] / (len(ids) * (1 - absent))
        assert shares[: len(column.heads)] == pytest.approx(np.array(column.heads), abs=0.012)


def test_columns_of_a_block_are_missing_together(logs: dict[str, Log]) -> None:
    log = logs["kaggle"]
    ids = log.ids(0)
    for names in (("C3", "C4", "C12", "C16", "C21", "C24"), ("C19", "C20", "C25", "C26")):
        at = [[table.name for table in log.schema.tables].index(name) for name in names]
        missing = ids[:, at] == [log.columns[i].missing_id for i in at]
        assert 0.02 < missing.mean() < 0.5
        assert (missing == missing[:, :1]).all()


def test_ids_of_one_advertisement_go_together(logs: dict[str, Log]) -> None:
    log = logs["kaggle"]
    pairs = np.unique(log.ids(0)[:, [11, 20]], axis=0)  # C12 and C21
    assert len(pairs) < sum(len(np.unique(column)) for column in pairs.T)  # independent ones would give far more


def test_labels_have_the_base_rate_and_the_best_auc(module: ModuleType, logs: dict[str, Log]) -> None:
    log = logs[module.SHAPE.name]
    planted = Planted(log, 0)
    step = max(1, round(SCALE * log.shape.inputs) // BLOCK // 4)  # over all hours
    made = [generated.labelled(log, planted, block) for block in range(0, 4 * step, step)]
    labels, chances = (np.concatenate([getattr(m, name) for m in made]) for name in ("labels", "chances"))
    assert labels.mean() == pytest.approx(log.shape.base_rate, abs=0.015)
    assert generated.best(labels, chances)["best_auc"] == pytest.approx(log.shape.best_auc, abs=0.015)
    raw = generated.labelled(log, planted, 0, raw=True).labels
    kept = log.shape.negatives_kept
    of_raw = log.shape.base_rate * kept / (1 - log.shape.base_rate * (1 - kept))
    assert raw.mean() == pytest.approx(of_raw, abs=0.015)


def test_dense_features_are_logarithms_of_counts(logs: dict[str, Log]) -> None:
    for name in ("kaggle", "terabyte"):
        log = logs[name]
        inputs = log.inputs(1, counts=True)
        assert inputs.counts is not None
        assert (np.log1p(np.maximum(inputs.counts, 0)).astype(np.float32) == inputs.dense).all()
        assert (inputs.counts == -1).any() and (inputs.dense < 25).all()
    hours = np.expm1(logs["avazu"].inputs(0).dense)
    assert hours.shape == (BLOCK, 1) and hours.min() == 0 and hours.max() < 23.01


def test_a_block_depends_on_the_seed_and_its_number_alone(logs: dict[str, Log]) -> None:
    log = logs["avazu"]
    again = Log(avazu.SHAPE, 0, SCALE, round(SCALE * avazu.SHAPE.inputs))
    again.ids(0)
    assert (again.inputs(2).ids == log.inputs(2).ids).all() and (again.inputs(2).dense == log.inputs(2).dense).all()
    assert (again.ids(2) == log.ids(2)).all()
    assert (log.ids(1) != log.ids(2)).any()
    assert (Log(avazu.SHAPE, 1, SCALE, 1).ids(2) != log.ids(2)).any()
    assert sum(block_levels(avazu.SHAPE)) == BLOCK


def test_prepared_set(whole: PreparedSet) -> None:
    assert [len(s) for s in (whole.train, whole.validation, whole.test)] == [70_000, 20_000, 20_000]
    assert whole.meta["facts"]["best_auc"] == pytest.approx(avazu.SHAPE.best_auc, abs=0.03)
    seen = np.zeros(whole.schema.num_rows, dtype=bool)
    seen[whole.train.row_ids(slice(None))] = True
    assert not seen[whole.schema.reserved_rows].any()
    seen[whole.schema.reserved_rows] = True
    others = (whole.validation, whole.test)
    assert all(seen[split.row_ids(slice(None))].all() for split in others)
    unseen = sum(int((split.ids == RESERVED_ID).sum()) for split in others)
    assert whole.meta["facts"]["lookups_unseen_in_training"] == unseen > 0
    hours = np.concatenate([np.expm1(split.dense[:, 0]).round() for split in (whole.train, *others)])
    assert (np.flatnonzero(np.diff(hours))[:3] + 1).tolist() == [459, 917, 1375]  # 110,000 inputs in 240 hours


def test_splits_are_one_log(whole: PreparedSet, tmp_path: Path) -> None:
    other = make(tmp_path, rows=90_000, validation_rows=1_000, test_rows=19_000)
    for part in ("dense", "labels"):
        first, second = (
            np.concatenate([getattr(split, part) for split in (s.train, s.validation, s.test)]) for s in (whole, other)
        )
        assert (first == second).all()
    assert (whole.train.ids == other.train.ids[:70_000]).all()


def test_same_options_same_bytes(whole: PreparedSet, tmp_path: Path) -> None:
    assert make(tmp_path / "a").fingerprint == whole.fingerprint
    assert make(tmp_path / "b", seed=1).meta["files"] != whole.meta["files"]


class Killed(BaseException):
    """As if the process ended here."""


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_killed_preparation_goes_on(
    whole: PreparedSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    monkeypatch.setattr(writer, "PART_S", 0.0)
    finish_part, labelled, made = writer.StoreWriter.finish_part, generated.labelled, []

    def kill(self: writer.StoreWriter, **state: Any) -> None:
        finish_part(self, **state)
        if state["blocks"] == blocks:
            raise Killed

    def record(log: Log, planted: Planted, block: int) -> generated.Labelled:
        made.append(block)
        return labelled(log, planted, block)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(writer.StoreWriter, "finish_part", kill)
        make(tmp_path)
    monkeypatch.setattr(generated, "labelled", record)
    again = make(tmp_path)
    assert (again.fingerprint, again.meta["facts"]) == (whole.fingerprint, whole.meta["facts"])
    assert sorted(made) == list(range(min(blocks, 90_000 // BLOCK), 4))  # test inputs again, for the best AUC


def test_a_disk_that_cannot_hold_it_is_found_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: SimpleNamespace(free=90 * 10**9))
    with pytest.raises(
        UserError, match=r"synthetic-avazu: 1,000,040,000 inputs need 92\.0 GB on the disk, but 90\.0 GB"
    ):
        make(tmp_path, rows=10**9)


def test_laws() -> None:
    shares = popularity(1000, (0.3, 0.1), 1.1, least=1e-4)
    assert shares.sum() == pytest.approx(1) and shares[:2].tolist() == [0.3, 0.1]
    assert (np.diff(shares) <= 0).all() and shares.min() >= 1e-4
    assert popularity(5000, (0.02,), slope_of(5000, (0.02,), 0.1))[:10].sum() == pytest.approx(0.1, abs=1e-3)
    with pytest.raises(ValueError, match="do not fit"):
        popularity(10, (0.9,), 1.0, least=0.05)
    parts = np.bincount(quantiles(shares, 1 << 14), minlength=1000)
    assert parts.sum() == 1 << 14 and parts.min() >= 1
    assert parts / (1 << 14) == pytest.approx(shares, abs=3e-4)
    for values in (1, 2, 30, 93_145):
        ids = Scatter(values, np.random.default_rng(0))(np.arange(values))
        assert np.sort(ids).tolist() == list(range(1, values + 1))


def test_decline_has_its_bounds_and_its_mean() -> None:
    for mean in (8.0, 12.0, 15.5):
        rank = Decline(5.0, 37.0, mean).rank((np.arange(1_000_000) + 0.5) / 1_000_000)
        counts = np.bincount((rank * 1000).astype(int)) * mean / 1000
        assert len(counts) == 1000 and (np.diff(counts) < 0.1).all()
        assert counts[0] == pytest.approx(37, rel=0.05) and counts[-1] == pytest.approx(5, rel=0.05)
    with pytest.raises(ValueError, match="cannot have the mean"):
        Decline(5.0, 37.0, 17.0)


def test_values_of_a_level_come_up_as_often_as_expected() -> None:
    """The third level's counts stay within its thresholds at full size, with one column of a few values."""
    shape = dataclasses.replace(kaggle.SHAPE, columns=kaggle.SHAPE.columns[25:26])  # C26, which serves few inputs
    column = LevelColumn(shape, shape.columns[0], 0.01, np.random.default_rng(0))
    serials = np.arange(round(0.01 * shape.shares[2] * shape.inputs))
    counts = np.zeros(column.values + 1, dtype=int)
    for part in (slice(a, b) for a, b in pairwise(np.linspace(0, len(serials), 6).astype(int))):
        own = serials[part]
        ids, chosen = column.other_level(2, own, np.zeros(len(own), np.uint64), np.zeros(len(own), np.uint32))
        np.add.at(counts, ids[chosen], 1)
    found = counts[counts > 0]
    assert len(found) == 600 and found.min() >= 4 and found.max() < 40
