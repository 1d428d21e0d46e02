"""The systems that do the same computation in other places: same losses at each step, same final weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from baselines.optimizer import OPTIMIZERS
from baselines.system import System
from datasets.loader import Batch
from tests.small import (
    assert_hot_and_cold,
    build,
    dense_weights,
    hot_settings,
    make_job,
    train_epochs,
)

SLIPSTREAM_ON_HOTLINE = ("slipstream", {"skip": "none", "slipstream.layout": "hotline"})
SLIPSTREAM_ON_FAE = ("slipstream", {"skip": "none", "slipstream.layout": "fae"})
Named = tuple[str, Mapping[str, Any]]


@dataclass
class Trained:
    losses: torch.Tensor  # [steps]
    rows: torch.Tensor
    dense: torch.Tensor

    def difference(self, other: Trained) -> float:
        """The largest difference of any loss or weight."""
        pairs = [(self.losses, other.losses), (self.rows, other.rows), (self.dense, other.dense)]
        return max(float((a - b).abs().max()) for a, b in pairs)


def train(name: str, settings: Mapping[str, Any], **options: Any) -> Trained:
    """Two epochs. Of a system with hot rows, hot and cold lookups both occur."""
    job = make_job(name, settings=with_hot_rows(name, settings, **options), **options)
    system = build(name, job)
    try:
        walk = train_epochs(job, system, 2)
        assert_hot_and_cold(job, walk.runs)
        losses = torch.tensor(walk.losses, dtype=torch.float64)
        return Trained(losses, system.placement.rows().clone(), dense_weights(system, job))
    finally:
        system.placement.close()


def with_hot_rows(name: str, settings: Mapping[str, Any], **options: Any) -> Mapping[str, Any]:
    row_bytes = 64 if options.get("precision") == "fp64" else 32
    return hot_settings(name, row_bytes, options.get("steps", 1)) | dict(settings)


def assert_agree(one: Named, other: Named, within: float, **options: Any) -> None:
    first, second = train(*one, **options), train(*other, **options)
    assert len(first.losses) == 14
    assert not torch.equal(first.rows, train_nothing(*one, **options))
    assert first.difference(second) <= within


def train_nothing(name: str, settings: Mapping[str, Any], **options: Any) -> torch.Tensor:
    placement = build(name, make_job(name, settings=settings, **options)).placement
    try:
        return placement.rows().clone()
    finally:
        placement.close()


DLRM: Named = ("dlrm", {})
SAME_AS_DLRM = {
    "xdl-cpu": ("xdl-cpu", {}),
    "hotline": ("hotline", {}),
    "slipstream-hotline": SLIPSTREAM_ON_HOTLINE,
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("other", SAME_AS_DLRM)
def test_agree_with_dlrm_in_float64(other: str, optimizer: str) -> None:
    assert_agree(DLRM, SAME_AS_DLRM[other], 1e-8, precision="fp64", optimizer=optimizer)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_slipstream_agrees_with_fae_in_float64(optimizer: str) -> None:
    assert_agree(("fae", {}), SLIPSTREAM_ON_FAE, 1e-8, precision="fp64", optimizer=optimizer)


SAME_IN_FLOAT32 = {
    "xdl": ("xdl", {"xdl.servers": 2}),
    "torchrec": ("torchrec", {}),
    "hotline": ("hotline", {}),
    "slipstream-hotline": SLIPSTREAM_ON_HOTLINE,
}


@pytest.mark.parametrize("other", SAME_IN_FLOAT32)
def test_agree_with_dlrm_in_float32_with_sgd(other: str) -> None:
    assert_agree(DLRM, SAME_IN_FLOAT32[other], 1e-5)


@pytest.mark.parametrize("other", SAME_IN_FLOAT32)
def test_agree_without_dense_features_and_with_several_lookups_a_table(other: str) -> None:
    assert_agree(DLRM, SAME_IN_FLOAT32[other], 1e-5, dense=False, lookups=(1, 4, 1, 2))


@pytest.mark.parametrize("other", [name for name in SAME_IN_FLOAT32 if name != "xdl"])  # which follows, in float64
def test_agree_on_a_time_series(other: str) -> None:
    assert_agree(DLRM, SAME_IN_FLOAT32[other], 1e-5, steps=3, lookups=(1, 1, 2, 1))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("one", "other"),
    [(DLRM, ("hotline", {})), (DLRM, SLIPSTREAM_ON_HOTLINE), (("fae", {}), SLIPSTREAM_ON_FAE)],
    ids=["hotline", "slipstream-hotline", "slipstream-fae"],
)
def test_agree_on_a_time_series_in_float64(one: Named, other: Named, optimizer: str) -> None:
    assert_agree(one, other, 1e-8, precision="fp64", optimizer=optimizer, steps=3)


def test_xdl_agrees_on_a_time_series_in_float64() -> None:
    xdl = ("xdl", {"xdl.servers": 2})
    assert_agree(DLRM, xdl, 1e-8, precision="fp64", optimizer="rowwise-adagrad", steps=3, lookups=(1, 1, 2, 1))


@pytest.mark.parametrize("optimizer", ["rowwise-adagrad", "adagrad"])
@pytest.mark.parametrize("other", ["torchrec", "hotline", "xdl"])
def test_updates_of_equal_gradients_agree_in_float32_with_adagrad(other: str, optimizer: str) -> None:
    first, second = (rows_after_given_gradients(name, optimizer) for name in ("dlrm", other))
    assert float((first - second).abs().max()) <= 1e-6


@pytest.mark.parametrize("optimizer", ["rowwise-adagrad", "adagrad"])
@pytest.mark.parametrize("other", ["torchrec", "hotline"])
def test_updates_of_rows_that_an_input_looks_up_in_every_step_agree(other: str, optimizer: str) -> None:
    """With Adagrad, two updates of half a gradient are not one of the whole."""
    first, second = (rows_after_given_gradients(name, optimizer, steps=3) for name in ("dlrm", other))
    assert float((first - second).abs().max()) <= 1e-6


def rows_after_given_gradients(name: str, optimizer: str, steps: int = 1) -> torch.Tensor:
    """All rows after an epoch whose gradients depend on the inputs alone and not on the weights."""
    settings = hot_settings(name, steps=steps) | ({"xdl.servers": 2} if name == "xdl" else {})
    job = make_job(name, optimizer=optimizer, settings=settings, steps=steps)
    system = build(name, job)
    try:
        fake_backward(system)
        assert_hot_and_cold(job, train_epochs(job, system).runs)
        return system.placement.rows().clone()
    finally:
        system.placement.close()


def fake_backward(system: System) -> None:
    batch_size = system.placement.job.batch_size

    def backward(batch: Batch, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pattern = torch.linspace(-1, 1, vectors[0].numel()).view_as(vectors[0])
        grads = (batch.dense.sum(1) + batch.labels).view(-1, 1, 1) * pattern / batch_size
        for parameter in system.placement.dense.network.parameters():
            parameter.grad = torch.zeros_like(parameter)
        return torch.zeros(()), grads

    system.placement.dense.backward = backward  # type: ignore[method-assign]
