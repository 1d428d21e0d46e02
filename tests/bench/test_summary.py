"""The numbers of a comparison, from rows whose answer is known."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from bench.published import speedups, speedups_text
from bench.results import RUNS
from bench.summary import policy, summarise, summarise_policies
from bench.table import as_markdown, as_text, notes, tables

FAE = "slipstream skip="


def cell(label: str, seed: int, train_s: float, auc: float, **more: Any) -> dict[str, Any]:
    """A row of a comparison."""
    system, _, settings = label.partition(" ")
    row: dict[str, Any] = dict.fromkeys(RUNS)
    row |= {"label": label, "pair": 0, "status": "done", "reason": "", "system": system.split("#")[0]}
    row |= {"settings": settings, "dataset": "synthetic", "seed": seed, "train_s": train_s, "auc_last": auc}
    row |= {"logloss_last": 0.5, "samples_seen": 100, "samples_skipped": 0, "device": "cpu", "samples_per_s": 1.0}
    return row | more


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as the comparison hands them on, numbers as numbers."""
    cells = pd.DataFrame(rows)
    for column in set(RUNS) - {"status", "reason", "system", "settings", "dataset", "device"}:
        cells[column] = pd.to_numeric(cells[column])
    return cells


def test_speedup_is_baseline_time_over_system_time() -> None:
    rows = [cell("dlrm", seed, 4.0 + seed, 0.7) for seed in range(3)]
    rows += [cell("fae", seed, 2.0 + seed / 2, 0.71) for seed in range(3)]
    line = summarise(frame(rows), "dlrm").set_index("label").loc["fae"]
    assert (line["speedup"], line["speedup_low"], line["speedup_n"]) == (pytest.approx(2), pytest.approx(2), 3)
    assert line["verdict"] == "faster"
    assert (line["auc_diff"], line["auc_diff_n"]) == (pytest.approx(0.01), 3)


def test_failed_runs_are_in_no_mean() -> None:
    rows = [cell("dlrm", seed, 4.0, 0.7) for seed in range(3)]
    rows += [cell("fae", 0, 2.0, 0.7), cell("fae", 1, 99.0, 0.1, status="failed", reason="why")]
    line = summarise(frame(rows), "dlrm").set_index("label").loc["fae"]
    assert (line["train_s"], line["auc"], line["speedup_n"]) == (2.0, 0.7, 1)
    assert (line["num_done"], line["num_failed"], line["reason"]) == (1, 1, "why")


def test_repeats_are_no_seeds_for_accuracy() -> None:
    rows = [cell("dlrm", 0, 4.0, 0.7, pair=pair) for pair in range(3)]
    rows += [cell("fae", 0, 2.0, 0.8, pair=pair) for pair in range(3)]
    line = summarise(frame(rows), "dlrm").set_index("label").loc["fae"]
    assert (line["auc_diff_n"], line["speedup_n"]) == (1, 3) and pd.isna(line["auc_diff_low"])


def two_sets(**fae_on_the_second: Any) -> pd.DataFrame:
    """dlrm and fae on two data sets, fae twice as fast on the first and eight times on the second."""
    rows = []
    for dataset, times in (("synthetic", 2.0), ("kuairand", 8.0)):
        more = fae_on_the_second if dataset == "kuairand" else {}
        rows += [cell("dlrm", seed, times + seed, 0.7, dataset=dataset) for seed in range(3)]
        rows += [cell("fae", seed, (times + seed) / times, 0.7, dataset=dataset, **more) for seed in range(3)]
    return frame(rows)


def test_geometric_mean_over_data_sets_follows_them() -> None:
    summary = summarise(two_sets(), "dlrm")
    assert summary["dataset"].tolist() == ["synthetic"] * 2 + ["kuairand"] * 2 + ["geomean"] * 2
    line = summary.iloc[-1]
    assert (line["label"], line["speedup"], line["speedup_n"]) == ("fae", pytest.approx(4), 2)
    assert (line["speedup_low"], line["verdict"], line["num_done"]) == (pytest.approx(4), "faster", 6)
    assert line["published_speedup"].startswith("2.22 (FAE)")
    built = tables(summary, pd.DataFrame())
    assert built[-1].title == "geometric mean over synthetic, kuairand: measured here, against dlrm"
    assert built[-1].rows[-1][:5] == ("fae", "4.00 [4.00, 4.00]", "faster", "2", "6")


def test_one_data_set_has_no_geometric_mean() -> None:
    cells = two_sets()
    assert "geomean" not in set(summarise(cells[cells["dataset"] == "synthetic"], "dlrm")["dataset"])


def test_data_set_without_a_finished_run_leaves_no_geometric_mean_but_its_name() -> None:
    cells = two_sets(status="failed", reason="no memory")
    summary = summarise(cells, "dlrm")
    line = summary.iloc[-1]
    assert pd.isna(line["speedup"]) and line["speedup_n"] == 0 and line["verdict"] == ""
    assert line["reason"] == "no finished pair of runs with dlrm on kuairand"
    assert tables(summary, pd.DataFrame())[-1].rows[-1][1:5] == ("", "no mean: see below", "", "3 + 3 failed")
    said = notes(cells, summary, pd.DataFrame())
    assert "fae: no geometric mean, no finished pair of runs with dlrm on kuairand." in said
    assert "fae on kuairand: 3 failed; no memory. In no mean." in said
    assert not any("dlrm: no" in line for line in said)


def test_policies_meet_their_own_layout() -> None:
    aucs = {"stale": 0.70, "none": 0.75, "random": 0.69}
    rows = [cell(FAE + name, seed, 1.0, auc + seed / 1000) for seed in range(3) for name, auc in aucs.items()]
    rows += [cell("slipstream skip=random slipstream.layout=hotline", seed, 1.0, 0.9) for seed in range(3)]
    lines = summarise_policies(frame(rows)).set_index(["layout", "policy"])
    stale = lines.loc[("fae", "stale")]
    assert (stale["auc_vs_none"], stale["auc_vs_random"]) == (pytest.approx(-0.05), pytest.approx(0.01))
    assert stale["auc_vs_random_n"] == 3
    assert pd.isna(lines.loc[("hotline", "random"), "auc_vs_none"])


def test_policy_of_settings() -> None:
    assert policy("") == ("fae", "stale", "")
    assert policy("stale=touched-only") == ("fae", "stale stale=touched-only", "")
    assert policy("skip=loss slipstream.layout=hotline slipstream.t_max=0.2") == (
        "hotline", "loss", "slipstream.layout=hotline slipstream.t_max=0.2",
    )  # fmt: skip


def test_published_speedups_divide_bars_of_one_chart_only() -> None:
    assert {source: value for value, source in speedups("fae", "dlrm", "criteo-kaggle")} == {
        "FAE": pytest.approx(1.61 / 0.80), "Hotline v1": pytest.approx(1.61 / 1.01),
    }  # fmt: skip
    assert speedups_text("slipstream", "dlrm", "synthetic") == "2.40 (Slipstream abstract)"
    assert speedups("dlrm", "dlrm", "synthetic") == [] and speedups("torchrec", "dlrm", "avazu") == []


def test_tables_read_well() -> None:
    rows = []
    for seed in range(3):
        rows += [cell("dlrm", seed, 40.0 + seed, 0.7), cell("xdl", seed, 60.0, 0.7), cell("xdl-cpu", seed, 60.0, 0.7)]
        for name in ("stale", "none", "random", "importance"):
            settings = f"slipstream.layout=hotline skip={name}"
            more = {"samples_skipped": 15, "link_to_device_bytes": 1e9, "link_to_host_bytes": 2e9, "rows_written": 7e6}
            rows.append(
                cell(f"slipstream layout=hotline skip={name}", seed, 30.0 + seed, 0.71, settings=settings, **more)
            )
    cells = frame(rows)
    summary, policies = summarise(cells, "dlrm"), summarise_policies(cells)
    built, lines = tables(summary, policies), notes(cells, summary, policies)
    text = as_text(built, lines)
    assert all(len(line) <= 160 for table in built for line in table.text().splitlines())
    assert "no significant difference" in text and "xdl and xdl-cpu are the same run" in text
    assert "15.0%" in text and "against skip=none and skip=random" in text
    assert "| dlrm |" in as_markdown(built, lines)
