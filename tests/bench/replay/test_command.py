"""`slipbench replay` on a folder of finished runs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from baselines.work import HOST, Seq, Stage, Steps
from bench.cli import main
from bench.replay import report, store
from bench.replay.calibrate import Shape
from bench.replay.profile import to_toml
from bench.results import Results, read_rows
from tests.bench.replay.small import FACTS, STEP_, constant, plain_steps, profile

STEPS = plain_steps([10, 200, 3000, 0, 1], [30, 0, 0, 0, 1])
HARDWARE = profile(
    host__rows_read=constant(0.5),
    link__bytes=constant(per_s=100.0),
    device__dense_flops=constant(per_s=1e30),
    step__any=constant(2.0),
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder with a finished run that recorded its work, one that failed, and a profile."""
    results = Results(tmp_path)
    row = {"system": "dlrm", "dataset": "d", "batch_size": 8, "threads": 1, "train_s": 7.5}
    for run_id, status in (("good", "done"), ("bad", "failed")):
        results.folder(run_id).mkdir(parents=True)
        results.append("runs", {"run_id": run_id, "status": status, **row})
    store.save(results.folder("good") / store.FILE, FACTS, [STEPS])
    (tmp_path / "mine.toml").write_text(to_toml(HARDWARE))
    return tmp_path


def replay(out: Path, *more: str) -> int:
    return main(["replay", "--out", str(out), *more])


def test_work_survives_its_file(out: Path) -> None:
    found = store.load(out / "runs" / "good" / store.FILE)
    assert found.facts == FACTS
    (steps,) = found.steps
    assert (steps.name, steps.tree, steps.amounts.tolist()) == (STEPS.name, STEPS.tree, STEPS.amounts.tolist())


def test_replay_writes_a_row_for_each_finished_run_and_number_of_devices(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(out, "--hardware", str(out / "mine.toml"), "--devices", "1,2") == 0
    frame = pd.read_csv(out / "replay.csv")
    assert frame["run_id"].tolist() == ["good", "good"] and frame["devices"].tolist() == [1, 2]
    assert frame["modelled_host_s"].tolist() == [20, 20] and frame["modelled_link_s"].tolist() == [2, 2]
    assert frame["modelled_s"].tolist() == [26, 24]
    assert frame["measured_train_s"].tolist() == [7.5, 7.5]  # beside the modelled seconds, in a column of its own
    assert frame["modelled_full_epoch_s"].isna().all()  # of a set that no paper has
    assert "26.000" in capsys.readouterr().out


def test_a_profile_s_rows_take_the_place_of_its_own_and_leave_the_others(out: Path) -> None:
    mine = ["--hardware", str(out / "mine.toml")]
    assert replay(out, *mine, "--devices", "1,2") == replay(out, "--hardware", "papers-v100", "--devices", "1") == 0
    assert replay(out, *mine, "--devices", "4") == 0
    frame = pd.read_csv(out / "replay.csv")
    assert frame[["hardware", "devices"]].to_numpy().tolist() == [["papers-v100", 1], ["mine", 4]]


def test_work_without_a_constant_is_named(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "half.toml").write_text('[device.dense_flops]\neach_s = 1.0\nhow = "assumed"\nsource = "a test"\n')
    assert replay(out, "--hardware", str(out / "half.toml")) == 0
    assert "without a constant in the profile, and so at no cost: host.rows_read, link." in capsys.readouterr().out
    (out / "half.toml").write_text('[host.rows_read.torchrek]\neach_s = 1.0\nhow = "assumed"\nsource = "a test"\n')
    assert replay(out, "--hardware", str(out / "half.toml")) == 2
    assert "unknown system of [host.rows_read] 'torchrek': did you mean 'torchrec'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hardware", "papers"], "unknown hardware 'papers': did you mean 'papers-v100'?"),
        ([], "give one of --hardware"),
        (["--fit", "--calibrate"], "give one of --hardware"),
        (["--hardware", "papers-v100", "--devices", "0"], "devices must be at least 1, got 0."),
        (["--fit", "--devices", "2"], "leave --devices out."),
        (["--fit"], "no recorded runs of all systems on criteo-kaggle"),
        (["--hardware", "this-machine"], "this machine has not been measured at d-"),
    ],
)
def test_a_mistake_is_one_sentence(
    out: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert replay(out, *options) == 2
    shown = capsys.readouterr().err
    assert words in shown and shown.count("\n") == 1


def test_a_folder_without_recorded_work_is_refused(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = out / "runs" / "good" / store.FILE
    work.write_bytes(b"torn")
    assert replay(out, "--hardware", "papers-v100") == 2
    assert "is not a record of a run's work" in capsys.readouterr().err
    work.unlink()
    assert replay(out, "--hardware", "papers-v100") == 2
    assert "has recorded its work (work.npz); run them again with --force." in capsys.readouterr().err


def test_a_profile_that_prices_nothing_is_refused(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "none.toml").write_text('[device.dense_flops]\nhow = "assumed"\nsource = "a test"\n')
    assert replay(out, "--hardware", str(out / "none.toml")) == 2
    assert "the profile none has no cost of the dense network of dlrm" in capsys.readouterr().err
    assert not (out / "replay.csv").exists()


def test_a_system_whose_network_a_profile_has_no_cost_of_is_left_out(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = out / "mine.toml"
    assert replay(out, "--hardware", str(mine)) == 0
    (good,) = [row for row in read_rows(out / "runs.csv") if row["run_id"] == "good"]
    Results(out).append("runs", good | {"run_id": "other", "system": "xdl-cpu", "config_hash": "other"})
    (out / "runs" / "other").mkdir()
    on_host = Steps("plain", Seq((Stage(HOST, "dense_flops", "dense_forward"), STEP_)), np.array([[9, 1]]))
    store.save(out / "runs" / "other" / store.FILE, FACTS, [on_host])
    assert replay(out, "--hardware", str(mine)) == 0
    assert set(pd.read_csv(out / "replay.csv")["run_id"]) == {"good"}
    assert "has no cost of their dense network: xdl-cpu" in capsys.readouterr().out
    mine.write_text('[host.rows_read]\neach_s = 1.0\nhow = "assumed"\nsource = "a test"\n')
    assert replay(out, "--hardware", str(mine)) == 2
    assert "the profile mine has no cost of the dense network of" in capsys.readouterr().err


def test_a_run_that_this_machine_was_not_measured_for_is_left_out(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (good,) = [row for row in read_rows(out / "runs.csv") if row["run_id"] == "good"]
    (out / "this-machine").mkdir()
    (out / "this-machine" / f"{Shape.of(good)}.toml").write_text(to_toml(HARDWARE))
    Results(out).append("runs", good | {"run_id": "other", "batch_size": "7", "config_hash": "other"})
    shutil.copytree(out / "runs" / "good", out / "runs" / "other")
    assert replay(out, "--hardware", "this-machine") == 0
    frame = pd.read_csv(out / "replay.csv")
    assert set(frame["run_id"]) == {"good"} and set(frame["hardware"]) == {"this-machine"}
    assert "has not been measured at d-" in capsys.readouterr().out


@pytest.mark.parametrize("spoil", ["truncate", "flip", "negative", "narrow", "no inputs"])
def test_a_spoilt_record_is_refused(out: Path, capsys: pytest.CaptureFixture[str], spoil: str) -> None:
    path = out / "runs" / "good" / store.FILE
    work = store.load(path)
    amounts = {"negative": -STEPS.amounts, "narrow": STEPS.amounts[:, :-1]}.get(spoil, STEPS.amounts)
    facts = replace(work.facts, inputs=0) if spoil == "no inputs" else work.facts
    store.save(path, facts, [replace(STEPS, amounts=amounts)])
    data = path.read_bytes()
    if spoil == "truncate":
        path.write_bytes(data[: len(data) // 2])
    if spoil == "flip":
        path.write_bytes(bytes(byte ^ 255 if 40 < place < 400 else byte for place, byte in enumerate(data)))
    assert replay(out, "--hardware", "papers-v100") == 2
    assert f"{path} is not a record of a run's work" in capsys.readouterr().err


def test_list_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "hardware"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {
        "this-machine",
        "papers-v100",
        "papers-v100-hotline",
    }


def test_a_damaged_file_of_replays_is_refused_and_kept(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(out, "--hardware", "papers-v100") == 0
    whole = (out / "replay.csv").read_bytes()
    (out / "replay.csv").write_bytes(whole[:-20])
    assert replay(out, "--hardware", str(out / "mine.toml")) == 2
    assert "is damaged; remove it, and the command that made it" in capsys.readouterr().err
    assert (out / "replay.csv").read_bytes() == whole[:-20]


def test_work_at_no_cost_stands_in_the_file(out: Path) -> None:
    assert replay(out, "--hardware", str(out / "mine.toml"), "--devices", "1") == 0
    (row,) = read_rows(out / "replay.csv")
    assert row["at_no_cost"] == ""
    (out / "half.toml").write_text('[device.dense_flops]\neach_s = 1.0\nhow = "assumed"\nsource = "a test"\n')
    assert replay(out, "--hardware", str(out / "half.toml")) == 0
    assert "host.rows_read link.link_to_device_bytes" in read_rows(out / "replay.csv")[-1]["at_no_cost"]
    frame = pd.DataFrame(read_rows(out / "replay.csv"))
    assert report.said(frame) == [
        "Modelled on half without a cost of host.rows_read, link.link_to_device_bytes, step.plain."
    ]


def test_a_profile_that_would_pass_for_another_is_refused(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("this-machine", "papers-v100"):
        (out / f"{name}.toml").write_text(to_toml(HARDWARE))
        assert replay(out, "--hardware", str(out / f"{name}.toml")) == 2
        assert "has the name of another profile" in capsys.readouterr().err
