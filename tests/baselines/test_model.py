"""The named models and the first rows of their tables."""

from __future__ import annotations

import pytest
import torch

from baselines.dense import make_network
from baselines.model import MODELS, check_fits, initial_rows
from baselines.network import Logistic
from datasets.errors import UserError
from datasets.schema import Schema, Table
from tests.small import make_schema

ROWS = (40, 300, 7)
TAOBAO = Schema(dense=("time",), tables=tuple(Table(name=n, rows=9) for n in ("user", "item", "category")), steps=21)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("name", "steps"),
    [(name, steps) for name, model in MODELS.items() for steps in (1, 4) if steps > 1 or not model.final],
)
def test_named_models_give_one_logit_an_input(name: str, steps: int, dense: bool) -> None:
    schema, model = make_schema(ROWS, dense=dense, steps=steps), MODELS[name]
    network = make_network(model, schema, seed=0)
    logits = network(torch.randn(5, schema.num_dense), torch.randn(5, schema.num_vectors, model.dim))
    assert logits.shape == (5,)


def widths(name: str, schema: Schema) -> list[tuple[int, int]]:
    """What the linear layers of a model read and give."""
    layers = make_network(MODELS[name], schema, seed=0).modules()
    return [(layer.in_features, layer.out_features) for layer in layers if isinstance(layer, torch.nn.Linear)]


def test_rm2_is_the_papers() -> None:
    bottom = [(3, 512), (512, 256), (256, 64), (64, 16)]
    assert widths("rm2", make_schema([2] * 26)) == [*bottom, (16 + 27 * 26 // 2, 512), (512, 256), (256, 1)]


def test_rm1_is_the_papers() -> None:
    """1-16, 22-15-15, attention 20-15-15-20 with a projection of 15 × 15, 30-60-1."""
    step, attention, final = [(1, 16), (22, 15), (15, 15)], [(20, 15), (15, 15), (15, 20)], [(30, 60), (60, 1)]
    assert widths("rm1", TAOBAO) == [*step, *attention, *final]
    assert sum(parameter.numel() for parameter in make_network(MODELS["rm1"], TAOBAO, 0).parameters()) == 3638


def test_a_model_that_attends_over_steps_needs_some() -> None:
    with pytest.raises(UserError, match="a model without attention"):
        make_network(MODELS["rm1"], make_schema(ROWS), seed=0)
    check_fits(MODELS["rm1"], TAOBAO)
    check_fits(MODELS["rm2"], TAOBAO)


def test_a_model_without_attention_sees_all_steps_at_once() -> None:
    schema = make_schema(ROWS, steps=4)
    assert widths("small", schema)[:3] == [(4 * 3, 64), (64, 16), (16 + 13 * 12 // 2, 64)]
    network = Logistic(schema)
    ones = network(torch.ones(2, 4 * 3), torch.ones(2, 4 * 3, 1))
    assert ones.tolist() == [12, 12]  # a weight a row, the dense weights being zero at first
    assert network.forward_flops == 2 * 12 + 12


def test_initial_rows_are_uniform_and_the_reserved_one_is_zero() -> None:
    schema = make_schema([10_000, 100])
    for table, bound in ((0, 0.01), (1, 0.1)):
        rows = initial_rows(schema, 16, seed=0, table=table)
        assert not rows[0].any()
        assert rows[1:].abs().max().item() == pytest.approx(bound, rel=0.05)
        assert rows[1:].abs().mean().item() == pytest.approx(bound / 2, rel=0.1)
