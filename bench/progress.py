"""What a person sees while a run goes on, on standard error: one line rewritten, or plain lines in a file."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from datasets.pace import duration

LIVE_S, PLAIN_S = 0.1, 10.0  # seconds between two lines


def is_live(stream: TextIO) -> bool:
    """Whether control codes are welcome on the stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Progress:
    """Lines about runs. `now` can be injected."""

    def __init__(self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream or sys.stderr
        self.now = now
        self.live = is_live(self.stream)
        self._every_s = LIVE_S if self.live else PLAIN_S
        self._last = now()
        self._title = ""
        self.aside = ""  # about all runs together, set by whoever starts several

    def start(self, title: str) -> None:
        """A run begins; the lines that follow are about it."""
        self._title, self._last = title, self.now()
        if self.live:
            self._rewrite(title + self.aside)
        else:
            self.say(title + self.aside)

    def update(self, samples_seen: int, samples_total: int, train_s: float, loss: float) -> None:
        """The run has got so far. Shown at most every tenth of a second, or every ten seconds where lines add up."""
        if self.now() - self._last < self._every_s:
            return
        self._last = self.now()
        rate = samples_seen / train_s if train_s > 0 else 0.0
        left = f"{duration((samples_total - samples_seen) / rate)} left" if rate else ""
        share = samples_seen / samples_total if samples_total else 1.0
        text = f"{self._title}: {samples_seen:,} of {samples_total:,} ({share:.0%}), {rate:,.0f} samples/s, {left}"
        text += f", loss {loss:.4f}"
        if self.live:
            self._rewrite(text + self.aside)
        else:
            self.say(text)

    def say(self, text: str) -> None:
        """A line that stays."""
        self._write(("\r\x1b[K" if self.live else "") + text + "\n")

    def _rewrite(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._write("\r\x1b[K" + text[:width])

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a terminal that was closed ends no run
            self.stream.write(text)
            self.stream.flush()
