"""What the figures of traffic, coverage, decisions and sources show, from rows whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bench.figures import FIGURES, Source
from bench.figures.common import without_runs
from bench.figures.coverage import by_layout, published
from bench.figures.decisions import over_training
from bench.figures.sources import on_one, over_all, speedups_by_source
from bench.figures.traffic import per_epoch, traffic
from bench.summary import OVER_SETS
from tests.bench.conftest import Slipbench
from tests.bench.test_summary import cell, frame

matplotlib.use("Agg")
SETS = ("synthetic", "kuairand")


def source(rows: list[dict[str, Any]], **more: Any) -> Source:
    """What figures are drawn from, with the runs' ids their numbers."""
    cells = frame([{**row, "epochs": row["epochs"] or 1, "run_id": number} for number, row in enumerate(rows)])
    empty = {"evals": pd.DataFrame(columns=["run_id", "auc"]), "phases": pd.DataFrame(columns=["run_id", "lane"])}
    return Source(**{"cells": cells, "baseline": "dlrm", **empty, **more})


def two_sets(**fae_on_the_second: Any) -> list[dict[str, Any]]:
    """dlrm and fae on two data sets, three seeds: fae is twice as fast on the first and eight times on the second."""
    rows = []
    for dataset, ratio in zip(SETS, (2.0, 8.0), strict=True):
        more = fae_on_the_second if dataset == SETS[1] else {}
        for seed in range(3):
            rows.append(cell("dlrm", seed, 8.0, 0.7, dataset=dataset))
            rows.append(cell("fae", seed, 8.0 / ratio, 0.7, dataset=dataset, **more))
    return rows


def words(figure: Figure) -> str:
    """Everything that is written on a figure."""
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    names = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    plt.close(figure)
    return "\n".join([*texts, *names])


def test_traffic_is_counted_by_epoch() -> None:
    rows = [cell("dlrm", 0, 1.0, 0.7, link_to_device_bytes=6e6, rows_written=9, epochs=3)]
    rows += [
        cell("fae", seed, 1.0, 0.7, link_to_device_bytes=bytes_, epochs=2) for seed, bytes_ in ((0, 2e6), (1, 4e6))
    ]
    amounts = per_epoch(source(rows).cells)
    assert amounts["link_to_device_bytes"].to_dict() == {"dlrm": 2e6, "fae": 1.5e6}
    assert amounts.loc["dlrm", "rows_written"] == 3 and pd.isna(amounts.loc["fae", "rows_written"])


def test_traffic_shows_ratios_and_failed_systems() -> None:
    rows = [cell("dlrm", 0, 1.0, 0.7, link_to_device_bytes=6e6), cell("fae", 0, 1.0, 0.7, link_to_device_bytes=3e6)]
    rows += [cell("hotline", seed, 1.0, 0.7, status="failed") for seed in range(2)]
    drawn = source(rows)
    figure = traffic(drawn, drawn.cells[drawn.cells["status"] == "done"], "synthetic")
    assert figure is not None
    said = words(figure)
    assert "3  ×0.50" in said and "2 failed" in said and "not counted" in said and "dlrm (baseline)" in said


def test_systems_without_a_finished_run_are_told_with_what_became_of_them() -> None:
    rows = [cell("dlrm", 0, 1.0, 0.7), cell("dlrm", 1, 1.0, 0.7, status="failed")]
    rows += [cell("fae", 0, 1.0, 0.7, status="diverged"), cell("fae", 1, 1.0, 0.7, status="failed")]
    assert without_runs(source(rows).cells) == {"fae": "1 diverged, 1 failed"}


def test_published_hot_sets_are_shares_of_the_tables() -> None:
    """FAE's Fig. 5 has 142 MB of Kaggle's 33.8 million rows of 16 numbers; its Fig. 1B prints 6.8 % of the rows."""
    points = published().set_index(["dataset", "where"])
    assert len(points) == 4 * (4 + 1)
    kaggle = points.loc[("criteo-kaggle", "Fig. 5")]
    assert kaggle["rows"].tolist()[2] == pytest.approx(142 / (33.8 * 64)) and kaggle["inputs"].tolist()[2] == 0.758
    printed = points.loc[("criteo-kaggle", "Fig. 1B")]
    assert (printed["rows"].item(), printed["inputs"].item()) == pytest.approx((0.068, 0.758))


def test_hot_sets_are_by_layout_and_without_systems_that_have_none() -> None:
    shares = {"hot_rows_share": 0.1, "hot_inputs_share": 0.7}
    rows = [cell("dlrm", 0, 1.0, 0.7), cell("fae", 0, 1.0, 0.7, **shares), cell("slipstream", 0, 1.0, 0.7, **shares)]
    rows.append(cell("slipstream slipstream.layout=hotline", 0, 1.0, 0.7, **shares))
    assert {layout: len(runs) for layout, runs in by_layout(source(rows).cells).items()} == {"fae": 2, "hotline": 1}


def test_decisions_are_those_of_staleness_with_shares() -> None:
    rows = [cell("slipstream", 0, 1.0, 0.7), cell("slipstream skip=random", 0, 1.0, 0.7), cell("fae", 0, 1.0, 0.7)]
    decisions = pd.DataFrame(
        [
            {"run_id": run, "epoch": epoch, "samples_seen": 10 + 100 * epoch, "threshold": 0.1, "stale_rows": 80,
             "hot_rows": 100, "stale_rows_untouched": 20}
            for run in (0, 1)
            for epoch in (0, 1)
        ]
    )  # fmt: skip
    drawn = source(rows, decisions=decisions)
    found = over_training(drawn.decisions, drawn.cells)
    assert found[["label", "epoch", "stale_share", "untouched_share"]].to_numpy().tolist() == [
        ["slipstream", 0, 0.8, 0.25], ["slipstream", 1, 0.8, 0.25],
    ]  # fmt: skip
    figure = FIGURES["decisions"](drawn, drawn.cells, "synthetic")
    assert figure is not None and "n = 1 runs a system" in words(figure)
    for axes in figure.axes:
        (low, high), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        for x, y in np.asarray(axes.get_lines()[0].get_xydata()):
            assert low < x < high and bottom < y < top
    none = source(rows, decisions=decisions.assign(threshold=None))
    assert FIGURES["decisions"](none, none.cells, "synthetic") is None


def replayed(cells: pd.DataFrame) -> pd.DataFrame:
    """A replay in which fae is four times as fast on one device, and as fast as dlrm on two."""
    made = cells.assign(hardware="papers-v100", modelled_full_epoch_s=None)
    one = made.assign(devices=1, modelled_s=[4.0 if label == "dlrm" else 1.0 for label in made["label"]])
    return pd.concat([one, made.assign(devices=2, modelled_s=1.0)])


def test_measured_modelled_and_published_stand_side_by_side() -> None:
    drawn = source(two_sets())
    drawn = source(two_sets(), replay=replayed(drawn.cells))
    (fae,) = on_one(drawn, "synthetic")
    values = {kind: [estimate.value for estimate, _ in found] for kind, found in fae.found.items()}
    assert values["measured"] == [pytest.approx(2)] and values["modelled"] == [pytest.approx(4)]
    assert values["published"] == [pytest.approx(value) for value in (1.73 / 0.78, 1.69)]
    (over,) = over_all(drawn, list(SETS))
    assert over.found["measured"][0][0].value == pytest.approx(4) and over.found["measured"][0][0].n == 2
    figure = speedups_by_source(drawn, drawn.cells.head(0), OVER_SETS)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "synthetic, over dlrm", "kuairand, over dlrm", "geometric mean, over dlrm",
    ]  # fmt: skip
    said = words(figure)
    assert "replayed on papers-v100, on" in said.replace("\n", " ") and "2.22 (FAE), 1.69 (Hotline v1)" in said


def test_each_hardware_has_its_modelled_speed_up() -> None:
    cells = two_sets()
    here = replayed(source(cells).cells)
    there = here.assign(hardware="a-server", modelled_s=1.0, modelled_full_epoch_s=None)
    (fae,) = on_one(source(cells, replay=pd.concat([here, there])), "synthetic")
    assert [estimate.value for estimate, _ in fae.found["modelled"]] == [pytest.approx(1), pytest.approx(4)]


def test_system_that_failed_on_one_data_set_has_no_mean_in_the_figure() -> None:
    drawn = source(two_sets(status="failed"))
    (over,) = over_all(drawn, list(SETS))
    assert over.found["measured"] == [] and over.failed == "no mean: no finished pair of runs on kuairand"
    figure = speedups_by_source(drawn, drawn.cells.head(0), OVER_SETS)
    assert figure is not None
    said = words(figure)
    assert over.failed in said and "3 failed" in said and "Nothing was replayed" in said.replace("\n", " ")


def test_controls_and_the_baseline_are_no_rows_of_the_sources() -> None:
    rows = [cell(name, 0, 1.0, 0.7) for name in ("dlrm", "slipstream", "slipstream skip=random", "slipstream stale=x")]
    assert [row.name for row in on_one(source(rows), "synthetic")] == ["slipstream"]


@pytest.mark.usefixtures("one_figure")
def test_replay_with_other_columns_is_named(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench("compare --datasets tiny --out out --systems fake,other --seeds 0") == 0
    Path("out/replay.csv").write_text("run_id,seconds\n1,2\n")
    capsys.readouterr()
    assert slipbench("plot --out out") == 2
    shown = capsys.readouterr().err
    assert "out/replay.csv has other columns" in shown and shown.count("\n") == 1


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_drawn_without_runs(name: str) -> None:
    drawn = source(two_sets(status="failed"))
    nothing = source([cell("dlrm", 0, 1.0, 0.7, status="failed")])
    assert FIGURES[name](nothing, nothing.cells.head(0), "synthetic") is None
    assert FIGURES[name](drawn, drawn.cells.head(0), "elsewhere") is None
