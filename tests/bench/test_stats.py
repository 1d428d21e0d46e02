"""Statistics on known answers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats import (
    NO_DIFFERENCE,
    NO_INTERVAL,
    geometric_mean,
    mean_interval,
    paired_difference,
    paired_ratio,
    verdict,
)

T_4 = 2.7764451051977987  # Student's t, 97.5 % quantile, 4 degrees of freedom


def test_mean_interval_of_one_to_five() -> None:
    estimate = mean_interval([1, 2, 3, 4, 5])
    assert estimate is not None and estimate.n == 5 and estimate.value == 3
    assert estimate.half_width == pytest.approx(T_4 * math.sqrt(2.5) / math.sqrt(5))


def test_paired_difference_of_students_sleep_data() -> None:
    """Student (1908): hours of sleep gained with two drugs; mean difference 1.58, t = 4.06, interval 0.70 to 2.46."""
    first = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    second = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    estimate = paired_difference(list(zip(first, second, strict=True)))
    assert estimate is not None and estimate.low is not None and estimate.high is not None
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1.58, 0.7001142, 2.4598858))


def test_paired_ratio_is_taken_on_logarithms() -> None:
    estimate = paired_ratio([(2, 1), (4, 1), (8, 1)])
    assert estimate is not None and estimate.low is not None and estimate.high is not None
    assert estimate.value == pytest.approx(4)
    assert estimate.low * estimate.high == pytest.approx(16)


def test_two_pairs_have_no_interval_worth_showing() -> None:
    two = paired_ratio([(3, 2), (3, 2.1)])
    assert two is not None and (two.low, two.high, two.n) == (None, None, 2)


def test_one_pair_has_no_interval_and_none_no_value() -> None:
    one = paired_ratio([(3, 2)])
    assert one is not None and (one.value, one.low, one.high, one.n) == (pytest.approx(1.5), None, None, 1)
    assert paired_ratio([]) is None and paired_difference([]) is None
    assert verdict(one, 1.0, "faster", "slower") == NO_INTERVAL and verdict(None, 1.0, "faster", "slower") == ""


def test_geometric_mean_weighs_data_sets_alike() -> None:
    """However many runs each has; 2 and 8 have the geometric mean 4."""
    found = geometric_mean([[2.0] * 3, [8.0] * 7])
    assert found is not None and (found.value, found.low, found.high, found.n) == pytest.approx((4, 4, 4, 2))


def test_geometric_mean_of_equal_spreads_is_the_pooled_t_interval() -> None:
    """Two data sets of three runs with the same spread: Satterthwaite's degrees of freedom are the pooled 2 + 2."""
    logs = [-0.1, 0.0, 0.1]  # variance 0.01
    found = geometric_mean([[math.exp(x) for x in logs], [4 * math.exp(x) for x in logs]])
    assert found is not None and found.low is not None and found.high is not None
    half = T_4 * math.sqrt(2 * 0.01 / 3 / 4)
    assert (math.log(found.value), math.log(found.low), math.log(found.high)) == pytest.approx(
        (math.log(2), math.log(2) - half, math.log(2) + half)
    )


def test_geometric_mean_takes_welchs_degrees_of_freedom() -> None:
    """One data set without any spread leaves those of the other: 2, whose t is 4.3027."""
    found = geometric_mean([[1.0, 1.0, 1.0], [math.exp(x) for x in (-0.2, 0.0, 0.2)]])
    assert found is not None and found.high is not None
    assert math.log(found.high) == pytest.approx(4.302652729911275 * math.sqrt(0.04 / 3 / 4))


def test_geometric_mean_needs_every_data_set() -> None:
    assert geometric_mean([]) is None and geometric_mean([[1.5, 1.6, 1.7], []]) is None
    few = geometric_mean([[2.0, 2.0, 2.0], [2.0, 2.0]])
    assert few is not None and (few.value, few.low, few.high, few.n) == (pytest.approx(2), None, None, 2)


def test_verdicts() -> None:
    assert verdict(paired_ratio([(2, 1), (2.1, 1), (1.9, 1)]), 1.0, "faster", "slower") == "faster"
    assert verdict(paired_ratio([(1, 2), (1, 2.1), (1, 1.9)]), 1.0, "faster", "slower") == "slower"
    assert verdict(paired_ratio([(1, 2), (2, 1), (1, 1)]), 1.0, "faster", "slower") == NO_DIFFERENCE
    assert verdict(paired_difference([(1, 1), (2, 2), (3, 3)]), 0.0, "more", "less") == NO_DIFFERENCE


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=3, max_size=6))
def test_ratio_turned_round_is_its_inverse(pairs: list[tuple[float, float]]) -> None:
    there, back = paired_ratio(pairs), paired_ratio([(second, first) for first, second in pairs])
    assert there is not None and back is not None and there.low is not None and back.high is not None
    assert there.value == pytest.approx(1 / back.value) and there.low == pytest.approx(1 / back.high)
