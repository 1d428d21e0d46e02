"""What the dense networks are made of, with the CPU's quickest operators: a linear layer and the pairs' dot products.

torch's own layers do the same everywhere else: on a GPU, in float64, and where torch was built without oneDNN. On a
CPU a third of their time is not arithmetic: the ReLU is a pass of its own, picking the lower triangle of the products
takes longer than the products, and MKL, which torch takes for float32, multiplies odd widths slowly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import nn
from torch.nn.functional import linear, pad

from baselines.devices import HOST
from baselines.threads import shares, together

MIN_WORK = 1 << 22  # multiply-adds below which oneDNN's setting up costs more than it saves in float32
NARROW = 64  # columns
UNIT = 32  # inputs
MIN_INPUTS = 512  # of a thread that works on the products' triangles
threshold_backward = torch.ops.aten.threshold_backward
_fused: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None


class Mlp(nn.Sequential):
    """Linear layers with ReLUs in between, and behind the last one or not."""

    def __init__(self, *layers: nn.Linear, relu: bool) -> None:
        super().__init__(*layers)
        self._relus = [True] * (len(layers) - 1) + [relu]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[B, fan out of the last layer] of [B, fan in of the first]; in bfloat16 under autocast, as torch's own."""
        autocast = torch.is_autocast_enabled(inputs.device.type)
        dtype = torch.get_autocast_dtype(inputs.device.type) if autocast else inputs.dtype
        if _fused is not None and inputs.device == HOST and dtype in (torch.float32, torch.bfloat16):
            found: torch.Tensor = _Mlp.apply(inputs.to(dtype), self._relus, *self.parameters())
            return found
        for layer, relu in zip(self, self._relus, strict=True):
            inputs = layer(inputs)
            inputs = inputs.relu() if relu else inputs
        return inputs


class _Mlp(torch.autograd.Function):
    """All layers at once, on the CPU, in the data type of the inputs; weights and their gradients stay float32.

    Autograd's own bookkeeping would take as long as the arithmetic where a mini-batch is small.
    """

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, relus: list[bool], *parameters: torch.Tensor) -> torch.Tensor:
        cast = [parameter.to(inputs.dtype) for parameter in parameters]
        weights, passed = cast[::2], [_padded(inputs)]
        for weight, bias, relu in zip(weights, cast[1::2], relus, strict=True):
            passed.append(product(passed[-1], weight, bias, relu))
        ctx.relus, ctx.size = relus, len(inputs)
        ctx.save_for_backward(*weights, *passed)
        return passed[-1][: len(inputs)]

    @staticmethod
    def backward(ctx: Any, grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved, layers = ctx.saved_tensors, len(ctx.relus)
        weights, passed = saved[:layers], saved[layers:]
        found: list[torch.Tensor] = []
        grads = _padded(grads)
        for layer in reversed(range(layers)):
            if ctx.relus[layer]:
                grads = threshold_backward(grads, passed[layer + 1], 0)
            found = [_of_weight(grads, passed[layer]).float(), grads.sum(0, dtype=torch.float32), *found]
            if layer or ctx.needs_input_grad[0]:
                grads = product(grads, weights[layer].t())
        return (grads[: ctx.size] if ctx.needs_input_grad[0] else None, None, *found)


def _padded(inputs: torch.Tensor) -> torch.Tensor:
    """Inputs [B, K] with zeros after them, up to a multiple of UNIT.

    oneDNN compiles a kernel for each size that it has not met: where every µ-batch has another, that took a third of
    the time.
    """
    missing = -len(inputs) % UNIT
    return pad(inputs, (0, 0, 0, missing)) if missing else inputs


def _of_weight(grads: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """[N, K], the gradient of a weight, of the output's [B, N] and the input [B, K]."""
    if inputs.shape[1] <= NARROW < grads.shape[1]:  # BLAS is slow where the result is narrow
        return (inputs.t() @ grads).t().contiguous()  # which would cost more than it saves with a large one
    return grads.t() @ inputs


def product(
    inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, relu: bool = False
) -> torch.Tensor:
    """[B, N] of [B, K] and [N, K], on the CPU, in float32 or bfloat16."""
    if inputs.dtype == torch.bfloat16 or inputs.shape[0] * weight.numel() >= MIN_WORK:
        found: torch.Tensor = _fused(inputs, weight, bias, "relu" if relu else "none", [], "")
        return found
    plain = linear(inputs, weight, bias)
    return plain.relu_() if relu else plain


class PairProducts(torch.autograd.Function):
    """The first vector of an input, and after it the dot product of every pair of its vectors, once each.

    [B, D + V · (V - 1) / 2] of vectors [B, V, D]; of the pairs (i, j) with i > j, first those of the smallest i.
    """

    @staticmethod
    def forward(ctx: Any, vectors: torch.Tensor) -> torch.Tensor:
        vectors = vectors.contiguous()
        ctx.save_for_backward(vectors)
        if vectors.device != HOST:
            first, second = _pairs(vectors)
            return torch.cat([vectors[:, 0], torch.bmm(vectors, vectors.transpose(1, 2))[:, first, second]], dim=1)
        size, width = vectors.shape[1:]
        found = vectors.new_empty(len(vectors), width + size * (size - 1) // 2)
        _in_parts(_products, vectors.numpy(), found.numpy())
        return found

    @staticmethod
    def backward(ctx: Any, grads: torch.Tensor) -> torch.Tensor:
        """The gradient [B, V, D] of the vectors: the pairs' gradients as a symmetric matrix, times the vectors."""
        (vectors,) = ctx.saved_tensors
        size, width = vectors.shape[1:]
        matrix = vectors.new_empty(len(vectors), size, size)
        if vectors.device == HOST:
            _in_parts(_symmetric, grads.contiguous().numpy(), matrix.numpy())
        else:
            first, second = _pairs(vectors)
            matrix.zero_()
            matrix[:, first, second] = matrix[:, second, first] = grads[:, width:]
        found = torch.bmm(matrix, vectors)
        found[:, 0] += grads[:, :width]
        return found


def _pairs(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1, device=vectors.device)
    return first, second


def _in_parts(work: Any, source: np.ndarray, result: np.ndarray) -> None:
    """The work on stretches of both arrays' inputs, in threads."""
    together(work, [(source[part], result[part]) for part in shares(len(source), MIN_INPUTS)])


@njit(nogil=True, cache=True, fastmath=True)
def _products(vectors, found):  # type: ignore[no-untyped-def]
    size, width = vectors.shape[1:]
    for b in range(len(vectors)):
        for d in range(width):
            found[b, d] = vectors[b, 0, d]
        place = width
        for i in range(1, size):
            for j in range(i):
                total = vectors.dtype.type(0)
                for d in range(width):
                    total += vectors[b, i, d] * vectors[b, j, d]
                found[b, place + j] = total
            place += i


@njit(nogil=True, cache=True)
def _symmetric(grads, matrix):  # type: ignore[no-untyped-def]
    size = matrix.shape[1]
    width = grads.shape[1] - size * (size - 1) // 2
    for b in range(len(grads)):
        place = width
        for i in range(size):
            matrix[b, i, i] = 0
            for j in range(i):
                matrix[b, i, j] = grads[b, place + j]
                matrix[b, j, i] = grads[b, place + j]
            place += i
