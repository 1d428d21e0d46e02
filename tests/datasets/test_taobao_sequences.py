"""From events to inputs: as a slow reading of the rules makes them, and nothing in them gives the label away."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from datasets import taobao_sequences
from datasets.taobao_draws import evenly, scramble, uniform
from datasets.taobao_sequences import EVENT, LABEL, NEGATIVE, PLACE, SPLIT, TRIES, Group, Rules, in_order, split_sizes
from datasets.taobao_world import World

RULES = Rules(points_per_user=10, validation_share=0.1, test_share=0.1, seed=0)
Input = tuple[str, list[float], list[int], int]
NO_EVENTS = np.empty(0, EVENT)


def slow_inputs(events: list[tuple[int, ...]], rules: Rules) -> list[Input]:
    """(split, dense, keys, label) of each input, event by event. An event: user, item, category, time, behaviour."""
    by_user: dict[int, list[tuple[int, ...]]] = {}
    for event in dict.fromkeys(events):  # each once, in the order of the file
        by_user.setdefault(event[0], []).append(event)
    kept = {user: sorted(of, key=lambda e: e[3]) for user, of in sorted(by_user.items()) if len(of) >= 21}
    everyone = [event for of in kept.values() for event in of]
    distinct = {event[1]: event for event in reversed(everyone)}  # the first event of each item

    def draw(stream: int, user: int, n: int) -> float:
        return float(uniform(rules.seed, stream, np.array([user]), np.array([n]))[0])

    def negative(user: int, n: int) -> tuple[int, ...]:
        pool = [event for event in everyone if event[0] != user]
        if rules.negatives == "uniform":
            pool = [distinct[item] for item in sorted(distinct)]
        for again in range(TRIES):
            at = int(draw(NEGATIVE + again, user, n) * len(pool))
            if pool[at][1] not in own:
                return pool[at]
        return next(event for event in pool[at:] + pool[:at] if event[1] not in own)

    found: list[Input] = []
    for user, of in kept.items():
        own = {event[1] for event in of}
        if own == distinct.keys():
            continue
        places = len(of) - 20
        points = min(places, rules.points_per_user)
        tests, validations = (math.floor(points * share + 0.5) for share in (rules.test_share, rules.validation_share))
        for n in range(points):
            low, high = places * n // points, places * (n + 1) // points
            end = 20 + low + int(draw(PLACE, user, n) * (high - low))
            real = draw(LABEL, user, n) < 0.5
            steps = [*of[end - 20 : end], of[end] if real else negative(user, n)]
            keys = [user] * 21 + [step[1] for step in steps] + [step[2] for step in steps]
            dense = [math.log1p((of[end][3] - of[at][3]) / 3600) for at in range(end - 20, end + 1)]
            split = "test" if n >= points - tests else "validation" if n >= points - tests - validations else "train"
            if rules.split == "users":
                held, before = rules.test_share, 1 - rules.validation_share - rules.test_share
                place = draw(SPLIT, user, 0)
                split = "test" if place >= 1 - held else "validation" if place >= before else "train"
            found.append((split, dense, keys, int(real)))
    return found


def fast_inputs(events: np.ndarray, rules: Rules) -> list[Input]:
    return [
        (part.split, *row)
        for part in Group(events).inputs(rules)
        for row in zip(part.dense.tolist(), part.keys.tolist(), part.labels.tolist(), strict=True)
    ]


def random_events(sizes: list[int], span: int, seed: int, items: int = 60) -> np.ndarray:
    """Events of users of so many events each, all mixed, with many at the same second and some there twice."""
    random = np.random.default_rng(seed)
    events = np.empty(sum(sizes), EVENT)
    events["user"] = np.repeat(random.permutation(len(sizes)) * 1_000_003 + 5, sizes)
    item = random.integers(0, items, len(events))
    events["item"], events["category"] = item * 70_000_000, item % 5
    events["time"] = random.integers(-span, span, len(events))
    events["behaviour"] = random.integers(0, 2, len(events))
    return random.permutation(events)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(10, 60), max_size=6),
    st.integers(1, 3000),
    st.builds(
        Rules,
        points_per_user=st.integers(1, 30),
        validation_share=st.sampled_from([0.0, 0.1, 0.4]),
        test_share=st.sampled_from([0.0, 0.1, 0.25, 0.4]),
        seed=st.integers(0, 2**63 - 1),
        negatives=st.sampled_from(["popular", "uniform"]),
        split=st.sampled_from(["places", "users"]),
    ),
    st.integers(0, 2**32),
    st.sampled_from([1, 12, 25, 60]),  # with few items, users have all of them, or nearly all
)
def test_inputs_are_those_of_the_slow_reading(sizes: list[int], span: int, rules: Rules, seed: int, items: int) -> None:
    events = random_events(sizes, span, seed, items)
    wanted = slow_inputs([tuple(event) for event in events.tolist()], rules)
    order = {"train": 0, "validation": 1, "test": 2}
    wanted.sort(key=lambda row: order[row[0]])  # stable: user by user within a split
    found = fast_inputs(events, rules)
    assert [(split, keys, label) for split, _, keys, label in found] == [(s, k, label) for s, _, k, label in wanted]
    np.testing.assert_allclose([row[1] for row in found], [row[1] for row in wanted], rtol=1e-6)


def test_events_are_ordered_by_user_time_and_file_and_counted_once() -> None:
    rows = [(2, 9, 1, 50, 0), (1, 8, 1, 60, 0), (1, 7, 1, 60, 0), (1, 8, 1, 60, 0), (1, 8, 1, 60, 1), (1, 5, 1, -3, 0)]
    ordered = in_order(np.array(rows, EVENT))
    assert [tuple(row) for row in ordered.tolist()] == [rows[5], rows[1], rows[2], rows[4], rows[0]]
    assert len(in_order(NO_EVENTS)) == 0


def test_short_and_lone_users_are_counted() -> None:
    group = Group(random_events([21, 20, 3, 30], 10**6, 0))
    assert (len(group.sizes), group.short_users, group.short_events, group.lonely.any()) == (2, 2, 23, False)
    alone = Group(random_events([40, 20], 10**6, 0))
    assert alone.lonely.all() and list(alone.inputs(RULES)) == []
    assert list(Group(NO_EVENTS).inputs(RULES)) == []


def test_a_users_last_inputs_are_held_back() -> None:
    sizes = np.array([5, 21, 24, 25, 30, 500])
    assert split_sizes(sizes, RULES).tolist() == [[0, 0, 0], [1, 0, 0], [4, 0, 0], [3, 1, 1], [8, 1, 1], [8, 1, 1]]
    ends: dict[str, list[int]] = {}
    events = random_events([60, 60], 1, 0)
    events["time"] = events["item"] = np.arange(len(events))  # so that an item says when it was
    for part in Group(events).inputs(RULES):
        ends.setdefault(part.split, []).extend(part.keys[part.keys[:, 0] == 5, 40].tolist())
    assert [len(ends[split]) for split in ("train", "validation", "test")] == [8, 1, 1]
    assert ends["train"] == sorted(ends["train"])
    assert max(ends["train"]) < min(ends["validation"]) < min(ends["test"])


def everything(events: np.ndarray, rules: Rules = RULES) -> tuple[np.ndarray, ...]:
    """(dense, keys, labels) of all splits."""
    parts = list(Group(events).inputs(rules))
    return tuple(np.concatenate([getattr(part, name) for part in parts]) for name in ("dense", "keys", "labels"))


def test_real_and_drawn_inputs_differ_in_the_candidates_item_and_category_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forced(label: float) -> Any:
        return lambda seed, stream, *rest: (
            np.full(len(rest[0]), label) if stream == LABEL else uniform(seed, stream, *rest)
        )

    events = World(0, 0.001).block(0)[:100_000]
    monkeypatch.setattr(taobao_sequences, "uniform", forced(0.0))
    dense, keys, labels = everything(events)
    monkeypatch.setattr(taobao_sequences, "uniform", forced(0.9))
    other_dense, other_keys, other_labels = everything(events)
    assert labels.all() and not other_labels.any()
    assert (dense == other_dense).all() and (dense[:, -1] == 0).all()
    differ = np.flatnonzero((keys != other_keys).any(axis=0))
    assert differ.tolist() == [41, 62]
    category = dict(zip(events["item"].tolist(), events["category"].tolist(), strict=True))
    assert [category[item] for item in other_keys[:2000, 41].tolist()] == other_keys[:2000, 62].tolist()


def test_neither_popularity_nor_time_gives_the_label_away() -> None:
    events = World(1, 0.05).block(0)
    dense, keys, labels = everything(events)
    assert labels.mean() == pytest.approx(0.5, abs=0.01)
    items, categories = (np.bincount(events[name].astype(np.int64)) for name in ("item", "category"))
    for score in (dense[:, -2], dense[:, 0], keys[:, 0]):
        assert roc_auc_score(labels, score) == pytest.approx(0.5, abs=0.015)
    # a user's own items, which are popular ones more often than not, are no negatives: it shows where items are few
    for score in (items[keys[:, 41]], categories[keys[:, 62]]):
        assert roc_auc_score(labels, score) == pytest.approx(0.515, abs=0.015)
    _, keys, labels = everything(events, replace(RULES, negatives="uniform"))
    assert roc_auc_score(labels, items[keys[:, 41]]) > 0.8


@pytest.mark.parametrize("negatives", ["popular", "uniform"])
@pytest.mark.parametrize("items", [20, 100])
def test_a_negative_is_no_item_of_the_users_own(negatives: str, items: int) -> None:
    events = random_events([21, 60, 200, 25] * 20, 10**6, 0, items)
    _, keys, labels = everything(events, replace(RULES, negatives=negatives))
    own = {user: set(events["item"][events["user"] == user].tolist()) for user in np.unique(events["user"]).tolist()}
    pairs = {tuple(pair) for pair in events[["item", "category"]].tolist()}
    assert 100 < (labels == 0).sum() < len(labels)
    for user, item, category in keys[labels == 0][:, [20, 41, 62]].tolist():
        assert item not in own[user] and (item, category) in pairs
    with_inputs = {user for user, theirs in own.items() if len(theirs) < items}
    assert set(keys[:, 0].tolist()) == with_inputs and (len(with_inputs) < 80) == (items == 20)


def test_negatives_are_drawn_as_often_as_they_occur_or_evenly() -> None:
    random = np.random.default_rng(0)
    events = np.zeros(4000 * 30, EVENT)
    events["user"], events["time"] = np.repeat(np.arange(4000), 30), np.arange(len(events))
    events["item"] = np.where(random.random(len(events)) < 0.01, random.integers(1, 100, len(events)), 1000)
    events["item"][events["user"] < 2000] += 5000  # half the users have one world, half the other
    for negatives, most in (("popular", 0.98), ("uniform", 0.005)):
        _, keys, labels = everything(events, replace(RULES, negatives=negatives))
        drawn = keys[(labels == 0) & (keys[:, 0] >= 2000), 41]
        assert (drawn == 6000).mean() == pytest.approx(most, abs=0.004)
        assert 1000 not in drawn


def test_users_can_be_held_back_whole() -> None:
    rules = replace(RULES, split="users", validation_share=0.1, test_share=0.3)
    events = random_events([40] * 3000, 10**6, 0, 1000)
    users = {split: set[int]() for split in ("train", "validation", "test")}
    for part in Group(events).inputs(rules):
        users[part.split] |= set(part.keys[:, 0].tolist())
    assert sum(map(len, users.values())) == len(set.union(*users.values())) == 3000
    for split, share in (("train", 0.6), ("validation", 0.1), ("test", 0.3)):
        assert len(users[split]) / 3000 == pytest.approx(share, abs=0.03)
    other = {
        key for part in Group(events).inputs(replace(rules, seed=1)) if part.split == "test" for key in part.keys[:, 0]
    }
    assert len(other & users["test"]) < 400


def test_draws_are_even_and_depend_on_everything() -> None:
    users, numbers = np.repeat(np.arange(1000), 10), np.tile(np.arange(10), 1000)
    draws = np.array([uniform(seed, stream, users, numbers) for seed in (0, 1, 2**63 - 1) for stream in range(3)])
    assert draws.min() >= 0 and draws.max() < 1
    assert np.abs(np.corrcoef(draws) - np.eye(9)).max() < 0.04
    assert len(np.unique(draws)) == draws.size
    assert np.abs(np.diff(draws.reshape(9, 1000, 10).mean(axis=1))).max() < 0.06
    counts = np.bincount((evenly(np.arange(5_000, 15_000), 77) * 100).astype(int), minlength=100)
    assert np.abs(counts - 100).max() <= 2
    assert len(np.unique(scramble(np.arange(10_000)))) == 10_000
