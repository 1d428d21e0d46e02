"""`torchrec`: what a user would pick today, TorchRec's FusedEmbeddingBagCollection under the shared dense network.

The optimizer of the rows runs inside the collection's backward pass (FBGEMM's exact optimizers). The tables live on the
device. FBGEMM's CPU kernels run on one thread, whatever torch's number of threads is.

TorchRec and FBGEMM are imported only when this system is built: where they are missing or broken, every other system
works.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

import numpy as np
import torch

from baselines import kernels
from baselines.devices import HOST
from baselines.job import Job
from baselines.optimizer import EPS, row_state
from baselines.placement import Placement
from baselines.system import System
from baselines.table import EmbeddingTable, initial_table
from baselines.work import DEVICE
from datasets.errors import UserError
from datasets.settings import Setting

SUMMARY = "TorchRec's FusedEmbeddingBagCollection (the optimizer in the backward pass) under the shared dense network"
SETTINGS: tuple[Setting, ...] = ()
NEEDED = "torchrec 1.8.0 and fbgemm-gpu-cpu 1.8.0 (with a GPU: fbgemm-gpu 1.8.0), with torch 2.13.0"


class TorchRec(Placement):
    """Rows and their optimizer in a FusedEmbeddingBagCollection on the device."""

    def __init__(self, job: Job) -> None:
        self._torchrec = import_torchrec()
        super().__init__(job)
        self._offsets = torch.from_numpy(job.schema.lookup_offsets)
        self._lookups = np.bincount(job.schema.lookup_vectors).tolist()  # of each pooled vector
        self._features = [name for config in self._collection.embedding_bag_configs() for name in config.feature_names]
        self._lengths: torch.Tensor | None = None  # of the last batch: those of another of its size are the same
        self._reserved = torch.from_numpy(job.schema.reserved_rows).to(job.device)
        self._seen, self._updates = np.zeros(job.schema.num_rows, np.int64), 0  # for counting a batch's rows
        self._pooled: torch.Tensor | None = None  # of the lookup whose gradients are still to come

    def _make_tables(self) -> None:
        """Make the collection, and `host`, a table that shares its memory: all rows and their optimizer's state."""
        job = self.job
        self._collection = make_collection(self._torchrec, job)
        first = initial_table(job.schema, job.model.dim, job.optimizer, job.lr, job.dtype, job.seed)
        (lookups,) = self._collection._emb_modules  # one, since all tables are of one type and pooling
        fused = lookups._emb_module
        weights = joined(fused.split_embedding_weights(), first.weights.shape)
        states = [state for states in fused.split_optimizer_states() for state in states]
        state = joined(states, first.state.shape) if states else row_state(job.optimizer, weights)
        weights.copy_(first.weights)
        self.host = EmbeddingTable(weights, state, first.frozen.to(job.device), job.lr)

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        """As the base class; only ids go up the link."""
        self.clock.count(DEVICE, rows_read=ids.numel(), tables=self.pooling.num_vectors)
        pooled = self._collection(self._jagged(ids)).values().view(len(ids), len(self._features), -1)
        if pooled.requires_grad:
            self._pooled = pooled
        return pooled.detach()

    def _jagged(self, ids: torch.Tensor) -> Any:
        """The ids in TorchRec's form: [V, B, lookups] ids within their tables, and the lengths [V, B]."""
        parts = (ids - self._offsets).to(torch.int32).split(self._lookups, dim=1)
        values = self.link.to_device(torch.cat([part.flatten() for part in parts]))
        if self._lengths is None or len(self._lengths) != len(self._features) * len(ids):
            self._lengths = self.link.to_device(
                torch.tensor(self._lookups, dtype=torch.int32).repeat_interleave(len(ids))
            )
        return self._torchrec.KeyedJaggedTensor(keys=self._features, values=values, lengths=self._lengths)

    def update(self, ids: torch.Tensor, grads: torch.Tensor) -> None:
        """Run the collection's backward pass, which updates the rows of the last lookup, which was of these ids."""
        assert self._pooled is not None
        self._pooled.backward(grads)
        self._pooled = None
        self.host.weights.index_fill_(0, self._reserved, 0)  # FBGEMM trains every row: set these back
        self._updates += 1  # FBGEMM does not say how many rows it wrote
        self._seen[self.job.schema.reserved_rows] = self._updates  # which are not trained, so do not count
        self.count_update((kernels.count_distinct(self._seen, self._updates, ids.numpy()), 0), ids.numel(), DEVICE)

    def rows(self) -> torch.Tensor:
        return self.host.weights.to(HOST)

    def freeze(self, marks: torch.Tensor) -> None:
        """Refused: FBGEMM's optimizers have no rows that they leave alone."""
        raise NotImplementedError("torchrec cannot throw the updates of single rows away")

    def save(self, ids: torch.Tensor) -> Any:
        return super().save(ids.to(self.job.device))


def joined(parts: Sequence[torch.Tensor], shape: torch.Size) -> torch.Tensor:
    """The one tensor that tables [rows of the table, ...] lie in, one after the other."""
    first, expected = parts[0].detach(), parts[0].data_ptr()
    for part in parts:
        assert part.is_contiguous() and part.data_ptr() == expected, "FBGEMM's tables do not lie side by side"
        expected += part.nbytes
    return first.as_strided(shape, (shape[1], 1))


def make_collection(torchrec: ModuleType, job: Job) -> Any:
    """The collection, a table of the schema each, a feature for each step; its optimizers are the shared ones."""
    from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
    from torchrec.optim import RowWiseAdagrad

    tables = [
        torchrec.EmbeddingBagConfig(
            name=f"t{number}_{table.name}",
            embedding_dim=job.model.dim,
            num_embeddings=table.rows,
            feature_names=[f"t{number}_{table.name}_s{step}" for step in range(job.schema.steps)],
            pooling=torchrec.PoolingType.SUM,
        )
        for number, table in enumerate(job.schema.tables)
    ]
    kinds = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "rowwise-adagrad": RowWiseAdagrad}
    options = {"lr": job.lr} if job.optimizer == "sgd" else {"lr": job.lr, "eps": EPS}
    return FusedEmbeddingBagCollection(tables, kinds[job.optimizer], options, device=job.device)


def import_torchrec() -> ModuleType:
    """The real torchrec. UserError where it, or FBGEMM beneath it, is missing or does not fit this torch."""
    try:
        import torchrec
        import torchrec.modules.fused_embedding_modules
    except (Exception, SystemExit) as error:  # whatever a broken installation raises when it is imported
        found = ", ".join(f"{name} {_version(name)}" for name in ("torchrec", "fbgemm-gpu-cpu", "fbgemm-gpu", "torch"))
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"system torchrec needs {NEEDED}; found: {found} ({reason}).") from error
    logging.getLogger("torch.fx._symbolic_trace").setLevel(logging.ERROR)  # a warning for TorchRec, not for its users
    return torchrec


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "missing"


def build(job: Job) -> System:
    """TorchRec's embeddings, in order, nothing skipped. UserError for what FBGEMM cannot do."""
    if job.dtype != torch.float32:
        raise UserError(f"system torchrec has float32 rows only; --precision {job.precision} needs another system.")
    if job.model.dim % 4:
        raise UserError(f"system torchrec needs rows whose width is a multiple of 4; the model's is {job.model.dim}.")
    return System(TorchRec(job))
