"""DLRM's dense part (Naumov et al., arXiv 1906.00091), and what it and other networks are made of.

The initial weights are those of the published model: linear weights N(0, sqrt(2 / (in + out))), biases
N(0, sqrt(1 / out)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from baselines.layers import Mlp, PairProducts
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
    keeps an effect of its own beside its products with the others. `relu` is about the top MLP's last layer.
    """

    def __init__(
        self, model: Model, num_dense: int, num_vectors: int, random: torch.Generator, relu: bool = False
    ) -> None:
        super().__init__()
        self.bottom: nn.Module
        if num_dense:
            self.bottom = mlp((num_dense, *model.bottom), random, relu=True)
        else:
            self.bottom = Constant(torch.randn(model.dim, generator=random) * math.sqrt(1 / model.dim))
        num_vectors += 1  # the bottom MLP's
        pairs = num_vectors * (num_vectors - 1) // 2
        self.top = mlp((model.dim + pairs, *model.top), random, relu=relu)
        # Backward costs a layer twice its forward, less the gradient of the network's own input.
        self.forward_flops = linear_flops(self) + 2 * num_vectors * num_vectors * model.dim
        self.training_flops = 3 * self.forward_flops - 2 * num_dense * next(iter(model.bottom), 0)

    def forward(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """[B, W] of dense features [B, F] and vectors [B, V, D]."""
        bottom = self.bottom(dense)  # [B, D]
        stacked = torch.cat([bottom.to(vectors.dtype).unsqueeze(1), vectors], dim=1)  # [B, V + 1, D]
        return self.top(PairProducts.apply(stacked))  # of [B, D + (V + 1) · V / 2]


class Constant(nn.Module):
    """One learned vector, whatever the input."""

    def __init__(self, vector: torch.Tensor) -> None:
        super().__init__()
        self.vector = nn.Parameter(vector)

    def forward(self, dense: torch.Tensor) -> torch.Tensor:
        return self.vector.expand(len(dense), -1)


def mlp(widths: Sequence[int], random: torch.Generator, relu: bool = False) -> Mlp:
    """Linear layers with ReLUs in between, and with `relu` behind the last, with the published initial weights."""
    layers = [nn.Linear(fan_in, fan_out) for fan_in, fan_out in pairwise(widths)]
    for layer in layers:
        with torch.no_grad():
            layer.weight.normal_(0, math.sqrt(2 / (layer.in_features + layer.out_features)), generator=random)
            layer.bias.normal_(0, math.sqrt(1 / layer.out_features), generator=random)
    return Mlp(*layers, relu=relu)


def linear_flops(module: nn.Module) -> int:
    """Floating-point operations of all linear layers in a module, for one input, forward."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    return sum(2 * layer.in_features * layer.out_features for layer in layers)
