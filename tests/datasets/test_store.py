"""The prepared store: what is written comes back; what is damaged, foreign or half made is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from datasets import arrays
from datasets.describe import describe
from datasets.errors import UserError
from datasets.npy import NpyStream
from datasets.store import StoreWriter, data_root, open_set, prepare
from tests.datasets.conftest import SCHEMA, block, write


def test_round_trip(toy: SimpleNamespace, root: Path, source: Path) -> None:
    made = prepare("toy", [source])
    again = open_set("toy", options={"rows": 10})
    dense, ids, labels = (np.concatenate(parts) for parts in zip(block(10, 0), block(10, 1), strict=True))
    for split in (made.train, again.train):
        np.testing.assert_array_equal(split.dense, dense)
        np.testing.assert_array_equal(split.ids, ids)
        np.testing.assert_array_equal(split.labels, labels)
        assert (split.dense.dtype, split.ids.dtype, split.labels.dtype) == (np.float32, np.int32, np.int32)
    assert [len(split) for split in (again.train, again.validation, again.test)] == [20, 10, 10]
    assert again.schema == SCHEMA
    assert again.fingerprint == made.fingerprint
    meta = again.meta
    assert meta["splits"]["train"] == {"rows": 20, "positives": int(labels.sum())}
    assert meta["rows_dropped"] == {"too old": 7}
    assert meta["sources"] == [{"name": "raw.txt", "bytes": 3, "sha256": hashlib.sha256(b"raw").hexdigest()}]
    for name, facts in meta["files"].items():
        content = (root / "toy" / name).read_bytes()
        assert facts == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_files_are_flat_npy(toy: SimpleNamespace, root: Path, source: Path) -> None:
    prepare("toy", [source])
    assert np.load(root / "toy" / "train_dense.npy", allow_pickle=False).shape == (20, 2)
    assert np.load(root / "toy" / "train_sparse.npy", allow_pickle=False).shape == (20, 3)
    assert np.load(root / "toy" / "test_labels.npy", allow_pickle=False).shape == (10, 1)


def test_row_ids_are_offset_into_one_space(toy: SimpleNamespace, source: Path) -> None:
    train = prepare("toy", [source]).train
    rows = train.row_ids(np.array([3, 1]))
    np.testing.assert_array_equal(rows, train.ids[[3, 1]] + np.array([0, 5, 5]))
    assert rows.dtype == np.int64
    assert type(rows) is type(train.dense[[1, 2]]) is np.ndarray
    assert len(train.head(4)) == 4


def test_arrays_are_taken_by_torch_without_a_warning(toy: SimpleNamespace, root: Path, source: Path) -> None:
    train = prepare("toy", [source]).train
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.from_numpy(train.dense)[0, 0] = 99.0
    assert open_set("toy").train.dense[0, 0] != 99.0  # copied on write: the file is as it was


def test_empty_splits(tmp_path: Path, toy: SimpleNamespace, source: Path) -> None:
    toy.write = lambda writer, *_: write(writer, [], {"rows": 0}, print) or writer.append("train", *block(3))
    prepared = prepare("toy", [source])
    assert (len(prepared.train), len(prepared.test)) == (3, 0)
    assert "dropped: 7 (too old)" in describe(prepared, dim=16)


def test_no_training_inputs_are_refused(toy: SimpleNamespace, root: Path, source: Path) -> None:
    with pytest.raises(UserError, match=r"no input is left for training \(0 for validation, 0 for test\).*rows=0"):
        prepare("toy", [source], {"rows": 0})
    assert [path.name for path in root.iterdir()] == [".toy.lock"]


def test_header_does_not_move(tmp_path: Path) -> None:
    stream = NpyStream(tmp_path / "x.npy", 0, np.dtype(np.float32))  # no columns: many rows without a byte
    stream.rows = 10**12
    stream.close()
    assert np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False).shape == (10**12, 0)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d, i, y: (np.where(d > 0, np.inf, d), i, y), "not finite"),
        (lambda d, i, y: (d, i + 8, y), "table x has 5 rows"),
        (lambda d, i, y: (d, i - 5, y), "does not fit"),
        (lambda d, i, y: (d, i, y + 1), "neither 0 nor 1"),
        (lambda d, i, y: (d, i[:, :2], y), "do not fit"),
        (lambda d, i, y: (d[1:], i, y), "do not fit together"),
    ],
)
def test_writer_refuses(tmp_path: Path, spoil: object, message: str) -> None:
    with StoreWriter(tmp_path, "toy", {}) as writer, pytest.raises(ValueError, match=message):
        writer.append("train", *block(10))
        writer.schema = SCHEMA
        writer.append("train", *spoil(*block(10)))  # type: ignore[operator]
        writer.finish()


def test_table_sizes_may_come_last(tmp_path: Path) -> None:
    with StoreWriter(tmp_path, "toy", {}) as writer:
        writer.append("train", *block(10))
        writer.schema = SCHEMA
        writer.finish()
    with StoreWriter(tmp_path, "toy", {}) as writer, pytest.raises(ValueError, match="table x has 5 rows, got id 7"):
        dense, ids, labels = block(10)
        ids[4, 0] = 7
        writer.append("train", dense, ids, labels)
        writer.schema = SCHEMA
        writer.finish()


def _edit_meta(folder: Path, **changes: object) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | changes))


def _put_id(folder: Path, value: int) -> None:
    ids = np.load(folder / "validation_sparse.npy", mmap_mode="r+")
    ids[6, 1] = value
    ids.flush()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: (f / "test_dense.npy").write_bytes((f / "test_dense.npy").read_bytes()[:-4]), "bytes, expected"),
        (lambda f: (f / "test_dense.npy").unlink(), "test_dense.npy is missing"),
        (lambda f: _edit_meta(f, files={}), "not complete"),
        (lambda f: _edit_meta(f, schema={"dense": []}), "not complete"),
        (lambda f: _edit_meta(f, splits={}), "not complete"),
        (lambda f: _edit_meta(f, format_version=0), "another version"),
        (lambda f: _edit_meta(f, generator_version=2), "another version"),
        (lambda f: _put_id(f, 9), "row 6 of the validation split: id 9, but table y has 9 rows"),
        (lambda f: _put_id(f, -1), "row 6 of the validation split: id -1, but table y has 9 rows"),
    ],
)
def test_open_refuses_with_the_command(
    toy: SimpleNamespace, root: Path, source: Path, damage: object, why: str
) -> None:
    prepare("toy", [source])
    damage(root / "toy")  # type: ignore[operator]
    with pytest.raises(UserError, match="slipbench data prepare toy --source PATH") as refused:
        open_set("toy")
    assert why in str(refused.value)
    prepare("toy", [source])  # and that command mends it
    open_set("toy")


def test_pickled_arrays_are_not_read(toy: SimpleNamespace, root: Path, source: Path) -> None:
    prepare("toy", [source])
    path = root / "toy" / "test_labels.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    files = json.loads((root / "toy" / "meta.json").read_text())["files"]
    _edit_meta(root / "toy", files=files | {path.name: {"bytes": path.stat().st_size, "sha256": ""}})
    with pytest.raises(UserError, match="is damaged"):
        open_set("toy")


def test_open_refuses_other_options(toy: SimpleNamespace, source: Path) -> None:
    prepare("toy", [source], {"rows": 4})
    assert len(open_set("toy").train) == len(open_set("toy", options={"rows": 4}).train) == 8
    with pytest.raises(UserError, match=r"rows=4 \(asked for: 6\).*prepare toy --source PATH --set rows=6"):
        open_set("toy", options={"rows": 6})
    with pytest.raises(UserError, match="did you mean 'rows'"):
        open_set("toy", options={"row": 6})


def test_absent_set_names_the_command(toy: SimpleNamespace) -> None:
    with pytest.raises(UserError, match=r"toy is not prepared.*slipbench data prepare toy --source PATH"):
        open_set("toy")


def test_sources_are_checked(toy: SimpleNamespace, tmp_path: Path, source: Path) -> None:
    with pytest.raises(UserError, match="--source PATH"):
        prepare("toy")
    with pytest.raises(UserError, match="no file or folder"):
        prepare("toy", [tmp_path / "absent"])
    toy.NEEDS_SOURCE = False
    with pytest.raises(UserError, match="takes no --source"):
        prepare("toy", [source])


def test_generated_set_is_made_when_absent_or_old(toy: SimpleNamespace, root: Path) -> None:
    toy.NEEDS_SOURCE, toy.VERSION = False, 1
    assert open_set("toy", options={"rows": 3}).meta["options"] == {"rows": 3}
    with pytest.raises(UserError, match=r"data prepare toy$"):
        open_set("toy", options={})
    toy.VERSION = 2
    with pytest.raises(UserError, match=r"rows=3 \(asked for: 10\)"):
        open_set("toy", options={})
    meta = open_set("toy").meta
    assert (meta["generator_version"], meta["options"]) == (2, {"rows": 3})
    toy.VERSION = 1
    with pytest.raises(UserError, match="another version"):  # a newer one is not replaced
        open_set("toy")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_leaves_nothing(
    toy: SimpleNamespace, root: Path, source: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    prepare("toy", [source])
    before = sorted(path.name for path in root.rglob("*"))

    def full(self: NpyStream, block: np.ndarray) -> None:
        raise OSError(number, "no space")

    with monkeypatch.context() as patched, pytest.raises(UserError, match="is full"):
        patched.setattr(NpyStream, "append", full)
        prepare("toy", [source], {"rows": 99})
    assert sorted(path.name for path in root.rglob("*")) == before
    assert len(open_set("toy").train) == 20  # the old set stands


def test_failed_preparation_leaves_nothing(toy: SimpleNamespace, root: Path, source: Path) -> None:
    def fail(writer: StoreWriter, *_: object) -> None:
        writer.append("train", *block(10))
        raise KeyboardInterrupt

    toy.write = fail
    with pytest.raises(KeyboardInterrupt):
        prepare("toy", [source])
    assert [path.name for path in root.iterdir()] == [".toy.lock"]


def test_leftovers_of_a_killed_preparation_go(toy: SimpleNamespace, root: Path, source: Path) -> None:
    left = root / ".toy.x1y2.old"
    left.mkdir(parents=True)
    (left / "train_dense.npy").write_text("half")
    prepare("toy", [source])
    assert not left.exists()


def test_two_preparations_at_once(toy: SimpleNamespace, root: Path, source: Path) -> None:
    inside, said = [], []

    def slow(writer: StoreWriter, sources: list[Path], options: dict[str, int], report: object) -> None:
        inside.append(threading.get_ident())
        assert len(set(root.glob(".toy.partial"))) == 1
        write(writer, sources, options, report)

    write, toy.write = toy.write, slow
    threads = [
        threading.Thread(target=prepare, args=("toy", [source], {"rows": 2000}, None, said.append)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inside) == 3
    assert len(open_set("toy").train) == 4000
    assert not list(root.glob(".toy.partial"))


def test_root_that_cannot_be_written(toy: SimpleNamespace, tmp_path: Path, source: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="SLIPBENCH_DATA"):
        prepare("toy", [source], root=tmp_path / "file" / "data")


def test_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLIPBENCH_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.delenv("SLIPBENCH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert data_root() == Path("/elsewhere/slipbench")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path.home() / ".cache" / "slipbench"


def test_ids_are_checked_in_every_block(toy: SimpleNamespace, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "CHECK_ROWS", 4)
    path = prepare("toy", [source]).path
    _put_id(path, 77)
    with pytest.raises(UserError, match="row 6 of the validation split: id 77"):
        open_set("toy")
