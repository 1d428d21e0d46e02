"""A study: its runs, what is made of them, how it goes on, what its figures show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.compare import Options
from bench.figures import lines
from bench.results import read_file, read_rows
from bench.stats import Estimate
from bench.study import EQUAL, LOWER, OPEN, Grid, answers, check_drop, check_policy, equality, notes, plan, summarise
from datasets.errors import UserError
from tests.bench import fakes
from tests.bench.conftest import Slipbench
from tests.bench.test_run import rows
from tests.bench.test_summary import cell, frame

STUDY = "study --dataset tiny --out out --sizes 8,16 --drops 0.1,0.3 --epochs 1 --seeds 0,1"
GRID = Grid(sizes=[8, 16], epochs=[1, 2], drops=[0.1, 0.3], policies=["stale", "random"], seeds=[0, 1])


@pytest.fixture
def study(slipbench: Slipbench, monkeypatch: pytest.MonkeyPatch) -> Slipbench:
    """The command line on the fakes, for `bench.study` too."""
    prepared = fakes.SimpleNamespace(train=fakes.tiny_split())
    monkeypatch.setattr("bench.study.open_set", lambda name, report: prepared)
    return slipbench


def test_plan_has_every_point_and_none_once_for_each_seed(study: Slipbench) -> None:
    runs = plan(GRID, "tiny", Options({"batch-size": 4}, {}))
    assert len(runs) == 2 * 2 * 2 * (1 + 2 * 2)
    assert [cell.config.seed for _, cell in runs] == [0] * 20 + [1] * 20
    none = [(point.size, point.epochs) for point, cell in runs if point.policy == "none" and cell.config.seed == 0]
    assert sorted(none) == [(8, 1), (8, 2), (16, 1), (16, 2)]
    for point, one in runs:
        config = one.config
        assert (config.limit_rows, config.epochs, config.batch_size) == (point.size, point.epochs, 4)
        assert config.settings["skip"] == point.policy
        assert point.drop is None or config.settings["slipstream.drop"] == point.drop
    assert len({one.label for _, one in runs}) == 20
    first = [runs[0][0].policy, runs[20][0].policy]
    assert first == ["none", "stale"]  # each round begins with another policy


def test_what_a_study_varies_itself_is_refused_as_a_setting(study: Slipbench) -> None:
    with pytest.raises(UserError, match=r"skip itself.*--policies"):
        plan(GRID, "tiny", Options({}, {"skip": "loss"}))
    with pytest.raises(UserError, match="'importance'"):
        check_policy("importanc")
    with pytest.raises(UserError, match=r"slipstream\.drop must be at most 1"):
        check_drop("1.5")


def test_study_writes_its_tables_and_figures(study: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert study(f"{STUDY} --policies stale,random") == 0
    shown = capsys.readouterr()
    assert "run 20 of 20: " in shown.err and "all runs: about" in shown.err
    assert "tiny, fae's layout: 8 training inputs, 1 epoch" in shown.out
    table = read_file(Path("out/study.csv"))
    assert table[["policy", "size", "epochs", "num_done"]].drop_duplicates().shape == (6, 4)
    assert table["num_done"].tolist() == [2] * 10
    stale = table[(table["policy"] == "stale") & (table["size"] == 16) & (table["drop"] == 0.3)].iloc[0]
    assert (stale["auc_vs_none"], stale["auc_vs_none_n"], stale["auc_vs_random"]) == (pytest.approx(0), 2, 0)
    assert stale["time_saved_n"] == 2 and stale["accuracy"] == "too few pairs"
    cells = read_rows(Path("out/study_cells.csv"))
    assert len(cells) == 20 and {row["run_id"] for row in cells} == {row["run_id"] for row in rows()}
    assert Path("out/study.md").read_text().startswith("### tiny")
    for name in ("skipping-by-drop-ratio", "skipping-by-size"):
        assert (Path("out/figures") / f"{name}-tiny.png").stat().st_size > 1000


@pytest.mark.usefixtures("one_figure")
def test_study_goes_on_where_it_stopped(study: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert study(f"{STUDY} --policies stale") == 0
    assert study(f"{STUDY} --policies stale,none,random --dry-run") == 0
    shown = capsys.readouterr().out.splitlines()
    assert "8 of 20 runs left" in shown
    assert shown[-1].startswith("8 runs left: about ")
    assert study(f"{STUDY} --policies stale,random") == 0
    assert len(rows()) == 20 and "12 of 20 runs are done already" in capsys.readouterr().err


def test_dry_run_runs_nothing(study: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert study(f"{STUDY} --dry-run") == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 38 and shown[0].endswith("none, 8 inputs, 1 epoch")
    assert shown[-1] == "36 runs left; how long they take can be told once one of them is done"
    assert not Path("out").exists()


def test_sizes_that_the_data_set_does_not_have_are_refused(
    study: Slipbench, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ("", " --dry-run"):
        assert study("study --dataset tiny --out out --sizes 16,64" + more) == 2
        assert "tiny has 32 training inputs, and a size of 64 asks for more" in capsys.readouterr().err
    assert not Path("out/runs.csv").exists() or rows() == []


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--sizes 0", "sizes must be at least 1"),
        ("--epochs one", "epochs takes whole numbers"),
        ("--drops 0.1,0.1", "drops names 0.1 more than once"),
        ("--policies stael", "'stale'"),
        ("--set skip=loss", "a study varies skip itself"),
    ],
)
def test_mistakes_are_one_sentence(
    study: Slipbench, flags: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study(f"study --dataset tiny --out out {flags}") == 2
    shown = capsys.readouterr().err
    assert sentence in shown and shown.count("\n") == 1


def point(policy: str, drop: float | None, seed: int, train_s: float, auc: float, **more: Any) -> dict[str, Any]:
    """A row of a study of 100 inputs and one epoch."""
    row = cell(f"slipstream skip={policy}", seed, train_s, auc, **{"notes": "", "epochs": 1, **more})
    return row | {"policy": policy, "size": 100, "drop": drop, "samples_skipped": 0 if drop is None else 100 * drop}


def small_study(**more: Any) -> pd.DataFrame:
    """Four seeds. Staleness at 0.3 saves 30 % of the time and loses 0.005; importance loses 0.0005 and saves 10 %."""
    made = []
    for seed in range(4):
        wobble = (seed - 1.5) / 1e5
        made.append(point("none", None, seed, 10.0, 0.8 + seed / 100))
        made.append(point("stale", 0.3, seed, 7.0, 0.795 + seed / 100 + wobble, **more))
        made.append(point("random", 0.3, seed, 6.0, 0.796 + seed / 100 - wobble))
        made.append(point("importance", 0.3, seed, 9.0, 0.7995 + seed / 100 + wobble))
    return frame([{**row, "notes": 0} for row in made]).assign(notes=[row["notes"] for row in made])


def test_each_policy_is_compared_with_none_and_with_random() -> None:
    table = summarise(small_study()).set_index("policy")
    stale = table.loc["stale"]
    assert (stale["auc_vs_none"], stale["auc_vs_random"]) == (pytest.approx(-0.005), pytest.approx(-0.001))
    assert (stale["time_saved"], stale["time_saved_low"]) == (pytest.approx(0.3), pytest.approx(0.3))
    assert (stale["skipped_share"], stale["auc_vs_none_n"], stale["layout"]) == (pytest.approx(0.3), 4, "fae")
    assert pd.isna(table.loc["none", "auc_vs_none"]) and pd.isna(table.loc["random", "auc_vs_random"])
    assert table["accuracy"].to_dict() == {"none": "", "stale": LOWER, "random": LOWER, "importance": EQUAL}


def test_best_policy_at_equal_accuracy_is_named() -> None:
    best, against_chance = answers(summarise(small_study()))
    assert best == (
        "100 training inputs, 1 epoch: 1 of 3 policies are shown to lose less than 0.001 of AUC; of these importance "
        "at D = 0.3 saves the most time, 10.0 % [10.0, 10.0] (n = 4): saves time."
    )
    assert "AUC of stale minus that of random is -0.0010 ± 0.0000 (n = 4): lower." in against_chance


def test_failed_runs_are_in_no_mean_and_named() -> None:
    rows = small_study(status="failed", reason="no memory", notes="")
    table = summarise(rows)
    stale = table[table["policy"] == "stale"].iloc[0]
    assert pd.isna(stale["auc_vs_none"]) and (stale["num_failed"], stale["accuracy"]) == (4, "")
    assert "stale drop=0.3, 100 inputs, 1 epoch: 4 failed; no memory. In no mean." in notes(rows, table)


def test_runs_without_a_threshold_are_named() -> None:
    rows = small_study()
    rows.loc[rows["policy"] == "stale", "notes"] = "one; no threshold found"
    said = "stale drop=0.3, 100 inputs, 1 epoch: 4 run(s) found no threshold in some epoch, and skipped nothing in it."
    assert said in notes(rows, summarise(rows))


def test_equal_accuracy_has_to_be_shown() -> None:
    assert equality(Estimate(0.0, -0.0005, 0.0005, 5)) == EQUAL
    assert equality(Estimate(0.02, 0.01, 0.03, 5)) == EQUAL  # higher is not worse
    assert equality(Estimate(0.0, -0.002, 0.002, 5)) == OPEN  # no difference shown, but none excluded either
    assert equality(Estimate(-0.004, -0.006, -0.002, 5)) == LOWER
    assert equality(Estimate(0.0, None, None, 2)) == "too few pairs" and equality(None) == ""


def test_lines_of_a_study_follow_what_was_varied() -> None:
    made = [(drop, name, n) for drop in (0.3, 0.1) for name, n in (("stale", 3), ("random", 0))]
    rows = pd.DataFrame(
        [
            {"policy": name, "drop": drop, "auc": -drop, "auc_low": None, "auc_high": None, "auc_n": n}
            for drop, name, n in made
        ]
    )  # fmt: skip
    found = lines.lines(rows, "drop", "auc")
    assert {name: [(at, e.value) for at, e in line] for name, line in found.items()} == {
        "stale": [(0.1, -0.1), (0.3, -0.3)]
    }
