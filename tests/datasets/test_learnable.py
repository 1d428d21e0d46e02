"""What the embedded data set promises: DLRM comes near the best reachable AUC, a logistic regression does not."""

from __future__ import annotations

from pathlib import Path

from bench.cli import main
from bench.results import read_rows
from datasets.store import open_set


def test_dlrm_comes_near_the_best_reachable_auc_and_a_logistic_regression_stays_below(tmp_path: Path) -> None:
    for model in ("small", "logistic"):
        assert main(["run", "--system", "dlrm", "--model", model, "--out", str(tmp_path)]) == 0
    dlrm, logistic = (float(row["auc_last"]) for row in read_rows(tmp_path / "runs.csv"))
    best = open_set("synthetic").meta["facts"]["best_auc"]
    assert dlrm >= 0.5 + 0.95 * (best - 0.5)
    assert logistic <= dlrm - 0.01
