"""Where the rows live. The base class is the placement of `dlrm`: rows on the host, the network on the device.

A system with another placement subclasses it and writes `lookup` and `update`, or the whole of `train`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from baselines.dense import Dense
from baselines.devices import HOST
from baselines.job import Job
from baselines.link import Link
from baselines.table import initial_table
from baselines.work import HOST as ON_HOST
from baselines.work import LINK
from datasets.loader import Batch, read
from datasets.store import Split

EVAL_BATCH = 4096


class Pooling:
    """Sums the vectors of a table's lookups (multi-hot features), and hands the gradient back to each of them.

    V is the number of pooled vectors of an input: T tables times S steps.
    """

    def __init__(self, lookup_vectors: np.ndarray, device: torch.device) -> None:
        self.num_vectors = int(lookup_vectors[-1]) + 1
        self._vectors = {place: torch.from_numpy(lookup_vectors).to(place) for place in (HOST, device)}
        self._trivial = len(lookup_vectors) == self.num_vectors

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """[B, V, D] of [B, C, D]."""
        if self._trivial:
            return vectors
        pooled = vectors.new_zeros(len(vectors), self.num_vectors, vectors.shape[2])
        return pooled.index_add_(1, self._vectors[vectors.device], vectors)

    def backward(self, grads: torch.Tensor) -> torch.Tensor:
        """[B, C, D] of [B, V, D]."""
        return grads if self._trivial else grads[:, self._vectors[grads.device]]


class Placement:
    """All rows and their optimizer on the host, the dense network on the device.

    Looked-up vectors, pooled, go up the link; their gradients come down.

    A placement is asked for more than an epoch in order. The warm-up calls `train` before any schedule has run, and
    `restore` afterwards has to undo whatever that changed, counters and queues included. `lookup` and `logits` may come
    between any two mini-batches, for any ids, and change nothing. What crosses between host and device goes through
    `link`, once, which counts it; rows read and written are counted by `clock.count`, a copied row as both.
    """

    hot_rows_share: float | None = None  # of all rows; None where the placement knows no hot rows
    hot_inputs_share: float | None = None  # of the training inputs

    def __init__(self, job: Job) -> None:
        self.job = job
        self.clock = job.clock
        self.link = Link(job.device, job.clock)
        self.pooling = Pooling(job.schema.lookup_vectors, job.device)
        self.dense = Dense(job)
        self._make_tables()

    def _make_tables(self) -> None:
        job = self.job
        self.host = initial_table(job.schema, job.model.dim, job.optimizer, job.lr, job.dtype, job.seed)

    def train(self, batch: Batch) -> torch.Tensor:
        """Train one mini-batch; returns its loss by the batch size (a scalar on the device, not waited for)."""
        with self.clock.phase("embedding_forward"):
            vectors = self.lookup(batch.ids)
        loss, grads = self.dense.backward(self.to_device(batch), vectors)
        with self.clock.phase("embedding_update"):
            self.update(batch.ids, grads)
        self.dense.step()
        return loss

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        """Pooled vectors [B, V, D], on the device, of row ids [B, C] on the host. Right at any time, for any ids."""
        self.clock.count(rows_read=ids.numel(), tables=self.pooling.num_vectors)
        vectors = self.host.gather(ids.flatten()).view(*ids.shape, -1)
        self.clock.count(LINK, tables=self.pooling.num_vectors)
        return self.link.to_device(self.pooling.forward(vectors))

    def update(self, ids: torch.Tensor, grads: torch.Tensor) -> None:
        """Hand the gradients [B, V, D] of pooled vectors, on the device, to the optimizer of the rows.

        `ids` are those of the last `lookup`, of which a placement may have kept something: `train` calls both in turn.
        """
        self.clock.count(LINK, tables=self.pooling.num_vectors)
        grads = self.pooling.backward(self.link.to_host(grads))
        self.count_update(self.host.update(ids.flatten(), grads.flatten(0, 1)), ids.numel())

    def count_update(self, done: tuple[int, int], lookups: int, on: str = ON_HOST) -> None:
        """Count what a table's `update` returned, rows written and rows left as stale, for so many lookups."""
        written, skipped = done
        self.clock.count(on, lookups_updated=lookups, rows_written=written, tables=self.pooling.num_vectors)
        self.clock.count(on, row_updates_skipped=skipped)

    def count_copy(self, num_rows: int, source: str, target: str) -> None:
        """Count rows that were copied from one table to another, each on a resource of `baselines.work`."""
        self.clock.count(source, rows_read=num_rows)
        self.clock.count(target, rows_written=num_rows)

    def to_device(self, batch: Batch) -> Batch:
        """The batch with what the dense network reads moved to the device; row ids stay."""
        with self.clock.phase("copy_inputs"):
            weights = None if batch.weights is None else self.link.to_device(batch.weights)
            dense, labels = self.link.to_device(batch.dense), self.link.to_device(batch.labels)
            return replace(batch, dense=dense, labels=labels, weights=weights)

    def logits(self, batch: Batch) -> torch.Tensor:
        """Logits [B] without training."""
        with torch.no_grad():  # not inference_mode, which the kernels of FBGEMM refuse
            return self.dense.logits(self.link.to_device(batch.dense), self.lookup(batch.ids))

    def rows(self) -> torch.Tensor:
        """[R, D]: all rows as they are now, on the host."""
        return self.host.weights

    def freeze(self, marks: torch.Tensor) -> None:
        """From now on, throw away the gradients of the rows that marks [R] bool; replaces an earlier call's marks.

        What is thrown away is counted, as `row_updates_skipped`, before the call of `train` returns. A placement that
        cannot do either raises NotImplementedError.
        """
        self.host.freeze(marks)

    def save(self, ids: torch.Tensor) -> Any:
        """What training mini-batches that look up the row ids [n] may change, for `restore`."""
        rows = torch.unique(ids)
        return rows, self.host.part(rows, torch.clone), self.dense.save()

    def restore(self, saved: Any) -> None:
        """Go back to what `save` returned."""
        rows, part, dense = saved
        self.host.put(rows, part, torch.clone)
        self.dense.restore(dense)

    def close(self) -> None:
        """Let go of whatever outlives the object: processes, threads. May be called twice."""


def scores(placement: Placement, split: Split, inputs: np.ndarray | None = None) -> np.ndarray:
    """[n] float64: logits of the named inputs of a split, or of all."""
    inputs = np.arange(len(split)) if inputs is None else inputs
    parts = [inputs[first : first + EVAL_BATCH] for first in range(0, len(inputs), EVAL_BATCH)]
    logits = [placement.logits(read(split, part)).double().cpu().numpy() for part in parts]
    return np.concatenate(logits) if logits else np.empty(0)


def log_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """Mean log loss of logits [n], computed so that large logits do not overflow."""
    return float(np.mean(np.logaddexp(0, logits) - labels * logits))
