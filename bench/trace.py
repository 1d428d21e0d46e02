"""A profile of one run: every phase of every lane as an event, in the format that browsers' trace viewers open."""

from __future__ import annotations

import json
from collections.abc import Sequence

from baselines.clock import MAIN, Span

MICROSECONDS = 1e6


def trace_json(title: str, spans: Sequence[Span]) -> str:
    """The Trace Event Format's JSON: a process with a thread a lane, `main` first; times in µs from the first span.

    chrome://tracing and https://ui.perfetto.dev open it.
    """
    lanes = sorted({span.lane for span in spans}, key=lambda lane: (lane != MAIN, lane))
    begin = min((span.start for span in spans), default=0.0)
    names = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": title}}]
    names += [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": lane}}
        for number, lane in enumerate(lanes)
    ]
    events = [
        {
            "name": span.name,
            "cat": span.lane,
            "ph": "X",
            "pid": 1,
            "tid": lanes.index(span.lane),
            "ts": (span.start - begin) * MICROSECONDS,
            "dur": (span.end - span.start) * MICROSECONDS,
        }
        for span in spans
    ]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": names + events}) + "\n"
