"""Replay of hand-made work on hand-made hardware."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from baselines.work import DEVICE, HOST, LINK, STEP, Seq, Stage, Steps
from bench.replay.model import replay
from bench.replay.profile import FABRIC
from tests.bench.replay.small import between, constant, plain_steps, profile, side_by_side, work

HARDWARE = profile(
    host__rows_read=constant(0.5, per_s=64.0),  # half a second and a second for the 64 bytes of a row
    link__bytes=constant(per_s=100.0),
    device__dense_flops=constant(per_s=1000.0),
    step__any=constant(2.0),
)


def test_a_step_takes_the_sum_of_its_stages() -> None:
    found = replay(work(plain_steps([10, 200, 3000, 7, 1], [20, 0, 0, 7, 1])), HARDWARE, "dlrm")
    assert found.of(HOST) == pytest.approx(30 * 1.5)
    assert found.of(LINK) == pytest.approx(2)
    assert found.of(DEVICE) == pytest.approx(3)  # the optimizer costs nothing here
    assert found.of(STEP) == pytest.approx(4)
    assert found.seconds == pytest.approx(45 + 2 + 3 + 4)


def test_side_by_side_only_the_slower_part_is_waited_for() -> None:
    found = replay(work(side_by_side([2, 100, 1000], [2, 100, 9000])), HARDWARE, "hotline")
    assert found.of(HOST) == pytest.approx(3) and found.of(LINK) == pytest.approx(1)  # of the first step: 4 s > 1 s
    assert found.of(DEVICE) == pytest.approx(9)  # of the second: 9 s > 4 s


def test_a_system_may_have_a_constant_of_its_own() -> None:
    hardware = profile(step__any=constant(2.0), step__any__xdl=constant(5.0), step__plain=constant(3.0))
    step = work(plain_steps([1, 1, 1, 1, 1]))
    assert replay(step, hardware, "dlrm").seconds == pytest.approx(3)  # of plain steps
    assert replay(step, profile(step__any=constant(2.0), step__any__xdl=constant(5.0)), "xdl").seconds == 5


def test_devices_share_the_host_and_the_link_and_nothing_else() -> None:
    steps = work(plain_steps([10, 200, 3000, 0, 1]))
    one, four = (replay(steps, HARDWARE, "dlrm", devices) for devices in (1, 4))
    assert four.of(HOST) == pytest.approx(one.of(HOST))  # of an epoch: as many rows, whoever computes
    assert four.of(LINK) == pytest.approx(one.of(LINK))
    assert four.of(DEVICE) == pytest.approx(one.of(DEVICE) / 4)
    assert four.of(STEP) == pytest.approx(one.of(STEP) / 4)


def test_devices_sum_dense_gradients_around_a_ring() -> None:
    hardware = profile(fabric__bytes=constant(per_s=10.0), fabric__trips=constant(0.25))
    found = replay(work(plain_steps([0, 0, 0, 100, 1])), hardware, "dlrm", devices=4)
    assert found.of(FABRIC) == pytest.approx((2 * 3 / 4 * 400 / 10 + 2 * 3 * 0.25) / 4)  # a step is 4 recorded ones
    assert replay(work(plain_steps([0, 0, 0, 100, 1])), hardware, "dlrm").of(FABRIC) == 0


def test_devices_sum_the_gradients_of_the_hot_rows_that_each_has_written() -> None:
    tree = Seq((Stage(DEVICE, "rows_written", "embedding_update"), Stage(STEP, "hot", "step")))
    hot = Steps("hot", tree, np.array([[8, 1]]))
    found = replay(work(hot), profile(fabric__bytes=constant(per_s=10.0)), "fae", devices=2)
    assert found.of(FABRIC) == pytest.approx(2 * 1 / 2 * (2 * 8 * 64) / 10 / 2)


def test_one_process_makes_the_passes_of_all_devices() -> None:
    passes = work(Steps("plain", Seq((Stage(DEVICE, "passes", "dense_forward"),)), np.array([[1], [1]])))
    hardware = profile(device__passes=constant(1.0))
    assert replay(passes, hardware, "dlrm", 2).seconds == pytest.approx(1)
    assert replay(passes, replace(hardware, shared=("host", "passes")), "dlrm", 2).seconds == pytest.approx(2)


def test_a_call_for_a_larger_mini_batch_is_one_call() -> None:
    tree = Seq((Stage(HOST, "tables", ""), Stage(LINK, "tables", "")))
    calls = work(Steps("plain", tree, np.array([[4, 4], [4, 4]])))
    hardware = profile(host__tables=constant(1.0), link__tables=constant(1.0))
    assert replay(calls, hardware, "dlrm", 2).of(HOST) == pytest.approx(4)
    assert replay(calls, hardware, "dlrm", 2).of(LINK) == pytest.approx(8)  # each device has its own copies


def test_between_mini_batches_each_device_gets_its_own_copy() -> None:
    one, two = (replay(work(between([3, 100, 0, 0])), HARDWARE, "fae", devices) for devices in (1, 2))
    assert one.of(LINK) == pytest.approx(1) and two.of(LINK) == pytest.approx(2)
    assert one.of(HOST) == two.of(HOST) == pytest.approx(4.5)
