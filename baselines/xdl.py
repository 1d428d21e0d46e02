"""`xdl`: a parameter-server system in the manner of XDL (Jiang et al., DLP-KDD'19), as FAE and Hotline compare with it.

Server processes own all rows and the dense weights and apply the optimizer; the one worker, this process, owns nothing.
For each mini-batch the worker pulls the batch's distinct rows and all dense weights, computes, and pushes the summed
gradient of each row and the dense gradients (FAE, section 5.2.3: "all dense parameters needs to be transferred from AMS
to backend workers and vice versa per training iteration"). Synchronous: a push is answered when it has been applied.
XDL's own code does not build today, and the papers leave open which parts ran on the GPU; here the dense network does.
"""

from __future__ import annotations

from typing import Any

import torch

from baselines import kernels
from baselines.devices import HOST
from baselines.job import Job
from baselines.link import Link
from baselines.optimizer import row_state
from baselines.parameter_client import ParameterServers
from baselines.parameter_server import Sharding
from baselines.placement import Placement
from baselines.system import System
from datasets.loader import Batch
from datasets.settings import Setting

SUMMARY = "XDL: parameter servers own rows and dense weights; the worker computes on the device"
SETTINGS = (Setting(key="xdl.servers", default=1, low=1, high=64, help="server processes that share the rows"),)
SAME_AS_CPU = "Without a GPU, xdl and xdl-cpu are the same run."


class Xdl(Placement):
    """Rows and dense weights on servers; pulled and pushed by the worker."""

    def __init__(self, job: Job, link: Link) -> None:
        sharding = Sharding(
            schema=job.schema,
            model=job.model,
            optimizer=job.optimizer,
            lr=job.lr,
            dtype=job.dtype,
            seed=job.seed,
            threads=job.threads,  # server and worker take turns
            num_servers=job.settings["xdl.servers"],
        )
        self.servers = ParameterServers(sharding, job.clock)
        try:
            super().__init__(job)
            self.link = link
            self._parameters = list(self.dense.network.parameters())
            self._dense_pushed = False  # whether the servers' dense weights are newer than the worker's
            self.servers.connect(sum(parameter.numel() for parameter in self._parameters))
        except BaseException:
            self.close()
            raise

    def _make_tables(self) -> None:
        """Nothing: the servers have the rows."""

    def train(self, batch: Batch) -> torch.Tensor:
        """Pull, compute, push."""
        with self.clock.phase("pull"):
            rows, where = distinct(batch.ids)
            vectors, dense = self.servers.pull(rows)
            self._count_pull(len(rows), batch.ids.numel())
            self._set_dense(dense)
        with self.clock.phase("embedding_forward"):
            pooled = self.link.to_device(self._pooled(vectors, where))
        loss, grads = self.dense.backward(self.to_device(batch), pooled)
        with self.clock.phase("push"):
            self._push(rows, self._summed(where, self.link.to_host(grads), len(rows)))
        return loss

    def _summed(self, where: torch.Tensor, grads: torch.Tensor, num_rows: int) -> torch.Tensor:
        """[n, D]: the gradients of rows, of those of pooled vectors [B, V, D] of lookups [B, C] of them."""
        self.clock.count(lookups_updated=where.numel())
        return sum_by_row(where.flatten(), self.pooling.backward(grads).flatten(0, 1), num_rows)

    def _push(self, rows: torch.Tensor, summed: torch.Tensor) -> None:
        """Push a batch's gradients: of its rows [n, D], and of the dense weights."""
        flat = torch.cat([_gradient(parameter).flatten() for parameter in self._parameters])
        self.dense.network.zero_grad(set_to_none=True)
        self.clock.count(dense_weights=len(flat))
        self.count_update(self.servers.push(rows, summed, self.link.to_host(flat)), len(rows))
        self._dense_pushed = True

    def _set_dense(self, flat: torch.Tensor) -> None:
        parts = self.link.to_device(flat).split([parameter.numel() for parameter in self._parameters])
        with torch.no_grad():
            for parameter, part in zip(self._parameters, parts, strict=True):
                parameter.copy_(part.view_as(parameter))
        self._dense_pushed = False

    def _pooled(self, vectors: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        """[B, V, D]: the pooled vectors of lookups [B, C] whose vectors are these [n, D]."""
        return self.pooling.forward(vectors.index_select(0, where.flatten()).view(*where.shape, -1))

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        """As the base class; each row is read once."""
        rows, where = distinct(ids)
        self._count_pull(len(rows), ids.numel())
        return self.link.to_device(self._pooled(self.servers.read(rows), where))

    def _count_pull(self, num_rows: int, lookups: int) -> None:
        """Count distinct rows that the servers read, and what the worker does to give each lookup its row's vector."""
        vectors = self.pooling.num_vectors
        self.clock.count(rows_read=num_rows, lookups_unique=lookups, lookups_spread=lookups, tables=vectors)

    def logits(self, batch: Batch) -> torch.Tensor:
        """Logits [B] without training, with the servers' dense weights."""
        if self._dense_pushed:
            self._set_dense(self.servers.pull(batch.ids.new_empty(0))[1])
        return super().logits(batch)

    def rows(self) -> torch.Tensor:
        """[R, D]: a copy of all rows."""
        return self.servers.rows()

    def freeze(self, marks: torch.Tensor) -> None:
        self.servers.freeze(marks)

    def save(self, ids: torch.Tensor) -> Any:
        return self.servers.save(torch.unique(ids))

    def restore(self, saved: Any) -> None:
        self.servers.restore(saved)
        self._dense_pushed = True

    def close(self) -> None:
        self.servers.close()


def distinct(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The different rows [n] among ids [B, C], and the place [B, C] of each lookup's."""
    rows, where = kernels.distinct(ids.flatten())
    return rows, where.view(ids.shape)


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None, "every dense weight has a gradient after the backward pass"
    return parameter.grad


def sum_by_row(where: torch.Tensor, grads: torch.Tensor, num_rows: int) -> torch.Tensor:
    """[num_rows, D]: the sums of the gradients [n, D] of lookups [n] of each row.

    From zero, a step of SGD with a rate of -1 adds them up: in the fused pass, in the order of the batch.
    """
    total = grads.new_zeros(num_rows, grads.shape[1])
    frozen = torch.zeros(num_rows, dtype=torch.uint8)
    kernels.update(total, row_state("sgd", total), frozen, where, grads, lr=-1.0)
    return total


def build(job: Job) -> System:
    """Server processes, one worker, in order, nothing skipped."""
    if job.device == HOST:
        job.notes.append(SAME_AS_CPU)
    return System(Xdl(job, Link(job.device, job.clock)))
