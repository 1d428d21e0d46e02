"""How long runs will take: by what finished runs took, or by a guess, or not told at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.compare import Options, plan
from bench.compare import parse_systems as parse
from bench.estimate import ASIDE_S, seconds_left
from bench.results import Results

CELLS = plan(parse(["dlrm"]), ["synthetic"], [0, 1], 1, Options({"limit-rows": 1000, "epochs": 2}, {}))


def test_without_a_finished_run_it_is_the_guess_or_unknown(tmp_path: Path) -> None:
    assert seconds_left(CELLS, tmp_path) is None
    assert seconds_left(CELLS, tmp_path, 500) == pytest.approx(2 * (ASIDE_S + 4))
    assert seconds_left([], tmp_path, 500) == 0


def test_finished_runs_on_the_same_set_count(tmp_path: Path) -> None:
    results = Results(tmp_path)
    usual = {"status": "done", "dataset": "synthetic", "samples_seen": 1000, "train_s": 3, "eval_s": 1, "prepare_s": 1}
    for row in (usual, usual | {"dataset": "kuairand", "train_s": 99}, usual | {"status": "failed", "train_s": 99}):
        results.append("runs", row)
    assert seconds_left(CELLS, tmp_path, 500) == pytest.approx(2 * (ASIDE_S + 10))
