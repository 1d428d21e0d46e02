"""The raw Criteo format: any line that fits gives the expected arrays, any other is named."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets import criteo_kaggle as criteo
from datasets.errors import UserError
from datasets.store import PreparedSet, prepare

Line = tuple[int, list[int | None], list[int | None]]

LINES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.lists(st.none() | st.integers(-3, 2**31), min_size=13, max_size=13),
        st.lists(st.none() | st.integers(0, 3) | st.integers(0, 2**32 - 1), min_size=26, max_size=26),
    ),
    min_size=2,  # one for training
    max_size=12,
)


def text_of(lines: list[Line], end: str = "\n") -> str:
    return "".join(
        "\t".join([str(y), *("" if v is None else str(v) for v in d), *("" if c is None else f"{c:08x}" for c in s)])
        + end
        for y, d, s in lines
    )


def expected(lines: list[Line], vocabulary_lines: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(labels, dense, ids), line by line and slowly."""
    order = [sorted({2**32 if s[c] is None else s[c] for _, _, s in lines[:vocabulary_lines]}) for c in range(26)]
    key = lambda value: 2**32 if value is None else value  # noqa: E731
    ids = [[order[c].index(key(s[c])) + 1 if key(s[c]) in order[c] else 0 for c in range(26)] for _, _, s in lines]
    dense = [[np.log1p(max(v or 0, 0)) for v in d] for _, d, _ in lines]
    return np.array([y for y, _, _ in lines]), np.array(dense, dtype=np.float32), np.array(ids)


def whole(prepared: PreparedSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    splits = (prepared.train, prepared.validation, prepared.test)
    return tuple(np.concatenate([getattr(s, part) for s in splits]) for part in ("labels", "dense", "ids"))  # type: ignore[return-value]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.sampled_from(["all", "train"]), st.data()
)
def test_any_lines(
    tmp_path: Path, lines: list[Line], end: str, last_ends: bool, zipped: bool, vocab: str, data: st.DataObject
) -> None:
    text = text_of(lines, end)
    text = text if last_ends else text.removesuffix(end)
    cut = len(text_of(lines[: data.draw(st.integers(0, len(lines) - 1))], end))  # where a second file begins
    paths = []
    for number, part in enumerate((text[:cut], text[cut:])):
        if part:
            paths.append(tmp_path / f"{number}.txt{'.gz' if zipped else ''}")
            paths[-1].write_bytes(gzip.compress(part.encode()) if zipped else part.encode())
    prepared = prepare("criteo-kaggle", paths, {"vocab": vocab}, tmp_path / "data")
    train = int(len(lines) * 6 / 7)
    assert (len(prepared.train), len(prepared.validation)) == (train, (len(lines) - train) // 2)
    for found, wanted in zip(whole(prepared), expected(lines, len(lines) if vocab == "all" else train), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def lines_of(count: int, seed: int = 0) -> list[Line]:
    random = np.random.default_rng(seed)
    return [
        (int(random.integers(2)), random.integers(-1, 99, 13).tolist(), random.integers(0, 20, 26).tolist())
        for _ in range(count)
    ]


def test_blocks_and_splits_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(500)
    (tmp_path / "train.txt").write_text(text_of(lines))
    monkeypatch.setattr(criteo, "READ_BYTES", 4096)
    prepared = prepare("criteo-kaggle", [tmp_path / "train.txt"], {"train_share": 0.5}, tmp_path / "data")
    assert (len(prepared.train), len(prepared.validation), len(prepared.test)) == (250, 125, 125)
    for found, wanted in zip(whole(prepared), expected(lines, 500), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert [source["name"] for source in prepared.meta["sources"]] == ["train.txt"]


def edited(line: int, column: int, value: str) -> str:
    rows = [row.split("\t") for row in text_of(lines_of(60)).splitlines()]
    rows[line - 1][column] = value
    return "\n".join("\t".join(row) for row in rows) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (edited(37, 0, "2"), r"raw.txt, line 37, column label: expected 0 or 1, found '2'"),
        (edited(37, 0, ""), r"line 37, column label: expected 0 or 1, found nothing"),
        (edited(37, 3, "1.5"), r"line 37, column I3: expected a whole number or nothing, found '1.5'"),
        (edited(37, 3, "9" * 40), r"line 37, column I3"),
        (edited(1, 14, "xyz"), r"line 1, column C1: expected up to 8 hexadecimal digits or nothing, found 'xyz'"),
        (edited(60, 39, "0123456g"), r"line 60, column C26: .* found '0123456g'"),
        (edited(60, 39, "012345678"), r"line 60, column C26"),
        (edited(37, 20, "éé"), r"line 37, column C7: .* found 'éé'"),
        (edited(37, 20, "0\t1"), r"line 37: expected 40 columns separated by tabs, found 41"),
        (text_of(lines_of(3)) + "\n" + text_of(lines_of(3)), r"line 4"),
        (
            "\n".join(line[2:] for line in text_of(lines_of(3)).splitlines()),
            r"line 1: 39 columns, .* unlabelled test.txt",
        ),
        ("", r"no line in it"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criteo, "READ_BYTES", 4096)  # several blocks
    (tmp_path / "raw.txt").write_text(text)
    with pytest.raises(UserError, match=message):
        prepare("criteo-kaggle", [tmp_path / "raw.txt"], {}, tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".criteo-kaggle.lock"]


def test_bytes_that_are_not_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_bytes(edited(37, 20, "@@").encode().replace(b"@@", b"\xff\xfe"))
    with pytest.raises(UserError, match="line 37, column C7"):
        prepare("criteo-kaggle", [tmp_path / "raw.txt"], {}, tmp_path / "data")


def test_truncated_gzip_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(text_of(lines_of(300)).encode())
    (tmp_path / "train.txt.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UserError, match=r"train\.txt\.gz.* is the file whole"):
        prepare("criteo-kaggle", [tmp_path / "train.txt.gz"], {}, tmp_path / "data")


def test_ids_need_not_be_padded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(edited(5, 14, "A"))
    (tmp_path / "b.txt").write_text(edited(5, 14, "0000000a"))
    both = [prepare("criteo-kaggle", [tmp_path / f"{n}.txt"], {}, tmp_path / n).train.ids for n in "ab"]
    np.testing.assert_array_equal(*both)


def refused(tmp_path: Path, content: bytes, name: str = "raw.txt") -> str:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        prepare("criteo-kaggle", [tmp_path / name], {}, tmp_path / "data")
    return str(error.value)


@pytest.mark.filterwarnings("error")  # what is raised where nobody can catch it
def test_binary_files_are_refused_in_one_printable_sentence(tmp_path: Path) -> None:
    for content in (bytes(range(256)) * 50, b"\xff\xfe\x00" * 9000 + b"\n", b"\x89PNG\n\x1a\x00\n" + b"\xff" * 99):
        message = refused(tmp_path, content)
        assert "raw.txt" in message and message.isprintable() and len(message) < 400
    packed = refused(tmp_path, b"no gzip \xff", "raw.gz")
    assert "cannot be read" in packed and packed.isprintable()
    assert refused(tmp_path, edited(3, 14, "\x1b" * 500).encode()).endswith("…'.")


def test_gzip_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes(gzip.compress(text_of(lines_of(20)).encode()))
    assert len(prepare("criteo-kaggle", [tmp_path / "train.txt"], {}, tmp_path / "data").train) == 17


def test_lone_carriage_returns_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criteo, "READ_BYTES", 7)  # line ends are cut in two
    (tmp_path / "good.txt").write_bytes(text_of(lines_of(30), "\r\n").encode())
    assert criteo.count_lines(tmp_path / "good.txt") == 30
    for end in ("\r", "\n\r", "\r\r\n"):
        assert "30 carriage returns without a line feed" in refused(tmp_path, text_of(lines_of(30), end).encode())


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a folder; criteo-kaggle takes the challenge's train\.txt"):
        prepare("criteo-kaggle", [tmp_path], {}, tmp_path / "data")
