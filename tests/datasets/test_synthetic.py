"""The embedded default: known best AUC, base rate, skew, determinism."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from datasets import synthetic
from datasets.describe import access_shares, describe, hot_input_shares, row_counts
from datasets.schema import RESERVED_ID
from datasets.settings import resolve
from datasets.store import PreparedSet, open_set


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedSet:
    return open_set("synthetic", tmp_path_factory.mktemp("data"))


def test_shape(prepared: PreparedSet) -> None:
    assert (len(prepared.train), len(prepared.validation), len(prepared.test)) == (260_000, 26_000, 60_000)
    assert (len(prepared.schema.dense), len(prepared.schema.tables)) == (13, 26)
    assert 60_000 < prepared.schema.num_rows < 150_000
    assert prepared.meta["options"] == resolve(synthetic.OPTIONS, {}, "synthetic")


def test_best_auc_and_base_rate(prepared: PreparedSet) -> None:
    assert prepared.meta["facts"]["best_auc"] == pytest.approx(0.80, abs=0.01)
    for split in (prepared.train, prepared.validation, prepared.test):
        assert split.labels.mean() == pytest.approx(0.256, abs=0.01)


def test_most_inputs_are_hot_and_many_are_not(prepared: PreparedSet) -> None:
    counts = row_counts(prepared.train)
    of_sample = row_counts(prepared.train.head(13_000))  # 5 % of the training inputs
    assert access_shares(counts)[1] > 0.7  # the top 1 % of the rows; Criteo: 0.73
    for ranking, most in ((counts, 0.15), (of_sample, 0.25)):
        below, above = hot_input_shares(prepared.train, ranking, (0.05, most))
        assert below < 0.60
        assert 0.75 < above < 0.90


def test_ids_that_training_does_not_have_are_reserved(prepared: PreparedSet) -> None:
    assert not (prepared.train.ids == RESERVED_ID).any()
    seen = row_counts(prepared.train) > 0
    seen[prepared.schema.reserved_rows] = True
    assert seen[prepared.test.row_ids(slice(None))].all()
    reserved = sum(int((split.ids == RESERVED_ID).sum()) for split in (prepared.validation, prepared.test))
    assert prepared.meta["facts"]["lookups_unseen_in_training"] == reserved > 0


def test_columns_of_a_block_are_missing_together(prepared: PreparedSet) -> None:
    last = np.array([table.rows - 1 for table in prepared.schema.tables])
    at = [i for i, column in enumerate(synthetic.COLUMNS) if column.missing == "profile"]
    missing = prepared.train.ids[:, at] == last[at]
    assert missing.mean() == pytest.approx(0.414, abs=0.01)
    assert (missing == missing[:, :1]).all()


def test_dense_is_like_log_counts(prepared: PreparedSet) -> None:
    dense = prepared.train.dense
    assert dense.min() == 0 and dense.max() < 25
    assert (dense[:, 0] == 0).mean() > 0.44 + 0.5 * 0.44  # missing, or zero


def test_description(prepared: PreparedSet) -> None:
    text = describe(prepared, dim=16)
    for part in (
        "AUC 0.80",
        "260,000",
        "user_id",
        "rows=260000",
        "share of accesses",
        "10% of rows hot",
        "source: gene",
    ):
        assert part in text


SMALL = {"rows": 3000, "validation_rows": 100, "test_rows": 500}


def test_same_options_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_set("synthetic", tmp_path / "a", SMALL)
    assert open_set("synthetic", tmp_path / "b", SMALL).fingerprint == first.fingerprint
    other = open_set("synthetic", tmp_path / "c", SMALL | {"seed": 1})
    assert other.meta["files"] != first.meta["files"]
    assert other.meta["facts"]["best_auc"] == pytest.approx(0.80, abs=0.06)


def test_a_split_without_both_classes_has_no_best_auc(tmp_path: Path) -> None:
    facts = open_set("synthetic", tmp_path, SMALL | {"test_rows": 1}).meta["facts"]
    assert facts["best_auc"] is None
