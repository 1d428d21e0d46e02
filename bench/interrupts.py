"""Ctrl-C, SIGTERM and SIGHUP: all raise KeyboardInterrupt, once, and never while something has to be finished."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 5.0  # a signal so soon after another is part of it: what the first one ends is being closed


class _State:
    held = False  # whether signals have to wait
    waiting = False  # whether one does
    raised_at: float | None = None


def _handle(number: int, frame: Any) -> None:
    if _State.held:
        _State.waiting = True
        return
    now = time.monotonic()
    if _State.raised_at is None or now - _State.raised_at > PATIENCE_S:
        _State.raised_at = now
        raise KeyboardInterrupt


@contextmanager
def handled(last: bool) -> Iterator[None]:
    """The signals raise KeyboardInterrupt inside. Afterwards they do nothing, where this process has nothing left to
    do (`last`, or one arrived), and what they did before otherwise. A SIGHUP that is ignored, as by nohup, stays so.
    """
    if threading.current_thread() is not threading.main_thread():  # only there may handlers be set
        yield
        return
    _State.held, _State.waiting, _State.raised_at = False, False, None
    mine = [n for n in SIGNALS if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _handle) for number in mine}
    try:
        yield
    finally:
        _State.held = True
        ended = last or _State.raised_at is not None
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if ended else handler)


@contextmanager
def held() -> Iterator[None]:
    """Signals wait inside; one that did so is raised at the end, unless an interruption is what was being finished."""
    interrupted, _State.held = _State.raised_at, True
    try:
        yield
    finally:
        _State.held = False
    waiting, _State.waiting = _State.waiting, False
    if waiting and _State.raised_at == interrupted:
        _raise()


@contextmanager
def allowed() -> Iterator[None]:
    """Within `held`: signals interrupt after all, one that has waited does so at once."""
    _State.held = False
    try:
        if _State.waiting:
            _raise()
        yield
    finally:
        _State.held = True


def _raise() -> None:
    _State.waiting, _State.raised_at = False, time.monotonic()
    raise KeyboardInterrupt
