"""The dense network: its shape, its first weights, what it costs."""

from __future__ import annotations

import math

import pytest
import torch

from baselines.model import MODELS, Dlrm, PairProducts, initial_rows
from tests.small import make_schema

ROWS = (40, 300, 7)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.top])
@pytest.mark.parametrize("dense", [True, False])
def test_named_models_give_one_logit_an_input(name: str, dense: bool) -> None:
    schema, model = make_schema(ROWS, dense=dense), MODELS[name]
    network = Dlrm(model, schema, seed=0)
    logits = network(torch.randn(5, len(schema.dense)), torch.randn(5, 3, model.dim))
    assert logits.shape == (5,)
    assert model.bottom[-1] == model.dim
    assert model.top[-1] == 1


def test_rm2_is_the_papers() -> None:
    linear = [layer for layer in Dlrm(MODELS["rm2"], make_schema([2] * 26), 0).modules() if hasattr(layer, "weight")]
    assert [layer.in_features for layer in linear] == [3, 512, 256, 64, 16 + 27 * 26 // 2, 512, 256]


def test_pairs_are_each_product_once() -> None:
    """An input whose vectors are the unit vectors has no products; equal vectors have all of them."""
    schema = make_schema(ROWS, dense=False)
    network = Dlrm(MODELS["small"], schema, seed=0)
    seen: list[torch.Tensor] = []
    network.top.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    bottom = network.bottom(torch.empty(1, 0))[0].tolist()
    network(torch.empty(1, 0), torch.eye(16)[:3].unsqueeze(0))
    products = seen[0][0, 16:]
    expected = [bottom[0], bottom[1], 0.0, bottom[2], 0.0, 0.0]
    assert products.tolist() == pytest.approx(expected)


def test_first_weights_are_the_published_ones() -> None:
    layer = Dlrm(MODELS["rm2"], make_schema(ROWS), seed=1).bottom[2]  # type: ignore[index]
    assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / (512 + 256)), rel=0.02)
    assert layer.bias.std().item() == pytest.approx(math.sqrt(1 / 256), rel=0.2)


def test_same_seed_same_weights() -> None:
    one, same, other = (Dlrm(MODELS["small"], make_schema(ROWS), seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["top.0.weight"], other["top.0.weight"])


def test_initial_rows_are_uniform_and_the_reserved_one_is_zero() -> None:
    schema = make_schema([10_000, 100])
    for table, bound in ((0, 0.01), (1, 0.1)):
        rows = initial_rows(schema, 16, seed=0, table=table)
        assert not rows[0].any()
        assert rows[1:].abs().max().item() == pytest.approx(bound, rel=0.05)
        assert rows[1:].abs().mean().item() == pytest.approx(bound / 2, rel=0.1)


def test_flops_are_those_of_the_layers() -> None:
    schema = make_schema(ROWS)
    network = Dlrm(MODELS["small"], schema, seed=0)
    forward = 2 * (3 * 64 + 64 * 16 + (16 + 6) * 64 + 64 * 32 + 32 * 1) + 2 * 4 * 4 * 16
    assert network.forward_flops == forward
    assert network.training_flops == 3 * forward - 2 * 3 * 64


@pytest.mark.parametrize("size", [2, 5, 27])
def test_pair_products_have_the_gradient_of_the_plain_operators(size: int) -> None:
    random = torch.Generator().manual_seed(size)
    vectors = torch.randn(3, size, 4, generator=random, dtype=torch.float64, requires_grad=True)
    places = torch.tril_indices(size, size, offset=-1)
    pairs = places[0] * size + places[1]
    assert torch.autograd.gradcheck(lambda given: PairProducts.apply(given, pairs), (vectors,))
    plain = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)[:, pairs]
    assert torch.equal(PairProducts.apply(vectors, pairs), plain)
