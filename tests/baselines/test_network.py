"""DLRM's network: its products, its first weights, what it costs."""

from __future__ import annotations

import math

import pytest
import torch

from baselines.dense import make_network
from baselines.model import MODELS
from baselines.network import Dlrm
from tests.small import make_schema

ROWS = (40, 300, 7)


def make(name: str, seed: int = 0, dense: bool = True) -> Dlrm:
    network = make_network(MODELS[name], make_schema(ROWS, dense=dense), seed)
    assert isinstance(network, Dlrm)
    return network


def test_pairs_are_each_product_once() -> None:
    """An input whose vectors are the unit vectors has no products; equal vectors have all of them."""
    tower = make("small", dense=False).tower
    seen: list[torch.Tensor] = []
    tower.top.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    bottom = tower.bottom(torch.empty(1, 0))[0].tolist()
    tower(torch.empty(1, 0), torch.eye(16)[:3].unsqueeze(0))
    products = seen[0][0, 16:]
    expected = [bottom[0], bottom[1], 0.0, bottom[2], 0.0, 0.0]
    assert products.tolist() == pytest.approx(expected)


def test_first_weights_are_the_published_ones() -> None:
    layer = make("rm2", seed=1).tower.bottom[1]  # type: ignore[index]
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / (512 + 256)), rel=0.02)
    assert layer.bias.std().item() == pytest.approx(math.sqrt(1 / 256), rel=0.2)


def test_same_seed_same_weights() -> None:
    one, same, other = (make("small", seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["tower.top.0.weight"], other["tower.top.0.weight"])


def test_flops_are_those_of_the_layers() -> None:
    network = make("small")
    forward = 2 * (3 * 64 + 64 * 16 + (16 + 6) * 64 + 64 * 32 + 32 * 1) + 2 * 4 * 4 * 16
    assert network.forward_flops == forward
    assert network.training_flops == 3 * forward - 2 * 3 * 64
