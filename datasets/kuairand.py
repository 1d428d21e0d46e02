"""`kuairand`: real impressions of short videos, KuaiRand-Pure (Gao et al., CIKM 2022), from its Parquet copy.

Features are what was known when the video was shown: context, user, video. What the user then did (play time, other
labels) and statistics of a video counted over the whole period would give the label away, and are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from datasets.errors import UserError
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
)
DEFAULTS: dict[str, Any] = {
    "model": "small",
    "batch_size": 256,
    "optimizer": "rowwise-adagrad",
    "lr": {"sgd": 0.3, "rowwise-adagrad": 0.02, "adagrad": 0.02},
    "settings": {},
}
PAPER: dict[str, Any] = {"model": "small", "batch_size": 1024, "optimizer": "sgd", "lr": {"sgd": 0.01}, "settings": {}}

LABEL = "is_click"
LAST_TRAINING_DAY, VALIDATION_DAY = 20220503, 20220504  # in Beijing, as the files' `date`; the test split follows
IMPRESSIONS = ("splits_val.parquet", "splits_test.parquet")
USERS, VIDEOS = "user_features.parquet", "item_features.parquet"
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
VIDEO_COLUMNS = ("author_id", "music_id", "music_type", "video_type", "upload_type", "upload_dt", "video_duration", "tag")
TAGS = 3  # of a video, at most; summed
PADDING = "\x01"  # of a shorter list: gets the reserved id, whose row is zero and so adds nothing to the sum
DURATION_STEPS_PER_DOUBLING = 3

Report = Callable[[str], None]


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the folder, turns every column into ids, and writes the impressions in the order of time."""
    table = read_impressions(_folder(sources), writer, report)
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
        raise UserError(
            f"kuairand takes one --source, the folder that holds {', '.join((*IMPRESSIONS, USERS, VIDEOS))}; "
            f"got {', '.join(map(str, sources)) or 'none'}."
        )
    return sources[0]


def read_impressions(folder: Path, writer: StoreWriter, report: Report) -> pd.DataFrame:
    """Every impression with its user's and its video's columns, in the order of time."""
    frames = [_read(folder / name, IMPRESSION_COLUMNS, writer) for name in IMPRESSIONS]
    users = _read(folder / USERS, ("user_id", *USER_COLUMNS), writer)
    videos = _read(folder / VIDEOS, ("video_id", *VIDEO_COLUMNS), writer)
    for frame, key, name in ((users, "user_id", USERS), (videos, "video_id", VIDEOS)):
        if frame[key].duplicated().any():
            raise UserError(f"{folder / name}: {key} {frame[key][frame[key].duplicated()].iloc[0]} occurs twice.")
    table = pd.concat(frames, ignore_index=True)
    without = table[LABEL].isna()
    writer.drop(f"no {LABEL}", int(without.sum()))
    table = table[~without].sort_values(["time_ms", "user_id", "video_id"], kind="stable")
    report(f"kuairand: read {len(table):,} impressions, {len(users):,} users, {len(videos):,} videos")
    return table.merge(users, on="user_id", how="left").merge(videos, on="video_id", how="left")


def _read(path: Path, columns: Sequence[str], writer: StoreWriter) -> pd.DataFrame:
    """The named columns of a Parquet file, and no others. UserError names the file and what it lacks."""
    if not path.exists():
        raise UserError(f"{path} is missing; kuairand needs it in the --source folder.")
    try:
        lacking = [name for name in columns if name not in pq.read_schema(path).names]
        if lacking:
            raise UserError(f"{path} has no column {', '.join(lacking)}; is it KuaiRand-Pure's?")
        frame = pq.read_table(path, columns=list(columns)).to_pandas()
    except pa.ArrowException as error:
        raise UserError(f"{path} cannot be read as Parquet ({error}); copy it again.") from error
    writer.add_source(path)
    return frame


def features(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """Name → [N, lookups] of strings, "" where a value is missing."""
    columns = {
        "tab": _text(table["tab"]),
        "hour": _text(table["hourmin"] // 100),
        "weekday": _text(pd.to_datetime(table["date"].astype(str), format="%Y%m%d").dt.dayofweek),
        "user_id": _text(table["user_id"]),
        "video_id": _text(table["video_id"]),
    }
    columns |= {name: _text(table[name]) for name in (*USER_COLUMNS, *VIDEO_COLUMNS)}
    duration = table["video_duration"].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    steps = np.floor(DURATION_STEPS_PER_DOUBLING * np.log2(np.maximum(duration, 1.0)))
    columns["video_duration"] = _text(pd.Series(steps))
    columns["tag"] = _multi_hot(table["tag"])
    return columns


def _text(values: pd.Series) -> np.ndarray:
    """[N, 1] of strings, "" where a value is missing."""
    return values.astype("string").fillna("").to_numpy(dtype=object)[:, None]


def _multi_hot(values: pd.Series) -> np.ndarray:
    """[N, TAGS] of strings from comma-separated lists; a short one is filled up with `PADDING`."""
    parts = values.astype("string").fillna("").str.split(",", n=TAGS, expand=True).reindex(columns=range(TAGS))
    return parts.fillna(PADDING).to_numpy(dtype=object)


def encode(values: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, int]:
    """(ids [N, lookups] int32, rows of the table): ids by how often the known values occur, then alphabetically.

    A value that is not among the known ones gets the reserved id. A missing value is a value like any other.
    """
    vocabulary, counts = np.unique(known[known != PADDING].astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    codes = pd.Index(vocabulary[order]).get_indexer(values.ravel().astype(str))  # -1 where it is not known
    return (codes + 1).astype(np.int32).reshape(values.shape), len(vocabulary) + 1
