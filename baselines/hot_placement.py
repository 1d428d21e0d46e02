"""A placement with a second tier: some rows, the hot ones, in a table on the device. The base of FAE and Hotline."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from baselines import kernels
from baselines.hotset import hot_inputs
from baselines.job import Job
from baselines.placement import Placement
from baselines.table import EmbeddingTable
from baselines.work import DEVICE, HOST


class HotPlacement(Placement):
    """All rows on the host, hot ones on the device as well.

    `hot_is_current` says which copy of a hot row is the one that training changes: the device's where it is true.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.hot_is_current = False
        self._places = torch.empty(0, dtype=torch.int64)  # in the hot table, of the last lookup that was all hot
        self.place(np.empty(0, np.int64))

    def place(self, rows: np.ndarray) -> None:
        """Make the rows [h] the hot ones: a table on the device with a copy of them and of their optimizer's state."""
        self.hot_rows = torch.from_numpy(rows)
        self.slots = torch.full((len(self.host),), -1, dtype=torch.int64)  # row id → place in the hot table, or -1
        self.slots[self.hot_rows] = torch.arange(len(rows))
        self.hot: EmbeddingTable = self.host.part(self.hot_rows, self.link.to_device)
        self.count_copy(len(rows), HOST, DEVICE)
        self.hot_rows_share = len(rows) / len(self.host)

    def is_hot(self, inputs: np.ndarray) -> np.ndarray:
        """[n] bool: which training inputs look up hot rows only."""
        self.clock.count(lookups_scanned=len(inputs) * self.job.schema.num_lookups)
        marks = self.slots.numpy() >= 0
        return hot_inputs(self.job.train, inputs, marks)

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        """As the base class, each row from the tier where it is current."""
        if not self.hot_is_current:
            return super().lookup(ids)
        places = self.slots[ids].flatten()
        cold = places < 0
        self.clock.count(HOST, lookups_placed=ids.numel(), rows_read=(num_cold := int(cold.sum())))
        self.clock.count(DEVICE, rows_read=ids.numel() - num_cold)
        if cold.any():
            places[cold] = -1 - torch.arange(int(cold.sum()))
            cold_vectors = self.link.to_device(self.host.gather(ids.flatten()[cold]))
            vectors = kernels.gather_both(self.hot.weights, cold_vectors, self.link.to_device(places))
        else:
            self._places = self.link.to_device(places)
            vectors = self.hot.gather(self._places)
        return self.pooling.forward(vectors.view(*ids.shape, -1))

    def update(self, ids: torch.Tensor, grads: torch.Tensor) -> None:
        """As the base class; on the device where its copy is current, for the last lookup, which was all hot."""
        if not self.hot_is_current:
            return super().update(ids, grads)
        grads = self.pooling.backward(grads)
        self.count_update(self.hot.update(self._places, grads.flatten(0, 1)), ids.numel(), DEVICE)

    def rows(self) -> torch.Tensor:
        rows = self.host.weights.clone()
        if self.hot_is_current:
            rows[self.hot_rows] = self.hot.weights.cpu()
        return rows

    def freeze(self, marks: torch.Tensor) -> None:
        super().freeze(marks)
        self.hot.freeze(self.link.to_device(marks[self.hot_rows]))

    def save(self, ids: torch.Tensor) -> Any:
        return super().save(ids), self.hot.weights.clone(), self.hot.state.clone()

    def restore(self, saved: Any) -> None:
        others, weights, state = saved
        super().restore(others)
        self.hot.weights.copy_(weights)
        self.hot.state.copy_(state)
