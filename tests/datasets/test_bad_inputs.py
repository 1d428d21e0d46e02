"""Every mistake with the raw files of the click logs ends in one sentence: what, where, what to do."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.cli import main
from datasets import journal, text, writer
from datasets.errors import UserError
from datasets.npy import NpyStream
from datasets.store import prepare
from tests.datasets.bad_inputs import (
    AVAZU,
    CLICKS,
    CRITEO,
    KAGGLE,
    MISTAKES,
    TERABYTE,
    ZIPPED,
    Mistake,
    message_of,
    row,
)
from tests.datasets.raw_logs import checksums, criteo_lines, criteo_text, save

TABLE = Path(__file__).with_name("bad_inputs.md").read_text(encoding="utf-8").splitlines()[2:]


@pytest.mark.parametrize(("mistake", "line"), list(zip(MISTAKES, TABLE, strict=True)), ids=[m.what for m in MISTAKES])
def test_a_mistake_ends_in_the_sentence_of_the_table(tmp_path: Path, mistake: Mistake, line: str) -> None:
    message = message_of(mistake, tmp_path)
    assert row(mistake, message) == line
    assert message.isprintable() and len(message) < 500
    left = {path.name for path in (tmp_path / "data").glob("*")} - {f".{mistake.dataset}.lock"}
    assert not left or mistake.what in (
        "one line",
        "test.txt, with its lines skipped",
        "a threshold that no id reaches",
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "criteo-kaggle --source train.txt",
            "train.txt, line 3: column I1: expected a whole number or nothing, found '?'",
        ),
        (
            "criteo-kaggle --source train.txt --option vocab=some",
            "unknown value of vocab 'some': known are: all, train.",
        ),
        ("criteo-terabyte --source day_0", "criteo-terabyte: there is no day_1, day_2, day_3,"),
        ("avazu --source train.txt", "train.txt, line 1: expected the 24 column names id to C21, found '"),
        ("avazu --source none.csv", "there is no file or folder 'none.csv'; check --source."),
    ],
)
def test_the_command_line_says_it_in_one_line_and_exits_with_2(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    root.mkdir()
    monkeypatch.chdir(root)
    rows = CRITEO.splitlines()
    rows[2] = "\t".join(["0", "?", *rows[2].split("\t")[2:]])
    save(root / "train.txt", "\n".join(rows))
    save(root / "day_0", CRITEO)
    assert main(["data", "prepare", *line.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith(f"slipbench: {message}")
    assert "Traceback" not in captured.err


def whole_blocks(monkeypatch: pytest.MonkeyPatch, part_s: float = 0.0) -> None:
    """Small blocks, each of them a part."""
    monkeypatch.setattr(text, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(writer, "PART_S", part_s)


def test_a_cut_off_gz_is_named_with_the_last_line_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 100_000)
    path = save(tmp_path / "train.txt.gz", ZIPPED[: len(ZIPPED) // 2])
    with pytest.raises(UserError, match=r"train\.txt\.gz, after line [\d,]+: the \.gz ends in the middle; is it "):
        prepare(KAGGLE, [path], {}, tmp_path / "data")


def test_a_gz_that_was_whole_when_its_lines_were_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_blocks(monkeypatch)
    path = save(tmp_path / "train.txt.gz", ZIPPED)

    def cut(line: str) -> None:
        if "on the disk" in line:
            path.write_bytes(ZIPPED[: len(ZIPPED) // 2])

    with pytest.raises(UserError, match=r"train\.txt\.gz, after line [\d,]+: the \.gz ends in the middle"):
        prepare(KAGGLE, [path], {}, tmp_path / "data", cut)


def twice(content: str) -> str:
    return content + content


def first_half(content: str) -> str:
    return "".join(content.splitlines(keepends=True)[:20])


def other_first_line(content: str) -> str:
    return ("1" if content[0] == "0" else "0") + content[1:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (twice, r"train\.txt: 80 lines, not 40 as counted; did the file change\?$"),
        (first_half, r"train\.txt: 20 lines, not 40 as counted; did the file change\?$"),
        (other_first_line, r"train\.txt: it changed while it was read; run the same command again\.$"),
    ],
)
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    path = save(tmp_path / "train.txt", CRITEO)

    def meanwhile(line: str) -> None:
        if "on the disk" in line:
            os.utime(save(path, change(CRITEO)), ns=(1, 1))

    with pytest.raises(UserError, match=message):
        prepare(KAGGLE, [path], {}, tmp_path / "data", meanwhile)
    save(path, CRITEO)
    assert checksums(prepare(KAGGLE, [path], {}, tmp_path / "data")) == checksums(
        prepare(KAGGLE, [path], {}, tmp_path / "other")
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), r"train\.txt: cannot be read \(Permission denied\)\.$"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), r"train\.txt: cannot be read \(No such file"),
    ],
)
def test_a_file_that_cannot_be_opened_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    path = save(tmp_path / "train.txt", CRITEO)
    real = Path.open

    def refused(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if self == path:
            raise type(error)(error.errno, error.strerror, str(path))
        return real(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(UserError, match=message):
        prepare(KAGGLE, [path], {}, tmp_path / "data")


def test_a_disk_that_fails_while_a_file_is_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "train.txt", CRITEO)
    real = text.opened

    class Broken:
        def read(self, size: int) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    @text.contextmanager
    def opened(path: Path) -> Any:
        with real(path):
            yield Broken()

    monkeypatch.setattr(text, "opened", opened)
    with pytest.raises(UserError, match=r"train\.txt: cannot be read \(Input/output error\)\.$"):
        prepare(KAGGLE, [path], {}, tmp_path / "data")


@pytest.mark.parametrize("dataset", [KAGGLE, TERABYTE, AVAZU])
def test_too_little_space_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: str
) -> None:
    sources = {
        KAGGLE: [save(tmp_path / "train.txt", CRITEO)],
        TERABYTE: [save(tmp_path / f"day_{n}", CRITEO) for n in range(2)],
        AVAZU: [save(tmp_path / "train.csv", CLICKS)],
    }[dataset]
    options = {"days": "some", "drop_negatives": 0.0} if dataset == TERABYTE else {}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(UserError) as refused:
        prepare(dataset, sources, options, tmp_path / "data")
    lines, needed = {KAGGLE: (40, 11), TERABYTE: (80, 21), AVAZU: (40, 7)}[dataset]
    assert str(refused.value) == (
        f"{dataset}: {lines} lines need about {needed} kB on the disk while they are prepared, but 1 kB are free under "
        f"{tmp_path / 'data'}; free some, or have the data elsewhere (SLIPBENCH_DATA; of reproduce, --out)."
    )
    assert [path.name for path in (tmp_path / "data").iterdir()] == [f".{dataset}.lock"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (NpyStream, "append", 0),
        (NpyStream, "append", 20),
        (NpyStream, "sync", 12),
        (NpyStream, "close", 3),
        (journal, "write_whole", 4),
        (writer, "write_whole", 0),
    ],
)
def test_a_disk_that_fills_up_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, owner: Any, name: str, after: int
) -> None:
    whole_blocks(monkeypatch)
    path = save(tmp_path / "train.txt", criteo_text(criteo_lines(100)))
    real, calls = getattr(owner, name), []

    def full(*args: Any) -> None:
        calls.append(1)
        if len(calls) > after:
            raise OSError(number, os.strerror(number))
        real(*args)

    with monkeypatch.context() as patched, pytest.raises(UserError) as refused:
        patched.setattr(owner, name, full)
        prepare(KAGGLE, [path], {}, tmp_path / "data")
    assert str(refused.value) == (
        f"the disk that holds {tmp_path / 'data'} is full; free some space there, or have "
        "the data elsewhere (SLIPBENCH_DATA; of reproduce, --out)."
    )
    assert [left.name for left in (tmp_path / "data").iterdir()] == [f".{KAGGLE}.lock"]
    assert len(prepare(KAGGLE, [path], {}, tmp_path / "data").train) == 86
