"""DLRM's dense part (Naumov et al., arXiv 1906.00091) and the named models.

The shapes are those of the papers' RM2 to RM4 (FAE, Table 2; Hotline, Table 2). The initial weights are those of the
published model: linear weights N(0, sqrt(2 / (in + out))), biases N(0, sqrt(1 / out)), rows U(-sqrt(1/n), sqrt(1/n))
in a table of n rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from datasets.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Model:
    """A named model: the width of a row and the layers of the two MLPs; without layers, a logistic regression."""

    dim: int
    bottom: tuple[int, ...] = ()  # widths after the dense features; the last one is `dim`
    top: tuple[int, ...] = ()  # widths after the interaction; the last one is 1
    summary: str


MODELS = {
    "small": Model(dim=16, bottom=(64, 16), top=(64, 32, 1), summary="a small DLRM, for a laptop and for tests"),
    "rm2": Model(dim=16, bottom=(512, 256, 64, 16), top=(512, 256, 1), summary="the papers' DLRM for Criteo Kaggle"),
    "rm3": Model(dim=64, bottom=(512, 256, 64), top=(512, 512, 256, 1), summary="the papers' DLRM for Criteo Terabyte"),
    "rm4": Model(dim=16, bottom=(512, 256, 64, 16), top=(512, 256, 1), summary="the papers' DLRM for Avazu"),
    "logistic": Model(dim=1, summary="a logistic regression: one weight a row, no interactions"),
}


class Network(nn.Module):
    """What stands on top of the embedding tables: `forward(dense [B, F], vectors [B, T, D])` gives logits [B]."""

    forward_flops: int  # of one input; a multiply-add is two
    training_flops: int  # of one input, forward and backward


def make_network(model: Model, schema: Schema, seed: int) -> Network:
    """The network of a model over a data set, with its initial weights."""
    return Dlrm(model, schema, seed) if model.top else Logistic(schema)


class Logistic(Network):
    """The sum of the looked-up weights and of the weighted dense features."""

    def __init__(self, schema: Schema) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(len(schema.dense)))
        self.bias = nn.Parameter(torch.zeros(()))
        self.forward_flops = 2 * len(schema.dense) + len(schema.tables)
        self.training_flops = 2 * self.forward_flops

    def forward(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        return dense @ self.weights + vectors.flatten(1).sum(1) + self.bias


class Dlrm(Network):
    """Bottom MLP, dot interaction, top MLP: from dense features and looked-up vectors to one logit an input.

    Where the data set has no dense features, one learned vector stands in for the bottom MLP's output, so that every
    table keeps an effect of its own beside its products with the others.
    """

    def __init__(self, model: Model, schema: Schema, seed: int) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(seed)
        num_tables = len(schema.tables)
        self.bottom: nn.Module
        if schema.dense:
            self.bottom = mlp((len(schema.dense), *model.bottom), random, last_relu=True)
        else:
            self.bottom = Constant(torch.randn(model.dim, generator=random) * math.sqrt(1 / model.dim))
        num_vectors = num_tables + 1
        pairs = torch.tril_indices(num_vectors, num_vectors, offset=-1)
        self._pairs: torch.Tensor
        self.register_buffer("_pairs", pairs[0] * num_vectors + pairs[1], persistent=False)
        self.top = mlp((model.dim + pairs.shape[1], *model.top), random, last_relu=False)
        self.forward_flops, self.training_flops = self._flops(num_vectors, model.dim)

    def forward(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """Logits [B] of dense features [B, F] and pooled vectors [B, T, D]."""
        bottom = self.bottom(dense)  # [B, D]
        stacked = torch.cat([bottom.unsqueeze(1), vectors.to(bottom.dtype)], dim=1)  # [B, T + 1, D]
        products = PairProducts.apply(stacked, self._pairs)  # [B, (T + 1) · T / 2]
        return self.top(torch.cat([bottom, products], dim=1)).squeeze(1)

    def _flops(self, num_vectors: int, dim: int) -> tuple[int, int]:
        """Floating-point operations of one input: forward alone, and forward with backward.

        Backward costs a layer twice its forward, less the gradient of the network's own input.
        """
        layers = [layer for layer in self.modules() if isinstance(layer, nn.Linear)]
        forward = sum(2 * layer.in_features * layer.out_features for layer in layers)
        forward += 2 * num_vectors * num_vectors * dim
        first = self.bottom[0] if isinstance(self.bottom, nn.Sequential) else None
        unused = 2 * first.in_features * first.out_features if isinstance(first, nn.Linear) else 0
        return forward, 3 * forward - unused


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


def mlp(widths: Sequence[int], random: torch.Generator, last_relu: bool) -> nn.Sequential:
    """Linear layers with ReLUs in between, with the published initial weights."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layer = nn.Linear(fan_in, fan_out)
        with torch.no_grad():
            layer.weight.normal_(0, math.sqrt(2 / (fan_in + fan_out)), generator=random)
            layer.bias.normal_(0, math.sqrt(1 / fan_out), generator=random)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*(layers if last_relu else layers[:-1]))


def initial_rows(schema: Schema, dim: int, seed: int, table: int) -> torch.Tensor:
    """[rows, D] float32: the initial rows of one table, the same wherever they are made; the reserved row is zero."""
    num_rows = schema.tables[table].rows
    random = torch.Generator().manual_seed(seed * 1_000_003 + table)
    bound = math.sqrt(1 / num_rows)
    rows = torch.empty(num_rows, dim).uniform_(-bound, bound, generator=random)
    rows[schema.reserved_rows[table] - schema.table_offsets[table]] = 0
    return rows
