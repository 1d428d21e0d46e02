"""The server process of `xdl`: rows, dense weights and their optimizers; it answers what the worker asks.

Servers are started by the worker and talk to it over torch.distributed (gloo, on the loopback interface only). Row r
lives on server r mod S; the flat vector of the dense weights is cut into S ranges. A request is a header of three
numbers and, where it has one, a payload; a reply is one tensor whose size the worker knows.

No server outlives its worker: a server ignores Ctrl-C, which is the worker's to handle, and watches its parent in a
thread, which ends the process whatever else that is doing. A server that dies closes its connection, which ends the
worker's wait for it at once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch.distributed import FileStore, ProcessGroupGloo
from torch.nn.utils import parameters_to_vector

from baselines import process
from baselines.dense import make_network
from baselines.model import Model
from baselines.optimizer import dense_step
from baselines.table import EmbeddingTable, initial_table
from datasets.schema import Schema

IDLE_S = 1e8  # how long a server waits for a request
STOP_S = 5.0  # within which a process that is to end has ended
WORKER = 0  # the worker's rank; server s has rank s + 1
HEADER = 3  # what is asked, a number n, bytes of the payload


class Ask(IntEnum):
    """What a worker can ask a server for."""

    READ = 0  # n row ids → their vectors
    PULL = 1  # n row ids → their vectors and the dense weights
    PUSH = 2  # n row ids, their gradients and the dense gradients → rows written, rows left as stale
    FREEZE = 3  # a mark for each row → 0
    SAVE = 4  # n row ids → the number of a copy of these rows, the dense weights and the optimizers' states
    RESTORE = 5  # the number of a copy → 0
    ROWS = 6  # → all rows


@dataclass(frozen=True, kw_only=True)
class Sharding:
    """What is spread over the servers, and how: all that a server is told."""

    schema: Schema
    model: Model
    optimizer: str
    lr: float
    dtype: torch.dtype
    seed: int
    threads: int
    num_servers: int

    def num_rows(self, server: int) -> int:
        """Rows that live on a server."""
        return len(range(server, self.schema.num_rows, self.num_servers))

    def dense_range(self, server: int, num_weights: int) -> slice:
        """The part of the flat vector of dense weights that lives on a server."""
        return slice(num_weights * server // self.num_servers, num_weights * (server + 1) // self.num_servers)


class Shard:
    """What one server owns: its rows, its part of the dense weights, and the optimizer of each."""

    def __init__(self, s: Sharding, server: int) -> None:
        self.table = initial_table(s.schema, s.model.dim, s.optimizer, s.lr, s.dtype, s.seed, server, s.num_servers)
        flat = parameters_to_vector(make_network(s.model, s.schema, s.seed).to(s.dtype).parameters()).detach()
        self.dense = flat[s.dense_range(server, len(flat))].clone()
        self.dense_state = None if s.optimizer == "sgd" else torch.zeros_like(self.dense)
        self.copies: list[Any] = []

    def answer(self, ask: Ask, n: int, payload: torch.Tensor) -> torch.Tensor:
        """The reply to a request with its payload [bytes] uint8."""
        match ask:
            case Ask.READ:
                return self.table.gather(payload.view(torch.int64))
            case Ask.PULL:
                vectors = self.table.gather(payload.view(torch.int64))
                return torch.cat([vectors.flatten(), self.dense])
            case Ask.PUSH:
                return self._push(payload[: 8 * n].view(torch.int64), payload[8 * n :].view(self.dense.dtype))
            case Ask.FREEZE:
                self.table.freeze(payload.view(torch.bool))
            case Ask.SAVE:
                self.copies.append(self._copy(payload.view(torch.int64)))
                return torch.tensor([len(self.copies) - 1])
            case Ask.RESTORE:
                self._restore(*self.copies[n])
            case Ask.ROWS:
                return self.table.weights
        return torch.zeros(1, dtype=torch.int64)

    def _push(self, rows: torch.Tensor, grads: torch.Tensor) -> torch.Tensor:
        size = len(rows) * self.table.weights.shape[1]
        counts = self.table.update(rows, grads[:size].view(len(rows), -1))
        dense_step(self.dense, self.dense_state, grads[size:], self.table.lr)
        return torch.tensor(counts)

    def _copy(self, rows: torch.Tensor) -> Any:
        state = None if self.dense_state is None else self.dense_state.clone()
        return rows, self.table.part(rows, torch.clone), self.dense.clone(), state

    def _restore(self, rows: torch.Tensor, part: EmbeddingTable, dense: torch.Tensor, state: torch.Tensor) -> None:
        self.table.put(rows, part, torch.clone)
        self.dense.copy_(dense)
        if self.dense_state is not None:
            self.dense_state.copy_(state)


def serve(sharding: Sharding, server: int, meeting: str, ready: Connection) -> None:
    """A server process from its start to its end, which comes with that of its worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="watch", daemon=True).start()
    process.set_up(sharding.threads)
    shard = Shard(sharding, server)
    ready.send("made")
    group = meet(meeting, server + 1, sharding.num_servers + 1, IDLE_S)
    ready.send("connected")  # the file of the meeting is no longer needed
    ready.close()
    while True:
        ask, n, num_bytes = _receive(group, HEADER, torch.int64).tolist()
        reply = shard.answer(Ask(ask), n, _receive(group, num_bytes, torch.uint8))
        if reply.numel():
            _finish(group.send([reply], WORKER, 0))


def _receive(group: Any, size: int, dtype: torch.dtype) -> torch.Tensor:
    received = torch.empty(size, dtype=dtype)
    if size:
        _finish(group.recv([received], WORKER, 0))
    return received


def _finish(work: Any) -> None:
    """Wait until a message is through. If the worker has ended, `_end_with_parent` ends this process meanwhile."""
    try:
        work.wait()
    except RuntimeError:
        time.sleep(STOP_S)
        raise


def _end_with_parent() -> None:
    """End this process when its parent has ended, however that came about."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    while not wait([parent.sentinel], timeout=1.0) and os.getppid() == parent.pid:
        pass
    os._exit(1)


def meet(meeting: str, rank: int, size: int, timeout_s: float) -> Any:
    """Connect with the other processes that meet at this file, over the loopback interface: a gloo process group.

    It is a group of its own, not torch's default one, of which a process can have only one at a time.
    """
    gloo: Any = ProcessGroupGloo  # torch's stubs do not have what it inherits
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname="127.0.0.1")]
    options._timeout = timedelta(seconds=timeout_s)
    return gloo(FileStore(meeting, size), rank, size, options)
