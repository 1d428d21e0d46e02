"""The official files of KuaiRand-Pure give what their Parquet copy gives; what cannot be is named."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from datasets.errors import UserError
from datasets.store import PreparedSet, prepare
from tests.datasets.raw_kuairand import EARLIER, LATER, USERS, VIDEOS, made_up_log, write_copy, write_official

SETS = ("kuairand", "kuairand-history")


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return made_up_log()


@pytest.fixture
def official(tmp_path: Path, log: pd.DataFrame) -> Path:
    return write_official(tmp_path / "raw", log)


def files_of(prepared: PreparedSet) -> dict[str, str]:
    return {name: file["sha256"] for name, file in prepared.meta["files"].items()}


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("vocab", ["train", "all"])
def test_both_forms_give_the_same_set(tmp_path: Path, log: pd.DataFrame, name: str, vocab: str) -> None:
    sources = [write_official(tmp_path / "official", log), write_copy(tmp_path / "copy", log)]
    made = [prepare(name, [source], {"vocab": vocab}, tmp_path / "data") for source in sources]
    assert files_of(made[0]) == files_of(made[1])
    for key in ("schema", "splits", "facts", "rows_dropped"):
        assert made[0].meta[key] == made[1].meta[key]
    assert min(len(split) for split in (made[0].train, made[0].validation, made[0].test)) > 5


@pytest.mark.parametrize(
    "form", [{"compressed": True}, {"crlf": True}, {"end": False}, {"compressed": True, "crlf": True}]
)
def test_compression_and_line_ends_make_no_difference(tmp_path: Path, log: pd.DataFrame, form: dict[str, bool]) -> None:
    plain = prepare("kuairand", [write_official(tmp_path / "plain", log)], {}, tmp_path / "data")
    other = prepare("kuairand", [write_official(tmp_path / "other", log, **form)], {}, tmp_path / "data")
    assert files_of(plain) == files_of(other)
    assert [source["name"].removesuffix(".gz") for source in other.meta["sources"]] == [USERS, VIDEOS, EARLIER, LATER]


@pytest.mark.parametrize("place", ["", "data", "KuaiRand-Pure/data"])
def test_folders_that_may_be_named(tmp_path: Path, log: pd.DataFrame, place: str) -> None:
    write_official(tmp_path / "raw" / place, log)
    assert len(prepare("kuairand-history", [tmp_path / "raw"], {}, tmp_path / "data").train) > 5


def test_only_the_standard_policy_counts(tmp_path: Path, log: pd.DataFrame) -> None:
    random = log[::3].assign(is_rand=1)
    mixed = pd.concat([log, random])
    for name in SETS:
        with_random = prepare(name, [write_official(tmp_path / f"{name}-mixed", mixed)], {}, tmp_path / "data")
        without = prepare(name, [write_official(tmp_path / name, log)], {}, tmp_path / "data")
        assert files_of(with_random) == files_of(without)
        left_out = with_random.meta["rows_dropped"].pop("shown at random")
        assert left_out == (random["date"] >= 20220425).sum()
        assert with_random.meta["rows_dropped"] == without.meta["rows_dropped"]


def test_impressions_without_a_label_are_dropped_and_counted(tmp_path: Path, log: pd.DataFrame) -> None:
    unlabelled = log.assign(is_click=log["is_click"].astype("Int64").mask(log["date"] == 20220426))
    for name in SETS:
        prepared = prepare(name, [write_official(tmp_path / name, unlabelled)], {}, tmp_path / "data")
        assert prepared.meta["rows_dropped"]["no is_click"] == (log["date"] == 20220426).sum()


def test_without_history_the_earlier_log_is_not_needed(official: Path, tmp_path: Path) -> None:
    (official / EARLIER).unlink()
    without = prepare("kuairand", [official], {"history": "no"}, tmp_path / "data")
    assert "history_length" not in [table.name for table in without.schema.tables]
    with pytest.raises(UserError, match=rf"of the official files {EARLIER} is missing; give either form\.$"):
        prepare("kuairand", [official], {}, tmp_path / "data")


def test_what_the_user_did_does_not_change_the_features(tmp_path: Path, log: pd.DataFrame) -> None:
    """Of the impressions, whatever was recorded after they were shown."""
    done = [
        name for name in log if name.startswith(("is_", "play", "profile", "comment", "long")) and name != "is_rand"
    ]
    other = log.copy()
    other.loc[log["date"] >= 20220425, done] = 1 - log[done].clip(0, 1)
    for name in SETS:
        one = files_of(prepare(name, [write_official(tmp_path / f"{name}-one", log)], {}, tmp_path / "data"))
        two = files_of(prepare(name, [write_official(tmp_path / f"{name}-two", other)], {}, tmp_path / "data"))
        assert {file for file in one if one[file] != two[file]} == {file for file in one if "labels" in file}


def message_of(folder: Path, data: Path, name: str = "kuairand") -> str:
    with pytest.raises(UserError) as refused:
        prepare(name, [folder], {}, data)
    assert not [path for path in data.iterdir() if not path.name.endswith(".lock")]
    return str(refused.value)


def test_missing_files_are_named(official: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert message_of(empty, tmp_path / "data", "kuairand-history") == (
        f"{empty} does not hold KuaiRand-Pure whole: "
        f"of the official files {LATER} and {VIDEOS} and {EARLIER} are missing, "
        "of the Parquet copy splits_val.parquet and splits_test.parquet and item_features.parquet and "
        "user_sequences.parquet are missing; give either form."
    )
    (official / VIDEOS).unlink()
    (official / LATER).unlink()
    assert message_of(official, tmp_path / "data") == (
        f"{official} does not hold KuaiRand-Pure whole: of the official files {LATER} and {VIDEOS} are missing; "
        "give either form."
    )


LINE = "7,3,20220426,1300,1650949200000,1,0,0,0,0,0,1,5000,9000,0,0,0,0,1"


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        (LATER, LINE + ",1", "expected 19 columns separated by commas, found 20."),
        (EARLIER, LINE.rsplit(",", 1)[0], "expected 19 columns separated by commas, found 18."),
        (LATER, "", "expected 19 columns separated by commas, found an empty line."),
        (LATER, "x" + LINE, "column user_id: expected a whole number of at least 0, found 'x7'."),
        (LATER, "-" + LINE, "column user_id: expected a whole number of at least 0, found '-7'."),
        (LATER, LINE.replace(",3,", ",,"), "column video_id: expected a whole number of at least 0, found nothing."),
        (LATER, LINE.replace("20220426", "20220431"), "column date: expected a day like 20220425, found '20220431'."),
        (LATER, LINE.replace("1300", "1375"), "column hourmin: expected a time of day like 2359, found '1375'."),
        (LATER, LINE.replace(",1,0,", ",2,0,", 1), "column is_click: expected 0 or 1 or nothing, found '2'."),
        (USERS, "99,a,b", "expected 26 columns separated by commas, found 3."),
        (USERS, "u9" + ",0" * 25, "column user_id: expected a whole number of at least 0, found 'u9'."),
        (VIDEOS, "9x" + ",0" * 8, "column video_id: expected a whole number of at least 0, found '9x'."),
        (
            VIDEOS,
            "99,0,0,0,0,0,0,inf,0",
            "column video_duration: expected a number of at least 0 or nothing, found 'inf'.",
        ),
    ],
)  # fmt: skip
def test_bad_lines_are_named(official: Path, tmp_path: Path, file: str, line: str, message: str) -> None:
    lines = (official / file).read_text().splitlines()
    (official / file).write_text("\n".join([*lines[:4], line, *lines[4:], ""]))
    assert message_of(official, tmp_path / "data") == f"{official / file}, line 5: {message}"


def test_bad_headers_are_named(official: Path, tmp_path: Path) -> None:
    replace(official / VIDEOS, "author_id", "writer_id")
    assert message_of(official, tmp_path / "data") == (
        f"{official / VIDEOS}, line 1: has no column author_id; is it KuaiRand-Pure's?"
    )
    replace(official / VIDEOS, "writer_id,music_id", "author_id,author_id")
    assert "line 1: has no column music_id;" in message_of(official, tmp_path / "data")
    replace(official / VIDEOS, "author_id,author_id,music_type", "author_id,music_id,music_id")
    assert "line 1: has no column music_type;" in message_of(official, tmp_path / "data")
    replace(official / LATER, "user_id,video_id", "video_id,user_id")
    replace(official / VIDEOS, "author_id,music_id,music_id", "author_id,music_id,music_type")
    message = message_of(official, tmp_path / "data")
    assert f"{official / LATER}, line 1: expected the 19 column names user_id to tab, found 'video_id," in message


def test_a_column_named_twice_is_refused(official: Path, tmp_path: Path) -> None:
    users = (official / USERS).read_text().splitlines()
    (official / USERS).write_text("\n".join([f"{users[0]},user_id", *(f"{line},1" for line in users[1:])]))
    assert "line 1: has more than one column user_id;" in message_of(official, tmp_path / "data")


def test_ids_that_occur_twice_are_refused(official: Path, tmp_path: Path) -> None:
    users = (official / USERS).read_text().splitlines()
    (official / USERS).write_text("\n".join([*users, users[3]]))
    assert message_of(official, tmp_path / "data") == (
        f"{official / USERS}: user_id 3 occurs twice; copy the file again."
    )


@pytest.mark.parametrize("file", [LATER, VIDEOS])
def test_files_cut_off_are_named(tmp_path: Path, log: pd.DataFrame, file: str) -> None:
    folder = write_official(tmp_path / "raw", log, compressed=True)
    path = folder / f"{file}.gz"
    path.write_bytes(path.read_bytes()[:-40])
    assert str(path) in (message := message_of(folder, tmp_path / "data"))
    assert "is it downloaded whole?" in message
    path.unlink()
    path.with_suffix("").mkdir()
    assert message_of(folder, tmp_path / "data").startswith(f"{path.with_suffix('')} is not a file")


def test_files_that_are_no_text_are_named(official: Path, tmp_path: Path) -> None:
    (official / VIDEOS).write_bytes((official / VIDEOS).read_bytes().replace(b"7,8", b"\xff,8", 1))
    assert f"{official / VIDEOS} cannot be read as CSV (" in message_of(official, tmp_path / "data")
    (official / LATER).write_bytes(b"")
    (official / VIDEOS).write_bytes(b"")
    assert f"{official / VIDEOS}, line 1: has no column video_id, author_id" in message_of(official, tmp_path / "data")


def test_no_impression_in_the_training_days(tmp_path: Path, log: pd.DataFrame) -> None:
    late = log[(log["date"] > 20220503) | (log["date"] < 20220425)]
    for name in SETS:
        folder = write_official(tmp_path / name, late)
        assert message_of(folder, tmp_path / "data", name).startswith(f"{name}: no input is left for training (")
