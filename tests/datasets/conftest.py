"""A made-up data set and a temporary data root."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from datasets import store, verify
from datasets.schema import Schema, Table
from datasets.settings import Setting
from datasets.writer import StoreWriter

Report = Callable[[str], None]
SCHEMA = Schema(dense=("a", "b"), tables=(Table(name="x", rows=5), Table(name="y", rows=9, lookups=2)))


def block(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(dense, ids, labels) that fit SCHEMA."""
    random = np.random.default_rng(seed)
    dense = random.standard_normal((rows, 2)).astype(np.float32)
    ids = np.stack([random.integers(0, limit, rows) for limit in (5, 9, 9)], axis=1).astype(np.int32)
    return dense, ids, random.integers(0, 2, rows).astype(np.int32)


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Two blocks of training inputs, one of the others."""
    writer.schema = SCHEMA
    for split, seeds in (("train", (0, 1)), ("validation", (2,)), ("test", (3,))):
        for seed in seeds:
            writer.append(split, *block(options["rows"], seed))
    writer.drop("too old", 7)
    writer.facts["best_auc"], writer.facts["best_logloss"] = 0.75, 0.5
    for path in sources:
        writer.add_source(path)


@pytest.fixture(autouse=True)
def disk_that_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power in a test, and a sync takes milliseconds."""
    monkeypatch.setattr("os.fsync", lambda file: None)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data root of the test."""
    monkeypatch.setenv("SLIPBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def toy(root: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A data set module, known as `toy`, that needs a source and has one option."""
    module = SimpleNamespace(
        NEEDS_SOURCE=True, OPTIONS=(Setting(key="rows", default=10, low=0, help="inputs of a block"),), write=write
    )
    for place in (store, verify):
        monkeypatch.setattr(place, "load_dataset", lambda name: module)
    return module


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A raw file."""
    path = tmp_path / "raw.txt"
    path.write_text("raw")
    return path
