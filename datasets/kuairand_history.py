"""`kuairand-history`: the impressions of KuaiRand-Pure as time series, for TBSM (`rm1`): was the next video clicked?

An input has 21 steps: the 20 videos shown to the user before, oldest first, and the video of the impression, whose
click is to be predicted. Each step has the user, the video, its author, and the video's duration, log(1 + s).

What a history may hold:
- It moves on. It begins with what was shown before 25 April, the first day of the impressions, and goes on with the
  user's earlier impressions: those at a strictly earlier millisecond, be they of a training day or of a later one.
- All that was shown is in it, watched or not, as in the files' own histories. So no label and no play time of any
  impression, its own or another's, is ever read. (Videos watched for long are fewer, and their clicks were not known
  at once; with a small attention model the mean test AUC of three seeds was 0.709 with all that was shown,
  0.705 with those, and 0.700 without a history.)
- The Parquet copy does not say when the videos before 25 April were shown, only when the last one was. An impression
  that is not later than that one is left out and counted; and there is no time among the features.

A shorter history is filled up at the front with the reserved id and 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from datasets.kuairand import LAST_TRAINING_DAY, append_by_day
from datasets.kuairand import OPTIONS as IMPRESSION_OPTIONS
from datasets.kuairand_files import LABEL, Tables, Wanted, read
from datasets.pace import Report
from datasets.schema import RESERVED_ID, Schema, Table
from datasets.settings import Setting
from datasets.writer import StoreWriter

NAME = "kuairand-history"
SUMMARY = "KuaiRand-Pure as time series: 20 videos shown to a user before and the next one, was it clicked; for rm1."
NEEDS_SOURCE = True
STEPS = 21
OPTIONS = (
    next(option for option in IMPRESSION_OPTIONS if option.key == "vocab"),
    Setting(
        key="min_history",
        default=5,
        low=0,
        high=STEPS - 1,
        help="videos that were shown to the user before; impressions with fewer are dropped",
    ),
)
DEFAULTS: dict[str, Any] = {
    "model": "rm1",
    "batch_size": 256,
    "optimizer": "adagrad",
    "lr": {"sgd": 1.0, "rowwise-adagrad": 0.03, "adagrad": 0.05},
    "settings": {"hotline.learning_share": 0.2, "slipstream.alpha": 4, "slipstream.window": 0.05},  # as for Taobao
}
PAPER: dict[str, Any] = {
    "model": "rm1",
    "batch_size": 256,
    "optimizer": "adagrad",
    "lr": {"adagrad": 0.05},
    "settings": {"slipstream.alpha": 4, "slipstream.window": 0.05},
}

WANTED = Wanted(videos=("author_id", "video_duration"), histories=("last_time_ms", "watch_seq"))
FILLING = -1  # the code of a user, video or author in a step that is filled up
MS_PER_S = 1000


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the folder, puts each impression's history before it, and writes them in the order of time."""
    tables = read(NAME, sources, WANTED, writer, report)
    shown = tables.impressions
    histories = Histories(tables)
    kept = _kept(shown, histories.lengths, tables.histories, options["min_history"], writer)
    report(f"{NAME}: {kept.sum():,} of {len(shown):,} impressions have a history")
    video_steps = np.concatenate([histories.last(STEPS - 1, kept), histories.shown_videos[kept, None]], axis=1)
    user_steps = np.where(video_steps == FILLING, FILLING, histories.shown_users[kept, None])
    durations, authors = _of_videos(tables.videos, histories.videos)
    table = shown[kept]
    train = table["date"].to_numpy() <= LAST_TRAINING_DAY
    schema_tables, ids, unseen = [], [], 0
    for name, steps in (("user_id", user_steps), ("video_id", video_steps), ("author_id", authors[video_steps])):
        coded, rows = encode(steps, steps[train] if options["vocab"] == "train" else steps)
        schema_tables.append(Table(name=name, rows=rows))
        ids.append(coded)
        unseen += int(((coded == RESERVED_ID) & (steps != FILLING)).sum())
    writer.schema = Schema(dense=("video_duration",), tables=tuple(schema_tables), steps=STEPS)
    append_by_day(writer, table, durations[video_steps], np.concatenate(ids, axis=1))
    writer.facts["lookups_unseen_in_training"] = unseen
    writer.facts["steps_filled_up"] = int((video_steps == FILLING).sum())
    writer.facts["users"] = int(table["user_id"].nunique())
    writer.facts["users_without_an_input"] = int(shown["user_id"].nunique()) - writer.facts["users"]


class Histories:
    """Everything that was shown to each user in the order of time, and how much of it lies before each impression.

    A user or video is coded by its place among all that occur, in ascending order: `videos[code]` is the video.
    """

    def __init__(self, tables: Tables) -> None:
        shown, before = tables.impressions, tables.histories
        lists = [videos for videos in before["watch_seq"] if videos is not None]
        lengths = before["watch_seq"].str.len().fillna(0).astype(np.int64)
        _, user_codes = _coded(shown["user_id"], before["user_id"])
        self.videos, video_codes = _coded(shown["video_id"], np.concatenate([np.empty(0, np.int64), *lists]))
        self.shown_users, self.shown_videos = user_codes[: len(shown)], video_codes[: len(shown)]  # [N]
        times, moments = np.unique(shown["time_ms"].to_numpy(), return_inverse=True)
        # one number that grows with the user and, of one user, with the moment; 0 is before the first impression
        per_user = len(times) + 1
        impressions = self.shown_users * per_user + moments + 1
        events = np.concatenate([impressions, np.repeat(user_codes[len(shown) :], lengths) * per_user])
        order = np.argsort(events, kind="stable")
        self._events = video_codes[order]
        self._first = np.searchsorted(events, self.shown_users * per_user, sorter=order)
        self._end = np.searchsorted(events, impressions, sorter=order)  # what is at the same moment is not before it
        self.lengths = self._end - self._first  # [N]

    def last(self, steps: int, which: np.ndarray) -> np.ndarray:
        """[n, steps]: the last videos before each of the named impressions, oldest first, filled up at the front."""
        at = self._end[which, None] - steps + np.arange(steps)
        return np.where(at >= self._first[which, None], self._events[np.maximum(at, 0)], FILLING)


def _coded(shown: pd.Series, before: pd.Series | np.ndarray) -> tuple[pd.Index, np.ndarray]:
    """(the distinct values, the code of each: first of what was shown in the period, then of what was before)."""
    values, codes = np.unique(np.concatenate([shown, before]), return_inverse=True)
    return pd.Index(values), codes


def _kept(
    shown: pd.DataFrame, lengths: np.ndarray, histories: pd.DataFrame, min_history: int, writer: StoreWriter
) -> np.ndarray:
    """[N] bool: the impressions that become inputs; the others are counted, each for the first reason."""
    last = shown["user_id"].map(histories.set_index("user_id")["last_time_ms"])
    reasons = {
        f"no {LABEL}": shown[LABEL].isna(),
        "not later than the user's history": last >= shown["time_ms"],
        f"history shorter than {min_history}": pd.Series(lengths < min_history, index=shown.index),
    }
    kept = np.ones(len(shown), bool)
    for reason, applies in reasons.items():
        dropped = kept & applies.fillna(False).to_numpy(dtype=bool)
        writer.drop(reason, int(dropped.sum()))
        kept &= ~dropped
    return kept


def _of_videos(features: pd.DataFrame, videos: pd.Index) -> tuple[np.ndarray, np.ndarray]:
    """(duration as log(1 + s), code of the author) of each video, and at the end those of `FILLING`.

    A video without a duration has 0; to have no author is to have one of its own.
    """
    found = features.set_index("video_id").reindex(videos)
    seconds = found["video_duration"].astype("Float64").to_numpy(dtype=np.float64, na_value=0.0) / MS_PER_S
    durations = np.log1p(np.maximum(seconds, 0.0)).astype(np.float32)
    authors, _ = pd.factorize(found["author_id"].astype("string").fillna(""), sort=True)
    return np.append(durations, np.float32(0.0)), np.append(authors, FILLING)


def encode(codes: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, int]:
    """(ids [n, S] int32, rows of the table): ids by how often the known codes occur, then in the order of the codes.

    `FILLING` and codes that are not among the known ones get the reserved id.
    """
    counts = np.bincount(known[known != FILLING], minlength=int(codes.max(initial=FILLING)) + 1)
    order = np.argsort(-counts, kind="stable")
    seen = int((counts > 0).sum())
    ids = np.full(len(counts) + 1, RESERVED_ID, np.int32)  # the last one is that of FILLING
    ids[order[:seen]] = np.arange(1, seen + 1)
    return ids[codes], 1 + max(1, seen)
