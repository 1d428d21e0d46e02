"""One run: its row, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from bench import interrupts
from bench.results import read_rows
from bench.run import sentence
from tests.bench import fakes
from tests.bench.conftest import Slipbench

RUN = "run --system fake --dataset tiny --out out"


def rows(folder: Path = Path("out")) -> list[dict[str, str]]:
    """The rows of runs.csv."""
    return read_rows(folder / "runs.csv")


def test_run_done(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{RUN} --seed 3 --set skip=none") == 0
    (row,) = rows()
    assert (row["status"], row["reason"], row["system"], row["settings"]) == ("done", "", "fake", "skip=none")
    assert (row["seed"], row["batch_size"], row["samples_seen"], row["auc_last"]) == ("3", "8", "32", "0.753")
    assert float(row["samples_per_s"]) == pytest.approx(32 / float(row["train_s"]))
    assert row["notes"] == "two, with a comma; one"
    assert row["hot_rows_share"] == "" and row["rows_read"] == "" and row["net_bytes"] == "0"
    assert int(row["peak_rss_bytes"]) > 1_000_000 and row["machine"] and row["started_at"].endswith("Z")
    assert {row["phase"] for row in read_rows(Path("out/phases.csv"))} == {"dense_forward", "other"}
    assert len(read_rows(Path("out/steps.csv"))) == 2 and len(read_rows(Path("out/evals.csv"))) == 1
    (decision,) = read_rows(Path("out/decisions.csv"))
    assert (decision["samples_seen"], decision["threshold"], decision["inputs_dropped"]) == ("8", "", "0")
    folder = Path("out/runs") / row["run_id"]
    assert tomllib.loads((folder / "config.toml").read_text())["set"]["skip"] == "none"
    assert (folder / "env.json").exists() and not (folder / "error.txt").exists()
    assert row["run_id"] in capsys.readouterr().out


def test_limit_rows_trains_on_fewer(slipbench: Slipbench) -> None:
    assert slipbench(f"{RUN} --limit-rows 10") == 0
    assert rows()[0]["samples_seen"] == "10"


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("diverge", "diverged", "the loss is nan at step 1"),
        ("crash", "failed", "ZeroDivisionError: nothing (error.txt in the run's folder)"),
        ("mistake", "failed", "the disk is full."),
        ("interrupt", "interrupted", "stopped by Ctrl-C or a signal after 16 samples"),
    ],
)
def test_bad_end_keeps_its_row_and_exits_1(
    slipbench: Slipbench, capsys: pytest.CaptureFixture[str], end: str, status: str, reason: str
) -> None:
    assert slipbench(f"{RUN} --set fake.end={end}") == 1
    (row,) = rows()
    assert (row["status"], row["reason"], row["samples_seen"], row["auc_last"]) == (status, reason, "16", "")
    assert float(row["train_s"]) > 0
    assert fakes.PLACEMENTS[-1].closed == 1
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    trace = Path("out/runs") / row["run_id"] / "error.txt"
    assert trace.exists() == (end == "crash")


def test_system_that_cannot_run_here_is_skipped_and_exits_2(
    slipbench: Slipbench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert slipbench(f"{RUN} --set fake.end=refuse") == 2
    assert rows()[0]["status"] == "skipped" and rows()[0]["samples_seen"] == ""
    shown = capsys.readouterr().err
    assert shown.endswith(": torchrec is not installed; install slipbench[cpu].\n") and shown.count("torchrec") == 1


def test_model_that_does_not_go_with_the_data_is_refused_before_anything_is_built(
    slipbench: Slipbench, capsys: pytest.CaptureFixture[str]
) -> None:
    built = len(fakes.PLACEMENTS)
    assert slipbench(f"{RUN} --model rm1") == 2
    assert len(fakes.PLACEMENTS) == built
    assert rows()[0]["status"] == "skipped"
    assert "attends over the steps of a time series" in capsys.readouterr().err


def test_finished_is_not_run_again_unless_forced(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(RUN) == 0 and slipbench(RUN) == 0
    assert len(rows()) == 1 and "--force runs it again" in capsys.readouterr().err
    assert slipbench(f"{RUN} --force") == 0
    assert len(rows()) == 2


def test_failed_is_tried_again(slipbench: Slipbench) -> None:
    line = f"{RUN} --set fake.end=crash"
    assert slipbench(line) == 1 and slipbench(line) == 1
    assert len(rows()) == 2


def test_dry_run_runs_nothing(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench(f"{RUN} --dry-run") == 0
    shown = tomllib.loads(capsys.readouterr().out)
    assert shown["system"] == "fake" and shown["batch-size"] == 8 and shown["set"]["skip"] == "random"
    assert not Path("out").exists()


def test_config_file_is_overlaid_by_flags(slipbench: Slipbench) -> None:
    Path("c.toml").write_text('system = "fake"\ndataset = "tiny"\nseed = 5\nepochs = 2\n[set]\nskip = "none"\n')
    assert slipbench("run --config c.toml --seed 6 --set skip.what=updates --out out") == 0
    (row,) = rows()
    assert (row["seed"], row["epochs"], row["settings"]) == ("6", "2", "skip=none skip.what=updates")


def start(folder: Path, line: str) -> subprocess.Popen[str]:
    """The command line in a process of its own, with runs that hold until they are stopped."""
    environment = {**os.environ, "FAKE_HOLD": "1"}
    command = [sys.executable, "-m", "tests.bench.fakes", str(folder), *line.split(), "--out", str(folder / "out")]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_rows(path: Path, number: int) -> None:
    """Until the file holds so many rows."""
    deadline = time.monotonic() + 30
    while len(read_rows(path)) < number:
        assert time.monotonic() < deadline, f"{path} never held {number} rows"
        time.sleep(0.02)


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("number", interrupts.SIGNALS, ids=lambda number: number.name)
def test_signal_leaves_a_row(tmp_path: Path, number: signal.Signals, times: int) -> None:
    process = start(tmp_path, "run --system fake --dataset tiny --set fake.end=hold")
    wait_for_rows(tmp_path / "out" / "steps.csv", 1)
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.01)
    _, shown = process.communicate(timeout=20)
    assert process.returncode == 1 and "\x1b" not in shown
    assert "Traceback" not in shown and "ignored" not in shown
    (row,) = rows(tmp_path / "out")
    assert row["status"] == "interrupted"
    assert read_rows(tmp_path / "out" / "phases.csv")


def test_signals_wait_while_a_run_is_closed() -> None:
    with interrupts.handled(last=False):
        with pytest.raises(KeyboardInterrupt), interrupts.held():
            os.kill(os.getpid(), signal.SIGTERM)
            finished = True  # reached, and raised at the end
        assert finished
    with interrupts.handled(last=False), interrupts.held():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            pytest.fail("a signal that has waited interrupts at once")
        os.kill(os.getpid(), signal.SIGINT)  # and is raised once
    for number in interrupts.SIGNALS:  # a process that was interrupted has nothing left to do
        assert signal.getsignal(number) == signal.SIG_IGN
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def test_nohup_stays() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.handled(last=False):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", interrupts.SIGNALS, ids=lambda number: number.name)
def test_signal_ends_any_command_in_a_sentence(number: signal.Signals) -> None:
    code = "import time, bench.env, sys\nfrom bench.cli import main\n"
    code += "def text():\n    print('here', flush=True)\n    time.sleep(30)\n"
    code += "bench.env.text = text\nsys.argv[1:] = ['env']\nsys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    for _ in range(3):
        process.send_signal(number)
        time.sleep(0.01)
    _, shown = process.communicate(timeout=20)
    assert process.returncode == 1 and shown.strip() == "slipbench: interrupted."


def test_a_run_says_what_it_skipped_or_that_it_found_no_threshold() -> None:
    row = {"status": "done", "train_s": 2.0, "auc_last": 0.75, "samples_per_s": "50", "samples_seen": "100"}
    assert sentence(row | {"samples_skipped": 0, "notes": ""}) == "done, 2.00 s (50 samples/s), AUC 0.7500"
    assert sentence(row | {"samples_skipped": "20"}).endswith("AUC 0.7500, 20.0% skipped")
    assert sentence(row | {"notes": "hot rows: x; no threshold found"}).endswith("no threshold found: nothing skipped")
