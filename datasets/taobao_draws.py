"""Random numbers that are a function of what they are drawn for, so that no order of work can change them."""

from __future__ import annotations

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio, odd


def scramble(values: np.ndarray) -> np.ndarray:
    """[n] uint64: a one-to-one mixing of 64-bit numbers, SplitMix64's output function (Steele et al., OOPSLA 2014)."""
    mixed = values.astype(np.uint64) + _STEP
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def uniform(seed: int, stream: int, users: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """[n] float64 in [0, 1): one draw for each number of a user; `stream` tells apart what is drawn."""
    salt = scramble(scramble(np.array([seed])) + np.uint64(stream))
    mixed = scramble(scramble(users.astype(np.uint64) ^ salt) + numbers.astype(np.uint64))
    return (mixed >> np.uint64(11)) * 2.0**-53


def evenly(serials: np.ndarray, salt: int = 0) -> np.ndarray:
    """[n] float64 in [0, 1): the golden-ratio sequence, which fills the interval more evenly than chance would.

    Of any n numbers in a row, an interval of length p gets n·p give or take two or three.
    """
    start = scramble(np.array([salt]))
    return ((serials.astype(np.uint64) * _STEP + start) >> np.uint64(11)) * 2.0**-53
