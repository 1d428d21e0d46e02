"""Histories of KuaiRand: what was shown before, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from datasets.kuairand_files import Tables, histories
from datasets.kuairand_history import FILLING, STEPS, Histories, encode
from datasets.schema import RESERVED_ID
from datasets.store import PreparedSet, prepare
from tests.datasets.raw_kuairand import made_up_log, write_official

REAL = Path(__file__).parents[3] / "shared" / "data" / "kuairand_pure"
MS = 1_651_000_000_000  # 27 April
PAST = STEPS - 1


def log_of(events: Sequence[tuple[int, int, int, int]]) -> pd.DataFrame:
    """A log of (user, video, date, milliseconds after MS)."""
    log = made_up_log(rows=len(events))[: len(events)]
    for at, name in enumerate(("user_id", "video_id", "date", "time_ms")):
        log[name] = [event[at] + (MS if name == "time_ms" else 0) for event in events]
    return log


def prepared_of(tmp_path: Path, events: Sequence[tuple[int, int, int, int]], **options: object) -> PreparedSet:
    folder = write_official(tmp_path / f"raw{len(list(tmp_path.iterdir()))}", log_of(events))
    return prepare("kuairand-history", [folder], {"vocab": "all"} | options, tmp_path / "data")


def tables_of(log: pd.DataFrame) -> Tables:
    before = log["date"] < 20220425
    shown = log[~before].sort_values(["time_ms", "user_id", "video_id"], kind="stable")
    return Tables(impressions=shown, users=pd.DataFrame(), videos=pd.DataFrame(), histories=histories(log[before]))


def last_videos(log: pd.DataFrame) -> list[list[int]]:
    """Of each impression, in the order of time, the videos of its history that are kept."""
    tables = tables_of(log)
    found = Histories(tables)
    past = found.last(PAST, np.ones(len(tables.impressions), bool))
    assert (found.lengths.clip(max=PAST) == (past != FILLING).sum(axis=1)).all()
    return [found.videos[row[row != FILLING]].tolist() for row in past]


def test_an_input_is_a_history_and_the_candidate(tmp_path: Path) -> None:
    events = [(1, 7, 20220420, -5), (1, 8, 20220423, -4), (1, 9, 20220427, 0), (1, 7, 20220428, 1), (2, 3, 20220428, 2)]
    prepared = prepared_of(tmp_path, events, min_history=1)
    schema = prepared.schema
    assert (schema.steps, schema.dense, [table.name for table in schema.tables]) == (
        21,
        ("video_duration",),
        ["user_id", "video_id", "author_id"],
    )
    first, second = prepared.train.ids.reshape(2, 3, STEPS).tolist()
    seven, eight, nine = 1, 2, 3  # the more frequent first, then the lower
    assert first[1] == [0] * 18 + [seven, eight, nine]
    assert second[1] == [0] * 17 + [seven, eight, nine, seven]
    assert first[0] == [0] * 18 + [1] * 3 and second[0] == [0] * 17 + [1] * 4
    assert first[2] == [0] * 18 + [1, 1, 2]  # videos 7 and 8 have author 2
    dense = np.zeros((2, STEPS))
    dense[0, -3:] = dense[1, -4:-1] = np.log1p([87.433, 0, 9.5005])
    dense[1, -1] = np.log1p(87.433)
    np.testing.assert_allclose(prepared.train.dense, dense, rtol=1e-6)
    assert prepared.train.labels.tolist() == log_of(events)["is_click"].tolist()[2:4]
    assert prepared.meta["rows_dropped"] == {"history shorter than 1": 1}
    assert prepared.meta["facts"] == {
        "lookups_unseen_in_training": 0,
        "steps_filled_up": 18 + 17,
        "users": 1,
        "users_without_an_input": 1,
    }


def test_what_was_shown_at_the_same_moment_is_not_before() -> None:
    log = log_of(
        [(1, 7, 20220420, -5), (1, 8, 20220427, 0), (1, 9, 20220427, 0), (2, 5, 20220427, -1), (1, 6, 20220427, 1)]
    )
    assert last_videos(log) == [[], [7], [7], [7, 8, 9]]


def test_impressions_not_later_than_the_history_are_dropped(tmp_path: Path) -> None:
    events = [(1, 7, 20220424, 5), (1, 8, 20220425, 5), (1, 8, 20220425, 4), (1, 9, 20220425, 6)]
    prepared = prepared_of(tmp_path, events, min_history=0)
    assert len(prepared.train) == 1
    assert prepared.meta["rows_dropped"] == {"not later than the user's history": 2}


def test_the_last_twenty_are_kept_and_min_history_counts_them_all(tmp_path: Path) -> None:
    before = [(1, at % 30 + 1, 20220420, at - 100) for at in range(60)]
    events = [*before, (1, 33, 20220427, 0), (2, 4, 20220427, 1), (2, 5, 20220427, 2)]
    assert last_videos(log_of(events)) == [[at % 30 + 1 for at in range(40, 60)], [], [4]]
    assert prepared_of(tmp_path, events, min_history=20).meta["rows_dropped"] == {"history shorter than 20": 2}
    everything = prepared_of(tmp_path, events, min_history=0)
    assert len(everything.train) == 3 and "users_without_an_input" in everything.meta["facts"]
    assert everything.train.ids[1].tolist() == [*[0] * 20, 2, *[0] * 20, 1, *[0] * 20, 1]  # user 2, video 4


@pytest.mark.parametrize("seed", range(3))
def test_histories_are_those_of_a_plain_loop(seed: int) -> None:
    log = made_up_log(seed, rows=400, users=4)
    tables = tables_of(log)
    expected = []
    for one in tables.impressions.itertuples():
        of_user = log[log["user_id"] == one.user_id].sort_values(["time_ms", "video_id"], kind="stable")
        early = of_user[of_user["date"] < 20220425]["video_id"].tolist()[-50:]
        later = of_user[(of_user["date"] >= 20220425) & (of_user["time_ms"] < one.time_ms)]["video_id"].tolist()
        expected.append((early + later)[-PAST:])
    assert last_videos(log) == expected


@pytest.mark.parametrize("seed", range(3))
def test_nothing_at_or_after_the_impression_changes_its_history(seed: int) -> None:
    random = np.random.default_rng(seed)
    log = made_up_log(seed, rows=400, users=4)
    shown = tables_of(log).impressions
    at = int(random.integers(50, len(shown) - 50))
    now = shown["time_ms"].iloc[at]
    changed = log.copy()
    later = (log["time_ms"] >= now) & (log["date"] >= 20220425)
    changed.loc[later, "video_id"] = random.integers(0, 40, later.sum())
    for name in ("is_click", "long_view", "play_time_ms", "is_like"):
        changed[name] = 1 - changed[name].clip(0, 1)
    # the order within a moment hangs on the videos, so that whole moments are compared
    before = int((shown["time_ms"] < now).sum())
    same = int((shown["time_ms"] == now).sum())
    one, two = last_videos(log), last_videos(changed)
    assert one[:before] == two[:before]
    assert sorted(one[before : before + same]) == sorted(two[before : before + same])
    assert one[before + same :] != two[before + same :]


def test_ids_of_the_training_inputs(tmp_path: Path) -> None:
    events = [(1, 7, 20220420, -5), (1, 8, 20220427, 0), (1, 9, 20220504, 1), (2, 7, 20220424, -9), (2, 5, 20220505, 2)]
    prepared = prepared_of(tmp_path, events, min_history=1, vocab="train")
    assert [table.rows for table in prepared.schema.tables] == [2, 3, 2]
    assert prepared.validation.ids[0, 2 * STEPS - 3 : 2 * STEPS].tolist() == [1, 2, RESERVED_ID]  # video 9 is new
    assert not prepared.test.ids[0, :STEPS].any()  # user 2 is new
    assert prepared.test.ids[0, 2 * STEPS - 2 : 2 * STEPS].tolist() == [1, RESERVED_ID]
    # of the validation input, video 9 and its author; of the test input, user 2 twice, video 5 and its author
    assert prepared.meta["facts"]["lookups_unseen_in_training"] == 6


def test_encoding_by_frequency() -> None:
    codes = np.array([[FILLING, 4, 2], [1, 2, 4], [3, 2, FILLING]])
    assert encode(codes, codes)[0].tolist() == [[0, 2, 1], [3, 1, 2], [4, 1, 0]]
    assert encode(codes, codes[:1])[0].tolist() == [[0, 2, 1], [0, 1, 2], [0, 1, 0]]
    assert encode(codes, codes)[1] == 5 and encode(codes, codes[:1])[1] == 3
    assert encode(codes, codes[:0])[1] == 2  # a table has a row beside the reserved one


def test_no_user_has_a_history(tmp_path: Path) -> None:
    events = [(1, 7, 20220427, 0), (1, 8, 20220428, 1)]
    prepared = prepared_of(tmp_path, events, min_history=0)
    assert prepared.train.ids.reshape(2, 3, STEPS)[:, 1, -2:].tolist() == [[0, 1], [1, 2]]


@pytest.mark.skipif(not REAL.exists(), reason="../shared is absent")
def test_real_histories(tmp_path: Path) -> None:
    prepared = prepare("kuairand-history", [REAL], {}, tmp_path / "data")
    assert [len(s) for s in (prepared.train, prepared.validation, prepared.test)] == [150_397, 17_260, 55_767]
    assert prepared.meta["rows_dropped"] == {
        "not later than the user's history": 3,
        "history shorter than 5": 4_902,
    }
    assert prepared.meta["facts"]["users_without_an_input"] == 1_124
    assert [table.rows for table in prepared.schema.tables] == [22_568, 7_278, 6_307]
    ids = prepared.train.ids.reshape(-1, 3, STEPS)
    filled = ids == RESERVED_ID
    assert (filled == filled[:, :1]).all() and not filled[:, :, -6:].any()
    assert filled.mean() == pytest.approx(0.045, abs=0.01)
    assert (np.diff(filled[:, 0].astype(int), axis=1) <= 0).all()  # at the front only
    assert ((prepared.train.dense == 0) >= filled[:, 0]).all() and prepared.train.dense.max() < 10
    assert prepared.train.labels.mean() == pytest.approx(0.441, abs=0.001)
