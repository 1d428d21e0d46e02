"""The dense network in training: forward, backward and its optimizer, the same for every system."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from baselines.devices import HOST
from baselines.job import Job
from baselines.model import Model, check_fits
from baselines.network import Dlrm, Logistic, Network
from baselines.optimizer import dense_optimizer
from baselines.tbsm import Tbsm
from datasets.loader import Batch
from datasets.schema import Schema

SLICE = 2048  # inputs that a CPU runs forward and backward together: what the layers pass on then stays in its caches


def make_network(model: Model, schema: Schema, seed: int) -> Network:
    """The network of a model over a data set, with its initial weights. UserError where they do not go together."""
    check_fits(model, schema)
    random = torch.Generator().manual_seed(seed)
    if model.final:
        return Tbsm(model, schema, random)
    return Dlrm(model, schema, random) if model.top else Logistic(schema)


class Dense:
    """The dense weights on the device, and what is done with a (micro-)batch there.

    bf16 means autocast of the network over float32 master weights; the loss is float32, or float64 with fp64.
    """

    def __init__(self, job: Job) -> None:
        self.device = job.device
        self.dtype = job.dtype
        self.network = make_network(job.model, job.schema, job.seed).to(job.device, job.dtype)
        self.num_weights = sum(parameter.numel() for parameter in self.network.parameters())
        self.optimizer = dense_optimizer(job.optimizer, self.network.parameters(), job.lr)
        self._autocast = job.precision == "bf16"
        self._batch_size = job.batch_size
        self._clock = job.clock

    def logits(self, dense: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """[B] logits of dense features [B, S · F] and pooled vectors [B, V, D], all on the device."""
        self._clock.count(self._clock.dense_on, dense_flops=self.network.forward_flops * len(vectors), passes=1)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._autocast):
            return self.network(dense.to(self.dtype), vectors).to(self.dtype)

    def backward(self, batch: Batch, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Forward and backward of a batch whose tensors are on the device.

        The loss is the sum over the inputs divided by the job's batch size, so that the gradients of a mini-batch's
        parts add up to its own, and that the inputs of an epoch's last, short mini-batch weigh no more than others.
        Dense gradients add to those already there. Returns the loss and the gradient [B, V, D] of the vectors.
        """
        if self.device != HOST or len(batch) <= SLICE:
            return self._backward(batch, vectors)
        parts = [slice(first, first + SLICE) for first in range(0, len(batch), SLICE)]
        losses, grads = zip(*(self._backward(batch.select(part), vectors[part]) for part in parts), strict=True)
        return torch.stack(losses).sum(), torch.cat(grads)

    def _backward(self, batch: Batch, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        vectors, labels = vectors.detach().requires_grad_(), batch.labels.to(self.dtype)
        with self._clock.phase("dense_forward"):
            logits = self.logits(batch.dense, vectors)
            with torch.no_grad():
                factor = 1 / self._batch_size if batch.weights is None else batch.weights / self._batch_size
                loss = (binary_cross_entropy_with_logits(logits, labels, reduction="none") * factor).sum()
                grads = (logits.sigmoid() - labels) * factor  # of the loss; autograd takes a dozen operators for it
        with self._clock.phase("dense_backward"):
            logits.backward(grads)
            backward_flops = self.network.training_flops - self.network.forward_flops
            self._clock.count(self._clock.dense_on, dense_flops=backward_flops * len(batch))
        assert vectors.grad is not None
        return loss, vectors.grad

    def step(self) -> None:
        """One step of the dense optimizer."""
        with self._clock.phase("dense_update"):
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self._clock.count(self._clock.dense_on, dense_weights=self.num_weights)

    def save(self) -> Any:
        """A copy of the weights and of the optimizer's state, for `restore`."""
        return copy.deepcopy((self.network.state_dict(), self.optimizer.state_dict()))

    def restore(self, saved: Any) -> None:
        """Go back to what `save` returned."""
        network, optimizer = saved
        self.network.load_state_dict(network)
        self.optimizer.load_state_dict(copy.deepcopy(optimizer))  # which would train on with the copy itself
