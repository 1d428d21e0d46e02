"""KuaiRand from its Parquet copy: a made-up folder of the same form always, the real one where it is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from datasets import kuairand, kuairand_files
from datasets.errors import UserError
from datasets.schema import RESERVED_ID
from datasets.store import PreparedSet, prepare

REAL = Path(__file__).parents[3] / "shared" / "data" / "kuairand_pure"
FORBIDDEN = ("play_time_ms", "watch_ratio", "finish", "is_like", "is_follow", "long_view", "show_cnt", "play_user_num")


def impressions(days: list[int], users: list[int], videos: list[int]) -> pd.DataFrame:
    count = len(days)
    frame = pd.DataFrame({"user_id": users, "video_id": videos, "date": days, "hourmin": 1300})
    frame["time_ms"] = [day * 1000 + at for at, day in enumerate(days)]
    frame["tab"], frame["is_click"] = 1, pd.array([at % 2 for at in range(count)], dtype="Int64")
    for name in FORBIDDEN:
        frame[name] = frame["is_click"]
    return frame


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two users and three videos; video 12 and user 2 are not in the training days."""
    path = tmp_path / "raw"
    path.mkdir()
    # the files are not in the order of time
    impressions([20220505, 20220503, 20220504], [2, 1, 1], [10, 11, 12]).to_parquet(path / "splits_test.parquet")
    impressions([20220430, 20220429], [1, 1], [10, 10]).to_parquet(path / "splits_val.parquet")
    users = pd.DataFrame({"user_id": [1, 2]})
    for name in kuairand.USER_COLUMNS:
        users[name] = pd.array([3.0, None], dtype="Float64")
    users.to_parquet(path / "user_features.parquet")
    videos = pd.DataFrame({"video_id": [10, 11, 12]})
    for name in kuairand.VIDEO_COLUMNS:
        videos[name] = [1, 2, 3]
    videos["tag"] = ["7,8", None, "9,7,8,6"]
    videos["video_duration"] = pd.array([60_000.0, None, 61_000.0], dtype="Float64")
    videos.to_parquet(path / "item_features.parquet")
    histories = pd.DataFrame({"user_id": [1], "history_len": [40], "long_watch_seq": [[10, 11]]})
    histories.to_parquet(path / "user_sequences.parquet")
    return path


def ids_of(prepared: PreparedSet, split: str, table: str) -> list[list[int]]:
    at = [prepared.schema.tables[t].name == table for t in prepared.schema.lookup_tables]
    return getattr(prepared, split).ids[:, at].tolist()


def test_splits_by_day_in_the_order_of_time(folder: Path, tmp_path: Path) -> None:
    prepared = prepare("kuairand", [folder], {}, tmp_path / "data")
    assert [len(split) for split in (prepared.train, prepared.validation, prepared.test)] == [3, 1, 1]
    assert prepared.schema.dense == () and prepared.train.dense.shape == (3, 0)
    assert prepared.train.labels.tolist() == [1, 0, 1]
    assert ids_of(prepared, "train", "video_id") == [[1], [1], [2]]  # the more frequent first


def test_ids_of_the_training_days(folder: Path, tmp_path: Path) -> None:
    prepared = prepare("kuairand", [folder], {"vocab": "train"}, tmp_path / "data")
    assert ids_of(prepared, "validation", "video_id") == ids_of(prepared, "test", "user_id") == [[RESERVED_ID]]
    assert ids_of(prepared, "train", "tag") == [[1, 2, 0], [1, 2, 0], [3, 0, 0]]  # a missing list is a value of its own
    assert ids_of(prepared, "validation", "tag") == [[0, 1, 2]]  # tag 9 is new; of four, three are kept
    assert ids_of(prepared, "test", "onehot_feat3") == [[RESERVED_ID]]  # missing, but never so in training
    everything = prepare("kuairand", [folder], {"vocab": "all"}, tmp_path / "data")
    assert ids_of(everything, "validation", "video_id") != [[RESERVED_ID]]
    assert everything.meta["facts"]["lookups_unseen_in_training"] == 0


def test_nothing_that_gives_the_label_away_is_read(folder: Path, tmp_path: Path) -> None:
    names = {table.name for table in prepare("kuairand", [folder], {}, tmp_path / "data").schema.tables}
    assert not names & set(FORBIDDEN)
    assert not [name for name in names if name.endswith(("_cnt", "_num"))]
    read = {*kuairand_files.IMPRESSION_COLUMNS, *kuairand.USER_COLUMNS, *kuairand.VIDEO_COLUMNS}
    assert not [name for name in read - {"is_click"} if name in FORBIDDEN or name.endswith(("_cnt", "_num"))]


def test_history_can_be_left_out(folder: Path, tmp_path: Path) -> None:
    prepared = prepare("kuairand", [folder], {}, tmp_path / "data")
    assert ids_of(prepared, "train", "long_watches") == [[1], [1], [1]]
    (folder / "user_sequences.parquet").unlink()
    with pytest.raises(UserError, match=r"user_sequences.parquet is missing"):
        prepare("kuairand", [folder], {}, tmp_path / "data")
    without = prepare("kuairand", [folder], {"history": "no"}, tmp_path / "data")
    assert {t.name for t in prepared.schema.tables} - {t.name for t in without.schema.tables} == {
        "history_length",
        "long_watches",
    }


def test_impressions_without_a_label_are_dropped_and_counted(folder: Path, tmp_path: Path) -> None:
    path = folder / "splits_val.parquet"
    frame = pd.read_parquet(path)
    frame.loc[0, "is_click"] = pd.NA
    frame.to_parquet(path)
    prepared = prepare("kuairand", [folder], {}, tmp_path / "data")
    assert len(prepared.train) == 2
    assert prepared.meta["rows_dropped"] == {"no is_click": 1}


def test_bad_folders_are_named(folder: Path, tmp_path: Path) -> None:
    def message(sources: list[Path]) -> str:
        with pytest.raises(UserError) as refused:
            prepare("kuairand", sources, {}, tmp_path / "data")
        return str(refused.value)

    message_of_file = message([folder / "splits_val.parquet"])
    assert message_of_file.startswith(
        "kuairand takes one --source, the folder that holds log_standard_4_22_to_5_08_pure"
    )
    assert "; or splits_val.parquet, splits_test.parquet, user_features.parquet" in message_of_file
    videos = pd.read_parquet(folder / "item_features.parquet")
    pd.concat([videos, videos]).to_parquet(folder / "item_features.parquet")
    assert "item_features.parquet: video_id 10 occurs twice" in message([folder])
    videos.drop(columns="author_id").to_parquet(folder / "item_features.parquet")
    assert "item_features.parquet has no column author_id" in message([folder])
    (folder / "item_features.parquet").write_bytes(b"PAR1 but no more")
    assert "cannot be read as Parquet" in message([folder])
    (folder / "user_features.parquet").unlink()
    assert "user_features.parquet is missing" in message([folder])


@pytest.mark.parametrize(
    ("file", "column", "values", "message"),
    [
        ("splits_val", "hourmin", ["1300", "1301"], "column hourmin: expected numbers, found "),
        ("splits_val", "hourmin", [1300, 1375], "column hourmin: row 1 has 1375"),
        ("splits_val", "is_click", [7, 0], "column is_click: row 0 has 7"),
        ("splits_val", "date", [20220430, 99999999], "column date: row 1 has 99999999"),
        ("splits_val", "time_ms", [None, 3.0], "column time_ms: row 0 has nothing"),
        ("splits_val", "user_id", ["a", "b"], "column user_id: expected numbers"),
        ("splits_val", "tab", [[1], [2]], "column tab: expected single values, found list"),
        ("user_sequences", "long_watch_seq", [3], "column long_watch_seq: expected lists, found int64"),
        (
            "user_sequences",
            "long_watch_seq",
            [["a"]],
            "column long_watch_seq: expected lists of whole numbers, found",
        ),
        (
            "user_sequences",
            "long_watch_seq",
            [[None]],
            "column long_watch_seq: expected lists of whole numbers, found",
        ),
        ("item_features", "video_duration", [1.0, float("inf"), None], "column video_duration: row 1 has inf"),
    ],
)
def test_values_that_cannot_be_are_named(
    folder: Path, tmp_path: Path, file: str, column: str, values: list[object], message: str
) -> None:
    path = folder / f"{file}.parquet"
    pd.read_parquet(path).assign(**{column: values}).to_parquet(path)
    with pytest.raises(UserError) as refused:
        prepare("kuairand", [folder], {}, tmp_path / "data")
    assert f"{path}, {message}" in str(refused.value)


def test_damaged_pages_and_folders_are_named(folder: Path, tmp_path: Path) -> None:
    path = folder / "splits_val.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])
    with pytest.raises(UserError, match=r"splits_val.parquet cannot be read as Parquet"):
        prepare("kuairand", [folder], {}, tmp_path / "data")
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match=r"splits_val.parquet is not a file"):
        prepare("kuairand", [folder], {}, tmp_path / "data")


@pytest.mark.skipif(not REAL.exists(), reason="../shared is absent")
def test_real_impressions(tmp_path: Path) -> None:
    prepared = prepare("kuairand", [REAL], {}, tmp_path / "data")
    assert [len(s) for s in (prepared.train, prepared.validation, prepared.test)] == [154_071, 17_600, 56_658]
    assert prepared.train.labels.mean() == pytest.approx(0.443, abs=0.001)
    sizes = {table.name: table.rows for table in prepared.schema.tables}
    assert (sizes["user_id"], sizes["video_id"], sizes["tab"]) == (23_652, 5_993, 16)
    tags = prepared.schema.lookup_tables == [t.name for t in prepared.schema.tables].index("tag")
    assert not (prepared.train.ids[:, ~tags] == RESERVED_ID).any()
    assert (prepared.train.ids[:, tags] == RESERVED_ID).any(axis=1).mean() > 0.9  # few videos have three tags
    assert np.asarray(prepared.test.labels).mean() == pytest.approx(0.438, abs=0.001)
