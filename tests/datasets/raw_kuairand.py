"""Made-up raw files of KuaiRand-Pure: the official ones, and the Parquet copy as it was made from such files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd

from datasets.kuairand import USER_COLUMNS, VIDEO_COLUMNS
from datasets.kuairand_files import LOG_NAMES

EARLIER, LATER = "log_standard_4_08_to_4_21_pure.csv", "log_standard_4_22_to_5_08_pure.csv"
USERS, VIDEOS = "user_features_pure.csv", "video_features_basic_pure.csv"
DAY_MS = 24 * 3600 * 1000
DAYS = tuple(int(day.strftime("%Y%m%d")) for day in pd.date_range("2022-04-08", "2022-05-08"))


def made_up_log(seed: int = 0, rows: int = 600, users: int = 15, videos: int = 40) -> pd.DataFrame:
    """Impressions with ties and repeated lines, in no order; user 0 and video 0 are in no table of features."""
    random = np.random.default_rng(seed)
    day, minute = random.integers(0, len(DAYS), rows), random.integers(0, 30, rows)
    frame = pd.DataFrame({name: random.integers(0, 2, rows) for name in LOG_NAMES})
    frame["user_id"], frame["video_id"] = random.integers(0, users, rows), random.integers(0, videos, rows)
    frame["date"], frame["hourmin"], frame["time_ms"] = np.array(DAYS)[day], minute * 60 // 60 * 100 % 2400, 0
    frame["time_ms"] = 1_649_347_200_000 + day * DAY_MS + minute * 60_000
    frame["play_time_ms"], frame["is_rand"], frame["tab"] = random.integers(0, 99_999, rows), 0, minute % 4
    return pd.concat([frame, frame[:20]], ignore_index=True)


def made_up_features(users: int = 15, videos: int = 40) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(users, videos), as text: some of it with commas, some of it missing."""
    of_users = pd.DataFrame({"user_id": np.arange(1, users)})
    for at, name in enumerate(USER_COLUMNS):
        of_users[name] = [f"({row % (at + 1)},{at}]" for row in range(len(of_users))]
    of_videos = pd.DataFrame({"video_id": np.arange(1, videos)})
    for name in VIDEO_COLUMNS:
        of_videos[name] = [f"{row % 7}.0" for row in range(len(of_videos))]
    of_videos["author_id"] = of_videos["video_id"] // 3
    of_videos["tag"] = [("7,8", "9", "", "7,8,9,6")[row % 4] for row in range(len(of_videos))]
    of_videos["video_duration"] = [("87433.0", "", "9500.5")[row % 3] for row in range(len(of_videos))]
    return of_users, of_videos


def write_csv(path: Path, frame: pd.DataFrame, compressed: bool = False, crlf: bool = False, end: bool = True) -> None:
    """A file as users download it, or as other tools may have left it."""
    text = frame.to_csv(index=False, lineterminator="\r\n" if crlf else "\n")
    data = (text if end else text.rstrip()).encode()
    (path.with_name(f"{path.name}.gz") if compressed else path).write_bytes(gzip.compress(data) if compressed else data)


def write_official(folder: Path, log: pd.DataFrame, **form: bool) -> Path:
    """The four official files; `form` as for `write_csv`."""
    folder.mkdir(parents=True)
    users, videos = made_up_features()
    early = log["date"] <= 20220421
    for name, frame in ((EARLIER, log[early]), (LATER, log[~early]), (USERS, users), (VIDEOS, videos)):
        write_csv(folder / name, frame, **form)
    return folder


def write_copy(folder: Path, log: pd.DataFrame) -> Path:
    """The five files of the copy, user by user as its makers did; see `SOURCE.txt` beside the real one."""
    folder.mkdir(parents=True)
    log = log.sort_values(["time_ms", "user_id", "video_id"], kind="stable")
    log[(log["date"] >= 20220425) & (log["date"] <= 20220430)].to_parquet(folder / "splits_val.parquet")
    log[log["date"] >= 20220501].to_parquet(folder / "splits_test.parquet")
    rows = []
    for user, events in log[log["date"] < 20220425].groupby("user_id"):
        long = events[events["long_view"] == 1]
        rows.append(
            {
                "user_id": user,
                "history_len": len(events),
                "last_time_ms": events["time_ms"].max(),
                "watch_seq": events["video_id"].tolist()[-50:],
                "long_watch_seq": long["video_id"].tolist()[-50:],
            }
        )
    pd.DataFrame(rows).to_parquet(folder / "user_sequences.parquet")
    users, videos = made_up_features()
    users.to_parquet(folder / "user_features.parquet")
    videos["tag"] = videos["tag"].replace("", "unknown")
    for name in ("video_duration",):
        videos[name] = pd.to_numeric(videos[name])
    videos.to_parquet(folder / "item_features.parquet")
    return folder
