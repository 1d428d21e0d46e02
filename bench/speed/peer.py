"""The peer: a plain TorchRec loop as its documentation writes one, on the same inputs and of the same shape.

TorchRec's own DLRM over a FusedEmbeddingBagCollection, a dense SGD beside it, and nothing of this project but the
inputs, which are in TorchRec's form before its time begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from baselines.job import Job
from baselines.torchrec import import_torchrec, make_collection
from bench.speed.contenders import Sample
from datasets.loader import epoch_order, read


class Peer:
    """TorchRec's DLRM in training."""

    def __init__(self, name: str, job: Job) -> None:
        self.name = name
        self._job = job
        self._torchrec = import_torchrec()
        from torchrec.models.dlrm import DLRM

        collection = make_collection(self._torchrec, job)
        self._names = [name for config in collection.embedding_bag_configs() for name in config.feature_names]
        self._model: Any = DLRM(
            embedding_bag_collection=collection,
            dense_in_features=len(job.schema.dense),
            dense_arch_layer_sizes=list(job.model.bottom),
            over_arch_layer_sizes=list(job.model.top),
        )
        # the collection's parameters have their optimizer in the backward pass
        dense = [p for name, p in self._model.named_parameters() if "embedding_bag_collection" not in name]
        self._optimizer = torch.optim.SGD(dense, lr=job.lr)

    def round(self, number: int) -> Sample:
        """One pass over the training inputs."""
        batches = list(self._batches(number))
        start = time.perf_counter()
        for dense, sparse, labels in batches:
            self._optimizer.zero_grad()
            logits = self._model(dense, sparse).squeeze(1)
            loss = binary_cross_entropy_with_logits(logits, labels)
            loss.backward()
            self._optimizer.step()
        seconds, seen = time.perf_counter() - start, len(self._job.train)
        return Sample(self.name, number, train_s=seconds, seen=seen, trained=seen)

    def _batches(self, number: int) -> Iterator[tuple[torch.Tensor, Any, torch.Tensor]]:
        job = self._job
        offsets = torch.from_numpy(job.schema.lookup_offsets)
        order: np.ndarray = epoch_order(len(job.train), job.seed, number)
        for first in range(0, len(order), job.batch_size):
            batch = read(job.train, order[first : first + job.batch_size])
            ids = (batch.ids - offsets).t().contiguous().flatten()
            lengths = torch.ones(ids.numel(), dtype=torch.int32)
            sparse = self._torchrec.KeyedJaggedTensor(keys=self._names, values=ids, lengths=lengths)
            sparse.offsets()  # computed once, not on the peer's time
            yield batch.dense, sparse, batch.labels

    def close(self) -> None:
        """Nothing to end."""
