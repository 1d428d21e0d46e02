"""From events to inputs: some of a user's events in a row, and the question whether the last of them is the real one.

An input has 21 steps: 20 events that follow each other in a user's life, oldest first, and a candidate. Each step looks
up a user, an item and a category, and has one dense value. This much is published of TBSM's Taobao set: 20 steps of
history, these three tables, one dense feature, 10 points a user. How events become inputs is not, and so it is this
project's choice:

- A user's events are ordered by time, then as they stand in the file; an event that is there twice counts once. Users
  with fewer than 21 events have no input.
- The candidates of a user with n inputs are spread over the events that have 20 before them: one at random in each of n
  stretches of equal length. So n is the smaller of `points_per_user` and the number of such events.
- With probability 1/2 the candidate is the event itself (label 1); else an item, with its category, of an event drawn
  from the other users of the same group (label 0). An item is drawn as often as it occurs, so popularity alone tells
  nothing; the user and the times of a negative are those of the real event, so they tell nothing either.
- The dense value is log(1 + hours from the step to the candidate); the candidate's own is 0.
- A user's last inputs are for test, those before for validation, the others for training: of n inputs, each share
  times n, rounded; so users with few inputs have all of them in training.

All draws are functions of (seed, user, number of the input); a negative also depends on the events of the user's group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from datasets.taobao_draws import uniform

HISTORY = 20
STEPS = HISTORY + 1
TABLES = ("user", "item", "category")
DENSE = ("log_hours",)
EVENT: np.dtype[Any] = np.dtype(
    [("user", "<u4"), ("item", "<u4"), ("category", "<u4"), ("time", "<i4"), ("behaviour", "u1")]
)
BEHAVIOURS = ("pv", "buy", "cart", "fav")
SECONDS_PER_HOUR = 3600.0
PIECE = 1 << 15  # inputs made at a time
PLACE, LABEL, NEGATIVE = range(3)  # streams of draws


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How many inputs a user gets, and where they go."""

    points_per_user: int
    validation_share: float
    test_share: float
    seed: int


@dataclass(frozen=True)
class Inputs:
    """Some inputs of one split."""

    split: str
    dense: np.ndarray  # [n, 21] float32
    keys: np.ndarray  # [n, 63] int64: user × 21, item × 21, category × 21
    labels: np.ndarray  # [n] int32


class Group:
    """The events of some users, whole, and what became of them; negatives are drawn among them."""

    def __init__(self, events: np.ndarray) -> None:
        ordered = in_order(events)
        self.repeated = len(events) - len(ordered)
        sizes = _sizes(ordered["user"])
        long = sizes >= STEPS
        self.events: np.ndarray = ordered[np.repeat(long, sizes)]
        self.sizes: np.ndarray = sizes[long]  # [users]
        self.short_users = len(sizes) - len(self.sizes)
        self.short_events = len(ordered) - len(self.events)
        self.lonely = len(self.sizes) == 1  # a user without another one to draw negatives from has no inputs

    def inputs(self, rules: Rules) -> Iterator[Inputs]:
        """The inputs, split by split, user by user, the oldest first."""
        if self.lonely:
            return
        starts = np.cumsum(self.sizes) - self.sizes
        places = self.sizes - HISTORY  # of a candidate
        points = np.minimum(places, rules.points_per_user)
        owner = np.repeat(np.arange(len(points)), points)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(points) - points, points)
        splits = np.repeat(np.tile(np.arange(3), len(points)), split_sizes(self.sizes, rules).reshape(-1))
        columns = {name: np.ascontiguousarray(self.events[name]) for name in ("user", "item", "category", "time")}
        users = columns["user"][starts]
        for code, split in enumerate(("train", "validation", "test")):
            which = np.flatnonzero(splits == code)
            for first in range(0, len(which), PIECE):
                piece = which[first : first + PIECE]
                at, n = owner[piece], number[piece]

                def draw(stream: int, user: np.ndarray = users[at], n: np.ndarray = n) -> np.ndarray:
                    return uniform(rules.seed, stream, user, n)

                low, high = (places[at] * (n + side) // points[at] for side in (0, 1))
                end = starts[at] + HISTORY + low + (draw(PLACE) * (high - low)).astype(np.int64)
                others = (draw(NEGATIVE) * (len(self.events) - self.sizes[at])).astype(np.int64)
                others += np.where(others >= starts[at], self.sizes[at], 0)  # the user's own events left out
                labels = (draw(LABEL) < 0.5).astype(np.int32)
                yield Inputs(split, *_windows(columns, end, np.where(labels, end, others)), labels)


def _windows(columns: dict[str, np.ndarray], end: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(dense [n, 21], keys [n, 63]) of the events up to `end` [n]; item and category of the last from `candidate`."""
    window = end[:, None] + np.arange(-HISTORY, 1)
    seconds = columns["time"][end].astype(np.int64)[:, None] - columns["time"][window]
    keys = np.empty((len(end), len(TABLES), STEPS), np.int64)
    keys[:, 0] = columns["user"][end][:, None]
    window[:, -1] = candidate
    keys[:, 1] = columns["item"][window]
    keys[:, 2] = columns["category"][window]
    return np.log1p(seconds / SECONDS_PER_HOUR).astype(np.float32), keys.reshape(len(end), -1)


def split_sizes(sizes: np.ndarray, rules: Rules) -> np.ndarray:
    """[users, 3]: inputs for training, validation and test of users with so many events each, [users]."""
    points = np.clip(sizes - HISTORY, 0, rules.points_per_user)
    validation, test = (
        np.floor(points * share + 0.5).astype(np.int64) for share in (rules.validation_share, rules.test_share)
    )
    return np.stack([points - validation - test, validation, test], axis=1)


def in_order(events: np.ndarray) -> np.ndarray:
    """The events [n] by user, time and original order, each of those that are the same in everything once."""
    moments = (events["user"].astype(np.uint64) << np.uint64(32)) + (
        events["time"].astype(np.int64) + (1 << 31)
    ).astype(np.uint64)
    order = np.argsort(moments, kind="stable")
    moments, events = moments[order], events[order]
    same = moments[1:] == moments[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))  # few: events of the same second
    if not len(tied):
        return events
    fields = [events[name][tied] for name in ("behaviour", "category", "item")]
    order = np.lexsort([*fields, moments[tied]])
    repeated = np.ones(len(tied) - 1, bool)
    for values in (*fields, moments[tied]):
        repeated &= np.diff(values[order].astype(np.int64)) == 0
    keep = np.ones(len(events), bool)
    keep[tied[order[1:][repeated]]] = False
    return events[keep]


def _sizes(users: np.ndarray) -> np.ndarray:
    """How many of the sorted users in a row are the same."""
    if not len(users):
        return np.empty(0, np.int64)
    return np.diff(np.flatnonzero(np.concatenate([[True], users[1:] != users[:-1], [True]])))
