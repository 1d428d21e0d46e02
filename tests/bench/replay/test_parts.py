"""Measured parts: that each has its work, and that the constants explain what was measured."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from baselines.hot_placement import HotPlacement
from baselines.job import Job
from baselines.work import DEVICE, HOST, STEP
from bench.replay import calibrate, parts
from bench.replay.parts import REPEATS, Stopwatch, base, each, measures
from bench.replay.profile import Profile
from datasets.errors import UserError
from datasets.loader import Batch
from tests.small import make_job

NOTHING = Profile(name="", summary="")


@pytest.fixture
def watch() -> Stopwatch:
    return Stopwatch(make_job(), "a test")


def waiting(job: Job, seconds: float, rows: int) -> None:
    time.sleep(seconds)
    job.clock.count(rows_read=rows)


def test_a_part_is_measured_with_the_work_that_it_records(watch: Stopwatch) -> None:
    found = watch.measure({"slow": lambda _: waiting(watch.job, 0.004, 5)}, repeats=3)["slow"]
    (steps,) = found.work.steps
    assert steps.amounts.tolist() == [[5]] * 3  # without the round that warms up
    assert found.seconds >= 3 * 0.004


def test_the_cost_of_a_unit_is_the_time_by_the_amount(watch: Stopwatch) -> None:
    found = watch.measure({"slow": lambda _: waiting(watch.job, 0.004, 5)}, repeats=3)
    constant = watch.solve(NOTHING, each("rows_read", HOST), found).constants[HOST, "rows_read"]
    assert constant.each_s == pytest.approx(found["slow"].seconds / 15)
    assert (constant.how, constant.source) == ("measured", "a test")


def test_a_step_of_few_inputs_tells_what_is_not_counted(watch: Stopwatch) -> None:
    def train(batch: Batch) -> None:
        waiting(watch.job, 0.004, len(batch))

    known = watch.solve(NOTHING, each("rows_read", HOST), watch.measure({"p": lambda _: waiting(watch.job, 0, 10**9)}))
    assert watch.overhead(known, train, "any").constants[STEP, "any"].each_s >= 0.004


@pytest.mark.parametrize(
    ("system", "places"),
    [
        ("dlrm", {(HOST, "rows_read"), (DEVICE, "dense_flops"), (DEVICE, "rows_written"), (STEP, "any")}),
        ("fae", {(HOST, "lookups_placed"), (HOST, "lookups_scanned"), (DEVICE, "lookups_updated")}),
        ("hotline", {(HOST, "lookups_split"), (HOST, "lookups_unique")}),
        ("torchrec", {(DEVICE, "rows_read", "torchrec"), (STEP, "any", "torchrec")}),
        ("xdl-cpu", {("net", "net_bytes", "xdl-cpu"), (HOST, "dense_flops", "xdl-cpu"), (STEP, "any", "xdl-cpu")}),
        ("xdl", {("net", "net_trips", "xdl"), (DEVICE, "dense_flops", "xdl"), (STEP, "any", "xdl")}),
    ],
)
def test_a_system_s_parts_give_its_constants(system: str, places: set[tuple[str, ...]]) -> None:
    watch = Stopwatch(make_job(system), "a test")
    found = base(watch, NOTHING)
    for measure in measures(system):
        found = measure(watch, found, system)
    assert places <= found.constants.keys()
    assert {(c.how, c.repeats) for c in found.constants.values()} == {("measured", REPEATS)}
    assert found.constants[HOST, "rows_read"].each_s > 0


def test_a_system_of_another_package_has_its_own_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(watch: Stopwatch, profile: Profile, system: str) -> Profile:
        return profile

    monkeypatch.setattr(parts, "load_system", lambda name: SimpleNamespace(measure=measure))
    assert measures("theirs") == (measure,)
    monkeypatch.setattr(parts, "load_system", lambda name: SimpleNamespace())
    assert measures("theirs") == ()


def test_updating_hot_rows_again_has_twice_the_lookups(watch: Stopwatch) -> None:
    placement = HotPlacement(watch.job)
    placement.place(np.arange(watch.job.schema.num_rows))
    placement.hot_is_current = True
    updated: list[int] = []
    update = placement.hot.update
    placement.hot.update = lambda places, grads: (updated.append(len(places)), update(places, grads))[1]  # type: ignore[method-assign, func-returns-value]
    watch.measure(parts._parts_of_step(placement), repeats=1)
    assert updated[1::2] == [2 * number for number in updated[::2]] and len(updated) == 4


def test_another_set_than_that_of_the_runs_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(schema=SimpleNamespace(num_rows=70))
    monkeypatch.setattr(calibrate, "open_set", lambda name, report: other)
    shape = calibrate.Shape("synthetic", "rm2", "sgd", "fp32", "cpu", 8, 1)
    calibrate._check_set(shape, {7, 70}, print)
    with pytest.raises(UserError, match="tables of 70 rows, and that of the runs had 7; set SLIPBENCH_DATA"):
        calibrate._check_set(shape, {7}, print)
