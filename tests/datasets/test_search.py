"""Where keys stand in a list, and how many members come before a number: as plain Python says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.bits import BitSet
from datasets.search import SortedKeys

KEYS = st.one_of(st.integers(0, 40), st.integers(0, 2**33), st.integers(2**32 - 3, 2**32 + 3))


@settings(deadline=None)  # the first call compiles
@given(st.sets(KEYS, max_size=200), st.lists(KEYS, max_size=50))
def test_places_are_those_of_a_dictionary(known: set[int], asked: list[int]) -> None:
    ranks = {key: rank for rank, key in enumerate(sorted(known), start=1)}
    asked += list(known)
    places = SortedKeys(np.array(sorted(known), np.int64)).places(np.array(asked, np.int64))
    assert places.tolist() == [ranks.get(key, 0) for key in asked]


@pytest.mark.parametrize("most", [4_000, 2**20, 2**32])
def test_crowded_and_scattered_keys_are_found(most: int) -> None:
    random = np.random.default_rng(most)
    keys = np.unique(np.concatenate([random.integers(0, most, 3000), np.arange(500), [most]]))
    wanted = np.concatenate([keys, random.integers(0, 2 * most, 3000)])
    places = SortedKeys(keys).places(wanted)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    np.testing.assert_array_equal(places, np.where(keys[at] == wanted, at + 1, 0))


@settings(deadline=None)
@given(st.lists(st.integers(0, 299), max_size=100), st.integers(300, 400))
def test_members_are_ranked(numbers: list[int], size: int) -> None:
    members = BitSet(size)
    members.add(np.array(numbers, np.int64))
    members.close()
    ranks = {number: rank for rank, number in enumerate(sorted(set(numbers)), start=1)}
    assert members.places(np.arange(size)).tolist() == [ranks.get(number, 0) for number in range(size)]
    assert len(members) == len(ranks)
