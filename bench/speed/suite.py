"""The benchmark: groups of contenders in turn, round by round, and the targets read off them.

A group's contenders stay in memory and do a round each, A B C A B C, so that a ratio compares what ran within seconds
of one another. Nothing here is a test: times are reported, and tests assert behaviour.
"""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from baselines import hotset, process
from bench import env
from bench.config import code_version
from bench.progress import Progress
from bench.speed.contenders import Contender, InTraining, Repeated, Sample, make_job, matmul
from bench.speed.peer import Peer
from bench.speed.targets import (
    Round,
    Target,
    cost_per_trained,
    faster,
    millions_per_s,
    share_of_peak,
    time_saved,
    waiting,
)
from bench.stats import Estimate, paired_difference
from datasets.store import PreparedSet, open_set

SMALL, FULL = 0.1, 1.0  # scales of the tables: up to 1 M rows each (3.4 M together), and 33.8 M together
DATASET = "synthetic-kaggle"
ACCURACY_ROWS = 100_000


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    rounds: int
    rows: int  # inputs of a round of the ratios to the peer
    long_rows: int  # inputs of a round of systems that do something once an epoch
    seeds: int


QUICK = Sizes(rounds=4, rows=65_536, long_rows=262_144, seeds=5)
WHOLE = Sizes(rounds=10, rows=131_072, long_rows=1_048_576, seeds=8)


@dataclass(frozen=True)
class Group:
    """Contenders that are measured in turn, and what is read off them."""

    name: str
    make: Callable[[Sizes], list[Contender]]
    targets: tuple[Target, ...]


class Data:
    """The prepared sets of the benchmark, made where they are missing, in a folder of their own."""

    def __init__(self, folder: Path, rows: int, say: Callable[[str], None]) -> None:
        self._folder, self._rows, self._say = folder, rows, say

    def at(self, scale: float) -> PreparedSet:
        """The set whose tables have this scale."""
        root = self.root(scale)
        return open_set(DATASET, root, {"rows": self._rows, "scale": scale}, self._say)

    def root(self, scale: float) -> Path:
        """Where it lives."""
        return self._folder / f"scale-{scale:g}-{self._rows}"


def groups(data: Data, threads: int) -> list[Group]:
    """The groups, in the order in which they are measured."""

    def in_training(name: str, system: str, scale: float, rows: int, rounds: int, **how: Any) -> InTraining:
        job = make_job(data.at(scale), system, rows=rows, rounds=rounds + 1, threads=threads, **how)
        return InTraining(name, system, job)

    def peer(name: str, rows: int, rounds: int, batch_size: int) -> Peer:
        job = make_job(data.at(SMALL), "torchrec", rows=rows, rounds=rounds + 1, threads=threads, batch_size=batch_size)
        return Peer(name, job)

    def against_peer(sizes: Sizes) -> list[Contender]:
        common = (sizes.rows, sizes.rounds)
        return [
            peer("peer 2048", *common, batch_size=2048),
            in_training("dlrm 2048", "dlrm", SMALL, *common, batch_size=2048),
            in_training("dlrm 2048 bf16", "dlrm", SMALL, *common, batch_size=2048, precision="bf16"),
            peer("peer 128", *common, batch_size=128),
            in_training("dlrm 128", "dlrm", SMALL, *common, batch_size=128),
        ]

    def dense(sizes: Sizes) -> list[Contender]:
        common = (sizes.rows, sizes.rounds)
        return [
            matmul("matmul fp32", torch.float32),
            in_training("dlrm 8192", "dlrm", SMALL, *common, batch_size=8192),
            matmul("matmul bf16", torch.bfloat16),
            in_training("dlrm 8192 bf16", "dlrm", SMALL, *common, batch_size=8192, precision="bf16"),
        ]

    def systems(sizes: Sizes) -> list[Contender]:
        common = (sizes.long_rows, sizes.rounds)
        return [
            in_training("dlrm", "dlrm", SMALL, *common, batch_size=2048),
            in_training("fae", "fae", SMALL, *common, batch_size=2048),
            in_training("hotline", "hotline", SMALL, *common, batch_size=2048),
            in_training("slipstream none", "slipstream", SMALL, *common, batch_size=2048, settings={"skip": "none"}),
            in_training("slipstream", "slipstream", SMALL, *common, batch_size=2048),
            in_training("xdl-cpu", "xdl-cpu", SMALL, *common, batch_size=2048),
        ]

    def large(sizes: Sizes) -> list[Contender]:
        common = (sizes.rows, sizes.rounds)
        return [
            in_training("dlrm 3.4M", "dlrm", SMALL, *common, batch_size=2048),
            in_training("dlrm 33.8M", "dlrm", FULL, *common, batch_size=2048),
        ]

    def classify(sizes: Sizes) -> list[Contender]:
        train = data.at(SMALL).train.head(sizes.long_rows)
        inputs = np.random.default_rng(0).permutation(len(train))
        marks = np.random.default_rng(1).random(train.schema.num_rows) < 0.5

        def work() -> None:
            hotset.count_accesses(train, inputs)
            hotset.hot_inputs(train, inputs, marks, threads)

        return [Repeated("classify", len(train), work)]

    return [
        Group(
            "against a plain TorchRec loop",
            against_peer,
            (
                faster("dlrm 2048", "peer 2048", 1.15, 1.3, "dlrm fp32 / TorchRec loop, batch 2048"),
                faster("dlrm 128", "peer 128", 1.25, 1.5, "dlrm fp32 / TorchRec loop, batch 128"),
                faster("dlrm 2048 bf16", "peer 2048", 1.8, 2.4, "dlrm bf16 / TorchRec loop fp32, batch 2048"),
                waiting("dlrm 2048", 0.02, 0.005),
            ),
        ),
        Group(
            "dense part",
            dense,
            (
                share_of_peak("dlrm 8192", "matmul fp32", 0.65, 0.80),
                share_of_peak("dlrm 8192 bf16", "matmul bf16", 0.50, 0.65),
            ),
        ),
        Group(
            "systems, batch 2048",
            systems,
            (
                *(cost_per_trained(name, "dlrm", 0.95, 1.0) for name in ("fae", "hotline", "slipstream none")),
                time_saved("slipstream", "slipstream none", 0.85, 0.95),
                faster("xdl-cpu", "dlrm", 0.5, 0.7, "xdl-cpu (1 server, 1 worker) / dlrm"),
            ),
        ),
        Group(
            "large tables",
            large,
            (faster("dlrm 33.8M", "dlrm 3.4M", 0.8, 0.9, "dlrm with 33.8 M rows / with 3.4 M rows"),),
        ),
        Group(
            "deciding",
            classify,
            (millions_per_s("classify", 2.0, 5.0, "counting accesses and classifying inputs"),),
        ),
    ]


@dataclass(frozen=True)
class Line:
    """A target and what was measured."""

    target: str
    at_least: float
    wanted: float
    most: bool
    unit: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    verdict: str

    @property
    def text(self) -> str:
        """For people."""
        if self.value is None:
            return f"{self.target:<58} not measured"
        interval = "" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]"
        bound = "at most" if self.most else "at least"
        return (
            f"{self.target:<58} {self.value:>6.3g}{self.unit}{interval:<17} "
            f"{bound} {self.at_least:g}, wanted {self.wanted:g}: {self.verdict}"
        )


def line(target: Target, estimate: Estimate | None) -> Line:
    """A line of the table."""
    common = (target.name, target.at_least, target.wanted, target.most, target.unit)
    if estimate is None or np.isnan(estimate.value):
        return Line(*common, None, None, None, 0, "not measured")
    return Line(*common, estimate.value, estimate.low, estimate.high, estimate.n, target.verdict(estimate.value))


def bench(out: Path, quick: bool, progress: Progress) -> tuple[list[Line], int]:
    """Measure everything; the lines and the exit status: 1 if a target is missed."""
    sizes, threads = (QUICK if quick else WHOLE), len(os.sched_getaffinity(0))
    process.set_up(threads)
    out.mkdir(parents=True, exist_ok=True)
    data = Data(out / "data", sizes.long_rows, progress.say)
    samples: list[Sample] = []
    lines: list[Line] = []
    for group in groups(data, threads):
        rounds = measure(group, sizes, progress.say)
        samples += [sample for taken in rounds for sample in taken.values()]
        lines += [line(target, target.estimate(rounds)) for target in group.targets]
    lines += [*accuracy(out, sizes, progress.say), memory(out, data, progress.say), help_time()]
    write(out, samples, lines)
    return lines, int(any(found.verdict in ("missed", "not measured") for found in lines))


def measure(group: Group, sizes: Sizes, say: Callable[[str], None]) -> list[Round]:
    """The group's rounds; a first one is not counted, in which Hotline learns and caches fill."""
    say(f"{group.name}: setting up")
    contenders = group.make(sizes)
    rounds: list[Round] = []
    try:
        for number in range(sizes.rounds + 1):
            taken = {contender.name: contender.round(number) for contender in contenders}
            if number:
                rounds.append(taken)
                say(f"{group.name}: round {number} of {sizes.rounds}: "
                    + ", ".join(f"{name} {sample.per_s:,.3g}/s" for name, sample in taken.items()))  # fmt: skip
    finally:
        for contender in contenders:
            contender.close()
        contenders.clear()
        gc.collect()
    return rounds


def accuracy(out: Path, sizes: Sizes, say: Callable[[str], None]) -> list[Line]:
    """Whether bf16 changes the AUC: the paired mean over seeds, whose interval has to hold 0."""
    from bench.config import resolve
    from bench.run import run_cell

    pairs = []
    for seed in range(sizes.seeds):
        found = []
        for precision in ("bf16", "fp32"):
            given = {"system": "dlrm", "model": "rm2", "precision": precision, "seed": seed}
            config = resolve(given | {"limit-rows": ACCURACY_ROWS}, {})
            found.append(float(run_cell(config, out / "accuracy", Progress(io.StringIO()))["auc_last"]))
        pairs.append((found[0], found[1]))
        say(f"AUC of bf16 and fp32, seed {seed}: {found[0]:.5f}, {found[1]:.5f}")
    estimate = paired_difference(pairs)
    target = Target("AUC of bf16 less fp32: the interval holds 0", 0, 0, lambda taken: 0.0, (), unit="")
    done = line(target, estimate)
    holds = estimate is not None and estimate.holds(0.0)
    return [Line(**{**done.__dict__, "verdict": "reached as wanted" if holds else "missed"})]


def memory(out: Path, data: Data, say: Callable[[str], None]) -> Line:
    """Peak memory above the tables' own, of a process that trains `dlrm` with SGD on the full tables."""
    say("memory of a run on the full tables")
    prepared = data.at(FULL)
    command = [
        *(sys.executable, "-m", "bench.cli", "run", "--system", "dlrm", "--dataset", DATASET, "--model", "rm2"),
        *("--optimizer", "sgd", "--batch-size", "2048", "--limit-rows", "131072"),
        *("--out", str(out / "memory"), "--force"),
    ]
    environment = os.environ | {"SLIPBENCH_DATA": str(data.root(FULL))}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    row = pd.read_csv(out / "memory" / "runs.csv").iloc[-1]
    above = (float(row["peak_rss_bytes"]) - prepared.schema.num_rows * 16 * 4) / 1e9
    target = Target(
        "peak memory above the tables' (dlrm, SGD, 2.0 GiB), GB", 1.2, 0.8, lambda taken: 0.0, (), unit=" GB", most=True
    )
    return line(target, Estimate(above, None, None, 1))


def help_time(times: int = 7) -> Line:
    """The median time of `slipbench --help`."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "bench.cli", "--help"], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    target = Target("slipbench --help, s", 0.3, 0.15, lambda taken: 0.0, (), unit=" s", most=True)
    return line(target, Estimate(float(np.median(taken)), None, None, times))


def write(out: Path, samples: Sequence[Sample], lines: Sequence[Line]) -> None:
    """`samples.csv`, `targets.csv` and the environment."""
    pd.DataFrame([sample.to_dict() for sample in samples]).to_csv(out / "samples.csv", index=False)
    pd.DataFrame([found.__dict__ for found in lines]).to_csv(out / "targets.csv", index=False)
    facts = env.describe() | {"code_version": code_version()}
    (out / "env.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
