"""TBSM, the time-based sequence model (Ishkhanov et al., arXiv 2008.11922), the papers' RM1.

The papers print 1-16, 22-15-15, 30-60-1 and "attention" (FAE, Table 2; Hotline, Table 2); the rest is as the public
implementation's script for Taobao has it, with one attention head: ReLU after the last layer of a step's two MLPs too,
step vectors on the unit sphere, a sigmoid and no softmax on the attention's weights, and a positive semi-definite
product of history and candidate, the projection 15 × 15 being applied to both. With 20 steps of history and the
candidate that makes 3,638 dense weights. Hotline prints 7.3k, and its figures for the three DLRMs are the sums over
the layers between the printed widths (without the first top layer), which would be 2,538 here.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from baselines.model import Model
from baselines.network import Network, Tower, linear_flops, mlp
from datasets.schema import Schema


class Tbsm(Network):
    """One DLRM tower over each step, attention of the history's steps to the candidate, and a last MLP.

    With step vectors z, their last one z_c the candidate's, and a projection A: scores a_t = (A z_t) · (A z_c), weights
    w = MLP(a), context = Σ w_t z_t; the last MLP reads context and z_c. Shapes: W the width of a step vector, H = S - 1
    the steps of the history.
    """

    def __init__(self, model: Model, schema: Schema, random: torch.Generator) -> None:
        super().__init__()
        self._steps, history, width = schema.steps, schema.steps - 1, model.top[-1]
        self.tower = Tower(model, len(schema.dense), len(schema.tables), random, relu=True)
        self.projection = nn.Parameter(torch.randn(width, width, generator=random) * math.sqrt(1 / width))
        self.attention = nn.Sequential(mlp((history, *model.attention, history), random), nn.Sigmoid())
        self.final = mlp((2 * width, *model.final), random)
        products = 2 * (2 * width * width + 2 * history * width)  # A and its transpose; scores and context
        rest = linear_flops(self.attention) + linear_flops(self.final) + products
        self.forward_flops = self._steps * self.tower.forward_flops + rest
        self.training_flops = self._steps * self.tower.training_flops + 3 * rest

    def forward(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        steps = self.step_vectors(dense, vectors)
        history, candidate = steps[:, :-1], steps[:, -1]  # [B, H, W], [B, W]
        query = candidate @ self.projection.T @ self.projection
        scores = torch.bmm(history, query.unsqueeze(2)).squeeze(2)  # [B, H]
        weights = self.attention(scores)
        context = torch.bmm(weights.unsqueeze(1), history).squeeze(1)  # [B, W]
        return self.final(torch.cat([context, candidate], dim=1)).squeeze(1)

    def step_vectors(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """[B, S, W]: the tower's output for each step, of length 1, or 0 where the tower gives zero."""
        each_dense = dense.unflatten(1, (self._steps, -1)).flatten(0, 1)  # [B · S, F]
        each_vectors = vectors.unflatten(1, (-1, self._steps)).transpose(1, 2).flatten(0, 1)  # [B · S, T, D]
        found = self.tower(each_dense, each_vectors).to(dense.dtype)  # bf16 is too coarse for lengths
        return functional.normalize(found, dim=1).unflatten(0, (-1, self._steps))
