"""Parameter servers: nobody is left behind, and nobody waits for the dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

from baselines import xdl
from baselines.optimizer import dense_optimizer, dense_step, row_state
from baselines.table import initial_table
from baselines.xdl import SAME_AS_CPU, sum_by_row
from tests.small import build, epoch_batches, make_job, make_schema

ROOT = Path(__file__).parents[2]
WORKER = """
    import itertools
    from pathlib import Path

    from tests.small import build, epoch_batches, make_job

    if __name__ == "__main__":
        job = make_job("xdl-cpu", settings={"xdl.servers": 2}, cache_dir=Path("unused"))
        system = build("xdl-cpu", job)
        print(*(process.pid for process in system.placement.servers._processes), flush=True)
        for epoch in itertools.count():
            for batch in epoch_batches(job, system, epoch):
                system.placement.train(batch)
"""


def wait_until(true: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return true()


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_servers_end_with_their_worker(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    worker = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert worker.stdout and worker.stderr
    servers = [int(pid) for pid in worker.stdout.readline().split()]
    assert len(servers) == 2, worker.stderr.read()
    time.sleep(0.5)
    if number == signal.SIGINT:
        os.killpg(worker.pid, number)  # as a terminal sends it: to everybody
    else:
        worker.kill()
    assert wait_until(lambda: all(map(ended, servers)), 20)
    _, errors = worker.communicate(timeout=20)
    assert errors.count("Traceback") <= 1  # the worker's own, none of a server
    assert worker.returncode != 0


def test_a_worker_notices_that_a_server_died() -> None:
    job = make_job("xdl-cpu")
    placement = build("xdl-cpu", job).placement
    batch = next(epoch_batches(job, build("dlrm", job), 0))
    placement.train(batch)
    (server,) = placement.servers._processes  # type: ignore[attr-defined]
    os.kill(server.pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"parameter server 1 of 1 \(process {server.pid}\).*exit code -9"):
        placement.train(batch)
    assert time.monotonic() - start < 10
    placement.close()
    placement.close()


def test_without_a_gpu_the_two_are_said_to_be_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xdl, "Xdl", lambda job, link: None)  # the note alone, without the processes
    job = make_job("xdl")
    build("xdl", job)
    assert job.notes == [SAME_AS_CPU]


def test_shards_hold_the_rows_of_the_whole() -> None:
    schema = make_schema([5, 8, 2, 9])
    whole = initial_table(schema, 4, "adagrad", 0.1, torch.float32, seed=1)
    for shard in range(3):
        part = initial_table(schema, 4, "adagrad", 0.1, torch.float32, 1, shard, 3)
        assert torch.equal(part.weights, whole.weights[shard::3])
        assert torch.equal(part.frozen, whole.frozen[shard::3])
        assert part.state.shape == row_state("adagrad", part.weights).shape


def test_gradients_are_summed_by_row() -> None:
    where = torch.tensor([2, 0, 2, 1, 2])
    grads = torch.arange(10.0).view(5, 2)
    assert sum_by_row(where, grads, 3).tolist() == [[2, 3], [6, 7], [12, 15]]


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise-adagrad"])
def test_the_servers_dense_step_is_that_of_torch(optimizer: str) -> None:
    random = torch.Generator().manual_seed(0)
    weights = torch.randn(50, generator=random)
    parameter = torch.nn.Parameter(weights.clone())
    reference = dense_optimizer(optimizer, [parameter], lr=0.1)
    state = None if optimizer == "sgd" else torch.zeros(50)
    for _ in range(5):
        parameter.grad = torch.randn(50, generator=random)
        dense_step(weights, state, parameter.grad, lr=0.1)
        reference.step()
    torch.testing.assert_close(weights, parameter.detach(), rtol=1e-6, atol=1e-6)
