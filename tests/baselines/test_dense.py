"""The dense network in training: what a weight does to a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from baselines.dense import Dense
from baselines.optimizer import OPTIMIZERS
from datasets.loader import Batch, read
from tests.small import build, dense_weights, make_job


def after(batch: Batch, optimizer: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and dense weights after a step."""
    job = make_job("dlrm", precision="fp64", optimizer=optimizer)
    system = build("dlrm", job)
    system.placement.train(batch)
    return system.placement.rows(), dense_weights(system, job)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_input_of_weight_two_is_one_twice_and_one_of_weight_zero_is_not_there(optimizer: str) -> None:
    train = make_job("dlrm").train
    pair = read(train, np.array([3, 5]))
    weighted = after(replace(pair, weights=torch.tensor([2.0, 0.0])), optimizer)
    doubled = after(read(train, np.array([3, 3])), optimizer)
    plain = after(pair, optimizer)
    for one, other, without in zip(weighted, doubled, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
        assert float((one - without).abs().max()) > 1e-4


def test_inputs_of_a_short_mini_batch_weigh_as_much_as_others() -> None:
    job = make_job("dlrm", batch_size=8, num_inputs=8)
    whole, part = Dense(job), Dense(job)
    batch = read(job.train, np.arange(8))
    vectors = torch.randn(8, job.schema.num_vectors, job.model.dim)
    loss, grads = whole.backward(batch, vectors)
    short = torch.arange(8) < 3
    short_loss, short_grads = part.backward(batch.select(short), vectors[short])
    torch.testing.assert_close(short_grads, grads[short])
    assert short_loss < loss


def test_a_large_mini_batch_in_slices_gives_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job("dlrm", batch_size=50, num_inputs=50, precision="fp64")
    batch, vectors = read(job.train, np.arange(50)), torch.randn(50, job.schema.num_vectors, job.model.dim).double()
    found = []
    for size in (50, 16):
        monkeypatch.setattr("baselines.dense.SLICE", size)
        dense = Dense(job)
        loss, grads = dense.backward(batch, vectors)
        found.append([loss, grads, *(parameter.grad for parameter in dense.network.parameters())])
    for whole, sliced in zip(*found, strict=True):
        torch.testing.assert_close(sliced, whole)
