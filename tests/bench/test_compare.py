"""A comparison: its runs, how it goes on after a kill, its tables."""

from __future__ import annotations

import errno
import signal
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from bench.compare import Options, check_baseline, default_systems, parse_systems, plan
from bench.results import Results, read_rows
from datasets.errors import UserError
from tests.bench import fakes
from tests.bench.conftest import Slipbench
from tests.bench.test_run import RUN, rows, start, wait_for_rows

COMPARE = "compare --datasets tiny --out out --systems"


def test_labels_number_what_is_listed_twice() -> None:
    entries = parse_systems(["dlrm", "slipstream:slipstream.layout=hotline:skip=random", "dlrm", "slipstream"])
    labels = ["dlrm", "slipstream:layout=hotline:skip=random", "dlrm#2", "slipstream"]
    assert [entry.label for entry in entries] == labels


def test_default_list_holds_all_systems_and_controls_once() -> None:
    assert len(default_systems()) == 18 and len(set(default_systems())) == 18
    assert {"xdl-cpu", "xdl", "dlrm", "torchrec", "fae", "hotline", "slipstream"} <= set(default_systems())
    assert "slipstream:stale=touched-only" in default_systems()
    assert "slipstream:layout=hotline:skip=random" in default_systems()


def test_plan_interleaves_and_gives_copies_their_own_repeats(slipbench: Slipbench) -> None:
    cells = plan(parse_systems(["fake", "other", "fake"]), ["tiny"], [0, 1], 2, Options({}, {}))
    assert [cell.label for cell in cells[:6]] == ["fake", "other", "fake#2", "other", "fake#2", "fake"]
    assert [(c.config.seed, c.pair, c.config.repeat) for c in cells if c.label == "fake#2"] == [
        (0, 0, 2), (0, 1, 3), (1, 0, 2), (1, 1, 3),
    ]  # fmt: skip


def test_a_setting_goes_to_the_systems_that_have_it(slipbench: Slipbench) -> None:
    entries = parse_systems(["fake:skip=none", "dlrm"])
    cells = plan(entries, ["tiny"], [0], 1, Options({}, {"skip": "loss", "fake.on": "no"}))
    assert cells[0].config.settings["skip"] == "none" and cells[0].config.settings["fake.on"] is False
    assert cells[1].config.settings == {}
    with pytest.raises(UserError, match=r"'fake\.on'"):
        plan(entries, ["tiny"], [0], 1, Options({}, {"fake.onn": "no"}))


def test_baseline_is_among_the_systems() -> None:
    entries = parse_systems(["fae", "hotline"])
    assert check_baseline(entries, None) == "fae" and check_baseline(entries, "hotline") == "hotline"
    with pytest.raises(UserError, match="'hotline'"):
        check_baseline(entries, "hotlin")


def test_compare_writes_tables_and_figures(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{COMPARE} fake,other,fake --seeds 0,1,2 --baseline fake") == 0
    shown = capsys.readouterr()
    assert "tiny: measured here, against fake" in shown.out and "fake#2" in shown.out
    assert "Host and device are one CPU here" in shown.out and "published" in shown.out
    assert max(map(len, shown.out.split("\n\n* ")[0].splitlines())) <= 160
    assert "run 9 of 9: other on tiny, seed 2; all runs: about" in shown.err and "\x1b" not in shown.err
    summary = pd.read_csv("out/compare.csv")
    assert summary["label"].tolist() == ["fake", "other", "fake#2"]
    assert summary["num_done"].tolist() == [3, 3, 3] and summary["speedup_n"].tolist() == [0, 3, 3]
    assert summary["auc"].tolist() == pytest.approx([0.751] * 3)
    assert summary["auc_diff"].tolist()[1:] == pytest.approx([0, 0])
    assert len(pd.read_csv("out/cells.csv")) == 9
    assert Path("out/compare.md").read_text().startswith("### tiny")
    for name in ("speedup", "accuracy-over-time", "time-by-phase"):
        for kind in ("png", "pdf"):
            assert (Path("out/figures") / f"{name}-tiny.{kind}").stat().st_size > 1000


@pytest.mark.usefixtures("one_figure")
def test_two_data_sets_have_a_geometric_mean(
    slipbench: Slipbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(fakes.DATASETS, "tiny-too", "tests.bench.fakes")
    assert slipbench("compare --datasets tiny,tiny-too --out out --systems fake,other --seeds 0,1,2") == 0
    assert "geometric mean over tiny, tiny-too: measured here, against fake" in capsys.readouterr().out
    summary = pd.read_csv("out/compare.csv")
    assert summary["dataset"].tolist() == ["tiny"] * 2 + ["tiny-too"] * 2 + ["geomean"] * 2
    each, mean = summary["speedup"].tolist()[1:4:2], summary["speedup"].iloc[-1]
    assert mean == pytest.approx((each[0] * each[1]) ** 0.5) and summary["speedup_n"].iloc[-1] == 2
    assert summary["num_done"].iloc[-1] == 6


@pytest.mark.usefixtures("one_figure")
def test_failed_cell_is_shown_and_in_no_mean(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{COMPARE} fake,other:fake.end=crash --seeds 0,1") == 1
    shown = capsys.readouterr()
    assert "2 failed" in shown.out and "ZeroDivisionError" in shown.out and "In no mean." in shown.out
    summary = pd.read_csv("out/compare.csv").set_index("label")
    assert pd.isna(summary.loc["other:fake.end=crash", "train_s"]) and summary.loc["fake", "num_done"] == 2
    assert shown.err.count("run ") >= 4  # the comparison went on


@pytest.mark.usefixtures("one_figure")
def test_system_that_cannot_run_here_is_skipped(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{COMPARE} fake,other:fake.end=refuse --seeds 0") == 0
    shown = capsys.readouterr().out
    assert "1 skipped" in shown and "torchrec is not installed" in shown


@pytest.mark.usefixtures("one_figure")
def test_nothing_is_run_twice(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"{COMPARE} fake,other --seeds 0"
    assert slipbench(line) == 0
    assert slipbench(f"{line},1 --dry-run") == 0
    assert "2 of 4 runs left" in capsys.readouterr().out
    assert slipbench(f"{line},1") == 0
    assert len(rows()) == 4 and "2 of 4 runs are done already" in capsys.readouterr().err


@pytest.mark.usefixtures("one_figure")
def test_what_is_done_stays_so_after_a_forced_run_that_was_stopped(slipbench: Slipbench) -> None:
    line = f"{COMPARE} fake,other --seeds 0"
    assert slipbench(line) == 0
    (first, _) = rows()
    Results(Path("out")).append("runs", first | {"run_id": "stopped", "status": "interrupted", "auc_last": ""})
    assert slipbench(line) == 0
    assert {row["status"] for row in read_rows(Path("out/cells.csv"))} == {"done"}


def test_figures_of_an_earlier_comparison_are_gone(slipbench: Slipbench) -> None:
    assert slipbench(f"{COMPARE} fake,other --seeds 0") == 0
    assert Path("out/figures/speedup-tiny.png").exists()
    Path("out/figures/speedup-mine.png").write_bytes(b"")
    assert slipbench(f"{COMPARE} other --seeds 0") == 0
    assert not Path("out/figures/speedup-tiny.png").exists() and Path("out/figures/speedup-mine.png").exists()


@pytest.mark.usefixtures("one_figure")
def test_interrupted_comparison_stops(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{COMPARE} fake,other:fake.end=interrupt,other --seeds 0") == 1
    shown = capsys.readouterr()
    assert [row["status"] for row in rows()] == ["done", "interrupted"]
    assert "goes on from here" in shown.err and "1 missing" in shown.out


@pytest.mark.usefixtures("one_figure")
def test_goes_on_after_a_kill(slipbench: Slipbench, tmp_path: Path) -> None:
    line = "compare --datasets tiny --seeds 0 --systems fake,fake:fake.end=hold,other"
    process = start(tmp_path, line)
    wait_for_rows(tmp_path / "out" / "steps.csv", 3)  # two of the first run, one of the second
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    (first,) = rows()
    assert first["status"] == "done"
    assert slipbench(f"{line} --out out") == 0  # nothing holds here
    assert [row["status"] for row in rows()] == ["done"] * 3 and rows()[0] == first


def test_dry_run_runs_nothing(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{COMPARE} fake,other --seeds 0,1 --repeats 2 --dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9 and lines[-1] == "8 of 8 runs left"
    assert lines[0].split() == ["to", "run", "tiny", "seed", "0", "repeat", "0", "fake"]
    assert not Path("out").exists() and not fakes.PLACEMENTS[1000:]


@pytest.mark.usefixtures("one_figure")
def test_config_file_names_systems(slipbench: Slipbench) -> None:
    Path("c.toml").write_text('systems = ["fake", "other"]\ndatasets = "tiny"\nseeds = [0, 1]\nbaseline = "other"\n')
    assert slipbench("compare --config c.toml --out out") == 0
    assert len(rows()) == 4 and read_rows(Path("out/compare.csv"))[0]["baseline"] == "other"


def test_foreign_files_are_named(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    for content in (b"run_id,colour\n1,red\n", bytes(range(256)), b"\x00\xff\n\x00\n", b"run_id,x"):
        Path("out/runs.csv").write_bytes(content)
        for line in (f"{COMPARE} fake --dry-run", f"{COMPARE} fake", "plot --out out", RUN):
            assert slipbench(line) == 2
            shown = capsys.readouterr().err
            assert "out/runs.csv has other columns" in shown and shown.count("\n") == 1
        assert Path("out/runs.csv").read_bytes() == content


@pytest.mark.usefixtures("one_figure")
def test_damaged_cells_are_named(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{COMPARE} fake,other --seeds 0") == 0
    cells = Path("out/cells.csv")
    for content in (cells.read_text().replace("fake,0,", "fake,none,"), "a,b\n1,2\n"):
        cells.write_text(content)
        capsys.readouterr()
        assert slipbench("plot --out out") == 2
        shown = capsys.readouterr().err
        assert "out/cells.csv" in shown and shown.count("\n") == 1


def test_nothing_to_draw_is_said(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{COMPARE} fake:fake.end=crash --seeds 0") == 1
    capsys.readouterr()
    assert slipbench("plot --out out") == 2
    assert "there is nothing to draw in out: no run in it is done." in capsys.readouterr().err


def test_files_of_others_are_kept(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    Path("out/compare.md").write_text("mine")
    assert slipbench(f"{COMPARE} fake --seeds 0") == 2
    assert "out/compare.md is not one of slipbench's results" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == ["compare.md"]


@pytest.mark.usefixtures("one_figure")
def test_full_disk_leaves_no_figure_and_the_table(
    slipbench: Slipbench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(figure: Figure, path: Path, **how: object) -> None:
        path.write_bytes(b"")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    assert slipbench(f"{COMPARE} fake,other --seeds 0,1") == 2
    shown = capsys.readouterr()
    assert "measured here" in shown.out and "No space left on device" in shown.err
    assert list(Path("out/figures").iterdir()) == []


@pytest.mark.usefixtures("one_figure")
def test_reason_ends_in_one_full_stop(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{COMPARE} fake,other:fake.end=refuse --seeds 0") == 0
    assert "install slipbench[cpu]. In no mean." in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("one_figure")
def test_the_tables_list_systems_in_the_order_they_were_given(slipbench: Slipbench) -> None:
    assert slipbench(f"{COMPARE} fake,other,fake --seeds 0,1") == 0
    assert pd.read_csv("out/cells.csv")["label"].tolist() == ["fake"] * 2 + ["other"] * 2 + ["fake#2"] * 2
