"""The clock with a time of our own making."""

from __future__ import annotations

import threading

import pytest

from baselines.clock import MAIN, Clock
from baselines.work import Par, Seq, Stage, leaves
from tests.small import Time


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def clock(time: Time) -> Clock:
    return Clock(now=time)


def seconds(clock: Clock) -> dict[str, float]:
    return {name: phase.seconds for (lane, name), phase in clock.phases.items() if lane == MAIN}


def test_a_phase_holds_its_own_time_only(clock: Clock, time: Time) -> None:
    with clock.run():
        time.passes(1)
        with clock.phase("outer"):
            time.passes(2)
            with clock.phase("inner"):
                time.passes(4)
            time.passes(8)
        time.passes(16)
    assert seconds(clock) == {"other": 17, "outer": 10, "inner": 4}
    assert clock.train_s == 31
    assert clock.phases[MAIN, "outer"].calls == 1


def test_train_s_is_right_while_it_runs(clock: Clock, time: Time) -> None:
    with clock.run(), clock.phase("work"):
        time.passes(3)
        assert clock.train_s == 3
    time.passes(5)
    assert clock.train_s == 3


def test_what_is_paused_does_not_count(clock: Clock, time: Time) -> None:
    with clock.run(), clock.phase("work"):
        time.passes(1)
        with clock.paused():
            time.passes(50)
            clock.count(rows_read=7)
            with clock.phase("evaluation"):
                time.passes(50)
            with clock.paused():  # in each other
                time.passes(50)
            time.passes(50)
        clock.count(rows_read=2)
        time.passes(2)
    assert seconds(clock) == {"other": 0, "work": 3}
    assert clock.totals == {"rows_read": 2}


def test_outside_a_run_nothing_counts(clock: Clock, time: Time) -> None:
    with clock.phase("early"):
        time.passes(5)
        clock.count(rows_read=1)
    assert clock.train_s == 0
    assert not clock.phases
    assert not clock.totals


def test_counts_go_to_the_phase_and_the_total(clock: Clock) -> None:
    with clock.run():
        with clock.phase("a"):
            clock.count(rows_read=3, link_to_host_bytes=10)
        with clock.phase("b"):
            clock.count(rows_written=4, dense_flops=5)
    assert clock.totals == {"rows_read": 3, "rows_written": 4, "link_to_host_bytes": 10, "dense_flops": 5}
    assert clock.phases[MAIN, "a"].amounts == {"rows": 3, "bytes": 10}
    assert clock.phases[MAIN, "b"].amounts == {"rows": 4, "flops": 5}


def test_another_lane_does_not_add_to_train_s(clock: Clock, time: Time) -> None:
    def beside() -> None:
        with clock.phase("gather", "side"):
            time.passes(2)
            clock.count(rows_read=9)

    with clock.run(), clock.phase("work"):
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
    assert clock.phases["side", "gather"].seconds == 2
    assert clock.phases["side", "gather"].amounts == {"rows": 9}
    assert clock.train_s == 2 == seconds(clock)["work"]


def test_an_error_leaves_the_clock_in_order(clock: Clock, time: Time) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), clock.run(), clock.phase("work"):
            time.passes(1)
            raise KeyError
    assert seconds(clock)["work"] == 2
    assert clock.train_s == 2
    with pytest.raises(KeyError), clock.run(), clock.paused():
        raise KeyError
    assert clock.train_s == 2


def test_what_is_counted_is_the_work_of_its_step(clock: Clock) -> None:
    with clock.run():
        with clock.phase("a"):
            clock.count(rows_read=3, tables=2)
            clock.count("device", rows_read=4, row_updates_skipped=0)
        clock.end_step("plain")
        with clock.paused():
            clock.count(rows_read=9)
            clock.end_step("plain")
        with clock.phase("b"):
            clock.count(link_to_host_bytes=5)  # which says where it happens
        clock.end_step("between", steps=0)
    clock.end_step("plain")
    first, second = clock.work.steps()
    stages = [
        ("host", "rows_read", "a"),
        ("host", "tables", "a"),
        ("device", "rows_read", "a"),
        ("step", "plain", "step"),
    ]
    assert (leaves(first.tree), first.amounts.tolist()) == (stages, [[3, 2, 4, 1]])
    assert (leaves(second.tree), second.amounts.tolist()) == ([("link", "link_to_host_bytes", "b")], [[5]])
    assert clock.totals["rows_read"] == 7 and "tables" not in clock.totals  # which is of the work only


def test_the_work_of_another_lane_is_beside_that_of_the_main_one(clock: Clock) -> None:
    def beside() -> None:
        with clock.phase("gather", "side"):
            clock.count(rows_read=9)

    with clock.run(), clock.phase("work"):
        clock.fork()
        thread = threading.Thread(target=beside)
        thread.start()
        clock.count(rows_read=2)
        thread.join()
        clock.join()
        clock.end_step("mixed", steps=0)
    (steps,) = clock.work.steps()
    main, side = (("host", "rows_read", phase) for phase in ("work", "gather"))
    assert steps.tree == Seq((Seq(()), Par((Seq((Stage(*main),)), Seq((Stage(*side),)))), Seq(())))
    assert steps.amounts.tolist() == [[2, 9]]
