"""The order of an epoch, and its mini-batches, read ahead by one thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from datasets.store import Split

BLOCK = 1 << 20  # inputs that are shuffled together where a set is too large to shuffle whole
WHOLE = 1 << 26  # inputs up to which a set is shuffled whole
READ_AHEAD = 3  # chunks: mini-batches, or where these are small, so many as hold
CHUNK = 4096  # inputs


@dataclass
class Batch:
    """One mini-batch, on the host."""

    dense: torch.Tensor  # [B, F] float32
    ids: torch.Tensor  # [B, C] int64, row ids
    labels: torch.Tensor  # [B] float32
    weights: torch.Tensor | None = None  # [B] float32, factors of the inputs' losses

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, which: torch.Tensor | slice) -> Batch:
        """The inputs that a bool vector [B] marks, or a stretch of them."""
        weights = None if self.weights is None else self.weights[which]
        return Batch(self.dense[which], self.ids[which], self.labels[which], weights)


def epoch_order(num_inputs: int, seed: int, epoch: int, whole: int = WHOLE, block: int = BLOCK) -> np.ndarray:
    """[N] int64: the order in which epoch `epoch` visits the training inputs, the same for every system.

    A set of more than `whole` inputs is not shuffled whole: its blocks are, and then the inputs within each, so that
    reading stays near one place of the file at a time.
    """
    random = np.random.default_rng([seed, epoch])
    if num_inputs <= whole:
        return random.permutation(num_inputs)
    starts = random.permutation(np.arange(0, num_inputs, block))
    return np.concatenate([start + random.permutation(min(block, num_inputs - start)) for start in starts])


def read(split: Split, inputs: np.ndarray, weights: np.ndarray | None = None) -> Batch:
    """The named inputs of a split, as one batch."""
    return Batch(
        dense=torch.from_numpy(split.dense[inputs]),
        ids=torch.from_numpy(split.row_ids(inputs)),
        labels=torch.from_numpy(split.labels[inputs].astype(np.float32)),
        weights=None if weights is None else torch.from_numpy(weights),
    )


def batches(split: Split, inputs: np.ndarray, batch_size: int, weights: np.ndarray | None = None) -> Iterator[Batch]:
    """The mini-batches of a run of inputs, in order; the last one may be short. One thread reads ahead."""
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(maxsize=READ_AHEAD)
    stopped = threading.Event()

    def put(item: Batch | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def read_ahead() -> None:
        try:
            size = max(1, CHUNK // batch_size) * batch_size
            for first in range(0, len(inputs), size):
                part = slice(first, first + size)
                chunk = read(split, inputs[part], None if weights is None else weights[part])
                put(chunk)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:  # handed to the reader, who raises it
            put(error)

    thread = threading.Thread(target=read_ahead, name="loader", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            for first in range(0, len(item), batch_size):
                yield item.select(slice(first, first + batch_size))
    finally:
        stopped.set()
        thread.join()
