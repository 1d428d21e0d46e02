"""The CPU's quick operators against torch's plain ones, over random shapes."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from baselines import layers
from baselines.layers import Mlp, PairProducts

WIDTHS = st.lists(st.sampled_from([1, 3, 13, 16, 65, 367]), min_size=2, max_size=4)


def make(widths: list[int], relu: bool) -> Mlp:
    torch.manual_seed(0)
    return Mlp(*(nn.Linear(a, b) for a, b in pairwise(widths)), relu=relu)


def result(mlp: Mlp, inputs: torch.Tensor, quick: bool, monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The output, and the gradients of inputs and parameters, by the quick operators or by torch's own."""
    with monkeypatch.context() as patch:
        if not quick:
            patch.setattr(layers, "_fused", None)
        output = mlp(inputs)
        output.float().square().sum().backward()
    found = [output.detach().float(), inputs.grad, *(weight.grad for weight in mlp.parameters())]
    inputs.grad = None
    mlp.zero_grad(set_to_none=True)
    return [part for part in found if part is not None]


@settings(deadline=None)
@given(widths=WIDTHS, size=st.sampled_from([1, 2, 31, 700]), relu=st.booleans(), needs=st.booleans())
def test_an_mlp_has_the_values_and_gradients_of_torchs_layers(
    widths: list[int], size: int, relu: bool, needs: bool
) -> None:
    mlp, inputs = make(widths, relu), torch.randn(size, widths[0], requires_grad=needs)
    with pytest.MonkeyPatch.context() as patch:
        quick, plain = result(mlp, inputs, True, patch), result(mlp, inputs, False, patch)
    assert len(quick) == len(plain)
    for ours, theirs in zip(quick, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * max(1.0, float(theirs.abs().max())))


def test_bf16_is_about_float32_with_float32_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    mlp, inputs = make([40, 64, 1], relu=False), torch.randn(256, 40, requires_grad=True)
    exact = result(mlp, inputs, False, monkeypatch)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = result(mlp, inputs, True, monkeypatch)
    for ours, theirs in zip(rounded, exact, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.05 * theirs.norm()


def test_float64_is_torchs_own() -> None:
    mlp, inputs = make([5, 7, 2], relu=True).double(), torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(mlp, (inputs,))


@pytest.mark.parametrize("size", [1, 2, 5, 27])
@pytest.mark.parametrize("inputs", [1, 3, 2 * layers.MIN_INPUTS + 1])
def test_pair_products_are_those_of_the_plain_operators(size: int, inputs: int) -> None:
    vectors = torch.randn(inputs, size, 4, dtype=torch.float64, requires_grad=True)
    first, second = torch.tril_indices(size, size, offset=-1)
    plain = torch.cat([vectors[:, 0], torch.bmm(vectors, vectors.transpose(1, 2))[:, first, second]], dim=1)
    found = PairProducts.apply(vectors)
    torch.testing.assert_close(found, plain)
    grads = torch.randn_like(found)
    torch.testing.assert_close(
        torch.autograd.grad(found, vectors, grads), torch.autograd.grad(plain, vectors, grads), check_stride=False
    )


def test_pair_products_take_vectors_that_do_not_lie_side_by_side() -> None:
    vectors = torch.randn(3, 4, 6, dtype=torch.float64).transpose(1, 2).requires_grad_()
    assert torch.autograd.gradcheck(PairProducts.apply, (vectors,))
