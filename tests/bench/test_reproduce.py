"""The papers' comparison from nothing: what is run on which data, going on, and what comes at the end."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from bench import reproduce
from bench.progress import Progress
from bench.reproduce import FULL, QUICK, SETS, Scope
from bench.study import Grid
from datasets.registry import load_dataset
from datasets.settings import resolve
from datasets.store import open_set

TINY = Scope(1500, (0,), 300, [Grid((1500,), (1,), (0.3,), ("random",), (0,))])


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a reproduction of one data set, two systems and a small model."""
    monkeypatch.setenv("SLIPBENCH_DATA", str(tmp_path / "prepared"))
    monkeypatch.setattr(reproduce, "SETS", SETS[:1])
    monkeypatch.setattr(reproduce, "SYSTEMS", ("dlrm", "slipstream"))
    monkeypatch.setattr(reproduce, "_finish", lambda done, out, progress: ["the end"])
    return tmp_path / "out"


@pytest.mark.parametrize("scope", [QUICK, FULL])
def test_every_system_meets_every_set_and_seed(scope: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPBENCH_DATA", str(tmp_path))
    found = [part for part in reproduce.parts(scope, tmp_path / "out") if not part.points]
    assert [part.dataset for part in found] == [paper_set.generated for paper_set in SETS]
    for part in found:
        cells = {(cell.label, cell.config.seed) for cell in part.cells}
        assert len(cells) == len(part.cells) == len(reproduce.SYSTEMS) * len(scope.seeds)
        assert part.options is not None
        resolve(load_dataset(part.dataset).OPTIONS, part.options, part.dataset)  # refuses what the set does not have


def test_a_set_is_scaled_as_its_inputs_are(tmp_path: Path) -> None:
    part = reproduce.parts(replace(QUICK, rows=392_920), tmp_path)[0]
    assert part.options is not None and part.options["scale"] == 0.01


def test_the_real_set_is_taken_where_it_is_prepared(out: Path) -> None:
    folder = Path(os.environ["SLIPBENCH_DATA"]) / "criteo-kaggle"
    folder.mkdir(parents=True)
    assert reproduce.parts(TINY, out)[0].dataset == "synthetic-kaggle"  # a folder is no set
    for inputs, dataset in ((20_000, "synthetic-kaggle"), (39_000_000, "criteo-kaggle")):  # nor a part of one the set
        meta = {"name": "criteo-kaggle", "format_version": 1, "generator_version": 1, "options": {}}
        (folder / "meta.json").write_text(json.dumps(meta | {"splits": {"train": {"rows": inputs}}}))
        assert reproduce.parts(TINY, out)[0].dataset == dataset
    part = reproduce.parts(TINY, out)[0]
    assert (part.root, part.options) == (Path(os.environ["SLIPBENCH_DATA"]), None)


def test_it_runs_and_goes_on(out: Path) -> None:
    plan = reproduce.describe_plan(TINY, out, Progress())
    assert "comparison on synthetic-kaggle (to be made): 2 of 2 runs left" in plan
    assert "study of 1,500 inputs on synthetic-kaggle (to be made): 2 of 2 runs left" in plan
    before = os.environ["SLIPBENCH_DATA"]
    text, status = reproduce.reproduce(TINY, out, Progress())
    assert os.environ["SLIPBENCH_DATA"] == before
    assert text.endswith("the end")
    assert status == 0
    runs = pd.read_csv(out / "runs.csv")
    assert runs["status"].tolist() == ["done"] * 4
    assert len(open_set("synthetic-kaggle", out / "data" / "1500-300").train) == 1500
    assert {"compare.csv", "study.csv"} <= {path.name for path in out.iterdir()}
    assert "0 of 4 runs left" in reproduce.describe_plan(TINY, out, Progress())
    reproduce.reproduce(TINY, out, Progress())
    assert len(pd.read_csv(out / "runs.csv")) == 4


def test_what_is_interrupted_is_not_finished(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce.compare, "run_all", lambda *args, **more: 0)
    text, status = reproduce.reproduce(TINY, out, Progress())
    assert status == 1
    assert "the end" not in text
