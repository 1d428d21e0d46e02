"""Keys are packed into 32 bits each, with a bit more for the missing ones, and come back as they were."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.keys import MISSING, num_words, pack, unpack

KEY = st.sampled_from([0, 1, 2**31, 2**32 - 1, MISSING]) | st.integers(0, MISSING)
KEYS = st.integers(1, 70).flatmap(
    lambda columns: st.lists(st.lists(KEY, min_size=columns, max_size=columns), max_size=6).map(
        lambda rows: np.array(rows, np.int64).reshape(-1, columns)
    )
)


@settings(deadline=None)  # the first call compiles
@given(KEYS)
def test_packed_keys_come_back(keys: np.ndarray) -> None:
    columns = keys.shape[1]
    packed = pack(keys)
    assert packed.dtype == np.uint32
    assert packed.shape == (len(keys), columns + num_words(columns))
    for column in range(columns):
        found = unpack(packed, column, columns)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, keys[:, column])


def test_a_word_is_added_for_every_32_columns() -> None:
    assert [num_words(columns) for columns in (1, 26, 32, 33, 64, 65)] == [1, 1, 1, 2, 2, 3]


def test_no_key_is_missing_but_the_missing_one() -> None:
    packed = pack(np.array([[0, 2**32 - 1, MISSING]]))
    assert packed.tolist() == [[0, 2**32 - 1, 0, 0b100]]
