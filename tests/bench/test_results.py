"""Result files: whole rows only, whoever writes at the same time and whenever it is killed."""

from __future__ import annotations

import csv
import errno
import hashlib
import multiprocessing
import os
from pathlib import Path

import pytest

from bench.results import COLUMNS, RUNS, Results, finished, read, read_rows, read_whole
from datasets.errors import UserError


def _write(out: Path, writer: int, rows: int) -> None:
    results = Results(out)
    for row in range(rows):
        results.append("evals", {"run_id": f"w{writer}", "samples_seen": row, "auc": 0.5})


def test_two_writers_leave_whole_rows(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path, writer, 200)) for writer in range(2)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    frame = read(tmp_path, "evals")
    assert len(frame) == 400
    for writer in range(2):
        assert frame[frame["run_id"] == f"w{writer}"]["samples_seen"].tolist() == list(range(200))
    assert (tmp_path / "evals.csv").read_text().count("samples_seen") == 1


def test_columns_are_those_of_the_design(tmp_path: Path) -> None:
    Results(tmp_path)
    with (tmp_path / "runs.csv").open(newline="") as file:
        assert next(csv.reader(file)) == list(RUNS)
    assert (
        hashlib.sha256(" ".join(RUNS).encode()).hexdigest()[:12] == "8abaff8ae232"
    )  # whoever reads the files relies on it
    assert " ".join(COLUMNS["decisions"]) == (
        "run_id epoch samples_seen train_s threshold iterations sampled_inputs sample_drop_ratio stale_rows hot_rows "
        "stale_rows_untouched hot_inputs_left inputs_dropped"
    )
    assert COLUMNS["steps"] == ("run_id", "first_step", "steps", "samples", "loss", "seconds", "data_wait_s")


def test_not_measured_is_empty_and_reads_as_missing(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.append("evals", {"run_id": "a", "samples_seen": 3, "auc": None})
    assert (tmp_path / "evals.csv").read_text().splitlines()[1] == "a,3,,,,"
    assert read(tmp_path, "evals")["auc"].isna().all()


@pytest.mark.parametrize("torn", ["a,1,2.0,0.75,0.5,0.8", "a,1", "a", '"a, with', '"a""', '"a"', 'a,"b""c'])
def test_torn_row_is_ignored_and_the_next_starts_a_line(tmp_path: Path, torn: str) -> None:
    results = Results(tmp_path)
    results.append("evals", {"run_id": "first"})
    with (tmp_path / "evals.csv").open("a") as file:
        file.write(torn)
    assert [row["run_id"] for row in read_rows(tmp_path / "evals.csv")] == ["first"]
    results.append("evals", {"run_id": "second"})
    assert [row["run_id"] for row in read_rows(tmp_path / "evals.csv")] == ["first", "second"]


def test_torn_header_is_completed(tmp_path: Path) -> None:
    (tmp_path / "evals.csv").write_text("run_id,samp")
    Results(tmp_path).append("evals", {"run_id": "a"})
    assert read(tmp_path, "evals")["run_id"].tolist() == ["a"]


def test_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("run_id,colour\n1,red\n")
    with pytest.raises(UserError, match=r"runs\.csv has other columns"):
        Results(tmp_path)
    assert (tmp_path / "runs.csv").read_text() == "run_id,colour\n1,red\n"


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write results to"):
        Results(tmp_path / "file")


def test_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    results = Results(tmp_path)
    monkeypatch.setattr("bench.results.os.write", full)
    with pytest.raises(UserError, match="No space left"):
        results.append("evals", {"run_id": "a"})


def test_line_breaks_and_quotes_stay_in_one_row(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.append("runs", {"run_id": "a", "reason": 'it said "no",\nand stopped'})
    assert read_rows(tmp_path / "runs.csv")[0]["reason"] == 'it said "no", and stopped'


def test_unknown_column_is_a_defect(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no column colour"):
        Results(tmp_path).append("runs", {"colour": "red"})


def test_finished_needs_status_hash_and_code(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.append("runs", {"run_id": "a", "status": "failed", "config_hash": "h", "code_version": "c"})
    assert finished(tmp_path, "h", "c") is None
    results.append("runs", {"run_id": "b", "status": "done", "config_hash": "h", "code_version": "c"})
    row = finished(tmp_path, "h", "c")
    assert row is not None and row["run_id"] == "b"
    assert finished(tmp_path, "h", "d") is None and finished(tmp_path, "i", "c") is None


def test_read_of_nothing_has_the_columns(tmp_path: Path) -> None:
    assert list(read(tmp_path, "phases")) == list(COLUMNS["phases"])


@pytest.mark.parametrize("content", ["", "run_id,seed\na,1\nb", "run_id,seed\na,x\n", "run_id,seed\na\n"])
def test_a_file_that_was_written_whole_and_is_not_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "made.csv").write_text(content)
    with pytest.raises(UserError, match="is damaged; remove it"):
        read_whole(tmp_path / "made.csv", numbers=("seed",))


def test_a_whole_file_is_read_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    (tmp_path / "made.csv").write_text("run_id,seed\na,1\nb,\n")
    assert read_whole(tmp_path / "made.csv")["seed"].tolist()[0] == 1
    assert read_whole(tmp_path / "none.csv").empty


def test_what_every_row_has_may_not_be_empty(tmp_path: Path) -> None:
    (tmp_path / "made.csv").write_text("run_id,seed\na,1\nb,\n")
    with pytest.raises(UserError, match="is damaged; remove it"):
        read_whole(tmp_path / "made.csv", filled=("seed",))
