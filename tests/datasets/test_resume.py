"""A preparation that is stopped, wherever, goes on with the same command, and gives what an undisturbed one gives."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from datasets import click_log, criteo_kaggle, journal, text, vocabulary, writer
from datasets.errors import UserError
from datasets.journal import JOURNAL, Journal
from datasets.npy import NpyStream
from datasets.store import open_set, prepare
from datasets.writer import META, StoreWriter
from tests.datasets import stopping
from tests.datasets.raw_logs import avazu_lines, avazu_text, criteo_lines, criteo_text, save
from tests.datasets.stopping import BEFORE, Job, Moment, stopped

DATASETS = ("criteo-kaggle", "criteo-terabyte", "avazu")
PART = "datasets.writer:StoreWriter.finish_part"


@pytest.fixture(autouse=True)
def small_parts() -> Iterator[None]:
    with stopping.small_parts():
        yield


@pytest.fixture
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    """A preparation of a data set, by default Kaggle's."""
    return make_job(getattr(request, "param", "criteo-kaggle"), tmp_path)


def make_job(dataset: str, folder: Path) -> Job:
    options: dict[str, Any] = {}
    match dataset:
        case "criteo-kaggle":
            files = [save(folder / f"{n}.txt", criteo_text(criteo_lines(40, n)), zipped=n == 1) for n in range(2)]
            options = {"min_count": 2}
        case "criteo-terabyte":
            files = [save(folder / f"day_{n}", criteo_text(criteo_lines(30, n), "\r\n")) for n in range(3)]
            options = {"days": "some", "hash_size": 50, "drop_negatives": 0.5, "vocab": "train"}
        case _:
            files = [save(folder / "train.csv", avazu_text(avazu_lines(80)))]
            options = {"vocab": "train"}
    return Job(dataset, [str(path) for path in files], options, str(folder / "data"))


def undisturbed(job: Job) -> bytes:
    """The meta.json, which has the checksums of all files."""
    return (replace(job, root=job.root + "-undisturbed").run() / META).read_bytes()


def partial(job: Job) -> Path:
    return Path(job.root) / f".{job.dataset}.partial"


def points(job: Job) -> list[dict[str, Any]]:
    """The checkpoints in the journal."""
    found = journal._read(partial(job) / JOURNAL)
    return [] if found is None else found["checkpoints"]


@dataclass
class Read:
    """What is read of the sources."""

    counted: list[str] = field(default_factory=list)  # names of files whose lines were counted
    blocks: list[tuple[int, int]] = field(default_factory=list)  # (file, number of the first line)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    found = Read()
    parse, count = text.parse, click_log.count_lines

    def parsed(raw: text.Raw, *args: Any) -> text.Block:
        found.blocks.append((raw.source, raw.first_line))
        return parse(raw, *args)

    def counted(path: Path, *args: Any) -> int:
        found.counted.append(path.name)
        return count(path, *args)

    monkeypatch.setattr(text, "parse", parsed)
    monkeypatch.setattr(click_log, "count_lines", counted)
    return found


@pytest.mark.parametrize("job", DATASETS, indirect=True)
def test_stopped_again_and_again_it_goes_on_and_reads_nothing_twice(job: Job, read: Read) -> None:
    expected = undisturbed(job)
    runs = 0
    while True:
        before = points(job)
        read.blocks.clear()
        read.counted.clear()
        going_on = stopped(job, Moment(PART, 2))
        if before:
            state = before[-1]["state"]
            assert all(block > (state["position"]["source"], state["position"]["line"]) for block in read.blocks)
            assert state["stage"] == "read" or not read.blocks
            assert set(read.counted) <= {Path(path).name for path in job.sources[state["position"]["source"] + 1 :]}
        if not going_on:
            break
        assert len(points(job)) >= 1 and points(job) != before
        runs += 1
    assert runs > 6
    assert (Path(job.root) / job.dataset / META).read_bytes() == expected
    assert not partial(job).exists()


MOMENTS = (
    Moment("datasets.npy:NpyStream.append", 12, BEFORE),
    Moment("datasets.npy:NpyStream.append", 20),
    Moment("datasets.journal:Journal.add", 3, BEFORE),
    Moment("datasets.journal:os.fsync", 30),
    Moment("datasets.vocabulary:distinct", 20),
    Moment("datasets.vocabulary:unpack", 50, BEFORE),
    Moment("datasets.vocabulary:NpyStream.close", 5),
    Moment("datasets.writer:StoreWriter.append_ids", 1),
    Moment("datasets.writer:StoreWriter.append_ids", 3, BEFORE),
    Moment("datasets.writer:StoreWriter.remove_keys", 1, BEFORE),
    Moment("datasets.npy:NpyStream.abandon", 2),
    Moment("datasets.writer:StoreWriter.remove_keys", 1),
    Moment("datasets.npy:NpyStream.close", 4),
    Moment("datasets.writer:write_whole", 1, BEFORE),
    Moment("datasets.writer:write_whole", 1),
    Moment("datasets.store:_put_in_place", 1, BEFORE),
)


def killed(folder: Path, jobs: list[tuple[Job, Moment]]) -> None:
    """Run the jobs in other processes, each of which dies at its moment."""
    stopping.write_jobs(folder / "jobs", jobs)
    command = [sys.executable, "-m", "tests.datasets.stopping", str(folder / "jobs")]
    came = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert [moment for (_, moment), yes in zip(jobs, came, strict=True) if yes != "True"] == []


@pytest.mark.parametrize(
    ("dataset", "moments"), [("criteo-kaggle", MOMENTS), ("criteo-terabyte", MOMENTS[::3]), ("avazu", MOMENTS[1::3])]
)
def test_killed_at_any_moment_it_goes_on(tmp_path: Path, dataset: str, moments: tuple[Moment, ...]) -> None:
    job = make_job(dataset, tmp_path)
    jobs = [(replace(job, root=f"{job.root}-{number}"), moment) for number, moment in enumerate(moments)]
    killed(tmp_path, jobs)
    expected = undisturbed(job)
    for again, moment in jobs:
        said: list[str] = []
        with pytest.raises(UserError, match=r"is not prepared"):
            open_set(dataset, Path(again.root))  # what is half made is no set
        assert (again.run(said.append) / META).read_bytes() == expected, moment
        assert any("goes on where it was stopped" in line for line in said), moment
        assert sorted(path.name for path in Path(again.root).iterdir()) == [f".{dataset}.lock", dataset]
        assert len(list((Path(again.root) / dataset).iterdir())) == 10


def test_killed_while_it_takes_the_place_of_a_set_it_goes_on(job: Job, tmp_path: Path) -> None:
    moments = [Moment("pathlib:Path.rename", 1), Moment("pathlib:Path.rename", 2)]
    jobs = [(replace(job, root=f"{job.root}-{number}"), moment) for number, moment in enumerate(moments)]
    for again, _ in jobs:
        replace(again, options={}).run()
    killed(tmp_path, jobs)
    expected = undisturbed(job)
    assert (Path(jobs[1][0].root) / job.dataset / META).read_bytes() == expected  # it was in its place already
    open_set(job.dataset, Path(jobs[1][0].root))
    for again, _ in jobs:
        assert (again.run() / META).read_bytes() == expected
        assert sorted(path.name for path in Path(again.root).iterdir()) == [f".{job.dataset}.lock", job.dataset]
        assert len(list((Path(again.root) / job.dataset).iterdir())) == 10


@mock.patch.object(vocabulary, "BLOCK", 1 << 17)
@mock.patch.object(text, "BLOCK_BYTES", 1 << 20)
def test_killed_from_outside_while_it_replaces_a_set_it_goes_on(tmp_path: Path) -> None:
    """With the command line, and a set of other options in its place, which stays until the new one is whole."""
    path = save(tmp_path / "train.txt", criteo_text(criteo_lines(300)) * 50)
    job = Job("criteo-kaggle", [str(path)], {"vocab": "train"}, str(tmp_path / "data"))
    before = (replace(job, options={"hash_size": 3}).run() / META).read_bytes()
    script = f"""
import sys, time
from datasets import text, writer
from bench.cli import main
text.BLOCK_BYTES, writer.PART_S = 100_000, 0.0
add = writer.Journal.add
writer.Journal.add = lambda *args: (add(*args), time.sleep(0.1))
sys.exit(main(["data", "prepare", "criteo-kaggle", "--source", {str(path)!r}, "--option", "vocab=train"]))
"""
    environment = os.environ | {"SLIPBENCH_DATA": job.root}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
    while len(points(job)) < 1 and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -9
    assert (Path(job.root) / "criteo-kaggle" / META).read_bytes() == before
    assert points(job)[-1]["state"]["stage"] == "read"
    assert (job.run() / META).read_bytes() == undisturbed(job)


@pytest.mark.parametrize("function", ["datasets.text:parse", "datasets.vocabulary:Exact.add", PART])
def test_interrupted_it_leaves_no_thread_behind(job: Job, function: str) -> None:
    before = set(threading.enumerate())
    assert stopped(job, Moment(function, 3))
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("function", ["datasets.vocabulary:Exact.add", "datasets.writer:StoreWriter.append_ids"])
def test_stopped_after_reading_it_reads_no_source_again(job: Job, read: Read, function: str) -> None:
    assert stopped(job, Moment(function, 2))
    read.blocks.clear()
    read.counted.clear()
    found = (job.run() / META).read_bytes()
    assert (read.blocks, read.counted) == ([], [])
    assert found == undisturbed(job)


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("hash_size", [0, 9])
def test_stopped_while_ids_are_given_it_counts_none_again(
    job: Job, monkeypatch: pytest.MonkeyPatch, hash_size: int, damaged: bool
) -> None:
    job = replace(job, options=job.options | {"hash_size": hash_size})
    expected = undisturbed(job)
    assert stopped(job, Moment("datasets.writer:StoreWriter.append_ids", 2))
    if damaged:
        os.truncate(partial(job) / f"{writer.VOCABULARY}25.npy", 70)
    count = mock.Mock(side_effect=vocabulary._count)
    monkeypatch.setattr(vocabulary, "_count", count)
    assert (job.run() / META).read_bytes() == expected
    assert count.called == damaged


def test_stopped_before_the_first_part_it_leaves_nothing(job: Job) -> None:
    said: list[str] = []
    assert stopped(job, Moment("datasets.npy:NpyStream.append", 1), said.append)
    assert not partial(job).exists()
    assert not any("the same command goes on" in line for line in said)


def test_it_says_that_it_is_stopped_and_that_it_goes_on(job: Job) -> None:
    said: list[str] = []
    assert stopped(job, Moment(PART, 2), said.append)
    assert said[-1] == "criteo-kaggle: stopped; the same command goes on there"
    said.clear()
    job.run(said.append)
    assert said[0] == f"criteo-kaggle: goes on where it was stopped; what is in {partial(job)} is kept"
    assert not any("on the disk" in line for line in said)  # nothing is estimated again


def first_block(job: Job, read: Read) -> tuple[int, int]:
    """Prepare, check what it gives, and say where it began to read."""
    read.blocks.clear()
    found = (job.run() / META).read_bytes()
    begin = min(read.blocks)
    assert found == undisturbed(job)
    assert len(list((Path(job.root) / job.dataset).iterdir())) == 10
    return begin


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"min_count": 1}, "min_count=2"),
        ({"min_count": 2, "vocab": "train"}, "vocab=all"),
        ({"min_count": 2, "hash_size": 9}, "hash_size=0"),
    ],
)
def test_parts_of_other_options_are_discarded_only_where_that_is_said(
    job: Job, change: dict[str, Any], named: str
) -> None:
    assert stopped(job, Moment(PART, 4))
    (partial(job) / "left").touch()
    other = replace(job, options=change)
    with pytest.raises(UserError, match=rf"a preparation with {named} was stopped.*give the same options.*--restart"):
        other.run()
    assert points(job)  # still there
    sources = [Path(path) for path in other.sources]
    made = prepare(other.dataset, sources, other.options, Path(other.root), restart=True)
    assert (made.path / META).read_bytes() == undisturbed(other)


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (criteo_kaggle, "VERSION", 99),
        (writer, "FORMAT_VERSION", 99),
        (writer, "tool_version", lambda: "99"),
    ],
)
def test_in_another_version_it_starts_anew(
    job: Job, read: Read, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, value: Any
) -> None:
    assert stopped(job, Moment(PART, 4))
    monkeypatch.setattr(owner, name, value)
    monkeypatch.setattr("datasets.store.is_current", lambda meta, generator: True)
    assert first_block(job, read) == (0, 1)


def change(path: str) -> None:
    """Other lines, of the same size, at another time."""
    content = Path(path).read_bytes()
    Path(path).write_bytes(content.translate(bytes.maketrans(b"01", b"10")))
    os.utime(path, ns=(7, 7))


def test_with_a_source_that_changed_it_starts_anew(job: Job, read: Read) -> None:
    for number, path in enumerate(job.sources):
        save(Path(path), criteo_text(criteo_lines(40, number)))
        assert stopped(job, Moment(PART, 4))
        change(path)
        assert first_block(job, read) == (0, 1)


def test_with_sources_in_another_order_it_starts_anew(job: Job, read: Read) -> None:
    assert stopped(job, Moment(PART, 4))
    assert first_block(replace(job, sources=job.sources[::-1]), read) == (0, 1)


@pytest.mark.parametrize("job", ["criteo-terabyte"], indirect=True)
@pytest.mark.parametrize(("changed", "begin"), [(2, (2, 1)), (1, (1, 1)), (0, (0, 1))])
def test_a_day_that_changed_leaves_those_before_it_as_they_are(
    job: Job, read: Read, changed: int, begin: tuple[int, int]
) -> None:
    while len(points(job)) < 3:
        assert stopped(job, Moment(PART, 2))
    change(job.sources[changed])
    assert first_block(job, read) == begin


@pytest.mark.parametrize("job", ["criteo-terabyte"], indirect=True)
@pytest.mark.parametrize("begun", [2, 3])
def test_a_last_day_that_is_no_longer_the_last_is_read_again(job: Job, read: Read, begun: int) -> None:
    fewer, more = replace(job, sources=job.sources[:2]), job
    first, then = (fewer, more) if begun == 2 else (more, fewer)
    while len(points(first)) < begun:
        assert stopped(first, Moment(PART, 2))
    assert first_block(then, read) == (0, 1)


def test_a_bad_line_that_is_then_skipped_keeps_what_was_before_it(job: Job, read: Read) -> None:
    path = Path(job.sources[0])
    rows = path.read_text().splitlines()
    rows[30] = "bad"
    path.write_text("\n".join(rows))
    with pytest.raises(UserError, match=r"0\.txt, line 31: expected 40 columns"):
        job.run()
    line = points(job)[-1]["state"]["position"]["line"]
    assert line > 10
    skipping = replace(job, options=job.options | {"on_bad_row": "skip"})
    assert first_block(skipping, read) == (0, line + 1)


def test_skipped_lines_are_not_taken_over_by_who_refuses_them(job: Job, read: Read) -> None:
    path = Path(job.sources[0])
    path.write_text(path.read_text() + "bad\n")
    skipping = replace(job, options=job.options | {"on_bad_row": "skip"})
    while not points(job) or not points(job)[-1]["kept"]["dropped"]:
        assert stopped(skipping, Moment(PART, 2))
    with pytest.raises(UserError, match=r"0\.txt, line 41: expected 40 columns"):
        job.run()


def flip(content: bytes, what: bytes, to: bytes) -> bytes:
    assert what in content
    return content.replace(what, to, 1)


def test_with_a_damaged_journal_it_starts_anew(job: Job, read: Read) -> None:
    assert stopped(job, Moment(PART, 4))
    path = partial(job) / JOURNAL
    content = path.read_bytes()
    damages = (
        *(content[:length] for length in (0, 1, 64, 65, len(content) // 2, len(content) - 1)),
        *(b"{}", b"[" * 100_000, b"\xff\xfe" + content, content[65:], content * 2),
        *(flip(content, *change) for change in ((b'"uses": 2', b'"uses": 1'), (b'"dense"', b'"lense"'))),
    )
    for damage in damages:
        path.write_bytes(damage)
        assert journal._read(path) is None
        assert Journal.open(partial(job), {}, []).checkpoints == []
    assert first_block(job, read) == (0, 1)


@pytest.mark.parametrize("part", ["dense", "keys", "labels"])
def test_with_a_file_that_is_cut_off_it_starts_anew(job: Job, read: Read, part: str) -> None:
    assert stopped(job, Moment(PART, 4))
    path = partial(job) / f"train_{part}.npy"
    os.truncate(path, path.stat().st_size - 1)
    assert first_block(job, read) == (0, 1)


def test_what_was_written_after_the_last_part_is_cut_off(job: Job) -> None:
    assert stopped(job, Moment(PART, 4))
    for path in partial(job).glob("*.npy"):
        path.write_bytes(path.read_bytes() + b"half a block" * 100_000)
    (partial(job) / "test_dense.npy").write_bytes(b"a split that no part has")
    (partial(job) / f"{JOURNAL}.new").write_text("half a journal")
    assert (job.run() / META).read_bytes() == undisturbed(job)
    assert len(list((Path(job.root) / job.dataset).iterdir())) == 10


def test_a_part_is_on_the_disk_before_the_journal_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(NpyStream, "sync", lambda self: order.append(self._file.name))
    monkeypatch.setattr(journal, "write_whole", lambda path, text: order.append(path.name))
    with StoreWriter(tmp_path, "toy", {}) as made:
        for split in ("train", "test"):
            made.append_keys(split, np.zeros((1, 2), np.float32), np.ones((1, 3), np.int64), np.ones(1, np.int32))
        made.finish_part(position=1)
    assert order[-1] == JOURNAL
    assert {Path(name).name for name in order[:-1]} == {
        f"{split}_{part}.npy" for split in ("train", "test") for part in ("dense", "keys", "labels")
    }
