"""`criteo-kaggle`: any good file gives what a slow reading of it gives."""

from __future__ import annotations

import gzip
import math
import re
from itertools import permutations
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import pace, text, vocabulary
from datasets.criteo_kaggle import PUBLISHED_LINES, split_bounds
from datasets.errors import UserError
from datasets.store import prepare
from tests.datasets.raw_logs import (
    CRITEO_ORDER,
    Line,
    assert_same,
    checksums,
    criteo_lines,
    criteo_text,
    expected,
    of_all,
    of_split,
    save,
)

KEYS = st.integers(0, 3) | st.integers(2**32 - 3, 2**32 - 1) | st.integers(0, 2**32 - 1)
LINES = st.lists(
    st.builds(
        Line,
        st.integers(0, 1),
        st.lists(st.none() | st.integers(-3, 2**31), min_size=13, max_size=13),
        st.lists(st.none() | KEYS, min_size=26, max_size=26),
    ),
    min_size=2,  # one for training
    max_size=12,
)


@settings(max_examples=15, deadline=None)
@given(
    lines=LINES,
    end=st.sampled_from(["\n", "\r\n"]),
    last_ends=st.booleans(),
    zipped=st.booleans(),
    options=st.fixed_dictionaries(
        {
            "vocab": st.sampled_from(["all", "train"]),
            "min_count": st.integers(1, 2),
            "hash_size": st.sampled_from([0, 0, 1, 7, 1000]),
        }
    ),
    first_file=st.integers(0, 12),
    block_bytes=st.sampled_from([100, 1 << 20]),
)
def test_any_file_gives_what_a_slow_reading_gives(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[Line],
    end: str,
    last_ends: bool,
    zipped: bool,
    options: dict[str, Any],
    first_file: int,
    block_bytes: int,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    texts = [criteo_text(part, end) for part in (lines[:first_file], lines[first_file:])]
    parts = [part if last_ends else part.removesuffix(end) for part in texts if part]
    paths = [save(folder / f"{number}.txt", part, zipped) for number, part in enumerate(parts)]
    train = len(lines) - len(lines) // 7
    counted = lines if options["vocab"] == "all" else lines[:train]
    wanted = expected(lines, counted, options["min_count"], options["hash_size"])
    with mock.patch.object(text, "BLOCK_BYTES", block_bytes), mock.patch.object(vocabulary, "BLOCK", 3):
        if not expected(counted, counted, options["min_count"], options["hash_size"])[2].any():
            with pytest.raises(UserError, match="min_count=2 leaves no id in any table"):
                prepare("criteo-kaggle", paths, options, folder / "data")
            return
        prepared = prepare("criteo-kaggle", paths, options, folder / "data")
    assert (len(prepared.train), len(prepared.validation)) == (train, len(lines) // 7 // 2)
    assert_same(of_all(prepared, CRITEO_ORDER), wanted)
    facts, ids = prepared.meta["facts"], wanted[2]
    assert facts["lookups_too_rare"] == (ids[:train] == 0).sum()
    unseen = [(~np.isin(column[train:], column[:train]) | (column[train:] == 0)).sum() for column in ids.T]
    assert facts.get("lookups_unseen_in_training", 0) == sum(unseen)


@pytest.mark.parametrize("share", [6 / 7, 0.5])
def test_the_first_lines_are_for_training_and_the_rest_is_halved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 4096)
    lines = criteo_lines(501)
    paths = [save(tmp_path / f"{n}.txt", criteo_text(part)) for n, part in enumerate((lines[:77], lines[77:]))]
    prepared = prepare("criteo-kaggle", paths, {"train_share": share}, tmp_path / "data")
    first, second = (430, 466) if share > 0.5 else (251, 376)
    labels, dense, ids = expected(lines, lines)
    assert_same(of_split(prepared, "train"), (labels[:first], dense[:first], ids[:first]))
    assert_same(of_split(prepared, "test"), (labels[first:second], dense[first:second], ids[first:second]))
    assert_same(of_split(prepared, "validation"), (labels[second:], dense[second:], ids[second:]))
    assert [source["name"] for source in prepared.meta["sources"]] == ["0.txt", "1.txt"]
    assert prepared.meta["facts"]["lines"] == 501


def test_the_published_lines_are_cut_as_in_the_reference() -> None:
    assert split_bounds(PUBLISHED_LINES, 6 / 7).tolist() == [39_291_958, 42_566_288]
    for weeks in range(1, 3000, 7):
        assert split_bounds(7 * weeks, 6 / 7)[0] == 6 * weeks


def test_line_ends_padding_and_compression_make_no_difference(tmp_path: Path) -> None:
    lines = criteo_lines(60)
    lines[-1] = Line(1, [7] * 13, [*range(25), None])  # nothing at the very end
    plain = criteo_text(lines)
    short = "\n".join("\t".join(v.lstrip("0") or v[:1] for v in line.split("\t")) for line in plain.split("\n"))
    members = gzip.compress(plain[:5000].encode()) + gzip.compress(plain[5000:].encode())
    variants = [
        plain,
        plain.removesuffix("\n"),
        criteo_text(lines, "\r\n"),
        criteo_text(lines, "\r\n").removesuffix("\r\n"),
        plain.upper(),
        short,
    ]
    zipped = [gzip.compress(plain.encode()), members]
    found = []
    for number, content in enumerate([*(variant.encode() for variant in variants), *zipped]):
        path = save(tmp_path / f"{number}.txt", content)  # gzip is known by its first bytes, not by its name
        found.append(checksums(prepare("criteo-kaggle", [path], {}, tmp_path / "data")))
    assert len(found[0]) == 9 and all(one == found[0] for one in found)


def test_dense_values_are_finite_whatever_the_file_holds(tmp_path: Path) -> None:
    values = [None, 0, -1, -(10**18) + 1, 1, 2, 100, 2**31, 2**53 + 1, 10**18 - 1, 3, 4, 5]
    path = save(tmp_path / "train.txt", criteo_text([Line(1, values, [1] * 26)] * 2))
    dense = prepare("criteo-kaggle", [path], {}, tmp_path / "data").train.dense
    wanted = [0, 0, 0, 0, *(math.log(1 + value) for value in values[4:] if value is not None)]
    np.testing.assert_allclose(dense[0], wanted, rtol=1e-6)


def test_skipped_lines_are_counted_and_move_no_other_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 1000)
    lines = criteo_lines(140)
    rows = criteo_text(lines).splitlines()
    bad = {3: "", 4: rows[4] + "\t", 50: rows[50][1:], 119: "2" + rows[119][1:], 120: "x", 131: rows[131] + "z"}
    path = save(tmp_path / "train.txt", "\n".join(bad.get(number, row) for number, row in enumerate(rows)))
    with pytest.raises(UserError, match=r"train.txt, line 4: expected 40 columns .* found an empty line; "):
        prepare("criteo-kaggle", [path], {}, tmp_path / "data")
    prepared = prepare("criteo-kaggle", [path], {"on_bad_row": "skip"}, tmp_path / "data")
    assert prepared.meta["rows_dropped"] == {"bad lines": 6}
    assert prepared.meta["options"]["on_bad_row"] == "skip"
    kept = [line for number, line in enumerate(lines) if number not in bad]
    assert [len(split) for split in (prepared.train, prepared.validation, prepared.test)] == [116, 9, 9]
    assert_same(of_all(prepared, CRITEO_ORDER), expected(kept, kept))


def test_a_folder_stands_for_the_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    save(tmp_path / "raw" / "train.txt.gz", criteo_text(criteo_lines(20)), zipped=True)
    prepared = prepare("criteo-kaggle", [tmp_path / "raw"], {}, tmp_path / "data")
    assert [source["name"] for source in prepared.meta["sources"]] == ["train.txt.gz"]
    assert len(prepared.train) == 18


def test_an_empty_file_beside_a_full_one_is_no_mistake(tmp_path: Path) -> None:
    full, empty = save(tmp_path / "a", criteo_text(criteo_lines(20))), save(tmp_path / "b", "")
    found = [checksums(prepare("criteo-kaggle", list(p), {}, tmp_path / "data")) for p in permutations((full, empty))]
    assert found[0] == found[1] == checksums(prepare("criteo-kaggle", [full], {}, tmp_path / "data"))


def test_progress_starts_with_what_is_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "EVERY_S", 0.0)
    monkeypatch.setattr(text, "BLOCK_BYTES", 4096)
    path = save(tmp_path / "train.txt", criteo_text(criteo_lines(100)))
    said: list[str] = []
    prepare("criteo-kaggle", [path], {}, tmp_path / "data", said.append)
    start = r"criteo-kaggle: 100 lines; about 16 kB on the disk, 27 kB while it is made, about \d+ s"
    assert [bool(re.fullmatch(start, line)) for line in said].index(True) == said.index(
        next(line for line in said if not line.startswith("counting lines: "))
    )
    for what in ("counting lines", "criteo-kaggle", "counting ids", "giving ids"):
        assert any(re.match(rf"{what}: 100( of 100)? (lines|inputs), [\d,]+/s$", line) for line in said)
