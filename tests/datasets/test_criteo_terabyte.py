"""`criteo-terabyte`: days in order, the last one for tests, a share of the negatives left out by line number alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from datasets import criteo_terabyte, text
from datasets.click_log import uniform
from datasets.criteo_terabyte import PUBLISHED_LINES, find_files
from datasets.errors import UserError
from datasets.store import PreparedSet, prepare
from tests.datasets.raw_logs import Line, assert_same, checksums, criteo_lines, criteo_text, expected, of_split, save

SOME = {"days": "some", "hash_size": 0}


def days_in(folder: Path, counts: Sequence[int], zipped: bool = False) -> tuple[list[Path], list[list[Line]]]:
    """Files day_0, day_1 … with so many lines."""
    days = [criteo_lines(count, seed) for seed, count in enumerate(counts)]
    folder.mkdir(exist_ok=True)
    names = [folder / f"day_{number}{'.gz' if zipped else ''}" for number in range(len(days))]
    return [save(path, criteo_text(day), zipped) for path, day in zip(names, days, strict=True)], days


def kept(lines: Sequence[Line], first: int, drop: float, seed: int) -> list[Line]:
    """The lines that are not left out, drawn one by one; `first` is the number of the first over all files, from 0."""
    drawn = np.random.Generator(np.random.Philox(key=seed)).random(first + len(lines))[first:]
    return [line for line, chance in zip(lines, drawn, strict=True) if line.label or chance >= drop]


@pytest.mark.parametrize("drop", [0.0, 0.875, 1.0])
@pytest.mark.parametrize("block_bytes", [997, 1 << 20])
def test_the_last_day_is_halved_and_negatives_are_left_out_by_line_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drop: float, block_bytes: int
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", block_bytes)
    paths, days = days_in(tmp_path, [70, 41, 83])
    options = SOME | {"drop_negatives": drop, "sample_seed": 5, "vocab": "train"}
    prepared = prepare("criteo-terabyte", [paths[2], paths[0], paths[1]], options, tmp_path / "data")
    train = kept(days[0], 0, drop, 5) + kept(days[1], 70, drop, 5)
    last = {"test": kept(days[2][:42], 111, drop, 5), "validation": kept(days[2][42:], 153, drop, 5)}
    for split, lines in {"train": train, **last}.items():
        assert_same(of_split(prepared, split), expected(lines, train))
    left_out = 194 - len(train) - len(last["validation"]) - len(last["test"])
    reasons = {"inputs without a click, left out at random": left_out} if left_out else {}
    assert prepared.meta["rows_dropped"] == reasons
    assert [source["name"] for source in prepared.meta["sources"]] == ["day_0", "day_1", "day_2"]


def test_what_is_left_out_depends_on_seed_and_line_number_alone() -> None:
    everything = uniform(7, np.arange(1000))
    for first, end in ((0, 1), (1, 2), (3, 9), (4, 5), (5, 1000), (997, 1000)):
        np.testing.assert_array_equal(uniform(7, np.arange(first, end)), everything[first:end])
    np.testing.assert_array_equal(uniform(7, np.array([2, 3, 11, 998])), everything[[2, 3, 11, 998]])
    assert len(uniform(7, np.arange(0))) == 0
    assert abs(float(np.mean(uniform(7, np.arange(100_000)) < 0.875)) - 0.875) < 0.005
    assert not np.array_equal(uniform(8, np.arange(1000)), everything)
    far = 4_373_472_329  # lines of the whole
    assert uniform(7, np.array([far - 1]))[0] == uniform(7, np.arange(far - 9, far))[-1]


def test_a_skipped_line_moves_no_other_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 997)
    paths, days = days_in(tmp_path, [60, 60])
    options = SOME | {"on_bad_row": "skip", "drop_negatives": 0.5}
    before = prepare("criteo-terabyte", paths, options, tmp_path / "before")
    bad = [next(n for n, line in enumerate(day) if line.label) for day in days]  # which are never left out
    for path, number in zip(paths, bad, strict=True):
        rows = path.read_text().splitlines()
        path.write_text("\n".join([*rows[:number], "not a line", *rows[number + 1 :]]) + "\n")
    after = prepare("criteo-terabyte", paths, options, tmp_path / "after")
    assert after.meta["rows_dropped"]["bad lines"] == 2
    assert [len(getattr(before, s)) - len(getattr(after, s)) for s in ("train", "test", "validation")] == [1, 1, 0]
    place = len(kept(days[0][: bad[0]], 0, 0.5, 123))
    np.testing.assert_array_equal(np.delete(before.train.dense, place, axis=0), after.train.dense)


@pytest.mark.parametrize("hash_size", [1, 5, 40_000_000])
def test_no_table_has_more_rows_than_the_cap(tmp_path: Path, hash_size: int) -> None:
    paths, days = days_in(tmp_path, [40, 40])
    options = {"days": "some", "hash_size": hash_size, "drop_negatives": 0.0}
    prepared = prepare("criteo-terabyte", paths, options, tmp_path / "data")
    assert_same(of_split(prepared, "train"), expected(days[0], days[0] + days[1], hash_size=hash_size))
    assert max(table.rows for table in prepared.schema.tables) <= hash_size + 2  # and the reserved, and the missing one


def test_compressed_and_plain_days_give_the_same(tmp_path: Path) -> None:
    plain, _ = days_in(tmp_path / "plain", [50, 50])
    zipped, _ = days_in(tmp_path / "gz", [50, 50], zipped=True)

    def made(sources: list[Path]) -> PreparedSet:
        return prepare("criteo-terabyte", sources, SOME, tmp_path / "data")

    first = checksums(made(plain))
    assert (
        checksums(made(zipped)) == checksums(made([plain[0], zipped[1]])) == checksums(made([tmp_path / "gz"])) == first
    )


def test_published_days_are_taken_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criteo_terabyte, "PUBLISHED_LINES", (30, 20, 10))
    paths, _ = days_in(tmp_path, [30, 20, 10])
    whole = prepare("criteo-terabyte", paths, {"hash_size": 0}, tmp_path / "whole")
    assert whole.meta["facts"]["lines"] == whole.meta["facts"]["published_lines"] == 60
    some = prepare("criteo-terabyte", paths, SOME, tmp_path / "some")
    assert checksums(some) == checksums(whole)
    for day, message in ((0, "28 lines, not 30"), (1, "0 lines, not 20"), (2, "9 lines, not 10")):
        content = paths[day].read_text()
        lines = content.splitlines(keepends=True)
        paths[day].write_text("".join(lines[: int(message.split()[0])]))
        with pytest.raises(UserError) as refused:
            prepare("criteo-terabyte", paths, {"hash_size": 0}, tmp_path / "data")
        hint = "is it downloaded whole? `--option days=some` takes days as they are."
        assert str(refused.value) == f"{paths[day]}: {message} as published; {hint}"
        paths[day].write_text(content)


def test_published_lines_add_up() -> None:
    assert (len(PUBLISHED_LINES), sum(PUBLISHED_LINES)) == (24, 4_373_472_329)


def test_days_are_found_in_order_of_their_numbers(tmp_path: Path) -> None:
    for number in range(24):
        (tmp_path / f"day_{number}{'.gz' if number % 2 else ''}").touch()
    (tmp_path / "day_3.md5").touch()
    (tmp_path / "readme.txt").touch()
    found = find_files([tmp_path], {"days": "all"})
    assert [path.name for path in found] == [f"day_{n}{'.gz' if n % 2 else ''}" for n in range(24)]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(UserError) as error:
        find_files([tmp_path], {"days": "all"})
    assert str(error.value) == f"--source {tmp_path} cannot be read (Permission denied)."


def test_the_estimate_counts_what_is_left_out(tmp_path: Path) -> None:
    lines = [Line(0, line.dense, line.ids) for line in criteo_lines(400)]
    paths = [save(tmp_path / f"day_{n}", criteo_text([Line(1, [1] * 13, [1] * 26), *lines])) for n in range(2)]
    said: list[str] = []
    for drop in (0.0, 1.0):
        prepare("criteo-terabyte", paths, SOME | {"drop_negatives": drop}, tmp_path / "data", said.append)
    starts = [line.split(",")[0] for line in said if "on the disk" in line]
    assert starts == [
        "criteo-terabyte: 802 lines; about 128 kB on the disk",
        "criteo-terabyte: 802 lines; about 0 kB on the disk",
    ]
