"""`hotline`: hot rows live on the device; each mini-batch is split, and the gather of one part hides behind the other.

Hotline in software (Adnan et al., ISCA 2024; the accelerator of the paper is not modelled here). In the learning
phase, the first mini-batches, all rows are on the host and accesses are counted; then the most accessed rows move to
the device for good. From there on each mini-batch is split into a popular µ-batch (all lookups hot) and the rest: while
the popular one runs forward and backward, the cold rows of the other are gathered and copied up beside it. Both
µ-batches read the rows as they were before the mini-batch; their gradients are summed and applied in one update, and
the cold rows are written back. Where host and device are one CPU there is nothing to gather beside: a third thread on
the same cores costs 5 % of the time (`hotline.gather`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from baselines import hotset, kernels, work
from baselines.devices import HOST
from baselines.hot_placement import HotPlacement
from baselines.job import Job
from baselines.system import Order, Run, System
from baselines.table import EmbeddingTable
from datasets.loader import Batch
from datasets.settings import Setting

SUMMARY = "Hotline in software: popular and non-popular µ-batches, cold rows gathered while the popular one runs"
SETTINGS = (
    hotset.HOT_BYTES,
    Setting(
        key="hotline.learning_share",
        default=0.05,
        low=0.0,
        high=1.0,
        help="share of the first epoch's mini-batches in which accesses are counted",
    ),
    Setting(
        key="hotline.gather",
        default="auto",
        choices=("auto", "beside", "after"),
        help="beside: a thread gathers cold rows while the popular µ-batch runs; after: when it has run; "
        "auto: beside it where host and device are two",
    ),
)
LANE = "gather"
check = hotset.check


def build(job: Job) -> System:
    """Rows on the host until they are learned; in order, in µ-batches afterwards."""
    placement = HotlinePlacement(job)
    return System(placement, LearningSchedule(placement, job))


@dataclass
class Staged:
    """The cold rows of a µ-batch, brought to the device."""

    rows: torch.Tensor  # [U] int64, unique row ids
    table: EmbeddingTable
    places: torch.Tensor  # [n] int64, on the device: of each lookup, in the hot table; or -1 - its place in this one


class HotlinePlacement(HotPlacement):
    """Hot rows on the device only, cold rows on the host only."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        how = job.settings["hotline.gather"]
        beside = how == "beside" or (how == "auto" and job.device != HOST)
        self._gatherer = ThreadPoolExecutor(1, thread_name_prefix="hotline-gather") if beside else None
        self._stream: Any = torch.cuda.Stream(job.device) if job.device != HOST else None

    def move_hot(self, rows: np.ndarray) -> None:
        """End the learning phase: the rows [h] live on the device from now on."""
        self.place(rows)
        self.hot_is_current = True

    def train(self, batch: Batch) -> torch.Tensor:
        """Train one mini-batch, in two µ-batches once the hot rows are known."""
        if not self.hot_is_current:
            return super().train(batch)
        with self.clock.phase("split"):
            batch, places, num_popular = self._split(batch)
            self.clock.count(lookups_split=places.numel())
            first, second = batch.select(slice(num_popular)), batch.select(slice(num_popular, None))
        self.clock.fork()
        stage = partial(self._stage, second.ids.flatten(), places[num_popular:].flatten())
        staging = self._gatherer.submit(stage).result if self._gatherer else stage
        done = [self._popular(first, places[:num_popular])] if len(first) else []
        staged = self._wait(staging)
        if len(second):
            done.append(self._non_popular(second, staged))
        losses, device_places, grads = zip(*done, strict=True)
        with self.clock.phase("hot_update"):
            updated = self.hot.update(torch.cat(device_places), torch.cat(grads))
            self.count_update(updated, sum(map(len, device_places)), work.DEVICE)
        self.dense.step()
        return torch.stack(losses).sum()

    def _split(self, batch: Batch) -> tuple[Batch, torch.Tensor, int]:
        """The batch with its popular inputs first, the lookups' places [B, C] in the hot table, or -1, and how many."""
        places, inputs, num_popular = kernels.split(self.slots, batch.ids)
        return batch.select(inputs), places, num_popular

    def _popular(self, batch: Batch, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Forward and backward of the popular µ-batch: loss, hot places [n], gradients [n, D]."""
        with self.clock.phase("hot_forward"):
            self.clock.count(work.DEVICE, rows_read=places.numel())
            places = self.link.to_device(places.flatten())
            vectors = self.pooling.forward(self.hot.gather(places).view(*batch.ids.shape, -1))
        loss, grads = self.dense.backward(self.to_device(batch), vectors)
        return loss, places, self.pooling.backward(grads).flatten(0, 1)

    def _non_popular(self, batch: Batch, staged: Staged) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same of the other µ-batch, and the update of its cold rows; the update of the hot ones waits."""
        with self.clock.phase("mixed_forward"):
            self.clock.count(work.DEVICE, rows_read=staged.places.numel())
            vectors = kernels.gather_both(self.hot.weights, staged.table.weights, staged.places)
            pooled = self.pooling.forward(vectors.view(*batch.ids.shape, -1))
        loss, grads = self.dense.backward(self.to_device(batch), pooled)
        grads = self.pooling.backward(grads).flatten(0, 1)
        self._write_back(staged, grads)
        return loss, staged.places, grads

    def _stage(self, rows: torch.Tensor, places: torch.Tensor) -> Staged:
        """Bring the cold rows, each once, with their optimizer's state to the device, beside the popular µ-batch."""
        with self.clock.phase("stage", LANE), torch.cuda.stream(self._stream):
            unique = kernels.place(rows, places)
            self.clock.count(lookups_unique=len(places), tables=self.pooling.num_vectors)
            self.count_copy(len(unique), work.HOST, work.DEVICE)
            return Staged(unique, self.host.part(unique, self.link.to_device), self.link.to_device(places))

    def _wait(self, staging: Callable[[], Staged]) -> Staged:
        with self.clock.phase("wait_for_stage"):
            staged = staging()
            self.clock.join()
            if self._stream is not None:
                torch.cuda.current_stream().wait_stream(self._stream)
            return staged

    def _write_back(self, staged: Staged, grads: torch.Tensor) -> None:
        """Update the staged rows on the device and write them, with their state, back to the host."""
        with self.clock.phase("cold_update"):
            self.count_update(staged.table.update(-1 - staged.places, grads), len(staged.places), work.DEVICE)
        with self.clock.phase("write_back"):
            self.host.put(staged.rows, staged.table, self.link.to_host)
            self.count_copy(len(staged.rows), work.DEVICE, work.HOST)

    def close(self) -> None:
        """End the gathering thread."""
        if self._gatherer:
            self._gatherer.shutdown()
        super().close()


class LearningSchedule:
    """In order; after the learning phase of the first epoch the hot rows move to the device."""

    def __init__(self, placement: HotlinePlacement, job: Job) -> None:
        self._placement = placement
        self._job = job

    def __call__(self, order: Order) -> Iterator[Run]:
        if not self._placement.hot_is_current:
            size = self._job.batch_size
            learning = max(1, round(self._job.settings["hotline.learning_share"] * len(order) / size)) * size
            yield Run(order[:learning], "cold")
            self._learn(order[:learning])
            order = order[learning:]
        yield Run(order, "mixed")

    def _learn(self, inputs: np.ndarray) -> None:
        """Count the accesses of the inputs of the learning phase and move the most accessed rows to the device."""
        job, train = self._job, self._job.train
        with job.clock.phase("learning"):
            counts = hotset.count_accesses(train, inputs)
            job.clock.count(lookups_scanned=len(inputs) * job.schema.num_lookups)
            budget = hotset.budget_rows(job, train, inputs, counts)
            self._placement.move_hot(hotset.hot_rows(counts, budget, job.schema.reserved_rows))
        with job.clock.paused():
            self._placement.hot_inputs_share = float(self._placement.is_hot(np.arange(len(train))).mean())
