"""Losses of every step, as they were when the files here were written: SGD, float64, two epochs of made-up data.

`exact.txt` is that of all systems that compute what `dlrm` does; `rm1` is on a time series of 21 steps. After a change
that is meant to change numbers, write the files anew with SLIPBENCH_UPDATE_GOLDEN=1 and say in the commit why.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines.model import MODELS
from tests.small import assert_hot_and_cold, build, make_job, train_epochs

HERE = Path(__file__).parent
HOT = {"layout.hot_bytes": "18000"}  # of twice that: rows of 8 float64; hot and cold lookups both occur
SKIPPING = {"slipstream.window": "0.2", "slipstream.tolerance": "0.2"}
RM1: dict[str, Any] = {"model": MODELS["rm1"], "steps": 21, "rows": (200, 60, 9)}
RM1_HOT = {"layout.hot_bytes": "15000"}  # of 34432: three fifths of the inputs are hot
RM1_SKIPPING = SKIPPING | {"slipstream.alpha": "4"}


@pytest.mark.parametrize(
    ("name", "system", "settings", "shape"),
    [
        ("exact", "dlrm", {}, {}),
        ("exact", "hotline", HOT, {}),
        ("fae", "fae", HOT, {}),
        ("slipstream", "slipstream", HOT | SKIPPING, {}),
        ("rm1-exact", "dlrm", {}, RM1),
        ("rm1-exact", "hotline", RM1_HOT, RM1),
        ("rm1-fae", "fae", RM1_HOT, RM1),
        ("rm1-slipstream", "slipstream", RM1_HOT | RM1_SKIPPING, RM1),
        ("rm1-slipstream-hotline", "slipstream", RM1_HOT | RM1_SKIPPING | {"slipstream.layout": "hotline"}, RM1),
    ],
)
def test_losses_are_those_of_the_golden_file(
    name: str, system: str, settings: dict[str, str], shape: dict[str, Any]
) -> None:
    job = make_job(system, precision="fp64", num_inputs=32 * 20 + 11, lr=0.1, settings=settings, **shape)
    built = build(system, job)
    walk = train_epochs(job, built, job.epochs)
    built.placement.close()
    assert_hot_and_cold(job, walk.runs)
    assert (len(walk.skipped) > 0) == (system == "slipstream")
    path = HERE / f"{name}.txt"
    if os.environ.get("SLIPBENCH_UPDATE_GOLDEN"):
        path.write_text("".join(f"{step}\t{loss:.12f}\n" for step, loss in enumerate(walk.losses)))
    steps, golden = np.loadtxt(path, unpack=True)
    assert steps.tolist() == list(range(len(walk.losses)))
    np.testing.assert_allclose(walk.losses, golden, rtol=0, atol=1e-9)
