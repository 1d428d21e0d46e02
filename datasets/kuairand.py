"""`kuairand`: real impressions of short videos, KuaiRand-Pure (Gao et al., CIKM 2022), from its Parquet copy.

Features are what was known when the video was shown: context, user, video. What the user then did (play time, other
labels) and statistics of a video counted over the whole period would give the label away, and are never read. The
user's history that may be used ends before the user's first impression here (of three, at the same moment).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from datasets.errors import UserError, printable
from datasets.schema import RESERVED_ID, Schema, Table
from datasets.settings import Setting
from datasets.writer import StoreWriter

SUMMARY = "KuaiRand-Pure: 228,329 real impressions of short videos, was it clicked; categorical features only."
NEEDS_SOURCE = True
OPTIONS = (
    Setting(
        key="vocab",
        default="train",
        choices=("all", "train"),
        help="give rows to the ids of the whole set, or to those of the training split only",
    ),
    Setting(
        key="history",
        default=True,
        help="use how many videos the user watched, and how many for long, before the first impression",
    ),
)
DEFAULTS: dict[str, Any] = {
    "model": "small",
    "batch_size": 512,
    "optimizer": "rowwise-adagrad",
    "lr": {"sgd": 1.0, "rowwise-adagrad": 0.03, "adagrad": 0.03},
    "settings": {"hotline.learning_share": 0.2},  # as Hotline has for Taobao: many users, few accesses each
}
PAPER: dict[str, Any] = {"model": "small", "batch_size": 1024, "optimizer": "sgd", "lr": {"sgd": 0.01}, "settings": {}}

LABEL = "is_click"
LAST_TRAINING_DAY, VALIDATION_DAY = 20220503, 20220504  # in Beijing, as the files' `date`; the test split follows
IMPRESSIONS = ("splits_val.parquet", "splits_test.parquet")
USERS, VIDEOS, HISTORIES = "user_features.parquet", "item_features.parquet", "user_sequences.parquet"
IMPRESSION_COLUMNS = ("user_id", "video_id", "date", "hourmin", "time_ms", "tab", LABEL)
USER_COLUMNS = (
    "user_active_degree",
    "is_live_streamer",
    "is_video_author",
    "follow_user_num_range",
    "fans_user_num_range",
    "friend_user_num_range",
    "register_days_range",
    *(f"onehot_feat{number}" for number in range(18)),
)
VIDEO_COLUMNS = (
    "author_id",
    "music_id",
    "music_type",
    "video_type",
    "upload_type",
    "upload_dt",
    "video_duration",
    "tag",
)
HISTORY_COLUMNS = ("history_len", "long_watch_seq")  # of before 25 April: the impressions start that day
NUMBERS = ("user_id", "video_id", "date", "hourmin", "time_ms", LABEL, "video_duration", "history_len")
LISTS = ("long_watch_seq",)
REQUIRED = ("user_id", "video_id", "date", "time_ms")
TAGS = 3  # of a video, at most; summed
PADDING = "\x01"  # of a shorter list: gets the reserved id, whose row is zero and so adds nothing to the sum
DURATION_STEPS_PER_DOUBLING, HISTORY_STEPS_PER_DOUBLING = 3, 2

Report = Callable[[str], None]


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the folder, turns every column into ids, and writes the impressions in the order of time."""
    folder = _folder(sources)
    table = read_impressions(folder, writer, report)
    if options["history"]:
        histories = _read(folder / HISTORIES, ("user_id", *HISTORY_COLUMNS), writer)
        table = _join(table, histories, "user_id", folder / HISTORIES)
    columns = features(table)
    days, labels = table["date"].to_numpy(), table[LABEL].to_numpy()
    train = days <= LAST_TRAINING_DAY
    tables, ids, unseen = [], [], 0
    for name, values in columns.items():
        known = values[train] if options["vocab"] == "train" else values
        coded, rows = encode(values, known)
        tables.append(Table(name=name, rows=rows, lookups=coded.shape[1]))
        ids.append(coded)
        unseen += int(((coded == RESERVED_ID) & (values != PADDING)).sum())
    writer.schema = Schema(dense=(), tables=tuple(tables))
    all_ids, dense = np.concatenate(ids, axis=1), np.empty((len(table), 0), dtype=np.float32)
    validation = days == VALIDATION_DAY
    for split, which in (("train", train), ("validation", validation), ("test", ~train & ~validation)):
        writer.append(split, dense[which], all_ids[which], labels[which].astype(np.int32))
        report(f"kuairand: {split} {which.sum():,} impressions")
    writer.facts["lookups_unseen_in_training"] = unseen


def _folder(sources: Sequence[Path]) -> Path:
    if len(sources) != 1 or not sources[0].is_dir():
        files = ", ".join((*IMPRESSIONS, USERS, VIDEOS, HISTORIES))
        found = ", ".join(map(str, sources))
        raise UserError(f"kuairand takes one --source, the folder that holds {files}; got '{found}'.")
    return sources[0]


def read_impressions(folder: Path, writer: StoreWriter, report: Report) -> pd.DataFrame:
    """Every impression with its user's and its video's columns, in the order of time."""
    frames = [_read(folder / name, IMPRESSION_COLUMNS, writer) for name in IMPRESSIONS]
    users = _read(folder / USERS, ("user_id", *USER_COLUMNS), writer)
    videos = _read(folder / VIDEOS, ("video_id", *VIDEO_COLUMNS), writer)
    table = pd.concat(frames, ignore_index=True)
    without = table[LABEL].isna()
    writer.drop(f"no {LABEL}", int(without.sum()))
    table = table[~without].sort_values(["time_ms", "user_id", "video_id"], kind="stable")
    report(f"kuairand: read {len(table):,} impressions, {len(users):,} users, {len(videos):,} videos")
    return _join(_join(table, users, "user_id", folder / USERS), videos, "video_id", folder / VIDEOS)


def _join(table: pd.DataFrame, features: pd.DataFrame, key: str, path: Path) -> pd.DataFrame:
    """The table with the features of each row's user or video; missing where the file does not have it."""
    twice = features[key].duplicated()
    if twice.any():
        raise UserError(f"{path}: {key} {features[key][twice].iloc[0]} occurs twice; copy the file again.")
    return table.merge(features, on=key, how="left")


def _read(path: Path, columns: Sequence[str], writer: StoreWriter) -> pd.DataFrame:
    """The named columns of a Parquet file, and no others. UserError names the file and what it lacks."""
    if not path.is_file():
        state = "is not a file" if path.exists() else "is missing"
        raise UserError(f"{path} {state}; kuairand needs it in the --source folder.")
    try:
        lacking = [name for name in columns if name not in pq.read_schema(path).names]
        if lacking:
            raise UserError(f"{path} has no column {', '.join(lacking)}; is it KuaiRand-Pure's?")
        table = pq.read_table(path, columns=list(columns))
        _check_types(path, table.schema)
        frame = table.to_pandas()
    except (pa.ArrowException, OSError, ValueError) as error:
        shown = printable(str(error), 200)
        raise UserError(f"{path} cannot be read as Parquet ({shown}); copy it again.") from error
    _check_values(path, frame)
    writer.add_source(path)
    return frame


def _check_types(path: Path, schema: pa.Schema) -> None:
    """UserError for a column of another kind than what is done with it needs."""
    for field in schema:
        kind = field.type
        if field.name in LISTS:
            good, wanted = pa.types.is_list(kind) or pa.types.is_large_list(kind), "lists"
        elif field.name in NUMBERS:
            good, wanted = pa.types.is_integer(kind) or pa.types.is_floating(kind), "numbers"
        else:
            good, wanted = not pa.types.is_nested(kind), "single values"
        if not good and not (pa.types.is_null(kind) and field.name not in REQUIRED):
            raise _damaged(path, field.name, f"expected {wanted}, found {kind}")


def _check_values(path: Path, frame: pd.DataFrame) -> None:
    """UserError for the first value that cannot be."""
    bad = {name: frame[name].isna() for name in REQUIRED if name in frame}
    if "date" in frame:
        dates = pd.to_datetime(frame["date"].astype(str), format="%Y%m%d", errors="coerce")
        minutes = frame["hourmin"].astype("Float64")
        bad["date"] |= dates.isna()
        bad["hourmin"] = ~(minutes.between(0, 2359) & (minutes % 100 < 60)).fillna(True)
        bad[LABEL] = ~(frame[LABEL].isin((0, 1)) | frame[LABEL].isna())
    for name, which in bad.items():
        if which.any():
            row = int(which.to_numpy().argmax())
            found = "nothing" if pd.isna(frame[name].iloc[row]) else frame[name].iloc[row]
            raise _damaged(path, name, f"row {row} has {found}")


def _damaged(path: Path, column: str, what: str) -> UserError:
    return UserError(f"{path}, column {column}: {what}; is it KuaiRand-Pure's? Copy it again.")


def features(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Name → [N, lookups] of strings, "" where a value is missing."""
    columns = {
        "tab": _text(table["tab"]),
        "hour": _text(table["hourmin"] // 100),
        "weekday": _text(pd.to_datetime(table["date"].astype(str), format="%Y%m%d").dt.day_of_week),
        "user_id": _text(table["user_id"]),
        "video_id": _text(table["video_id"]),
    }
    columns |= {name: _text(table[name]) for name in (*USER_COLUMNS, *VIDEO_COLUMNS)}
    columns["video_duration"] = _steps(table["video_duration"], DURATION_STEPS_PER_DOUBLING)
    if "history_len" in table:
        columns["history_length"] = _steps(table["history_len"], HISTORY_STEPS_PER_DOUBLING)
        columns["long_watches"] = _steps(table["long_watch_seq"].str.len(), HISTORY_STEPS_PER_DOUBLING)
    columns["tag"] = _multi_hot(table["tag"])
    return columns


def _text(values: pd.Series) -> np.ndarray:
    """[N, 1] of strings, "" where a value is missing."""
    return values.astype("string").fillna("").to_numpy(dtype=object)[:, None]


def _steps(values: pd.Series, per_doubling: int) -> np.ndarray:
    """[N, 1] of strings: a number on a logarithmic scale, rounded down, "" where it is missing."""
    numbers = values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    return _text(pd.Series(np.floor(per_doubling * np.log2(1.0 + np.maximum(numbers, 0.0)))))


def _multi_hot(values: pd.Series) -> np.ndarray:
    """[N, TAGS] of strings from comma-separated lists; a short one is filled up with `PADDING`."""
    parts = values.astype("string").fillna("").str.split(",", n=TAGS, expand=True).reindex(columns=range(TAGS))
    return parts.fillna(PADDING).to_numpy(dtype=object)


def encode(values: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, int]:
    """(ids [N, lookups] int32, rows of the table): ids by how often the known values occur, then alphabetically.

    A value that is not among the known ones gets the reserved id. A missing value is a value like any other.
    """
    counts = pd.Series(known[known != PADDING]).value_counts()
    order = np.lexsort((counts.index.to_numpy(dtype=str), -counts.to_numpy()))
    codes = counts.index[order].get_indexer(pd.Index(values.ravel()))  # -1 where it is not known
    return (codes + 1).astype(np.int32).reshape(values.shape), len(counts) + 1
