"""The optimizers, each in its two forms: for the dense weights (torch's own) and for rows (applied to unique rows).

A row that occurs several times in a mini-batch is updated once, with the summed gradient. Adagrad (Duchi et al. 2011)
accumulates the squared gradient of each element; row-wise Adagrad the mean square over the row's width, one number a
row (FBGEMM's rule). The dense weights have no rows, so both mean plain Adagrad there. eps is 1e-8 everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

EPS = 1e-8
OPTIMIZERS = ("sgd", "rowwise-adagrad", "adagrad")


def dense_optimizer(name: str, parameters: Iterable[torch.nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """The optimizer of the dense weights."""
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr, fused=True)
    return torch.optim.Adagrad(parameters, lr=lr, eps=EPS, fused=True)


def state_width(name: str, dim: int) -> int:
    """How many numbers of state the optimizer keeps for a row of width D: 0, 1 or D."""
    return {"sgd": 0, "rowwise-adagrad": 1, "adagrad": dim}[name]


def row_state(name: str, weights: torch.Tensor) -> torch.Tensor:
    """The optimizer's state for a matrix of rows [rows, D]: [rows, 0], [rows, 1] or [rows, D]."""
    return weights.new_zeros(len(weights), state_width(name, weights.shape[1]))


def dense_step(weights: torch.Tensor, state: torch.Tensor | None, grads: torch.Tensor, lr: float) -> None:
    """One step of `dense_optimizer` on a flat vector, in place; `state` is None with SGD.

    The same operations as torch.optim's, for a process that has to start quickly: to make one of torch's optimizers
    imports its compiler, which takes as long as importing torch.
    """
    if state is None:
        weights.add_(grads, alpha=-lr)
    else:
        state.addcmul_(grads, grads)
        weights.addcdiv_(grads, state.sqrt().add_(EPS), value=-lr)
