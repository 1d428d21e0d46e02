"""UserBehavior.csv: the same set however the file is cut, packed or interrupted; what does not fit is named."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets import click_log, taobao_sequences, taobao_spill, text, vocabulary, writer
from datasets.errors import UserError
from datasets.store import PreparedSet, prepare
from datasets.taobao import BEHAVIOURS, PERIOD
from datasets.taobao_draws import scramble
from datasets.taobao_spill import BUCKETS, EVENTS_FILE, Run, Spill, group_bounds, remove_spill
from datasets.writer import SPLITS, StoreWriter
from tests.datasets.test_taobao_sequences import RULES, random_events, slow_inputs

Event = tuple[int, int, int, int, int]  # user, item, category, time, behaviour


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks, groups and parts of a small file."""
    monkeypatch.setattr(text, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(taobao_spill, "GROUP_EVENTS", 300)
    monkeypatch.setattr(taobao_sequences, "PIECE", 64)
    monkeypatch.setattr(vocabulary, "BLOCK", 100)
    monkeypatch.setattr(writer, "PART_S", 0.0)


def events_of(sizes: list[int], seed: int = 0) -> list[Event]:
    events = random_events(sizes, 1000, seed)
    events["time"] += PERIOD[0] + 2000
    return events.tolist()


EVENTS = events_of([*range(15, 60), 3, 1])


def text_of(events: list[Event], end: str = "\n") -> bytes:
    lines = (f"{user},{item},{category},{BEHAVIOURS[b]},{time}{end}" for user, item, category, time, b in events)
    return "".join(lines).encode()


def made(folder: Path, name: str, *files: bytes, **options: Any) -> PreparedSet:
    """The set made of files with these contents."""
    (folder / name).mkdir()
    paths = [folder / name / f"{number}.csv" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    return prepare("taobao", paths, options, folder / name / "data")


def slow_set(events: list[Event]) -> dict[str, list[Any]]:
    """Split → its inputs, group by group, as `slow_inputs` has them."""
    bucket = {user: int(scramble(np.array([user]))[0]) >> 56 for user in {event[0] for event in events}}
    counts = np.bincount([bucket[event[0]] for event in events], minlength=BUCKETS)
    found: dict[str, list[Any]] = {split: [] for split in SPLITS}
    for start, end in group_bounds(counts):
        for row in slow_inputs([event for event in events if start <= bucket[event[0]] < end], RULES):
            found[row[0]].append(row[1:])
    return found


def assert_is(prepared: PreparedSet, wanted: dict[str, list[Any]]) -> None:
    """The prepared inputs are the wanted ones, their keys having been ranked table by table."""
    keys = np.array([row[1] for split in SPLITS for row in wanted[split]]).reshape(-1, 3, 21)
    ids = [np.unique(keys[:, table], return_inverse=True)[1].reshape(-1, 21) + 1 for table in range(3)]
    splits = (prepared.train, prepared.validation, prepared.test)
    assert [len(split) for split in splits] == [len(wanted[split]) for split in SPLITS]
    np.testing.assert_array_equal(np.concatenate([split.ids for split in splits]), np.concatenate(ids, axis=1))
    dense, labels = ([row[part] for split in SPLITS for row in wanted[split]] for part in (0, 2))
    np.testing.assert_array_equal(np.concatenate([split.labels for split in splits]), labels)
    np.testing.assert_allclose(np.concatenate([split.dense for split in splits]), dense, rtol=1e-6)


def test_two_users_by_hand(tmp_path: Path) -> None:
    start = PERIOD[0]
    walker = [(7, 100 + n, n // 7, start + 3600 * n, 0) for n in range(21)]  # an item an hour
    runner = [(9, 500 + n, 90, start + n, 1) for n in range(21)]  # an item a second
    prepared = made(tmp_path, "a", text_of(runner[::-1] + walker + [(8, 1, 1, start, 0)]))
    schema = prepared.schema
    assert (schema.steps, schema.dense, schema.num_lookups) == (21, ("log_hours",), 63)
    assert [table.name for table in schema.tables] == ["user", "item", "category"]
    assert len(prepared.train) == 2 and len(prepared.validation) == len(prepared.test) == 0
    np.testing.assert_allclose(prepared.train.dense[0], np.log1p(np.arange(20, -1, -1)), rtol=1e-6)
    np.testing.assert_allclose(prepared.train.dense[1], np.log1p(np.arange(20, -1, -1) / 3600), rtol=1e-6)
    assert_is(
        prepared, {"train": [row[1:] for row in slow_inputs(walker + runner, RULES)], "validation": [], "test": []}
    )
    assert prepared.train.ids[0, :21].tolist() == [1] * 21 and prepared.train.ids[1, :21].tolist() == [2] * 21
    assert (np.diff(prepared.train.ids[0, 21:41]) == 1).all()  # its 20 items in a row
    assert prepared.meta["rows_dropped"] == {"events of users with fewer than 21": 1}
    facts = prepared.meta["facts"]
    assert (facts["users"], facts["events"], facts["users_with_fewer_than_21_events"], facts["lines"]) == (2, 42, 1, 43)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 60), min_size=2, max_size=25), st.integers(0, 2**32))
def test_any_events(small: None, tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int) -> None:
    events = events_of([30, 30, 30, *sizes], seed)
    assert_is(made(tmp_path_factory.mktemp("any"), "a", text_of(events)), slow_set(events))


def test_no_form_of_the_file_makes_a_difference(small: None, tmp_path: Path) -> None:
    plain, third = text_of(EVENTS), len(EVENTS) // 3
    first = made(tmp_path, "plain", plain)
    assert_is(first, slow_set(EVENTS))
    forms = {
        "zipped": [gzip.compress(plain)],
        "windows": [text_of(EVENTS, "\r\n")],
        "open-ended": [plain[:-1]],
        "several": [
            text_of(EVENTS[:third]),
            gzip.compress(text_of(EVENTS[third:-1], "\r\n")[:-2]),
            text_of(EVENTS[-1:]),
        ],
    }
    for name, files in forms.items():
        assert made(tmp_path, name, *files).meta["files"] == first.meta["files"], name
    options = {"negatives": "uniform", "split": "users"}
    whole, cut = made(tmp_path, "whole", plain, **options), made(tmp_path, "cut", *forms["several"], **options)
    assert whole.meta["files"] == cut.meta["files"]
    for option in ({"seed": 1}, {"negatives": "uniform"}, {"split": "users"}):
        assert made(tmp_path, str(option), plain, **option).meta["files"] != first.meta["files"]


class Killed(BaseException):
    """What nothing catches."""


def killing(monkeypatch: pytest.MonkeyPatch, of: type, method: str, every: int, most: int = 100) -> list[int]:
    """From now on every so many calls of a method end it all, before anything is done; [calls, kills]."""
    whole, counts = getattr(of, method), [0, 0]

    def call(*args: Any, **kwargs: Any) -> Any:
        counts[0] += 1
        if counts[0] % every == 0 and counts[1] < most:
            counts[1] += 1
            raise Killed
        return whole(*args, **kwargs)

    monkeypatch.setattr(of, method, call)
    return counts


@pytest.mark.parametrize(
    ("of", "method", "every", "kills"),
    [
        (StoreWriter, "finish_part", 4, 7),  # in every phase, with work that is not recorded
        (StoreWriter, "append_keys", 7, 2),  # in the middle of a group
        (StoreWriter, "append_ids", 4, 1),
        (Spill, "close", 1, 1),  # with the inputs made and the spill still there
    ],
)
def test_killed_at_any_moment_it_goes_on_to_the_same_set(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: type, method: str, every: int, kills: int
) -> None:
    whole = made(tmp_path, "whole", text_of(EVENTS))
    path, root = tmp_path / "again.csv", tmp_path / "root"
    path.write_bytes(text_of(EVENTS))
    counts = killing(monkeypatch, of, method, every, kills)
    for _ in range(100):
        try:
            prepared = prepare("taobao", [path], {}, root)
            break
        except Killed:
            continue
    assert counts[1] == kills
    for part in ("files", "rows_dropped", "facts", "schema", "splits"):
        assert prepared.meta[part] == whole.meta[part]
    assert {p.name for p in (root / "taobao").iterdir()} == {*prepared.meta["files"], "meta.json"}
    assert {p.name for p in root.iterdir()} == {"taobao", ".taobao.lock"}


def test_a_resumed_run_says_how_far_it_is(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, said = tmp_path / "a.csv", list[str]()
    path.write_bytes(text_of(EVENTS))
    with monkeypatch.context() as patch:
        killing(patch, StoreWriter, "append_keys", 7, 1)
        with pytest.raises(Killed):
            prepare("taobao", [path], {}, tmp_path / "root")
    prepare("taobao", [path], {}, tmp_path / "root", said.append)
    built = [line for line in said if "making sequences" in line]
    assert f"{len(EVENTS):,} of {len(EVENTS):,} events" in built[-1]


def test_lines_are_counted_once_and_checked(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, counts = tmp_path / "a.csv", list[Path]()
    path.write_bytes(text_of(EVENTS))
    count_lines = click_log.count_lines

    def counting(path: Path, *rest: Any) -> int:
        counts.append(path)
        return count_lines(path, *rest) + 1

    monkeypatch.setattr(click_log, "count_lines", counting)
    with monkeypatch.context() as patch:
        killing(patch, Spill, "append", 4, 1)
        with pytest.raises(Killed):
            prepare("taobao", [path], {}, tmp_path / "root")
    n = len(EVENTS)
    with pytest.raises(UserError, match=rf"a\.csv: {n:,} lines, not {n + 1:,} as counted; did the file change\?"):
        prepare("taobao", [path], {}, tmp_path / "root")
    assert counts == [path]


def test_leftovers_that_were_cut_are_named(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text_of(EVENTS))
    with monkeypatch.context() as patch:
        killing(patch, Spill, "append", 4)
        with pytest.raises(Killed):
            prepare("taobao", [path], {}, tmp_path / "root")
    left = tmp_path / "root" / ".taobao.partial" / EVENTS_FILE
    left.write_bytes(left.read_bytes()[:100])
    with pytest.raises(UserError, match=r"events\.bin: is shorter than it was; remove .*\.taobao\.partial and prepare"):
        prepare("taobao", [path], {}, tmp_path / "root")


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    first, last = PERIOD
    outside = [(5, 1, 1, time, 0) for time in (first - 1, last + 1, 0, -2_134_949_234, 2**31 - 1)]
    inside = [(5, 2, 1, first, 2), (5, 2, 1, last, 2)]
    lines = text_of(EVENTS + outside + inside + inside[:1])
    dropped = made(tmp_path, "a", lines).meta["rows_dropped"]
    twice = len(EVENTS) - len(set(EVENTS))
    short = sum(size for size in range(15, 21)) + 4
    assert dropped["events outside the period"] == 5
    assert dropped["events that are there twice"] == twice + 1
    assert short - 20 < dropped["events of users with fewer than 21"] <= short + 20
    facts = made(tmp_path, "b", lines).meta["facts"]
    assert facts["events"] + sum(dropped.values()) == facts["lines"]
    assert "events outside the period" not in made(tmp_path, "c", lines, period="any").meta["rows_dropped"]
    carts = made(tmp_path, "d", lines, behaviours="buy, cart").meta
    assert carts["rows_dropped"]["events of other behaviours"] == sum(event[4] == 0 for event in EVENTS)
    assert carts["facts"]["events"] < facts["events"]


def test_bad_lines_can_be_skipped(small: None, tmp_path: Path) -> None:
    lines = text_of(EVENTS).splitlines(keepends=True)
    lines[70:70] = [b"user,item,category,behaviour,time\n", b"1,2,3,pv\n"]
    prepared = made(tmp_path, "a", b"".join(lines), on_bad_row="skip")
    assert prepared.meta["rows_dropped"]["bad lines"] == 2
    assert prepared.meta["files"] == made(tmp_path, "b", text_of(EVENTS)).meta["files"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1,2,3,pv", r"line 200: expected 5 columns separated by commas, found 4"),
        (b"1,2,3,pv,5,6", r"line 200: expected 5 columns separated by commas, found 6"),
        (b"1\t2\t3\tpv\t5", r"line 200: expected 5 columns separated by commas, found 1"),
        (b"", r"line 200: expected 5 columns separated by commas, found an empty line"),
        (b"x,2,3,pv,5", r"line 200: column user_id: expected a whole number of at least 0 .*, found 'x'"),
        (b"1,-2,3,pv,5", r"line 200: column item_id: expected .* at most 4294967295, found '-2'"),
        (b"1,4294967296,3,pv,5", r"line 200: column item_id: .* found '4294967296'"),
        (b"1,2,,pv,5", r"line 200: column category_id: .* found nothing"),
        (b"1,2,3.0,pv,5", r"line 200: column category_id: .* found '3.0'"),
        (b"1,2,3,click,5", r"line 200: column behaviour: expected pv, buy, cart or fav, found 'click'"),
        (b"1,2,3,PV,5", r"line 200: column behaviour: .* found 'PV'"),
        (b"1,2,3,pv,2017-11-25", r"line 200: column timestamp: expected a whole number .*, found '2017-11-25'"),
        (b"1,2,3,pv,1511793660000", r"line 200: column timestamp: .* at most 2147483647, found '1511793660000'"),
        (b"1,2,3,\xff\xfe,5", r"line 200: column behaviour: "),
        (b'"1",2,3,pv,5', r"line 200: column user_id: .* found '\"1\"'"),
    ],
)
def test_a_bad_line_is_named(small: None, tmp_path: Path, line: bytes, message: str) -> None:
    lines = text_of(EVENTS).splitlines()
    lines[199] = line
    with pytest.raises(UserError, match=r"0\.csv, " + message) as error:
        made(tmp_path, "a", b"\n".join(lines))
    assert str(error.value).isprintable()


def test_files_that_cannot_be_used_are_refused(small: None, tmp_path: Path) -> None:
    packed = gzip.compress(text_of(EVENTS))
    with pytest.raises(UserError, match=r"0\.csv, after line .*: the \.gz ends in the middle"):
        made(tmp_path, "cut", packed[: len(packed) // 2])
    with pytest.raises(UserError, match=r"there is no line in it; taobao needs Tianchi's UserBehavior\.csv"):
        made(tmp_path, "empty", b"")
    with pytest.raises(UserError, match=r"no input is left for training"):
        made(tmp_path, "alone", text_of(events_of([50])))
    with pytest.raises(UserError, match=r"unknown behaviour 'carts': did you mean 'cart'"):
        made(tmp_path, "behaviour", text_of(EVENTS), behaviours="pv,carts")


def test_a_folder_stands_for_the_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with pytest.raises(UserError, match=r"is a folder without UserBehavior\.csv, which taobao is made from"):
        prepare("taobao", [tmp_path / "raw"], {}, tmp_path / "data")
    (tmp_path / "raw" / "UserBehavior.csv").write_bytes(text_of(EVENTS))
    prepared = prepare("taobao", [tmp_path / "raw"], {}, tmp_path / "data")
    assert [source["name"] for source in prepared.meta["sources"]] == ["UserBehavior.csv"]


def test_vocabularies(tmp_path: Path) -> None:
    lines = text_of(EVENTS)
    exact, hashed = made(tmp_path, "exact", lines), made(tmp_path, "hashed", lines, hash_size=4)
    assert [table.rows for table in exact.schema.tables] == [1 + 39, 1 + 60, 1 + 5]
    assert max(table.rows for table in hashed.schema.tables) <= 1 + 5
    frequent = made(tmp_path, "frequent", lines, vocab="train", min_count=150)
    assert frequent.schema.tables[0].rows < 39 and (frequent.train.ids == 0).any()


def test_groups_are_made_of_whole_buckets() -> None:
    events = np.zeros(BUCKETS, np.int64)
    assert group_bounds(events) == []
    events[3] = 5
    assert group_bounds(events) == [(0, BUCKETS)]
    events[:] = taobao_spill.GROUP_EVENTS // 3 + 1
    assert group_bounds(events) == [(at, at + 3) for at in range(0, 252, 3)] + [(252, 256)]


def test_a_spill_gives_back_what_it_got(small: None, tmp_path: Path) -> None:
    events = random_events([50] * 40, 100, 0)
    spill = Spill(tmp_path)
    for first in range(0, len(events), 300):
        spill.append(Run.of(events[first : first + 300]))
    groups = list(spill.groups())
    assert len(groups) > 3
    for user in np.unique(events["user"]):
        holding = [group[group["user"] == user] for group in groups if (group["user"] == user).any()]
        assert len(holding) == 1 and (holding[0] == events[events["user"] == user]).all()
    assert (np.concatenate(list(spill.groups(2))) == np.concatenate(groups[2:])).all()
    spill.close()
    remove_spill(tmp_path)
    assert list(tmp_path.iterdir()) == []
