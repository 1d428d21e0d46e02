"""What stands in a set's place is not touched unless it is ours; what is ours but damaged is refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from datasets.describe import describe
from datasets.errors import UserError
from datasets.store import data_root, open_set, prepare

Change = Callable[[Path], object]


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Everything below a folder."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if (path.is_symlink() or path.is_file()) and not path.name.endswith(".lock")
    }


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")


def _own(path: Path, meta: Any = None, **changes: object) -> None:
    """A set that the user made with other options, with another meta.json."""
    prepare("toy", options={"rows": 3})
    old = json.loads((path / "meta.json").read_text())
    (path / "meta.json").write_text(json.dumps(old | changes) if meta is None else meta)


@pytest.mark.parametrize(
    "place",
    [
        _folder,
        lambda path: path.mkdir(),
        lambda path: path.write_text("a file"),
        lambda path: path.symlink_to("nowhere"),
        lambda path: _own(path, meta='{"name": "to'),
        lambda path: _own(path, meta="[]"),
        lambda path: _own(path, meta="[" * 100_000),
        lambda path: _own(path, name="other"),
        lambda path: _own(path, format_version="1"),
        lambda path: _own(path, generator_version=None),
        lambda path: _own(path, options=[3]),
    ],
)
def test_nothing_but_our_sets_is_replaced(toy: SimpleNamespace, root: Path, place: Change) -> None:
    toy.NEEDS_SOURCE = False
    root.mkdir()
    place(root / "toy")
    before = snapshot(root)
    for attempt in (open_set, prepare):
        with pytest.raises(UserError, match=r"data/toy has .*; move it away, then .*slipbench data prepare toy"):
            attempt("toy")
    assert snapshot(root) == before
    (root / "toy").rename(root / "away")  # and that mends it
    assert len(open_set("toy").train) == 20


def test_a_users_file_in_a_set_stays(toy: SimpleNamespace, root: Path) -> None:
    toy.NEEDS_SOURCE, toy.VERSION = False, 1
    (prepare("toy").path / "notes.txt").write_text("mine")
    before = snapshot(root)
    with pytest.raises(UserError, match=r"did not put there \(notes.txt\); move it away"):
        prepare("toy")
    open_set("toy")
    toy.VERSION = 2
    with pytest.raises(UserError, match=r"notes\.txt"):
        open_set("toy")
    assert snapshot(root) == before


def test_older_set_with_options_that_are_gone(toy: SimpleNamespace, root: Path) -> None:
    toy.NEEDS_SOURCE = False
    root.mkdir()
    _own(root / "toy", format_version=0, options={"colour": "red"})
    with pytest.raises(UserError, match=r"made by another version of slipbench .*colour"):
        open_set("toy")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("facts", None),
        ("facts", {"best_auc": "high", "best_logloss": 0.5}),
        ("facts", {"lookups_unseen_in_training": "3"}),
        ("tool_version", None),
        ("sources", [{"name": "raw"}]),
        ("rows_dropped", {"old": "7"}),
        ("splits", {split: {"rows": 20} for split in ("train", "validation", "test")}),
        ("files", {"train_dense.npy": {"sha256": ""}}),
        ("schema", {"dense": ["a", "b"], "tables": []}),
        ("schema", {"dense": ["a", "b"], "tables": [{"name": "x", "rows": 5.0, "lookups": 3}]}),
        ("schema", {"dense": ["a", "b"], "tables": [{"name": "x", "rows": 10**30, "lookups": 3}]}),
        ("schema", {"dense": ["a", "b"], "tables": [{"name": "x", "rows": 1, "lookups": 3}]}),
        ("schema", {"dense": ["a", "b"], "tables": [{"name": "x", "rows": 5, "lookups": 3, "more": 1}]}),
    ],
)
def test_meta_that_is_not_complete(toy: SimpleNamespace, root: Path, key: str, value: object) -> None:
    toy.NEEDS_SOURCE = False
    root.mkdir()
    _own(root / "toy", **{key: value})
    with pytest.raises(UserError, match=rf"not complete \({key}.*make it with: .*prepare toy --set rows=3$"):
        open_set("toy")
    prepare("toy")  # and that command mends it
    describe(open_set("toy"), dim=16)


def _put(file: str, at: tuple[int, int], value: float) -> Change:
    def change(folder: Path) -> None:
        array = np.load(folder / file, mmap_mode="r+")
        array[at] = value
        array.flush()

    return change


def _save(file: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda folder: np.save(folder / file, change(np.load(folder / file)))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_put("test_dense.npy", (4, 1), np.nan), "test_dense.npy, row 4 of the test split: b is nan"),
        (_put("train_dense.npy", (19, 0), -np.inf), "train_dense.npy, row 19 of the train split: a is -inf"),
        (_put("validation_labels.npy", (7, 0), 2), "validation_labels.npy, row 7 .* the label is 2"),
        (_put("train_labels.npy", (0, 0), -1), "train_labels.npy, row 0 .* the label is -1"),
        (_save("train_dense.npy", np.asfortranarray), "train_dense.npy does not fit .* in Fortran order"),
        (_save("train_dense.npy", lambda a: a.astype(np.int32)), "train_dense.npy does not fit .* found int32"),
        (_save("train_dense.npy", lambda a: a.reshape(2, 20)), "train_dense.npy does not fit"),
        (lambda f: (f / "train_dense.npy").write_bytes(b"PK\x03\x04" + b"x" * 284), r"train_dense.npy \("),
    ],
)
def test_values_are_checked(toy: SimpleNamespace, source: Path, damage: Change, message: str) -> None:
    path = prepare("toy", [source]).path
    damage(path)
    with pytest.raises(UserError, match=f"is damaged: .*{message}.*prepare toy --source PATH"):
        open_set("toy")


def test_opening_writes_nothing(toy: SimpleNamespace, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.NEEDS_SOURCE = False
    prepare("toy")

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", read_only)
    monkeypatch.setattr("tempfile.mkdtemp", read_only)
    assert len(open_set("toy").train) == 20
    with pytest.raises(UserError, match=r"cannot write under .*data .*Read-only file system"):
        prepare("toy")


@pytest.mark.parametrize("below", ["/proc/none/data", "/dev/null", "/dev/null/data", "/tmp/" + "x" * 300])
def test_roots_that_cannot_be(toy: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, below: str) -> None:
    toy.NEEDS_SOURCE = False
    monkeypatch.setenv("SLIPBENCH_DATA", below)
    for attempt in (open_set, prepare):
        with pytest.raises(UserError, match=rf"cannot (write|read) under {below} "):
            attempt("toy")


def test_home_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPBENCH_DATA", "~no-such-user/data")
    with pytest.raises(UserError, match="SLIPBENCH_DATA"):
        data_root()


def test_pipe_as_source(toy: SimpleNamespace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="neither a file nor a folder"):
        prepare("toy", [tmp_path / "pipe"])
