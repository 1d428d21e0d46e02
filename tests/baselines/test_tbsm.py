"""TBSM: what it computes, its gradients, what it costs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from baselines.dense import make_network
from baselines.model import MODELS
from baselines.tbsm import Tbsm
from datasets.schema import Schema
from tests.small import make_schema

SIZE, STEPS, TABLES = 6, 5, 3
Input = tuple[torch.Tensor, torch.Tensor]


def make(dense: bool = True) -> tuple[Tbsm, Input]:
    """rm1 over a small time series, in float64, and inputs for it."""
    schema = make_schema((40, 300, 7), dense=dense, steps=STEPS)
    network = make_network(MODELS["rm1"], schema, seed=5).double()
    assert isinstance(network, Tbsm)
    return network, inputs(schema)


def inputs(schema: Schema) -> Input:
    random = torch.Generator().manual_seed(7)
    dense = torch.randn(SIZE, schema.num_dense, generator=random, dtype=torch.float64)
    vectors = torch.randn(SIZE, schema.num_vectors, 16, generator=random, dtype=torch.float64) / 4
    return dense, vectors


def layers(mlp: nn.Sequential, x: np.ndarray) -> np.ndarray:
    """An MLP by hand, ReLUs between its layers and none after the last."""
    linear = [layer for layer in mlp.modules() if isinstance(layer, nn.Linear)]
    for number, layer in enumerate(linear):
        x = layer.weight.detach().numpy() @ x + layer.bias.detach().numpy()
        x = x if number == len(linear) - 1 else np.maximum(x, 0)
    return x


def by_hand(network: Tbsm, dense: np.ndarray, vectors: np.ndarray) -> float:
    """The logit of one input, of dense values [S, F] and vectors [T, S, D], a step at a time."""
    tower, projection = network.tower, network.projection.detach().numpy()
    assert isinstance(tower.bottom, nn.Sequential)
    steps = []
    for step in range(STEPS):
        bottom = np.maximum(layers(tower.bottom, dense[step]), 0)
        each = [bottom, *(vectors[table, step] for table in range(TABLES))]
        products = [each[a] @ each[b] for a in range(TABLES + 1) for b in range(a)]
        top = np.maximum(layers(tower.top, np.concatenate([bottom, products])), 0)
        steps.append(top / np.linalg.norm(top))
    *history, candidate = steps
    scores = np.array([(projection @ z) @ (projection @ candidate) for z in history])
    weights = 1 / (1 + np.exp(-layers(network.attention, scores)))
    context = sum((weight * z for weight, z in zip(weights, history, strict=True)), np.zeros_like(candidate))
    return float(layers(network.final, np.concatenate([context, candidate]))[0])


def test_logits_are_those_of_the_model_written_out() -> None:
    network, (dense, vectors) = make()
    each_dense, each_vectors = dense.view(SIZE, STEPS, -1).numpy(), vectors.view(SIZE, TABLES, STEPS, -1).numpy()
    expected = [by_hand(network, each_dense[i], each_vectors[i]) for i in range(SIZE)]
    np.testing.assert_allclose(network(dense, vectors).detach(), expected, rtol=0, atol=1e-12)
    assert np.ptp(expected) > 0.1


@pytest.mark.parametrize("dense", [True, False])
def test_gradients_of_vectors_and_of_every_weight_are_right(dense: bool) -> None:
    network, (features, vectors) = make(dense)
    names, weights = zip(*network.named_parameters(), strict=True)

    def forward(vectors: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(network, named, (features, vectors))

    assert torch.autograd.gradcheck(forward, (vectors.requires_grad_(), *weights), fast_mode=True)
    network(features, vectors).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in weights)


def test_step_vectors_have_length_one() -> None:
    network, (dense, vectors) = make()
    lengths = network.step_vectors(dense, vectors).norm(dim=2)
    np.testing.assert_allclose(lengths.detach(), np.ones((SIZE, STEPS)))


def test_a_tower_that_gives_zero_does_no_harm() -> None:
    network, (dense, vectors) = make()
    with torch.no_grad():
        last = network.tower.top[-1]
        assert isinstance(last, nn.Linear)
        last.bias.fill_(-100)  # under which all of the last layer's ReLUs are off
    assert not network.step_vectors(dense, vectors).any()
    logits = network(dense, vectors.requires_grad_())
    logits.sum().backward()
    assert logits.isfinite().all()
    assert not vectors.grad.any()  # type: ignore[union-attr]
    assert all(weight.grad.isfinite().all() for weight in network.parameters() if weight.grad is not None)


def test_flops_are_those_that_are_done() -> None:
    network, (dense, vectors) = make()
    step = 2 * (3 * 16 + 22 * 15 + 15 * 15) + 2 * 4 * 4 * 16
    attention = 2 * (4 * 15 + 15 * 15 + 15 * 4) + 2 * 2 * 15 * 15 + 2 * 2 * 4 * 15  # MLP, projections, scores, context
    final = 2 * (30 * 60 + 60 * 1)
    assert network.forward_flops == STEPS * step + attention + final
    assert network.training_flops == 3 * network.forward_flops - STEPS * 2 * 3 * 16
    with FlopCounterMode(display=False) as counted:
        network(dense, vectors)
    products = STEPS * 2 * 4 * 4 * 16  # which the counter does not see: on a CPU they are a loop of our own
    assert counted.get_total_flops() == SIZE * (network.forward_flops - products)
