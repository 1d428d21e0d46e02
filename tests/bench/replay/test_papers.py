"""What is compared with the papers, on hand-made work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from baselines.work import BETWEEN, STEP, Seq, Stage, Steps
from bench import published
from bench.replay.extrapolate import FULL, steady
from bench.replay.judge import misses, reason, summary
from bench.replay.model import steps_in
from bench.replay.papers import NEEDED, PROFILES, Predictions, compare, fit_servers, stands_for, targets
from bench.replay.profile import load
from bench.replay.store import Work
from tests.bench.replay.small import READ, UP, between, constant, plain_steps, profile, work


def works() -> dict[tuple[str, str], Work]:
    """Work of every system on every set, of other sizes each."""
    random = np.random.default_rng(0)
    amounts = random.integers(1000, 100_000, (len(FULL), len(NEEDED), 4)).tolist()
    return {
        (dataset, system): work(plain_steps([*row, 1]))
        for dataset, rows in zip(FULL, amounts, strict=True)
        for system, row in zip(NEEDED, rows, strict=True)
    }


def figure(**values: str) -> dict[str, str]:
    usual = {"source": "FAE", "where": "Table 5", "dataset": "avazu", "system": "dlrm", "gpus": "1", "unit": "x"}
    return {**usual, **values}


def test_times_are_minutes_of_ten_epochs_and_speedups_are_over_xdl_on_one_gpu() -> None:
    made, hardware = works(), profile(step__any=constant(60.0), step__any__xdl=constant(90.0))
    found = Predictions(made, hardware)
    assert found.value(figure(metric="train_time_10_epochs")) == pytest.approx(10)
    assert found.value(figure(metric="speedup_over_xdl_1gpu")) == pytest.approx(1.5)
    assert found.value(figure(metric="speedup_over_xdl_1gpu", gpus="2")) == pytest.approx(3)
    assert found.value(figure(metric="speedup_over_xdl_1gpu", gpus="2", dataset="geomean")) == pytest.approx(3)
    assert found.value(figure(metric="slipstream_speedup_over", system="xdl", gpus="")) == pytest.approx(1.5)


@pytest.mark.parametrize(
    "other", [{"gpus": "0"}, {"metric": "auc"}, {"system": "hotline-accelerator"}, {"dataset": "average"}]
)
def test_what_the_model_says_nothing_about_is_left_out(other: dict[str, str]) -> None:
    wanted = figure(**{"metric": "train_time_10_epochs", **other})
    assert Predictions(works(), profile(step__any=constant(60.0))).value(wanted) is None


def test_each_paper_s_server_is_fitted_to_its_own_figures() -> None:
    made = works()
    fae, hotline = (targets(source, published.figures(), made) for source in PROFILES)
    assert {target.system for target in (*fae, *hotline)} == {"xdl", "dlrm"}
    assert len(fae) == 8 + 8 + 8 and len(hotline) == 8 + 4 + 16  # times, times on the link, shares
    xdl = [target.seconds for target in fae if target.system == "xdl"]
    assert xdl[0] == pytest.approx(196.97 * 60 / 10)
    for name, server in zip(PROFILES.values(), fit_servers(made).values(), strict=True):
        fitted = [place for place, found in server.constants.items() if found.how == "fitted"]
        assert 1 <= len(fitted) <= 10
        datasheet = {place: found for place, found in load(name).constants.items() if found.how == "datasheet"}
        for place, found in datasheet.items():
            if place not in fitted:
                assert server.constants[place] == found


def test_every_figure_has_its_role_and_what_is_held_out_is_judged() -> None:
    rows = compare(works(), dict.fromkeys(PROFILES, profile(step__any=constant(1.0))))
    roles = {role: [row for row in rows if row["role"] == role] for role in {row["role"] for row in rows}}
    assert set(roles) == {"fit", "held out", "flawed", "definition", "mean"}
    assert all(row["system"] == "fae" and row["where"] == "Fig. 15" for row in roles["flawed"])
    assert all(row["modelled"] == 1 for row in roles["definition"])
    for row in rows:
        assert row["error"] == pytest.approx(row["modelled"] / row["published"] - 1)
        assert not misses(row) or (row["role"] == "held out" and reason(row))
    medians, missed = summary([row | {"reason": reason(row) if misses(row) else ""} for row in rows])
    assert "held out" in medians and str(len(roles["held out"])) in missed


def test_hotline_s_learning_phase_is_taken_out_and_its_steps_made_up_for() -> None:
    step = Stage(STEP, "mixed", "step")
    learning = Steps("cold", Seq((READ, step)), np.array([[6, 1]] * 2))
    mixed = Steps("mixed", Seq((READ, step)), np.array([[6, 1]] * 4))
    learn = Steps(BETWEEN, Seq((Stage("host", "lookups_scanned", "learning"), UP)), np.array([[9, 5]]))
    found = steady(work(learning, mixed, learn, inputs=60))
    assert [group.name for group in found.steps] == ["mixed", BETWEEN]
    assert sum(map(steps_in, found.steps)) == pytest.approx(6)
    skipping = steady(work(learning, replace(mixed, amounts=mixed.amounts[:2]), learn, inputs=60))
    assert sum(map(steps_in, skipping.steps)) == pytest.approx(3)  # of each four inputs without learning, two
    assert found.steps[1].amounts.tolist() == [[0, 5]]
    without = work(mixed, between([1, 2, 3, 4]))
    assert steady(without) is without


@pytest.mark.parametrize(
    ("settings", "stands"),
    [
        ("", "slipstream"),
        ("layout.hot_bytes=9000", "slipstream"),
        ("hotline.learning_share=0.3 slipstream.layout=hotline", "slipstream on hotline"),
        ("skip=random", None),
        ("slipstream.drop=0.1", None),
        ("slipstream.layout=hotline stale=touched-only", None),
    ],
)
def test_only_a_system_as_the_papers_have_it_stands_for_it(settings: str, stands: str | None) -> None:
    assert stands_for("slipstream", settings) == stands
