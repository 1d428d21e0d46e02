"""Constants that made the figures are found again in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from baselines.work import HOST, LINK
from bench import published
from bench.replay.fit import Target, Unknown, solve
from bench.replay.model import replay
from bench.replay.papers import is_fitted, is_flawed, software_hotline
from tests.bench.replay.small import constant, plain_steps, profile, work

TRUE = profile(
    host__rows_read=constant(3e-6),
    link__bytes=constant(per_s=2e9),
    step__any=constant(4e-3),
    step__any__xdl=constant(7e-3),
    device__dense_flops=constant(per_s=1e12),
)
UNKNOWNS = (
    Unknown((HOST, "rows_read"), "each_s"),
    Unknown((LINK, "bytes"), "per_s"),
    Unknown(("step", "any"), "each_s"),
    Unknown(("step", "any", "xdl"), "each_s"),
)
KNOWN = replace(TRUE, constants={("device", "dense_flops"): TRUE.constants["device", "dense_flops"]})


def figures(noise: float = 0.0) -> list[Target]:
    """Times of six runs of two systems, and of the link in two of them."""
    random = np.random.default_rng(0)
    found = []
    for number in range(6):
        steps = work(plain_steps(*([*row, 5, 1] for row in random.integers(1, 1 << 20, (4, 3)).tolist())))
        system = "xdl" if number % 2 else "dlrm"
        seconds = replay(steps, TRUE, system).seconds * (1 + noise * random.standard_normal())
        found.append(Target(steps, system, seconds))
        if number < 2:
            found.append(Target(steps, system, replay(steps, TRUE, system).of(LINK), lambda part: part.of(LINK)))
    return found


def test_constants_are_found_in_the_figures_that_they_made() -> None:
    found = solve(KNOWN, UNKNOWNS, figures(), "a test").constants
    for place, true in TRUE.constants.items():
        assert found[place].each_s == pytest.approx(true.each_s, rel=1e-6)
        assert found[place].per_s == pytest.approx(true.per_s, rel=1e-6)
    assert {found[unknown.place].how for unknown in UNKNOWNS} == {"fitted"}
    assert found["device", "dense_flops"] == TRUE.constants["device", "dense_flops"]


def test_figures_that_are_a_little_off_give_constants_that_are() -> None:
    found = solve(KNOWN, UNKNOWNS, figures(noise=0.01), "a test").constants
    assert found[HOST, "rows_read"].each_s == pytest.approx(3e-6, rel=0.1)


def test_a_cost_that_is_not_there_comes_out_as_none() -> None:
    unknowns = (*UNKNOWNS, Unknown((HOST, "tables"), "each_s"))  # which no step has any of
    nothing = solve(KNOWN, unknowns, figures(), "a test").constants[HOST, "tables"]
    assert (nothing.each_s, nothing.per_s) == (0, float("inf"))


def test_the_servers_are_fitted_to_baselines_on_one_gpu_only() -> None:
    fitted = [figure for figure in published.figures() if is_fitted(figure)]
    assert {(figure["system"], figure["gpus"]) for figure in fitted} == {("xdl", "1"), ("dlrm", "1")}
    assert not any(is_flawed(figure) for figure in fitted)
    flawed = [figure for figure in published.figures() if is_flawed(figure)]
    assert len(flawed) == 10 and {figure["system"] for figure in flawed} == {"fae"}


def test_software_hotline_is_read_off_two_charts() -> None:
    found = {figure["dataset"]: float(figure["value"]) for figure in software_hotline(published.figures())}
    assert found["criteo-kaggle"] == pytest.approx(3.94 / 2.28)
    assert set(found) == {"criteo-kaggle", "criteo-terabyte", "avazu", "taobao"}
