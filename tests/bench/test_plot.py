"""What the figures show, from rows whose answer is known."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from bench.figures.accuracy import axis, curve
from bench.figures.bars import against_random, fit
from bench.figures.phases import OTHER, by_purpose
from bench.stats import Estimate
from tests.bench.test_summary import cell, frame


def test_phases_add_up_to_the_median_training_time() -> None:
    times = {"dlrm": [3.0, 9.0, 4.0], "fae": [2.0, 4.0]}
    rows = [
        cell(label, seed, t, 0.7, run_id=f"{label}{seed}") for label, ts in times.items() for seed, t in enumerate(ts)
    ]
    cells = frame([{**row, "run_id": index} for index, row in enumerate(rows)])
    parts = {"cold_update": 0.5, "data_wait": 0.25, "of a plug-in": 0.25}
    phases = pd.DataFrame(
        [
            (run, phase, share * t)
            for run, t in cells[["run_id", "train_s"]].to_numpy()
            for phase, share in parts.items()
        ],
        columns=["run_id", "phase", "seconds"],
    )
    seconds = by_purpose(phases, cells)
    assert seconds.sum(axis=1).to_dict() == pytest.approx({"dlrm": 4.0, "fae": 3.0})
    purposes = ["waiting for data", "embedding lookup and update", OTHER]
    assert list(seconds.columns.get_level_values(0)) == purposes


def test_axis_of_accuracy_leaves_an_outlier_out() -> None:
    def line(auc: float) -> pd.DataFrame:
        return curve(
            pd.DataFrame({"run_id": ["a", "b"], "seed": [0, 1], "train_s": [1.0, 3.0], "auc": [auc, auc + 0.002]})
        )

    curves = {str(auc): line(auc) for auc in (0.77, 0.771, 0.772, 0.773, 0.56)}
    low, high = axis(curves)
    assert 0.76 < low < 0.77 and 0.775 < high < 0.78
    assert curves["0.77"].iloc[0].to_dict() == pytest.approx(
        {"train_s": 2.0, "auc": 0.771, "train_s_error": 1.0, "auc_error": 0.001}
    )
    assert axis({"one": line(0.5), "two": line(0.9)})[1] > 0.9  # two are no bulk


def test_bars_far_beyond_the_others_run_off_the_axis() -> None:
    usual = [Estimate(value, value - 0.003, value + 0.003, 3) for value in (0.001, 0.002, 0.003)]
    scale = fit([*usual, Estimate(-0.2, -0.4, 0.0, 3)], 0.0)
    assert -0.02 < scale.low < -0.002 and 0.006 < scale.high < 0.02
    assert scale.clip(-0.2) == scale.low and scale.clip(0.002) == 0.002


def test_scale_of_speedups_is_symmetric_in_ratios() -> None:
    scale = fit([Estimate(0.5, 0.4, 0.6, 3), Estimate(2.0, 1 / 0.6, 2.5, 3)], 1.0, math.log, math.exp)
    assert scale.low * scale.high == pytest.approx(1)
    assert fit([Estimate(1.0, None, None, 1)], 1.0, math.log, math.exp).low < 1  # still an axis


def test_policies_have_a_panel_for_each_layout_and_readable_names() -> None:
    labels = {"skip=stale": 0.72, "skip=loss": 0.6, "skip=random": 0.7, "skip.what=updates": 0.71}
    rows = [cell(f"slipstream {label}", seed, 1.0, auc) for label, auc in labels.items() for seed in range(3)]
    hotline = "slipstream.layout=hotline"
    for skip, auc in (("random", 0.7), ("none", 0.75)):
        rows += [cell(f"slipstream skip={skip} {hotline}", seed, 1.0, auc) for seed in range(3)]
    panels = against_random(frame(rows))
    assert {name: [bar.name for bar in bars] for name, bars in panels.items()} == {
        "layout fae": ["stale", "lowest loss", "random", "stale, updates thrown away"],
        "layout hotline": ["random", "none"],
    }
    assert [bar.text for bar in panels["layout hotline"]] == ["the reference", "+0.0500 ± 0.0000"]
    assert panels["layout fae"][1].text == "−0.1000 ± 0.0000"
