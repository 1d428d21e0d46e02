"""A profile: every stretch of every phase, in a form that trace viewers open."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from baselines.clock import MAIN, OFF, Clock
from bench.cli import main
from bench.trace import trace_json
from tests.small import Time


def traced() -> tuple[Clock, Time]:
    time = Time()
    return Clock(now=time, traced=True), time


def test_spans_hold_what_is_inside_them() -> None:
    clock, time = traced()
    with clock.run():
        with clock.phase("outer"):
            time.passes(1)
            with clock.phase("inner"):
                time.passes(2)
            time.passes(3)
        with clock.paused():
            time.passes(10)
        with clock.phase("beside", "lane"):
            time.passes(4)
    assert clock.spans is not None
    found = [(span.lane, span.name, span.start, span.end) for span in clock.spans]
    assert found == [
        (MAIN, "inner", 101, 103),
        (MAIN, "outer", 100, 106),
        (OFF, "paused", 106, 116),
        ("lane", "beside", 116, 120),
    ]


def test_without_a_trace_nothing_is_kept() -> None:
    clock = Clock()
    with clock.run(), clock.phase("x"):
        pass
    assert clock.spans is None


def test_trace_events_are_complete_and_start_at_zero() -> None:
    clock, time = traced()
    time.passes(100)
    with clock.run(), clock.phase("work"):
        time.passes(0.5)
    events = json.loads(trace_json("title", clock.spans or []))["traceEvents"]
    assert [event["name"] for event in events] == ["process_name", "thread_name", "work"]
    assert (events[-1]["ph"], events[-1]["ts"], events[-1]["dur"]) == ("X", 0, pytest.approx(5e5))
    assert {event["pid"] for event in events} == {1}


def test_run_writes_a_trace_that_adds_up_to_its_time(tmp_path: Path) -> None:
    command = ["run", "--system", "hotline", "--limit-rows", "4000", "--out", str(tmp_path), "--profile"]
    assert main(command) == 0
    assert main(command) == 0  # done before, and yet run again: the trace is wanted
    traces = sorted(tmp_path.glob("runs/*/trace.json"))
    assert len(traces) == 2
    events = [e for e in json.loads(traces[0].read_text())["traceEvents"] if e["ph"] == "X" and e["cat"] == MAIN]
    phases = {event["name"] for event in events}
    assert {"data_wait", "dense_forward", "dense_backward"} <= phases
    for before, after in pairwise(events):  # in the order in which they end
        assert before["ts"] + before["dur"] <= after["ts"] + after["dur"] + 1e-3
