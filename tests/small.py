"""Small jobs with made-up data in memory, and a walk through their epochs: what tests of systems start from.

A recorder that remembers and a time of our own making are here too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from baselines.clock import MAIN, Clock
from baselines.job import Job
from baselines.model import Model
from baselines.registry import load_system
from baselines.system import Run, System
from datasets.loader import Batch, batches, epoch_order
from datasets.schema import Schema, Table
from datasets.settings import resolve
from datasets.store import Split

CPU = torch.device("cpu")


def make_schema(
    rows: Sequence[int], lookups: Sequence[int] | None = None, dense: bool = True, steps: int = 1
) -> Schema:
    """Tables of so many rows (the reserved one included), with so many lookups each (default: one) in each step."""
    lookups = lookups or [1] * len(rows)
    pairs = zip(rows, lookups, strict=True)
    tables = tuple(Table(name=f"c{number}", rows=n, lookups=count) for number, (n, count) in enumerate(pairs))
    return Schema(dense=("d0", "d1", "d2") if dense else (), tables=tables, steps=steps)


def make_split(schema: Schema, num_inputs: int, seed: int, lowest_id: int = 1) -> Split:
    """Inputs with skewed ids (the lower the more frequent) and labels that depend on dense features and ids.

    In a time series the first table is the user's: an input looks up the same rows of it in all steps.
    """
    random = np.random.default_rng(seed)
    columns = []
    for table in schema.lookup_tables:
        num_ids = schema.tables[table].rows - lowest_id
        columns.append(lowest_id + (num_ids * random.random(num_inputs) ** 3).astype(np.int32))
    ids = np.stack(columns, axis=1)
    users = schema.tables[0].lookups
    ids[:, : schema.steps * users] = np.tile(ids[:, :users], schema.steps)
    dense = random.standard_normal((num_inputs, schema.num_dense)).astype(np.float32)
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
    steps: int = 1,
    model: Model | None = None,
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
    """A job of 7 mini-batches an epoch, the last one short. Training never sees the reserved ids; validation does.

    The model is a small DLRM, or, where there are several steps, a small TBSM.
    """
    schema = make_schema(rows, lookups, dense, steps)
    layers = {"top": (10, 1)} if steps == 1 else {"top": (10, 6), "attention": (5,), "final": (9, 1)}
    return Job(
        schema=schema,
        train=make_split(schema, num_inputs, seed=1),
        validation=make_split(schema, 100, seed=2, lowest_id=0),
        model=model or Model(dim=dim, bottom=(12, dim), **layers, summary="for tests"),
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


def hot_settings(system: str, row_bytes: int = 32, steps: int = 1) -> dict[str, str]:
    """Settings under which the system's inputs are some hot and some cold, and some of the hot ones are skipped."""
    rows = 94 if steps == 1 else 230  # for three steps: all lookups of all steps have to be hot
    wanted = {
        "layout.hot_bytes": str(rows * row_bytes),
        "hotline.learning_share": "0.3",
        "slipstream.window": "0.2",
        "slipstream.tolerance": "0.2",
    }
    return {setting.key: wanted[setting.key] for setting in load_system(system).SETTINGS if setting.key in wanted}


def assert_hot_and_cold(job: Job, runs: Sequence[Run]) -> None:
    """Of a system with hot rows: both kinds of mini-batches were trained, or both kinds of µ-batches."""
    kinds = {run.kind for run in runs}
    if "mixed" in kinds:
        rows = [job.clock.phases[MAIN, phase].amounts["rows"] for phase in ("hot_forward", "mixed_forward")]
        assert min(rows) > 0
    elif "cold" in kinds:
        assert "hot" in kinds


def epoch_runs(job: Job, system: System, epoch: int) -> Iterator[Run]:
    """The runs of one epoch, as the training loop gets them."""
    order = epoch_order(len(job.train), job.seed, epoch)
    return system.skip(order, system.schedule(order))


def run_batches(job: Job, run: Run) -> Iterator[Batch]:
    """The mini-batches of a run; none where it is skipped."""
    if run.kind != "skipped":
        yield from batches(job.train, run.inputs, job.batch_size, run.weights)


def epoch_batches(job: Job, system: System, epoch: int) -> Iterator[Batch]:
    """The mini-batches of one epoch that are trained, in order."""
    for run in epoch_runs(job, system, epoch):
        yield from run_batches(job, run)


@dataclass
class Walk:
    """What was trained and skipped on the way through some epochs."""

    runs: list[Run] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # of each step

    @property
    def trained(self) -> np.ndarray:
        """The inputs that were trained, in order."""
        return self._inputs(skipped=False)

    @property
    def skipped(self) -> np.ndarray:
        """The inputs that were not."""
        return self._inputs(skipped=True)

    def _inputs(self, skipped: bool) -> np.ndarray:
        found = [run.inputs for run in self.runs if (run.kind == "skipped") == skipped]
        return np.concatenate([np.empty(0, np.int64), *found])


def train_epochs(job: Job, system: System, epochs: int = 1, first: int = 0) -> Walk:
    """Train some epochs as the training loop does."""
    walk = Walk()
    with job.clock.run():
        for epoch in range(first, first + epochs):
            for run in epoch_runs(job, system, epoch):
                walk.runs.append(run)
                walk.losses += [float(system.placement.train(batch)) for batch in run_batches(job, run)]
    return walk


def dense_weights(system: System, job: Job) -> torch.Tensor:
    """The flat vector of the dense weights as they are now (the logits make a worker fetch them)."""
    placement = system.placement
    placement.logits(next(batches(job.validation, np.arange(1), 1)))
    return torch.nn.utils.parameters_to_vector(placement.dense.network.parameters()).detach().clone()


class Notebook:
    """A recorder that remembers."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.evals: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []

    def step(self, **window: Any) -> None:
        """Remember it."""
        self.steps.append(window)

    def eval(self, **point: Any) -> None:
        """Remember it."""
        self.evals.append(point)

    def decision(self, **row: Any) -> None:
        """Remember it."""
        self.decisions.append(row)

    def progress(self, samples_seen: int, samples_total: int, train_s: float, loss: float) -> None:
        """Nothing."""


class Time:
    """A time that passes only when it is told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def passes(self, seconds: float) -> None:
        """Let it."""
        self.seconds += seconds
