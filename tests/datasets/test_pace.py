"""Progress: how far, how fast, how long still, at most once a second."""

from __future__ import annotations

import pytest

from datasets.pace import Pace, duration


class Clock:
    """A time that stands still."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_a_line_says_how_far_how_fast_and_how_long_still() -> None:
    said: list[str] = []
    clock = Clock()
    pace = Pace(said.append, "criteo-kaggle", "lines", total=10_000, now=clock)
    clock.time += 2
    pace.add(4000)
    assert said == ["criteo-kaggle: 4,000 of 10,000 lines, 2,000/s, 3 s left"]
    clock.time += 2
    pace.add(6000)
    assert said[1:] == ["criteo-kaggle: 10,000 of 10,000 lines, 2,500/s"]


def test_lines_are_a_second_apart_and_the_last_one_always_comes() -> None:
    said: list[str] = []
    clock = Clock()
    pace = Pace(said.append, "counting", "inputs", now=clock)
    for _ in range(25):
        clock.time += 0.125
        pace.add(10)
    assert said == [f"counting: {80 * n} inputs, 80/s" for n in (1, 2, 3)]
    pace.end()
    assert said[3:] == ["counting: 250 inputs, 80/s"]


def test_what_an_earlier_process_did_is_counted_but_is_no_part_of_the_rate() -> None:
    said: list[str] = []
    clock = Clock()
    pace = Pace(said.append, "x", "lines", total=1000, done=900, now=clock)
    clock.time += 4
    pace.add(20)
    assert said == ["x: 920 of 1,000 lines, 5/s, 16 s left"]
    assert (pace.done, pace.rate) == (920, 5.0)


def test_nothing_done_has_no_time_left() -> None:
    said: list[str] = []
    Pace(said.append, "x", "lines", total=5, now=Clock()).end()
    assert said == ["x: 0 of 5 lines, 0/s"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (200_000, "55 h 33 min"),
    ],
)
def test_durations_are_said_as_a_person_says_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
