"""DLRM's dense part (Naumov et al., arXiv 1906.00091), and what it and other networks are made of.

The initial weights are those of the published model: linear weights N(0, sqrt(2 / (in + out))), biases
N(0, sqrt(1 / out)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from baselines.model import Model
from datasets.schema import Schema


class Network(nn.Module):
    """What stands on top of the embedding tables.

    `forward(dense [B, S · F], vectors [B, V, D])` gives logits [B]; V = T · S pooled vectors, all steps of a table side
    by side.
    """

    forward_flops: int  # of one input; a multiply-add is two
    training_flops: int  # of one input, forward and backward


class Logistic(Network):
    """The sum of the looked-up weights and of the weighted dense features."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(schema.num_dense))
        self.bias = nn.Parameter(torch.zeros(()))
        self.forward_flops = 2 * schema.num_dense + schema.num_vectors
        self.training_flops = 2 * self.forward_flops

    def forward(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        return dense @ self.weights + vectors.flatten(1).sum(1) + self.bias


class Dlrm(Network):
    """One tower over all dense features and pooled vectors of an input, those of all steps where it has several."""

    def __init__(self, model: Model, schema: Schema, random: torch.Generator) -> None:
        super().__init__()
        self.tower = Tower(model, schema.num_dense, schema.num_vectors, random)
        self.forward_flops, self.training_flops = self.tower.forward_flops, self.tower.training_flops

    def forward(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        return self.tower(dense, vectors).squeeze(1)


class Tower(nn.Module):
    """Bottom MLP, dot interaction, top MLP: from F dense features and V vectors to `model.top[-1]` numbers.

    Where there are no dense features, one learned vector stands in for the bottom MLP's output, so that every table
    keeps an effect of its own beside its products with the others. `last` is what follows the top MLP's last layer.
    """

    def __init__(
        self, model: Model, num_dense: int, num_vectors: int, random: torch.Generator, *last: nn.Module
    ) -> None:
        super().__init__()
        self.bottom: nn.Module
        if num_dense:
            self.bottom = mlp((num_dense, *model.bottom), random, nn.ReLU())
        else:
            self.bottom = Constant(torch.randn(model.dim, generator=random) * math.sqrt(1 / model.dim))
        num_vectors += 1  # the bottom MLP's
        pairs = torch.tril_indices(num_vectors, num_vectors, offset=-1)
        self._pairs: torch.Tensor
        self.register_buffer("_pairs", pairs[0] * num_vectors + pairs[1], persistent=False)
        self.top = mlp((model.dim + pairs.shape[1], *model.top), random, *last)
        # Backward costs a layer twice its forward, less the gradient of the network's own input.
        self.forward_flops = linear_flops(self) + 2 * num_vectors * num_vectors * model.dim
        self.training_flops = 3 * self.forward_flops - 2 * num_dense * next(iter(model.bottom), 0)

    def forward(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """[B, W] of dense features [B, F] and vectors [B, V, D]."""
        bottom = self.bottom(dense)  # [B, D]
        stacked = torch.cat([bottom.unsqueeze(1), vectors.to(bottom.dtype)], dim=1)  # [B, V + 1, D]
        products = PairProducts.apply(stacked, self._pairs)  # [B, (V + 1) · V / 2]
        return self.top(torch.cat([bottom, products], dim=1))


class PairProducts(torch.autograd.Function):
    """The dot product of every pair of an input's vectors, once each.

    The operator's own backward pass would scatter the gradient into a zero matrix and multiply it twice; here it is one
    copy into the lower triangle and one product with the symmetric matrix, about twice as quick.
    """

    @staticmethod
    def forward(ctx: Any, vectors: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        """[B, P] of vectors [B, V, D] and the places [P] of the pairs in a flat V × V matrix."""
        ctx.save_for_backward(vectors, pairs)
        return torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1).index_select(1, pairs)

    @staticmethod
    def backward(ctx: Any, grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The gradient [B, V, D] of the vectors."""
        vectors, pairs = ctx.saved_tensors
        size = vectors.shape[1]
        matrix = grads.new_zeros(len(grads), size * size).index_copy_(1, pairs, grads).view(-1, size, size)
        return torch.bmm(matrix + matrix.transpose(1, 2), vectors.to(grads.dtype)).to(vectors.dtype), None


class Constant(nn.Module):
    """One learned vector, whatever the input."""

    def __init__(self, vector: torch.Tensor) -> None:
        super().__init__()
        self.vector = nn.Parameter(vector)

    def forward(self, dense: torch.Tensor) -> torch.Tensor:
        return self.vector.expand(len(dense), -1)


def mlp(widths: Sequence[int], random: torch.Generator, *last: nn.Module) -> nn.Sequential:
    """Linear layers with ReLUs in between and `last` at the end, with the published initial weights."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layer = nn.Linear(fan_in, fan_out)
        with torch.no_grad():
            layer.weight.normal_(0, math.sqrt(2 / (fan_in + fan_out)), generator=random)
            layer.bias.normal_(0, math.sqrt(1 / fan_out), generator=random)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1], *last)


def linear_flops(module: nn.Module) -> int:
    """Floating-point operations of all linear layers in a module, for one input, forward."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    return sum(2 * layer.in_features * layer.out_features for layer in layers)
