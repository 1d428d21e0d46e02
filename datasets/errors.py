"""The error that ends a command in one sentence instead of a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake of the user's: the message says what, where and what to do. Ends with exit status 2."""


class NothingLeft(UserError):
    """The options leave no input, or no id, of the whole source: the same command cannot come further."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The refusal of a name that does not exist, with the nearest one that does."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known are: {', '.join(known)}."
    return UserError(f"unknown {kind} '{name}': {hint}")


def printable(text: str, most: int = 80) -> str:
    """Foreign text for a message: what cannot be printed is escaped, what is too long is cut."""
    cut = text[:most] + ("…" if len(text) > most else "")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)
