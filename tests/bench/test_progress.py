"""Progress: rewritten on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from bench.progress import Progress, duration


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def watch(stream: io.StringIO) -> str:
    """A run of 60 s, seen through the stream."""
    seconds = iter(range(1000))
    progress = Progress(stream, now=lambda: float(next(seconds)))
    progress.start("run 1 of 2: dlrm")
    for step in range(30):
        progress.update(step * 10, 300, step + 1.0, 0.5)
    progress.say("done")
    return stream.getvalue()


def test_file_gets_plain_lines_every_ten_seconds() -> None:
    text = watch(io.StringIO())
    assert "\r" not in text and "\x1b" not in text
    assert len(text.splitlines()) == 2 + 3  # start, end, and three in thirty seconds
    assert "samples/s" in text and "left" in text and "loss 0.5000" in text


def test_terminal_gets_one_line_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = watch(Terminal())
    assert text.count("\n") == 1 and text.count("\r\x1b[K") > 20


def test_no_color_means_no_control_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = watch(Terminal())
    assert "\r" not in text and "\x1b" not in text


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59.4, 60, 200, 7500)] == [
        "0 s",
        "59 s",
        "1 min 00 s",
        "3 min 20 s",
        "2 h 05 min",
    ]
