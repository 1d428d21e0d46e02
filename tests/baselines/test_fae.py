"""FAE: the profile, the schedule, and the copies at swaps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from baselines import fae
from baselines.fae import FaePlacement, HotColdSchedule, ShuffleScheduler
from baselines.fae_profile import AccessLog, estimate_hot_rows, make_profile, search_threshold
from baselines.hot_placement import HotPlacement
from baselines.system import Run
from datasets.loader import epoch_order, read
from tests.small import build, epoch_runs, make_job, make_schema

HOT = {"layout.hot_bytes": "3000"}  # of 13,984 bytes of rows: some inputs are hot and some cold


def test_the_scheduler_halves_its_rate_when_the_loss_goes_up_down_to_one() -> None:
    scheduler = ShuffleScheduler()
    losses = [1.0, 1.1, 1.2, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7]
    assert [scheduler.update(loss) for loss in losses] == [50, 25, 12.5, 6.25, 3.125, 1.5625, 1, 1, 1]


def test_the_scheduler_doubles_its_rate_after_four_decreases_up_to_a_hundred() -> None:
    scheduler = ShuffleScheduler(rate=25)
    rates = [scheduler.update(1 - step / 100) for step in range(14)]
    assert rates == [25, 25, 25, 25, 50, 50, 50, 50, 100, 100, 100, 100, 100, 100]


def test_an_increase_starts_the_count_of_decreases_again() -> None:
    scheduler = ShuffleScheduler()
    assert [scheduler.update(loss) for loss in (5, 4, 3, 2, 2.5, 2, 1, 0.5, 0.2)] == [50] * 4 + [25] * 4 + [50]


def test_the_size_of_a_hot_set_is_estimated_within_its_interval() -> None:
    random = np.random.default_rng(0)
    table = random.zipf(1.5, 1_000_000)
    log = AccessLog(make_schema([len(table)]), table, 1_000_000, 1.0, 1 << 20, random)
    exact = np.count_nonzero(table >= 5)
    assert exact <= log.estimate(5 / 1_000_000) <= 1.1 * exact  # the paper's Fig. 10: within 10 %
    assert estimate_hot_rows(table, None, 5) == exact


def test_a_tables_accesses_are_those_of_all_steps() -> None:
    schema = make_schema([50, 60], lookups=(1, 2), steps=21)
    log = AccessLog(schema, np.zeros(schema.num_rows, np.int64), 1000, 0.05, 10, np.random.default_rng(0))
    assert log.cutoffs(0.01).tolist() == pytest.approx([0.01 * 21 * 50, 0.01 * 42 * 50])


def test_the_threshold_is_the_lowest_that_fits_the_budget() -> None:
    counts = np.repeat([1000, 100, 10, 1, 0], [10, 100, 1000, 10_000, 8890])
    schema = make_schema([len(counts)])
    rows, rule = search_threshold(schema, counts, 1_000_000, 0.05, 1110, np.random.default_rng(0))
    assert set(rows) == set(range(1110)) | {0}
    assert rule.startswith("threshold")


def test_a_threshold_that_cannot_be_resolved_gives_way_to_the_top_rows() -> None:
    counts = np.repeat([50, 1, 0], [10, 5000, 5000])  # between 10 rows and 5010 there is no threshold
    rows, rule = search_threshold(make_schema([len(counts)]), counts, 1000, 0.05, 600, np.random.default_rng(0))
    assert len(rows) == 600
    assert rule == "top 600 rows by count"


def test_the_profile_is_made_once_and_read_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_job("fae", settings=HOT, cache_dir=tmp_path)
    made = build("fae", first).placement
    assert first.clock.prepare_s > 0
    monkeypatch.setattr("baselines.fae_profile.make_profile", lambda job: pytest.fail("profiled again"))
    second = make_job("fae", settings=HOT, cache_dir=tmp_path)
    read = build("fae", second).placement
    assert isinstance(made, HotPlacement) and isinstance(read, HotPlacement)
    assert torch.equal(made.hot_rows, read.hot_rows)
    assert "FAE profile reused" in second.notes


def test_another_budget_is_another_profile(tmp_path: Path) -> None:
    build("fae", make_job("fae", settings=HOT, cache_dir=tmp_path))
    build("fae", make_job("fae", settings={"layout.hot_bytes": "2000"}, cache_dir=tmp_path))
    assert len(list(tmp_path.glob("*.npz"))) == 2


def test_the_classifier_calls_an_input_hot_when_all_its_rows_are() -> None:
    job = make_job("fae", settings=HOT)
    made = make_profile(job)
    expected = np.isin(job.train.row_ids(np.arange(len(job.train))), made.rows).all(axis=1)
    assert (made.inputs == expected).all()
    assert 0.1 < expected.mean() < 0.9


@pytest.mark.parametrize("schedule", ["shuffle", "cold-first"])
def test_runs_alternate_from_cold_and_make_as_many_steps_as_in_order(schedule: str) -> None:
    job = make_job("fae", settings=HOT | {"fae.schedule": schedule})
    system = build("fae", job)
    runs = list(epoch_runs(job, system, 0))
    kinds = [run.kind for run in runs]
    assert kinds[:2] == ["cold", "hot"]
    assert kinds.count("hot") == (1 if schedule == "cold-first" else 2)
    inputs = np.concatenate([run.inputs for run in runs])
    assert sorted(inputs) == list(range(len(job.train)))
    assert sum(-(-len(run.inputs) // job.batch_size) for run in runs) == 7
    for run in runs:
        if run.kind == "hot":
            assert system.placement.is_hot(run.inputs).all()  # type: ignore[attr-defined]
            assert len(run.inputs) % job.batch_size == 0


NUM_COLD, NUM_HOT = 40, 40


@pytest.fixture
def chosen() -> FaePlacement:
    """For mini-batches of one input: the first 40 are cold, the others hot."""
    job = make_job("fae", batch_size=1, num_inputs=NUM_COLD + NUM_HOT, epochs=4, settings=HOT)
    placement = build("fae", job).placement
    assert isinstance(placement, FaePlacement)
    placement.is_hot = lambda inputs: inputs >= NUM_COLD  # type: ignore[method-assign]
    return placement


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The validation losses to come, one a schedule, for a test to fill in."""
    to_come: list[float] = []
    monkeypatch.setattr(fae, "scores", lambda placement, split: None)
    monkeypatch.setattr(fae, "log_loss", lambda logits, labels: to_come.pop(0))
    return to_come


def order_of(num_cold: int, num_hot: int) -> np.ndarray:
    return np.concatenate([np.arange(num_cold), NUM_COLD + np.arange(num_hot)])


def lengths(runs: Iterable[Run], kind: str) -> list[int]:
    return [len(run.inputs) for run in runs if run.kind == kind]


def test_schedules_become_shorter_while_the_validation_loss_rises(chosen: FaePlacement, losses: list[float]) -> None:
    losses += range(100)
    schedule, order = HotColdSchedule(chosen, chosen.job), order_of(32, 40)
    first, second = (list(schedule(order)) for _ in range(2))
    assert (lengths(first, "cold"), lengths(first, "hot")) == ([16, 16], [20, 20])  # one loss tells nothing yet
    assert (lengths(second, "cold")[:3], lengths(second, "hot")[:3]) == ([8, 4, 2], [10, 5, 3])


def test_schedules_become_longer_while_the_validation_loss_falls(chosen: FaePlacement, losses: list[float]) -> None:
    losses += range(100, 0, -1)
    schedule, order = HotColdSchedule(chosen, chosen.job), order_of(32, 40)
    assert [lengths(schedule(order), "cold") for _ in range(4)] == [[16, 16]] * 3 + [[32]]


def test_half_and_half_is_two_schedules_of_any_number_of_mini_batches(
    chosen: FaePlacement, losses: list[float]
) -> None:
    for num_cold in range(2, NUM_COLD + 1):
        for num_hot in range(2, NUM_HOT + 1):
            losses[:] = [1.0] * 100
            runs = HotColdSchedule(chosen, chosen.job)(order_of(num_cold, num_hot))
            assert [run.kind for run in runs] == ["cold", "hot"] * 2, (num_cold, num_hot)


def test_nothing_is_validated_after_the_last_schedule(chosen: FaePlacement, losses: list[float]) -> None:
    losses += [3.0, 2.0, 1.0]
    job = replace(chosen.job, epochs=2)
    schedule, order = HotColdSchedule(chosen, job), order_of(8, 8)
    runs = [run for _ in range(job.epochs) for run in schedule(order)]
    assert [run.kind for run in runs] == ["cold", "hot"] * 4
    assert not losses


def test_inputs_keep_the_order_of_the_epoch_within_their_kind() -> None:
    job = make_job("fae", settings=HOT)
    runs = list(epoch_runs(job, build("fae", job), 0))
    hot = np.concatenate([run.inputs for run in runs if run.kind == "hot"])
    order = epoch_order(len(job.train), job.seed, 0)
    assert (hot == order[np.isin(order, hot)]).all()


def test_a_hot_row_is_the_same_on_host_and_device_after_every_swap() -> None:
    job = make_job("fae", settings=HOT, optimizer="adagrad")
    system = build("fae", job)
    placement = system.placement
    assert isinstance(placement, HotPlacement)
    swaps = 0
    for run in epoch_runs(job, system, 0):
        if run.kind == "hot" or swaps:
            assert torch.equal(placement.host.weights[placement.hot_rows], placement.hot.weights)
            assert torch.equal(placement.host.state[placement.hot_rows], placement.hot.state)
            swaps += 1
        if run.kind == "hot":
            placement.train(read(job.train, run.inputs))
    assert swaps > 2


def test_rows_read_in_the_middle_of_a_hot_run_are_the_trained_ones() -> None:
    job = make_job("fae", settings=HOT)
    system = build("fae", job)
    placement = system.placement
    assert isinstance(placement, HotPlacement)
    ids = torch.from_numpy(job.train.row_ids(np.arange(len(job.train))))
    for run in epoch_runs(job, system, 0):
        assert torch.equal(placement.lookup(ids), placement.rows()[ids])
        if run.kind == "hot":
            placement.hot.weights += 1  # stands for training on the device
            assert torch.equal(placement.lookup(ids), placement.rows()[ids])
            return
