"""`kuairand`: real impressions of short videos, KuaiRand-Pure (Gao et al., CIKM 2022), one input each.

Features are what was known when the video was shown: context, user, video. What the user then did (play time, other
labels) and statistics of a video counted over the whole period would give the label away, and are never read. The
user's history that may be used ends before the user's first impression here (of three, at the same moment).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from datasets.kuairand_files import LABEL, Wanted, read
from datasets.pace import Report
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

LAST_TRAINING_DAY, VALIDATION_DAY = 20220503, 20220504  # in Beijing, as the files' `date`; the test split follows
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
TAGS = 3  # of a video, at most; summed
PADDING = "\x01"  # of a shorter list: gets the reserved id, whose row is zero and so adds nothing to the sum
DURATION_STEPS_PER_DOUBLING, HISTORY_STEPS_PER_DOUBLING = 3, 2


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the folder, turns every column into ids, and writes the impressions in the order of time."""
    history = HISTORY_COLUMNS if options["history"] else ()
    tables = read(
        "kuairand", sources, Wanted(users=USER_COLUMNS, videos=VIDEO_COLUMNS, histories=history), writer, report
    )
    table = labelled(tables.impressions, writer)
    report(f"kuairand: {len(table):,} impressions, {len(tables.users):,} users, {len(tables.videos):,} videos")
    table = table.merge(tables.users, on="user_id", how="left").merge(tables.videos, on="video_id", how="left")
    if history:
        table = table.merge(tables.histories, on="user_id", how="left")
    columns = features(table)
    train = table["date"].to_numpy() <= LAST_TRAINING_DAY
    schema_tables, ids, unseen = [], [], 0
    for name, values in columns.items():
        known = values[train] if options["vocab"] == "train" else values
        coded, rows = encode(values, known)
        schema_tables.append(Table(name=name, rows=rows, lookups=coded.shape[1]))
        ids.append(coded)
        unseen += int(((coded == RESERVED_ID) & (values != PADDING)).sum())
    writer.schema = Schema(dense=(), tables=tuple(schema_tables))
    append_by_day(writer, table, np.empty((len(table), 0), np.float32), np.concatenate(ids, axis=1))
    writer.facts["lookups_unseen_in_training"] = unseen


def labelled(impressions: pd.DataFrame, writer: StoreWriter) -> pd.DataFrame:
    """The impressions that have a label; the others are counted."""
    without = impressions[LABEL].isna()
    writer.drop(f"no {LABEL}", int(without.sum()))
    return impressions[~without]


def append_by_day(writer: StoreWriter, table: pd.DataFrame, dense: np.ndarray, ids: np.ndarray) -> None:
    """Writes the inputs, one a row of the table, each into the split of its day."""
    days, labels = table["date"].to_numpy(), table[LABEL].to_numpy(dtype=np.int32)
    train, validation = days <= LAST_TRAINING_DAY, days == VALIDATION_DAY
    for split, which in (("train", train), ("validation", validation), ("test", ~train & ~validation)):
        writer.append(split, dense[which], ids[which], labels[which])


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
    codes, distinct = pd.factorize(values)  # a column has few distinct values; that of a missing one is -1
    texts = pd.Series(distinct, dtype=values.dtype).astype("string").to_numpy(dtype=object)
    return np.append(texts, "")[codes][:, None]


def _steps(values: pd.Series, per_doubling: int) -> np.ndarray:
    """[N, 1] of strings: a number on a logarithmic scale, rounded down, "" where it is missing."""
    numbers = values.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    return _text(pd.Series(np.floor(per_doubling * np.log2(1.0 + np.maximum(numbers, 0.0)))))


def _multi_hot(values: pd.Series) -> np.ndarray:
    """[N, TAGS] of strings from comma-separated lists; a short one is filled up with `PADDING`."""
    codes, distinct = pd.factorize(_text(values)[:, 0])
    parts = pd.Series(distinct, dtype="string").str.split(",", n=TAGS, expand=True).reindex(columns=range(TAGS))
    return parts.fillna(PADDING).to_numpy(dtype=object)[codes]


def encode(values: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, int]:
    """(ids [N, lookups] int32, rows of the table): ids by how often the known values occur, then alphabetically.

    A value that is not among the known ones gets the reserved id. A missing value is a value like any other.
    """
    # as objects: pandas would turn text into Arrow's and back
    counts = pd.Series(known[known != PADDING], dtype=object).value_counts()
    order = np.lexsort((counts.index.to_numpy(dtype=str), -counts.to_numpy()))
    codes = counts.index[order].get_indexer(pd.Index(values.ravel(), dtype=object))  # -1 where it is not known
    return (codes + 1).astype(np.int32).reshape(values.shape), 1 + max(1, len(counts))
