"""The benchmark measures what it says: contenders do the same work, and targets read the right ratio off them."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from bench.speed import groups, scaling, suite
from bench.speed.contenders import InTraining, Repeated, Sample, matmul
from bench.speed.groups import Data, Maker
from bench.speed.peer import Peer
from bench.speed.targets import Limit, Round, Target, faster, share_of_peak, time_saved, trained_faster, waiting
from bench.stats import paired_difference
from tests.small import hot_settings, make_job


def taken(**samples: Sample) -> Round:
    return {name.replace("_", " "): sample for name, sample in samples.items()}


def sample(seconds: float, seen: int = 100, trained: int = 100, skipped: int = 0, **more: float) -> Sample:
    return Sample("x", 1, seconds, seen, trained, skipped, **more)  # type: ignore[arg-type]


def test_faster_is_inputs_a_second_over_those_of_the_other() -> None:
    target = faster("a", "b", 1.5, 3.0, "a / b")
    estimate = target.estimate([taken(a=sample(1.0), b=sample(2.0)), taken(a=sample(1.0), b=sample(8.0))])
    assert estimate is not None
    assert estimate.value == pytest.approx(4.0)  # the geometric mean of 2 and 8
    assert target.limit.verdict(4.0) == "reached as wanted"
    assert target.limit.verdict(1.5) == "reached"
    assert target.limit.verdict(1.49) == "missed"


def test_a_bound_from_above_is_reached_below_it() -> None:
    target = waiting("a", 0.02, 0.005)
    estimate = target.estimate([taken(a=sample(2.0, data_wait_s=0.02))])
    assert estimate is not None and estimate.value == pytest.approx(0.01)
    assert [target.limit.verdict(value) for value in (0.005, 0.01, 0.03)] == ["reached as wanted", "reached", "missed"]


def test_cost_is_by_trained_inputs() -> None:
    target = trained_faster("a", "b", 0.95, 1.0)
    estimate = target.estimate([taken(a=sample(1.0, trained=50), b=sample(1.0))])
    assert estimate is not None and estimate.value == pytest.approx(0.5)


def test_share_of_peak_is_of_the_rate_of_the_same_round() -> None:
    one = taken(a=sample(9.0, dense_s=2.0, dense_flops=100), peak=sample(1.0, seen=100))
    estimate = share_of_peak("a", "peak", 0.6, 0.8).estimate([one])
    assert estimate is not None and estimate.value == pytest.approx(0.5)


def test_time_saved_is_of_what_the_skipped_inputs_would_have_cost() -> None:
    none, skipping = sample(10.0), sample(8.2, trained=80, skipped=20)
    estimate = time_saved("s", "n", 0.85, 0.95).estimate([taken(s=skipping, n=none)])
    assert estimate is not None and estimate.value == pytest.approx(0.9)
    nothing = time_saved("s", "n", 0.85, 0.95).estimate([taken(s=none, n=none)])
    assert nothing is None
    both = time_saved("s", "n", 0.85, 0.95).estimate([taken(s=none, n=none), taken(s=skipping, n=none)])
    assert both is not None and (both.value, both.n) == (pytest.approx(0.9), 1)
    assert suite.line(time_saved("s", "n", 0.85, 0.95).limit, nothing).verdict == "not measured"


def test_rounds_without_a_contender_do_not_count() -> None:
    assert faster("a", "b", 1, 1, "a / b").estimate([taken(a=sample(1.0))]) is None


@pytest.mark.parametrize("system", ["dlrm", "fae", "hotline", "slipstream"])
def test_a_round_is_an_epoch_of_the_system(system: str) -> None:
    job = make_job(system, num_inputs=900, batch_size=64, settings=hot_settings(system))
    contender = InTraining(system, system, replace(job, epochs=3))
    for number in range(2):
        done = contender.round(number)
        assert (done.seen, done.trained + done.skipped) == (900, 900)
        assert done.train_s > 0 and done.dense_s is not None and 0 < done.dense_s < done.train_s
    contender.close()


def test_the_peer_trains_on_the_same_inputs() -> None:
    job = make_job("torchrec", num_inputs=600, batch_size=64, lr=0.1)
    peer = Peer("peer", job)
    before = [parameter.detach().clone() for parameter in peer._model.parameters()]
    done = peer.round(0)
    assert (done.seen, done.trained) == (600, 600)
    after = list(peer._model.parameters())
    assert len(before) == len(after) and all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_rates_count_all_that_was_done() -> None:
    calls: list[int] = []
    done = Repeated("work", 7, lambda: calls.append(1), times=3).round(0)
    assert (done.seen, len(calls)) == (21, 4)  # once before, to warm up
    assert matmul("m", torch.float32).round(0).seen == 100 * 2 * 2048 * 512 * 512


def test_results_are_written_with_their_environment(tmp_path: Path) -> None:
    rounds = [taken(a=sample(100.0)), taken(a=sample(100.0)), taken(a=sample(100.0))]
    target = Target(Limit("t", 1.0, 2.0), lambda one: one["a"].per_s, ("a",))
    found = suite.line(target.limit, target.estimate(rounds))
    suite.write(tmp_path, "targets", [asdict(found)])
    suite.write_env(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"targets.csv", "env.json"}
    assert pd.read_csv(tmp_path / "targets.csv")["value"].tolist() == [1.0]
    assert "t  " in found.text and "reached" in found.text


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        ([(0.7001, 0.7), (0.6999, 0.7), (0.70005, 0.7)], "reached as wanted"),
        ([(0.7001, 0.7), (0.7001, 0.7), (0.70011, 0.7)], "missed"),  # a difference, however small
        ([(0.71, 0.7), (0.69, 0.7), (0.7, 0.7)], "missed"),  # too noisy to tell
        ([(0.7, 0.7)], "not measured"),
    ],
)
def test_equal_accuracy_takes_an_interval_that_holds_none_and_is_narrow(
    pairs: list[tuple[float, float]], verdict: str
) -> None:
    assert suite._same(paired_difference(pairs)) == verdict


def test_a_case_of_the_matrix_has_every_system_that_can_run_it() -> None:
    cases = groups.matrix(Maker(Data(Path("nowhere"), 1, print), 1, 1), rows=1)
    assert len({tuple(case.values()) for case, _ in cases}) == len(cases) == 12


def test_growth_covers_every_axis_and_stays_within_memory() -> None:
    found = scaling.points(threads=2, free_bytes=2 << 30)
    assert {point.axis for point in found} == set(scaling.AXES)
    rows = [point.rows for point in found if point.axis == "rows"]
    assert rows == [1_000_000, 3_400_000, 10_000_000]
    assert [point.threads for point in found if point.axis == "threads"] == [1, 2]


def test_a_point_is_trained_and_drawn_to_its_sizes(tmp_path: Path) -> None:
    small = scaling.Point("lookups", rows=2600, batch_size=64, threads=1, lookups=3, inputs=256)
    split = scaling.draw(small)
    assert split.ids.shape == (256, 26 * 3)
    assert split.ids.min() >= 1 and split.ids.max() < 100
    ours = b"x" * (1 << 30)  # which a process of its own does not have
    found = scaling._in_a_process(small)
    assert found["samples_per_s"] > 0 and 10_000_000 < found["peak_rss_bytes"] < len(ours)
    table = [{**asdict(replace(small, axis=axis)), "round": 0, **found} for axis in scaling.AXES]
    suite.write(tmp_path, "growth", table)
    scaling.plot_growth(tmp_path)
    assert (tmp_path / "growth.png").stat().st_size > 10_000
