"""Raw text of generated sets: its lines are the set's inputs, as a plain reader and the real sets' own see them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from datasets import raw
from datasets.errors import UserError
from datasets.layout import EMPTY
from datasets.raw import FORMATS, hex_strings, mixed, unique, write_text
from datasets.shapes.features import MISSING
from datasets.shapes.generated import labelled
from datasets.shapes.labels import Planted
from datasets.shapes.levels import BLOCK
from datasets.shapes.log import Inputs, Log
from datasets.store import PreparedSet, prepare

SCALE = 0.005
ROWS = BLOCK + 3_000


def expected(name: str, rows: int) -> tuple[Inputs, np.ndarray]:
    """The first inputs of a log, and their labels in the text."""
    log = Log(FORMATS[name].shape, 0, SCALE, rows)
    blocks = [labelled(log, Planted(log, 0), block, raw=True) for block in range(-(-rows // BLOCK))]
    dense, ids, counts = (
        np.concatenate([getattr(made.inputs, part) for made in blocks])[:rows] for part in ("dense", "ids", "counts")
    )
    return Inputs(dense, ids, counts), np.concatenate([made.labels for made in blocks])[:rows]


def one_to_one(ids: np.ndarray, keys: np.ndarray) -> bool:
    """Whether two columns name the same values."""
    pairs = len(np.unique(np.stack([ids, keys], axis=1), axis=0))
    return pairs == len(np.unique(ids)) == len(np.unique(keys))


@pytest.mark.parametrize("name", FORMATS)
def test_lines_are_the_inputs_of_the_set(name: str, tmp_path: Path) -> None:
    layout, rows = FORMATS[name].layout, 3_000
    paths = write_text(name, tmp_path, rows, scale=SCALE)
    assert [path.name for path in paths] == list(FORMATS[name].files) and len(list(tmp_path.iterdir())) == len(paths)
    lines = [path.read_bytes().split(b"\n") for path in paths]
    assert all(of_file.pop() == b"" for of_file in lines)  # each ends with a line feed
    if layout.header:
        assert all(of_file.pop(0).decode() == layout.heading for of_file in lines)
    assert max(map(len, lines)) - min(map(len, lines)) <= 1
    values = np.array([layout.parse(line) for of_file in lines for line in of_file])  # no line is refused
    inputs, labels = expected(name, rows)
    assert (values[:, 0] == labels).all()
    sparse = values[:, -inputs.ids.shape[1] :]
    for at in range(sparse.shape[1]):
        assert one_to_one(inputs.ids[:, at], sparse[:, at])
    if layout.header:
        hours = values[:, layout.columns["hour"]]
        assert (hours[0], hours[-1]) == (14_10_21_00, 14_10_30_23) and (np.diff(hours) >= 0).all()
        assert (np.log1p(hours % 100).astype(np.float32) == inputs.dense[:, 0]).all()
        assert ((sparse >= 0) | (sparse == -1)).all() and (sparse == -1).any()
    else:
        counts = values[:, 1 : 1 + inputs.dense.shape[1]]
        assert (np.where(counts == EMPTY, MISSING, counts) == inputs.counts).all()
        assert (np.log1p(np.maximum(counts, 0)).astype(np.float32) == inputs.dense).all()
        assert (counts == EMPTY).any() and (sparse == EMPTY).any()


def read_back(name: str, reader: str, root: Path, **options: Any) -> PreparedSet:
    """The set that a reader of the real one prepares from generated text."""
    return prepare(reader, write_text(name, root / "text", ROWS, scale=SCALE), options, root)


@pytest.mark.parametrize(
    ("name", "reader", "options"),
    [
        ("synthetic-kaggle", "criteo-kaggle", {"train_share": 0.9, "vocab": "all"}),
        ("synthetic-avazu", "avazu", {"split": "time", "vocab": "all"}),
    ],
)
def test_readers_of_the_real_sets_find_the_same_inputs(
    name: str, reader: str, options: dict[str, Any], tmp_path: Path
) -> None:
    made = read_back(name, reader, tmp_path, **options)
    order = ("train", "test", "validation") if "criteo" in reader else ("train", "validation", "test")
    splits = [getattr(made, split) for split in order]
    inputs, labels = expected(name, ROWS)
    assert (np.concatenate([split.labels for split in splits]) == labels).all()
    assert (np.concatenate([split.dense for split in splits]) == inputs.dense).all()
    ids = np.concatenate([split.ids for split in splits])
    assert all(one_to_one(ids[:, at], inputs.ids[:, at]) for at in range(ids.shape[1]))


def test_compressed_text_is_the_same_text(tmp_path: Path) -> None:
    plain = write_text("synthetic-avazu", tmp_path, ROWS, scale=SCALE)[0]
    zipped = write_text("synthetic-avazu", tmp_path, ROWS, scale=SCALE, gz=True)[0]
    assert zipped.name == "train.csv.gz"
    assert gzip.decompress(zipped.read_bytes()) == plain.read_bytes()
    assert plain.read_bytes().count(b"\n") == ROWS + 1


def test_most_frequent_id_is_the_largest(tmp_path: Path) -> None:
    text = write_text("synthetic-avazu", tmp_path, 2_000, scale=SCALE)[0].read_text()
    assert text.count(",ffffffff,") == pytest.approx(0.361 * 2_000, rel=0.2)  # of site_id


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("mine")
    with pytest.raises(UserError, match=r"train\.csv is there already"):
        write_text("synthetic-avazu", tmp_path, 10)
    assert (tmp_path / "train.csv").read_text() == "mine"
    with pytest.raises(UserError, match="did you mean 'synthetic-avazu'"):
        write_text("synthetic-avasu", tmp_path, 10)
    with pytest.raises(UserError, match="at least one line"):
        write_text("synthetic-avazu", tmp_path / "new", 0)


def test_nothing_is_left_of_text_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(raw, "labelled", full)
    with pytest.raises(OSError, match="No space"):
        write_text("synthetic-avazu", tmp_path / "new", 10)
    assert not list((tmp_path / "new").iterdir())


def test_names_of_ids_are_unique() -> None:
    ids = np.arange(200_000, dtype=np.int32)
    assert len(np.unique(mixed(3, ids))) == len(np.unique(unique(7, ids))) == len(ids)
    texts = hex_strings(np.array([0, 0xFFFFFFFF, 0xA1, 7], np.uint32), np.array([False, False, False, True]))
    assert texts.to_pylist() == ["00000000", "ffffffff", "000000a1", None]
