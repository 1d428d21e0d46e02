"""How far long work has come: progress with rate and time left, in lines a second apart."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY_S = 1.0

Report = Callable[[str], None]


class Pace:
    """Counts what is done of a known or unknown amount, and reports it at most once a second.

    Work that an earlier process did is counted (`done`) but is no part of the rate.
    """

    def __init__(
        self,
        report: Report,
        what: str,
        unit: str,
        total: int | None = None,
        done: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report, self._what, self._unit, self._total = report, what, unit, total
        self.done, self._before = done, done
        self._now, self._start, self._said = now, now(), now()

    def add(self, amount: int) -> None:
        """So much more is done."""
        self.done += amount
        if self._now() - self._said >= EVERY_S:
            self._said = self._now()
            self._report(self._line())

    def end(self) -> None:
        """Say where it ended and how fast it was."""
        self._report(self._line())

    @property
    def rate(self) -> float:
        """Units a second of this process."""
        return (self.done - self._before) / max(self._now() - self._start, 1e-9)

    def _line(self) -> str:
        of = f" of {self._total:,}" if self._total is not None else ""
        line = f"{self._what}: {self.done:,}{of} {self._unit}, {self.rate:,.0f}/s"
        if self._total is not None and self._total > self.done and self.rate > 0:
            line += f", {duration((self._total - self.done) / self.rate)} left"
        return line


def duration(seconds: float) -> str:
    """Seconds as a person says them: 8 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
