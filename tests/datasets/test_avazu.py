"""`avazu`: the hour and 21 ids, never the line's own id; split at random by seed, or by time."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import text
from datasets.avazu import HEX, SPARSE, split_bounds
from datasets.errors import UserError
from datasets.store import PreparedSet, prepare
from tests.datasets.raw_logs import (
    Arrays,
    Line,
    assert_same,
    avazu_lines,
    avazu_text,
    checksums,
    expected,
    of_all,
    of_split,
    save,
)

BY_TIME = {"split": "time"}
IDS = st.tuples(
    *(
        st.none() | (st.integers(0, 2**32 - 1) if name in HEX else st.integers(-1, 3) | st.just(2**31 - 1))
        for name in SPARSE
    )
)
LINES = st.lists(
    st.builds(
        Line,
        st.integers(0, 1),
        st.tuples(st.builds(lambda day, hour: 14100000 + 100 * day + hour, st.integers(21, 30), st.integers(0, 23))),
        IDS,
        st.integers(0, 2**64 - 1),
    ),
    min_size=2,
    max_size=12,
)


def wanted(lines: list[Line], counted: list[Line], **options: Any) -> Arrays:
    """What the lines give: of the hour, the hour of the day."""
    of_day = [replace(line, dense=[(line.dense[0] or 0) % 100]) for line in lines]
    return expected(of_day, counted, **options)


def made(folder: Path, content: str | bytes, **options: Any) -> PreparedSet:
    return prepare("avazu", [save(folder / "train.csv", content)], options, folder / "data")


@settings(max_examples=15, deadline=None)
@given(
    lines=LINES,
    end=st.sampled_from(["\n", "\r\n"]),
    last_ends=st.booleans(),
    zipped=st.booleans(),
    hash_size=st.sampled_from([0, 5]),
    block_bytes=st.sampled_from([50, 1 << 20]),
)
def test_any_file_gives_what_a_slow_reading_gives(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[Line],
    end: str,
    last_ends: bool,
    zipped: bool,
    hash_size: int,
    block_bytes: int,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    content = avazu_text(lines, end)
    path = save(folder / "train.csv", content if last_ends else content.removesuffix(end), zipped)
    with mock.patch.object(text, "BLOCK_BYTES", block_bytes):
        prepared = prepare("avazu", [path], BY_TIME | {"hash_size": hash_size}, folder / "data")
    assert_same(of_all(prepared), wanted(lines, lines, hash_size=hash_size))


def test_splits_by_time_are_the_first_lines_and_halves_of_the_rest(tmp_path: Path) -> None:
    lines = avazu_lines(205)
    prepared = made(tmp_path, avazu_text(lines), split="time", vocab="train")
    for split, first, end in (("train", 0, 164), ("validation", 164, 184), ("test", 184, 205)):
        assert_same(of_split(prepared, split), wanted(lines[first:end], lines[:164]))
    assert split_bounds(40_428_967, 0.8).tolist() == [32_343_173, 36_386_070]


def test_random_splits_are_a_function_of_seed_and_line_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = avazu_lines(4000)
    drawn = np.random.Generator(np.random.Philox(key=5)).random(len(lines))
    parts = np.searchsorted([0.8, 0.9], drawn, side="right")
    shares = np.bincount(parts) / len(lines)
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.02)
    prepared = made(tmp_path, avazu_text(lines), split_seed=5)
    for number, split in enumerate(("train", "validation", "test")):
        chosen = [line for line, part in zip(lines, parts.tolist(), strict=True) if part == number]
        assert_same(of_split(prepared, split), wanted(chosen, lines))
    first = checksums(prepared)
    monkeypatch.setattr(text, "BLOCK_BYTES", 10_007)
    halves = [save(tmp_path / f"{n}.csv", avazu_text(part)) for n, part in enumerate((lines[:999], lines[999:]))]
    assert checksums(prepare("avazu", halves, {"split_seed": 5}, tmp_path / "data")) == first
    assert checksums(made(tmp_path, avazu_text(lines), split_seed=6)) != first


def test_a_skipped_line_moves_no_other_line(tmp_path: Path) -> None:
    rows = avazu_text(avazu_lines(400)).splitlines()
    before = made(tmp_path, "\n".join(rows), on_bad_row="skip")
    rows[200] = rows[200].replace(",", ";")
    after = made(tmp_path, "\n".join(rows), on_bad_row="skip")
    assert after.meta["rows_dropped"] == {"bad lines": 1}
    missing = [s for s in ("train", "validation", "test") if len(getattr(before, s)) != len(getattr(after, s))]
    assert len(missing) == 1
    for split in {"train", "validation", "test"} - set(missing):
        assert_same(of_split(after, split), of_split(before, split))


def test_the_id_of_a_line_is_no_feature(tmp_path: Path) -> None:
    lines = avazu_lines(100)
    others = [replace(line, name=random.randrange(2**64)) for line in lines]
    first = made(tmp_path, avazu_text(lines))
    assert checksums(made(tmp_path, avazu_text(others))) == checksums(first)
    assert "id" not in (*first.schema.dense, *(table.name for table in first.schema.tables))
    assert (len(first.schema.dense), len(first.schema.tables)) == (1, 21)


def test_the_dense_feature_is_the_hour_of_the_day(tmp_path: Path) -> None:
    hours = [14102100, 14102123, 14103012]
    lines = [replace(line, dense=[hour]) for line, hour in zip(avazu_lines(3), hours, strict=True)]
    prepared = made(tmp_path, avazu_text(lines), split="time")
    np.testing.assert_allclose(of_all(prepared)[1][:, 0], np.log1p([0, 23, 12]), rtol=1e-6)


def test_unknown_zero_missing_and_the_largest_id_are_ids_of_their_own(tmp_path: Path) -> None:
    c20, device = SPARSE.index("C20"), SPARSE.index("device_id")
    values: list[tuple[int | None, int | None]] = [(-1, 2**32 - 1), (0, 0), (None, None), (2**31 - 1, 1), (-1, None)]
    lines = []
    for of_c20, of_device in values:
        ids: list[int | None] = [1] * 21
        ids[c20], ids[device] = of_c20, of_device
        lines.append(Line(0, [14102100], ids))
    found = of_all(made(tmp_path, avazu_text(lines), split="time"))[2]
    assert found[:, c20].tolist() == [3, 1, 4, 2, 3]
    assert found[:, device].tolist() == [3, 1, 4, 2, 4]


def test_files_each_have_a_header(tmp_path: Path) -> None:
    lines = avazu_lines(40)
    empty = save(tmp_path / "empty.csv", avazu_text([]))
    halves = [save(tmp_path / f"{n}.csv", avazu_text(part)) for n, part in enumerate((lines[:11], lines[11:]))]
    for paths in ([empty, *halves], [halves[0], empty, halves[1]], [*halves, empty]):
        assert_same(of_all(prepare("avazu", paths, BY_TIME, tmp_path / "data")), wanted(lines, lines))
    halves[1].write_text(halves[1].read_text().split("\n", 1)[1])
    with pytest.raises(UserError, match=r"1\.csv, line 1: expected the 24 column names id to C21, found '"):
        prepare("avazu", halves, BY_TIME, tmp_path / "data")
