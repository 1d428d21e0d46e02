"""From events to inputs: as a slow reading of the rules makes them, and nothing in them gives the label away."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from datasets import taobao_sequences
from datasets.taobao_draws import evenly, scramble, uniform
from datasets.taobao_sequences import EVENT, LABEL, NEGATIVE, PLACE, Group, Rules, in_order, split_sizes
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
    if len(kept) == 1:
        return []
    found: list[Input] = []
    for user, of in kept.items():
        places = len(of) - 20
        points = min(places, rules.points_per_user)
        tests, validations = (math.floor(points * share + 0.5) for share in (rules.test_share, rules.validation_share))
        others = [event for other, theirs in kept.items() if other != user for event in theirs]
        for n in range(points):
            draw = {s: float(uniform(rules.seed, s, np.array([user]), np.array([n]))[0]) for s in range(3)}
            low, high = places * n // points, places * (n + 1) // points
            end = 20 + low + int(draw[PLACE] * (high - low))
            real = draw[LABEL] < 0.5
            candidate = of[end] if real else others[int(draw[NEGATIVE] * len(others))]
            steps = [*of[end - 20 : end], candidate]
            keys = [user] * 21 + [step[1] for step in steps] + [step[2] for step in steps]
            dense = [math.log1p((of[end][3] - of[at][3]) / 3600) for at in range(end - 20, end + 1)]
            split = "test" if n >= points - tests else "validation" if n >= points - tests - validations else "train"
            found.append((split, dense, keys, int(real)))
    return found


def fast_inputs(events: np.ndarray, rules: Rules) -> list[Input]:
    return [
        (part.split, *row)
        for part in Group(events).inputs(rules)
        for row in zip(part.dense.tolist(), part.keys.tolist(), part.labels.tolist(), strict=True)
    ]


def random_events(sizes: list[int], span: int, seed: int) -> np.ndarray:
    """Events of users of so many events each, all mixed, with many at the same second and some there twice."""
    random = np.random.default_rng(seed)
    events = np.empty(sum(sizes), EVENT)
    events["user"] = np.repeat(random.permutation(len(sizes)) * 1_000_003 + 5, sizes)
    items = random.integers(0, 6, len(events))
    events["item"], events["category"] = items * 700_000_000, items % 5
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
    ),
    st.integers(0, 2**32),
)
def test_inputs_are_those_of_the_slow_reading(sizes: list[int], span: int, rules: Rules, seed: int) -> None:
    events = random_events(sizes, span, seed)
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
    assert (len(group.sizes), group.short_users, group.short_events, group.lonely) == (2, 2, 23, False)
    alone = Group(random_events([40, 20], 10**6, 0))
    assert alone.lonely and list(alone.inputs(RULES)) == []
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


def everything(events: np.ndarray) -> tuple[np.ndarray, ...]:
    """(dense, keys, labels) of all splits."""
    parts = list(Group(events).inputs(RULES))
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
    for score in (items[keys[:, 41]], categories[keys[:, 62]], dense[:, -2], dense[:, 0], keys[:, 0]):
        assert roc_auc_score(labels, score) == pytest.approx(0.5, abs=0.015)


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
