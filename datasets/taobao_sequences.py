"""From events to inputs: some of a user's events in a row, and the question whether the last of them is the real one.

An input has 21 steps: 20 events that follow each other in a user's life, oldest first, and a candidate. Each step looks
up a user, an item and a category, and has one dense value:

- A user's events are ordered by time, then as they stand in the file; an event that is there twice counts once. Users
  with fewer than 21 events have no input.
- The candidates of a user with n inputs are spread over the events that have 20 before them: one at random in each of n
  stretches of equal length. So n is the smaller of `points_per_user` and the number of such events.
- With probability 1/2 the candidate is the event itself (label 1); else an item of the same group of users, with its
  category, that none of the user's own events has (label 0). `negatives=popular` draws an event of the other users, so
  an item as often as it occurs: popularity tells next to nothing. `negatives=uniform` draws each distinct item as often
  as any other: popularity tells much. A candidate that the user has had before is real in both. The user and the times
  of a negative are those of the real event.
- The dense value is log(1 + hours from the step to the candidate); the candidate's own is 0.
- `split=places`: a user's last inputs are for test, those before for validation, the others for training: of n inputs,
  each share times n, rounded; so users with few inputs have all of them in training. `split=users`: all inputs of a
  user are in one split, drawn with the shares.

All draws are functions of (seed, user, number of the input); a negative also depends on the events of the user's group.

TBSM's public preparation (facebookresearch/tbsm: tools/taobao_prepare.py, tbsm_data_pytorch.py) is another one, so that
the published accuracies of 88.8 to 89.2 % do not compare with those on this set. What it does, and why this does not:

- Negatives are uniform over the distinct (item, category) pairs, none of the user's history (in the test: any but the
  last item). Real items are mostly popular and such negatives are not, so popularity alone tells most labels: here only
  where asked for.
- By length of history, 10-19, 20-29, 30-39, 40 and more, a user gets 1, 3, 6, 10 positive and as many negative points
  at random places, which may coincide. Here `points_per_user` bounds both kinds together, at places apart, so that one
  number says how large the set is.
- The history is the last 200 events; a short one is padded with zeros. Here all events count and none is padding: a
  row of zeros would be the hottest of all.
- The dense value is a step's position over 21, the same in every input. Here it is time, which differs.
- The 20 events before a negative end at a place that is drawn for itself, the real item included. Here real and drawn
  inputs differ in the candidate alone.
- Users whose last event is among the latest 30 % are the test, with one point each; validation is one positive and one
  negative point of users that are also trained on, from the same places. Here the inputs of all splits are made alike
  and no candidate is in two, so that validation stands for the test.
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
PLACE, LABEL, SPLIT, NEGATIVE = range(4)  # streams of draws; those of further tries follow
TRIES = 8  # at a negative, before the next one that fits is taken
USER_BITS = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How many inputs a user gets, and where they go."""

    points_per_user: int
    validation_share: float
    test_share: float
    seed: int
    negatives: str = "popular"  # or uniform
    split: str = "places"  # or users


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
        user = np.repeat(np.arange(len(self.sizes), dtype=np.uint64), self.sizes) << USER_BITS
        self._own = np.unique(user | self.events["item"])  # each user's items, sorted
        items = np.bincount((self._own >> USER_BITS).astype(np.int64), minlength=len(self.sizes))
        # [users] bool: every item of the group is among theirs; as no negative is left, they have no inputs
        self.lonely: np.ndarray = items == len(np.unique(self.events["item"]))

    def inputs(self, rules: Rules) -> Iterator[Inputs]:
        """The inputs, split by split, user by user, the oldest first."""
        starts = np.cumsum(self.sizes) - self.sizes
        places = self.sizes - HISTORY  # of a candidate
        points = np.where(self.lonely, 0, np.minimum(places, rules.points_per_user))
        owner = np.repeat(np.arange(len(points)), points)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(points) - points, points)
        columns = {name: np.ascontiguousarray(self.events[name]) for name in ("user", "item", "category", "time")}
        users = columns["user"][starts]
        if rules.split == "users":
            train_share = 1 - rules.validation_share - rules.test_share
            draws = uniform(rules.seed, SPLIT, users, np.zeros(len(users), np.int64))
            splits = np.searchsorted([train_share, 1 - rules.test_share], draws, side="right")[owner]
        else:
            of_each = split_sizes(self.sizes, rules) * ~self.lonely[:, None]
            splits = np.repeat(np.tile(np.arange(3), len(points)), of_each.reshape(-1))
        pool = np.unique(columns["item"], return_index=True)[1] if rules.negatives == "uniform" else None
        for code, split in enumerate(("train", "validation", "test")):
            which = np.flatnonzero(splits == code)
            for first in range(0, len(which), PIECE):
                piece = which[first : first + PIECE]
                at, n = owner[piece], number[piece]

                def draw(stream: int, user: np.ndarray = users[at], n: np.ndarray = n) -> np.ndarray:
                    return uniform(rules.seed, stream, user, n)

                low, high = (places[at] * (n + side) // points[at] for side in (0, 1))
                end = starts[at] + HISTORY + low + (draw(PLACE) * (high - low)).astype(np.int64)
                candidate, labels = end.copy(), (draw(LABEL) < 0.5).astype(np.int32)
                drawn = np.flatnonzero(labels == 0)
                candidate[drawn] = self._negatives(rules.seed, pool, starts, users, at[drawn], n[drawn])
                yield Inputs(split, *_windows(columns, end, candidate), labels)

    def _negatives(
        self, seed: int, pool: np.ndarray | None, starts: np.ndarray, users: np.ndarray, at: np.ndarray, n: np.ndarray
    ) -> np.ndarray:
        """[n] events with an item that the user, number `at`, has none of; of a pool, or of all those of the others."""
        count = len(self.events) - self.sizes[at] if pool is None else np.full(len(at), len(pool))
        rank = np.empty(len(at), np.int64)
        left, tries = np.arange(len(at)), 0
        while len(left):
            if tries < TRIES:
                draws = uniform(seed, NEGATIVE + tries, users[at[left]], n[left])
                rank[left] = (draws * count[left]).astype(np.int64)
            else:
                rank[left] = (rank[left] + 1) % count[left]
            left = left[self._owns(at[left], self._ranked(pool, starts, at[left], rank[left]))]
            tries += 1
        return self._ranked(pool, starts, at, rank)

    def _ranked(self, pool: np.ndarray | None, starts: np.ndarray, at: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """[n] events of those ranks."""
        if pool is not None:
            return pool[rank]
        return rank + np.where(rank >= starts[at], self.sizes[at], 0)  # the user's own events left out

    def _owns(self, at: np.ndarray, events: np.ndarray) -> np.ndarray:
        """[n] bool: whether the users have events with the items of these."""
        wanted = (at.astype(np.uint64) << USER_BITS) | self.events["item"][events]
        found = np.searchsorted(self._own, wanted)
        return self._own[np.minimum(found, len(self._own) - 1)] == wanted


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
