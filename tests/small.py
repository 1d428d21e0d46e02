"""Small jobs with made-up data in memory, and a walk through their epochs: what tests of systems start from."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from baselines.clock import Clock
from baselines.job import Job
from baselines.model import Model
from baselines.registry import load_system
from baselines.system import System
from datasets.loader import Batch, batches, epoch_order
from datasets.schema import Schema, Table
from datasets.settings import resolve
from datasets.store import Split

CPU = torch.device("cpu")


def make_schema(rows: Sequence[int], lookups: Sequence[int] | None = None, dense: bool = True) -> Schema:
    """Tables of so many rows (the reserved one included), with so many lookups each (default: one)."""
    lookups = lookups or [1] * len(rows)
    pairs = zip(rows, lookups, strict=True)
    tables = tuple(Table(name=f"c{number}", rows=n, lookups=count) for number, (n, count) in enumerate(pairs))
    return Schema(dense=("d0", "d1", "d2") if dense else (), tables=tables)


def make_split(schema: Schema, num_inputs: int, seed: int, lowest_id: int = 1) -> Split:
    """Inputs with skewed ids (the lower the more frequent) and labels that depend on dense features and ids."""
    random = np.random.default_rng(seed)
    columns = []
    for table in schema.lookup_tables:
        num_ids = schema.tables[table].rows - lowest_id
        columns.append(lowest_id + (num_ids * random.random(num_inputs) ** 3).astype(np.int32))
    ids = np.stack(columns, axis=1)
    dense = random.standard_normal((num_inputs, len(schema.dense))).astype(np.float32)
    score = dense.sum(axis=1) + (ids % 3 - 1).sum(axis=1) + random.standard_normal(num_inputs)
    return Split(schema, dense, ids, (score > 0.5).astype(np.int32))


def make_job(
    system: str = "dlrm",
    *,
    optimizer: str = "sgd",
    precision: str = "fp32",
    rows: Sequence[int] = (40, 300, 7, 90),
    lookups: Sequence[int] | None = None,
    dense: bool = True,
    dim: int = 8,
    batch_size: int = 32,
    num_inputs: int = 32 * 6 + 11,
    lr: float = 0.05,
    epochs: int = 2,
    seed: int = 3,
    threads: int = 1,
    settings: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
    cache_dir: Path | None = None,
) -> Job:
    """A job of 7 mini-batches an epoch, the last one short. Training never sees the reserved ids; validation does."""
    schema = make_schema(rows, lookups, dense)
    return Job(
        schema=schema,
        train=make_split(schema, num_inputs, seed=1),
        validation=make_split(schema, 100, seed=2, lowest_id=0),
        model=Model(dim=dim, bottom=(12, dim), top=(10, 1), summary="for tests"),
        optimizer=optimizer,
        lr=lr,
        precision=precision,
        batch_size=batch_size,
        epochs=epochs,
        seed=seed,
        device=CPU,
        threads=threads,
        settings=resolve(load_system(system).SETTINGS, settings or {}, system),
        clock=clock or Clock(),
        cache_dir=cache_dir or Path(tempfile.mkdtemp(dir=_caches().name)),
    )


@cache
def _caches() -> tempfile.TemporaryDirectory[str]:
    """One folder for the caches of all jobs, gone when Python ends."""
    return tempfile.TemporaryDirectory(prefix="slipbench-test-")


def build(name: str, job: Job) -> System:
    """The system of that name."""
    system: System = load_system(name).build(job)
    return system


def epoch_runs(job: Job, system: System, epoch: int) -> Iterator[Any]:
    """The runs of one epoch, as the training loop gets them."""
    order = epoch_order(len(job.train), job.seed, epoch)
    return system.skip(order, system.schedule(order))


def epoch_batches(job: Job, system: System, epoch: int) -> Iterator[Batch]:
    """The mini-batches of one epoch that are trained, in order."""
    for run in epoch_runs(job, system, epoch):
        if run.kind != "skipped":
            yield from batches(job.train, run.inputs, job.batch_size, run.weights)


def train_epochs(job: Job, system: System, epochs: int) -> list[float]:
    """Train as the training loop does; the loss of every step."""
    with job.clock.run():
        losses = [
            system.placement.train(batch) for epoch in range(epochs) for batch in epoch_batches(job, system, epoch)
        ]
    return [float(loss) for loss in losses]


def dense_weights(system: System, job: Job) -> torch.Tensor:
    """The flat vector of the dense weights as they are now (the logits make a worker fetch them)."""
    placement = system.placement
    placement.logits(next(batches(job.validation, np.arange(1), 1)))
    return torch.nn.utils.parameters_to_vector(placement.dense.network.parameters()).detach().clone()
