"""`stale`: drop the inputs whose rows have stopped changing (the paper)."""

from __future__ import annotations

from slipstream.policies import Choice, Kept


def choose(choice: Choice) -> Kept:
    return Kept(~choice.stale)
