"""Generated shopping: events whose skew is that of the published Taobao set, and whose users have tastes.

Items stand in four levels of popularity, users in four classes that say which levels their items come from. FAE's pairs
of hot-table size and share of hot inputs fix both: the size at a threshold says how many items and users lie above it,
the share says how many users go to nothing below. Within a level popularity is a power law, drawn evenly rather than at
random, so that an item's count is close to what its rank says.

Events come in blocks of so many users, each with the same make-up (classes, numbers of events, levels of the items) in
another order. So the draws before any block are known without making it: a block is a function of (seed, block).

A user has a few tastes, each a place on a line along which the categories lie, as wide as they are popular. Of the
items that a block draws, those of a level are dealt out in the order of their categories to the events in the order of
their tastes: users get the categories they like, and every item still occurs exactly as often as it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from datasets.taobao_draws import evenly
from datasets.taobao_sequences import BEHAVIOURS, EVENT

USERS, CATEGORIES = 987_994, 9_439  # published; so are 4,162,024 items and 100,150,807 events
BLOCK_USERS = 4096
FIRST_SECOND, LAST_SECOND = 1_511_539_200, 1_512_316_799  # 25 November to 3 December 2017, in Beijing
BEHAVIOUR_SHARES = dict(zip(BEHAVIOURS, (0.892, 0.023, 0.055, 0.030), strict=True))


@dataclass(frozen=True)
class Level:
    """Items of similar popularity: the r-th of them occurs in proportion to (r + shift · items)^-exponent.

    Any exponent but 1, whose integral is another one.
    """

    items: int
    exponent: float
    shift: float


@dataclass(frozen=True)
class Class:
    """Users: their share, and the share of their events that each level of items has."""

    share: float
    levels: tuple[float, ...]


# Fitted by simulation to FAE's Figure 5. At scale 1 with ten inputs a user, the hot tables at 1e-4, 1e-5 and 1e-6 % of
# the accesses take 46, 116 and 238 MiB (there 45, 117, 240), and 1.0, 27.6 and 92.5 % of the training inputs are hot
# (there 1.0, 27.1, 92.5); at 1e-3 % it is 1.1 MiB and none (there about 1, and none).
LEVELS = (
    Level(80_000, 1.02, 0.001),
    Level(840_000, 0.7, 0.046),
    Level(1_800_000, 0.5, 0.1),
    Level(1_442_024, 0.0, 0.0),
)
CLASSES = (
    Class(0.014, (1.0, 0.0, 0.0, 0.0)),
    Class(0.178, (0.70, 0.30, 0.0, 0.0)),
    Class(0.508, (0.64, 0.265, 0.095, 0.0)),
    Class(0.300, (0.63, 0.26, 0.058, 0.052)),
)
# the share of users with fewer events; log-linear between
EVENTS_PER_USER = ((0.0, 12), (0.03, 21), (0.344, 29), (0.55, 70), (0.75, 132), (0.95, 318), (1.0, 610))

TASTES, FAVOURITE = 4, 0.4  # of a user; the share of sessions on the first one
SESSION, PAUSE = 6, 400.0  # events on one taste, on average; a gap before it, in gaps within it
REACH = 0.05  # how far a user's tastes lie apart on the line of categories, at most
STROLL = 0.15  # share of events that follow no taste
CATEGORY_EXPONENT, CATEGORY_SHIFT = 1.25, 15.0


class World:
    """What does not change from block to block. `scale` shrinks users and items alike: a small world, the same skew."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        self.seed = seed
        self.users = max(1, round(USERS * scale))
        self.items = np.array([max(1, round(level.items * scale)) for level in LEVELS])
        self.first_item = np.cumsum(self.items) - self.items
        rank = np.argsort(evenly(np.arange(CATEGORIES)))  # on the line the popular ones stand among the others
        shares = (rank + CATEGORY_SHIFT) ** -CATEGORY_EXPONENT
        self.category_ends = np.cumsum(shares) / shares.sum()
        self._salts = np.random.default_rng([seed, 0, 1]).integers(0, 2**63, len(LEVELS)).tolist()

    @cached_property
    def lengths(self) -> np.ndarray:
        """[BLOCK_USERS]: events of each user of a block, the fewest first."""
        shares, events = np.array(EVENTS_PER_USER).T
        middle = (np.arange(BLOCK_USERS) + 0.5) / BLOCK_USERS
        return np.exp(np.interp(middle, shares, np.log(events))).astype(np.int64)

    @cached_property
    def classes(self) -> np.ndarray:
        """[BLOCK_USERS]: the class of each, spread evenly over the numbers of events."""
        ends = np.cumsum([group.share for group in CLASSES])
        return np.minimum(np.searchsorted(ends, evenly(np.arange(BLOCK_USERS)), side="right"), len(CLASSES) - 1)

    @cached_property
    def quotas(self) -> np.ndarray:
        """[classes, levels]: events of a block of each class and level."""
        events = np.bincount(self.classes, weights=self.lengths, minlength=len(CLASSES)).astype(np.int64)
        ends = np.floor(np.cumsum([group.levels for group in CLASSES], axis=1) * events[:, None] + 0.5).astype(np.int64)
        return np.diff(ends, axis=1, prepend=0)

    def block(self, number: int) -> np.ndarray:
        """The events of a block, user by user, in the order of time."""
        random = np.random.default_rng([self.seed, number])
        order = random.permutation(BLOCK_USERS)
        sizes, classes = self.lengths[order], self.classes[order]
        user = np.repeat(np.arange(BLOCK_USERS), sizes)
        events = np.empty(len(user), EVENT)
        events["user"] = number * BLOCK_USERS + user + 1
        starts = np.zeros(len(user), bool)
        starts[np.cumsum(sizes) - sizes] = True
        sessions = starts | (random.random(len(user)) < 1 / SESSION)
        events["time"] = _times(random, sizes, sessions)
        events["behaviour"] = random.choice(len(BEHAVIOURS), len(user), p=list(BEHAVIOUR_SHARES.values()))
        liked = self._tastes(random, user, sessions)
        level = self._levels(random, classes[user])
        for at in range(len(LEVELS)):
            slots = np.flatnonzero(level == at)
            slots = slots[np.argsort(liked[slots])]
            serials = random.permutation(len(slots)) + number * len(slots)
            items = self._draw(at, serials)
            categories = np.searchsorted(self.category_ends, evenly(items), side="right").astype(np.int16)
            dealt = np.argsort(categories, kind="stable")
            events["item"][slots] = items[dealt]
            events["category"][slots] = categories[dealt]
        events["item"] = _spread(events["item"], int(self.items.sum()))
        events["category"] = _spread(events["category"], CATEGORIES)
        return events

    def _tastes(self, random: np.random.Generator, user: np.ndarray, sessions: np.ndarray) -> np.ndarray:
        """[n] in [0, 1): the place on the line of categories that each event looks for."""
        home = (random.permutation(BLOCK_USERS) + 0.5) / BLOCK_USERS
        tastes = (home[:, None] + REACH * (random.random((BLOCK_USERS, TASTES)) - 0.5)) % 1.0
        weights = [FAVOURITE] + [(1 - FAVOURITE) / (TASTES - 1)] * (TASTES - 1)
        chosen = random.choice(TASTES, int(sessions.sum()), p=weights)[np.cumsum(sessions) - 1]
        strolls = random.random(len(user)) < STROLL
        return np.where(strolls, random.random(len(user)), tastes[user, chosen])

    def _levels(self, random: np.random.Generator, classes: np.ndarray) -> np.ndarray:
        """[n]: the level of each event's item; `classes` [n] of the events."""
        level = np.empty(len(classes), np.int8)
        for at, quota in enumerate(self.quotas):
            level[np.flatnonzero(classes == at)] = random.permutation(np.repeat(np.arange(len(LEVELS)), quota))
        return level

    def _draw(self, at: int, serials: np.ndarray) -> np.ndarray:
        """[n]: numbers of items of a level, by the inverse of its law's integral."""
        law, count = LEVELS[at], int(self.items[at])
        power = 1.0 - law.exponent
        low, high = (law.shift * count) ** power if law.shift else 0.0, ((1 + law.shift) * count) ** power
        share = evenly(serials, self._salts[at])
        rank = (low + share * (high - low)) ** (1 / power) - law.shift * count
        return self.first_item[at] + np.clip(rank, 0, count - 1).astype(np.int64)


def _times(random: np.random.Generator, sizes: np.ndarray, sessions: np.ndarray) -> np.ndarray:
    """[n] seconds: short gaps within a session, long ones between, all of a user's events within the period."""
    gaps = random.standard_exponential(len(sessions)) * np.where(sessions, PAUSE, 1.0)
    passed = np.cumsum(gaps)
    ends = np.cumsum(sizes)
    before = np.concatenate([[0.0], passed[ends - 1]])  # each user's first moment, and the end
    whole = np.diff(before) + random.standard_exponential(len(sizes)) * PAUSE
    share = (passed - np.repeat(before[:-1], sizes)) / np.repeat(whole, sizes)
    number = np.arange(len(sessions)) - np.repeat(ends - sizes, sizes)
    spare = LAST_SECOND + 1 - FIRST_SECOND - np.repeat(sizes, sizes)  # so that no two events of a user are at once
    return FIRST_SECOND + (share * spare).astype(np.int64) + number


def _spread(numbers: np.ndarray, count: int) -> np.ndarray:
    """[n]: from 1; one to one, so that ids carry no trace of popularity."""
    factor = int(count * 0.618) | 1
    while np.gcd(factor, count) > 1:
        factor += 2
    return numbers.astype(np.int64) * factor % count + 1
