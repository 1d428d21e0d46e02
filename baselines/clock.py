"""The one clock of every run: time by phase, and what was read, written, copied and computed in it.

Only time between `run()` and its end counts, less what is spent in `paused()`. A phase holds its own time without that
of the phases inside it, so the phases of the lane `main` add up to `train_s`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from baselines.work import DEVICE, HOST, KINDS, LINK, NET, STEP, WorkRecorder

MAIN = "main"
OFF = "off the clock"  # the lane of a trace that shows evaluation and what else does not count
COUNTERS = (
    "rows_read",  # embedding rows read from a tier: one a lookup, or one a row where a system reads each row once
    "rows_written",  # embedding rows written to a tier, by an update or by a copy
    "row_updates_skipped",  # rows whose gradient was thrown away
    "link_to_device_bytes",
    "link_to_host_bytes",
    "net_bytes",  # between server and worker processes, both ways
    "dense_flops",
)
_COLUMN = {  # column of phases.csv that a counter is part of
    "rows_read": "rows",
    "rows_written": "rows",
    "link_to_device_bytes": "bytes",
    "link_to_host_bytes": "bytes",
    "net_bytes": "bytes",
    "dense_flops": "flops",
}
_RESOURCE = {  # of what happens in one place only
    "link_to_device_bytes": LINK,
    "link_to_host_bytes": LINK,
    "link_copies": LINK,
    "net_bytes": NET,
    "net_trips": NET,
}
_WORK_ONLY = frozenset(KINDS)


@dataclass
class Phase:
    """What one phase of one lane took."""

    seconds: float = 0.0
    calls: int = 0
    amounts: Counter[str] = field(default_factory=Counter)  # rows, bytes, flops


@dataclass(frozen=True)
class Span:
    """One stretch of time in a lane, phases inside it included."""

    lane: str
    name: str
    start: float  # of `now()`
    end: float


class Clock:
    """Measures a run. `now()` returns seconds and can be injected; `synchronize()` waits for the device.

    With `traced` it keeps every span of every phase as well, for a profile.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] = lambda: None,
        traced: bool = False,
    ) -> None:
        self.now = now
        self.synchronize = synchronize
        self.phases: dict[tuple[str, str], Phase] = {}
        self.totals: Counter[str] = Counter()
        self.prepare_s = 0.0  # of one-off preparation, off the clock
        self.spans: list[Span] | None = [] if traced else None
        self.work = WorkRecorder()
        self.dense_on = DEVICE  # or HOST, where a system computes there whatever the device
        self._running = False
        self._stack: list[str] = []  # the open phases of the main lane, innermost last
        self._since = 0.0  # when the innermost open phase of the main lane last began to count
        self._lock = threading.Lock()
        self._side = threading.local()  # the open phase of a side lane's thread

    @property
    def train_s(self) -> float:
        """Seconds on the clock so far."""
        seconds = sum(phase.seconds for (lane, _), phase in self.phases.items() if lane == MAIN)
        return seconds + (self.now() - self._since if self._running else 0.0)

    @contextmanager
    def run(self) -> Iterator[None]:
        """Everything inside is on the clock; what no phase claims is the phase `other`."""
        self.synchronize()
        self._running, self._stack, self._since = True, ["other"], self.now()
        try:
            yield
        finally:
            if self._running:
                self.synchronize()
                self._settle()
            self._running, self._stack = False, []

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing inside is on the clock: no time, no counts."""
        if not self._running:
            yield
            return
        self.synchronize()
        self._settle()
        self._running, start = False, self._since
        try:
            yield
        finally:
            self.synchronize()
            self._running, self._since = True, self.now()
            self._trace(OFF, "paused", start, self._since)

    @contextmanager
    def phase(self, name: str, lane: str = MAIN) -> Iterator[None]:
        """Name what happens inside. A lane other than `main` belongs to the thread that opens it."""
        if not self._running:
            yield
            return
        if lane != MAIN:
            start, self._side.phase = self.now(), (lane, name)
            try:
                yield
            finally:
                self._side.phase, end = None, self.now()
                self._add((lane, name), end - start)
                self._trace(lane, name, start, end)
            return
        self._settle()
        self._stack.append(name)
        start = self._since
        try:
            yield
        finally:
            self._settle()
            self._stack.pop()
            self._trace(MAIN, name, start, self._since)
            with self._lock:
                self.phases[(MAIN, name)].calls += 1

    def count(self, on: str = HOST, /, **amounts: int) -> None:
        """Add to the named `COUNTERS`: in total, for the phase that the calling thread is in, and to the step's work.

        `on` is the resource that does it, where the name does not say so already; `KINDS` are part of the work only.
        """
        if not self._running:
            return
        side = getattr(self._side, "phase", None)
        key = side or (MAIN, self._stack[-1])
        with self._lock:
            phase = self.phases.setdefault(key, Phase())
            for name, amount in amounts.items():
                if name in _COLUMN:
                    phase.amounts[_COLUMN[name]] += amount
                if name not in _WORK_ONLY:
                    self.totals[name] += amount
                if amount:
                    self.work.add((_RESOURCE.get(name, on), name, key[1]), amount, side is not None)

    def fork(self) -> None:
        """What the main lane does from here to `join` runs beside the side lane."""
        if self._running:
            self.work.fork()

    def join(self) -> None:
        """The main lane has waited for the side lane."""
        if self._running:
            self.work.join()

    def end_step(self, name: str, steps: int = 1) -> None:
        """A step of this name is done: what was counted since the last one is its work."""
        if self._running:
            if steps:
                self.work.add((STEP, name, "step"), steps)
            self.work.close(name)

    def _settle(self) -> None:
        """Give the innermost open phase of the main lane the time since it last began to count."""
        now = self.now()
        with self._lock:
            self.phases.setdefault((MAIN, self._stack[-1]), Phase()).seconds += now - self._since
        self._since = now

    def _trace(self, lane: str, name: str, start: float, end: float) -> None:
        if self.spans is not None:
            self.spans.append(Span(lane, name, start, end))  # which is safe between threads

    def _add(self, key: tuple[str, str], seconds: float) -> None:
        with self._lock:
            phase = self.phases.setdefault(key, Phase())
            phase.seconds += seconds
            phase.calls += 1
