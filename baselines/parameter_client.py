"""The worker's end of the parameter servers: starts them, asks them, stops them."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from baselines.clock import Clock
from baselines.parameter_server import STOP_S, WORKER, Ask, Sharding, meet, serve

START_S = 300.0  # the most that servers may take until their rows are made
REPLY_S = 1800.0  # the most that a reply may take; a server that died is noticed at once

Slices = list[tuple[torch.Tensor, torch.Tensor]]


class ParameterServers:
    """Servers that own all rows and the dense weights.

    The constructor only starts the processes, so that the worker can make its own parts meanwhile; `connect` waits for
    them. Every byte that crosses between processes is counted (`net_bytes`).
    """

    def __init__(self, sharding: Sharding, clock: Clock) -> None:
        self._sharding = sharding
        self._clock = clock
        self._group: Any  # of gloo
        self._dense_sizes: list[int]
        self._meeting = tempfile.TemporaryDirectory(prefix="slipbench-")
        self._processes: list[BaseProcess] = []
        self._ready: list[Connection] = []
        self.close = weakref.finalize(self, _stop, self._processes)  # at the latest when nobody holds this object
        try:
            with _interrupts_held_back():
                for server in range(sharding.num_servers):
                    self._start(server)
        except BaseException:
            self.close()
            raise

    def _start(self, server: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe(duplex=False)
        arguments = (self._sharding, server, self._meeting_file, theirs)
        process = spawn.Process(target=serve, args=arguments, name=f"parameter-server-{server}", daemon=True)
        process.start()
        theirs.close()
        self._processes.append(process)
        self._ready.append(ours)

    @property
    def _meeting_file(self) -> str:
        return str(Path(self._meeting.name) / "meeting")

    def connect(self, num_weights: int) -> None:
        """Wait until every server has made its part, and connect. `num_weights`: number of dense weights."""
        deadline = time.monotonic() + START_S
        self._hear("made", deadline)
        with self._meeting:
            self._group = meet(self._meeting_file, WORKER, len(self._processes) + 1, REPLY_S)
            self._hear("connected", deadline)
        ranges = [self._sharding.dense_range(server, num_weights) for server in range(len(self._processes))]
        self._dense_sizes = [part.stop - part.start for part in ranges]

    def _hear(self, word: str, deadline: float) -> None:
        """Wait until every server has said so."""
        for server, (process, ready) in enumerate(zip(self._processes, self._ready, strict=True)):
            wait([ready, process.sentinel], max(0.0, deadline - time.monotonic()))
            try:
                if not ready.poll():
                    raise RuntimeError(f"{self._name(server)} was not {word} within {START_S:.0f} s.")
                heard = ready.recv()
            except (EOFError, OSError) as error:
                raise self._failure(error) from error
            assert heard == word

    def pull(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The vectors [n, D] of rows [n], and the flat vector of the dense weights."""
        slices = self._owned(rows)
        parts = self._ask(
            Ask.PULL,
            [local for _, local in slices],
            [len(local) * self._dim + size for (_, local), size in zip(slices, self._dense_sizes, strict=True)],
        )
        dense = torch.cat([part[len(part) - size :] for part, size in zip(parts, self._dense_sizes, strict=True)])
        return self._joined(slices, parts), dense

    def read(self, rows: torch.Tensor) -> torch.Tensor:
        """The vectors [n, D] of rows [n]."""
        slices = self._owned(rows)
        sizes = [len(local) * self._dim for _, local in slices]
        return self._joined(slices, self._ask(Ask.READ, [local for _, local in slices], sizes))

    def push(self, rows: torch.Tensor, grads: torch.Tensor, dense: torch.Tensor) -> tuple[int, int]:
        """One step of the optimizers, with the gradients [n, D] of distinct rows [n] and the flat dense gradient.

        Returns how many rows were written and how many were left as stale.
        """
        slices = self._owned(rows)
        cuts = zip(slices, dense.split(self._dense_sizes), strict=True)
        payloads = [_packed(local, grads[where], part) for (where, local), part in cuts]
        counts = self._ask(Ask.PUSH, payloads, [2] * len(slices), torch.int64, [len(local) for _, local in slices])
        written, stale = torch.stack(counts).sum(0).tolist()
        return written, stale

    def rows(self) -> torch.Tensor:
        """[R, D]: all rows."""
        num_servers = len(self._processes)
        nothing = [torch.empty(0, dtype=torch.uint8)] * num_servers
        sizes = [self._sharding.num_rows(server) * self._dim for server in range(num_servers)]
        rows = torch.empty(self._sharding.schema.num_rows, self._dim, dtype=self._sharding.dtype)
        for server, part in enumerate(self._ask(Ask.ROWS, nothing, sizes)):
            rows[server::num_servers] = part.view(-1, self._dim)
        return rows

    def freeze(self, marks: torch.Tensor) -> None:
        """Leave the rows that marks [R] bool as they are from now on, and no others but the reserved ones."""
        num_servers = len(self._processes)
        payloads = [_packed(marks[server::num_servers]) for server in range(num_servers)]
        self._ask(Ask.FREEZE, payloads, [1] * num_servers, torch.int64)

    def save(self, rows: torch.Tensor) -> list[int]:
        """Copy distinct rows [n], the dense weights and the optimizers' states, on the servers, for `restore`."""
        payloads = [local for _, local in self._owned(rows)]
        return [int(number) for number in self._ask(Ask.SAVE, payloads, [1] * len(payloads), torch.int64)]

    def restore(self, saved: list[int]) -> None:
        """Go back to what `save` returned the numbers of."""
        nothing = [torch.empty(0, dtype=torch.uint8)] * len(saved)
        self._ask(Ask.RESTORE, nothing, [1] * len(saved), torch.int64, saved)

    @property
    def _dim(self) -> int:
        return self._sharding.model.dim

    def _owned(self, rows: torch.Tensor) -> Slices:
        """For each server, which of the rows [n] are its own, and their places on it."""
        num_servers = len(self._processes)
        owner = rows % num_servers
        own = [torch.nonzero(owner == server).squeeze(1) for server in range(num_servers)]
        return [(where, rows[where] // num_servers) for where in own]

    def _joined(self, slices: Slices, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """The servers' vectors in the order of the rows that were asked for."""
        vectors = torch.empty(sum(len(local) for _, local in slices), self._dim, dtype=self._sharding.dtype)
        for (where, local), part in zip(slices, parts, strict=True):
            vectors[where] = part[: len(local) * self._dim].view(len(local), self._dim)
        return vectors

    def _ask(
        self,
        ask: Ask,
        payloads: Sequence[torch.Tensor],
        sizes: Sequence[int],
        dtype: torch.dtype | None = None,
        numbers: Sequence[int] = (),
    ) -> list[torch.Tensor]:
        """Send a request to every server and wait for their replies, of these sizes; RuntimeError where one died."""
        payloads = [_packed(payload) for payload in payloads]
        numbers = numbers or [0] * len(payloads)
        headers = [torch.tensor([ask, n, len(payload)]) for n, payload in zip(numbers, payloads, strict=True)]
        replies = [torch.empty(size, dtype=dtype or self._sharding.dtype) for size in sizes]
        try:
            works = []
            for server, (header, payload, reply) in enumerate(zip(headers, payloads, replies, strict=True), start=1):
                works += [self._group.send([part], server, 0) for part in (header, payload) if part.numel()]
                works += [self._group.recv([reply], server, 0)] if reply.numel() else []
            for work in works:
                work.wait()
        except RuntimeError as error:
            raise self._failure(error) from error
        self._clock.count(net_bytes=sum(part.nbytes for part in (*headers, *payloads, *replies)), net_trips=1)
        return replies

    def _failure(self, error: Exception) -> RuntimeError:
        """What became of the servers, in one sentence."""
        ended = wait([process.sentinel for process in self._processes], STOP_S)
        for server, process in enumerate(self._processes):
            if process.sentinel in ended:
                process.join(STOP_S)  # its exit code comes a little later
                return RuntimeError(f"{self._name(server)} ended by itself, with exit code {process.exitcode}.")
        return RuntimeError(f"a parameter server did not answer: {error}")

    def _name(self, server: int) -> str:
        return f"parameter server {server + 1} of {len(self._processes)} (process {self._processes[server].pid})"


def _packed(*tensors: torch.Tensor) -> torch.Tensor:
    """The bytes of tensors, one after the other."""
    flat = [tensor.contiguous().flatten().view(torch.uint8) for tensor in tensors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Processes started inside never see Ctrl-C, not even while they import what they need."""
    resource_tracker.ensure_running()  # multiprocessing's own helper, whose start would end the holding back
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop(processes: Sequence[BaseProcess]) -> None:
    """End the servers, which hold nothing that is still needed."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(STOP_S)
        if process.exitcode is None:
            process.kill()
            process.join()
