"""The groups of contenders: what is measured in turn, on which data, and the targets read off it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from baselines import hotset
from bench.speed.contenders import Contender, InTraining, Repeated, contender_job, matmul
from bench.speed.peer import Peer
from bench.speed.targets import (
    Target,
    faster,
    millions_per_s,
    share_of_peak,
    time_saved,
    trained_faster,
    waiting,
)
from datasets.store import PreparedSet, open_set

# Of the long rounds, which go over the same inputs again and again: at the data set's own rate the model would learn
# them by heart, and FAE's scheduler, whose loss then rises, swap after every mini-batch.
GENTLE = 0.01
SMALL, FULL = 0.1, 1.0  # scales of the tables: up to 1 M rows each (3.4 M together), and 33.8 M together
DATASET = "synthetic-kaggle"
# So much is skipped that its time stands out, with the optimizer at which thresholds are found, and at a rate at which
# FAE's scheduler stays calm over all rounds: the time is in question here, and not the accuracy.
SKIPPING = {"slipstream.drop": 0.5, "slipstream.tolerance": 0.1}
CALM: dict[str, Any] = {"batch_size": 2048, "optimizer": "rowwise-adagrad", "lr": 0.0001}


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    rounds: int
    rows: int  # inputs of a round of the ratios to the peer
    long_rows: int  # inputs of a round of systems that do something once an epoch
    seeds: int


QUICK = Sizes(rounds=4, rows=65_536, long_rows=327_680, seeds=5)
WHOLE = Sizes(rounds=6, rows=131_072, long_rows=393_216, seeds=8)


@dataclass(frozen=True)
class Group:
    """Contenders that are measured in turn, and what is read off them."""

    name: str
    make: Callable[[], list[Contender]]
    targets: tuple[Target, ...] = ()


class Data:
    """The prepared sets of the benchmark, made where they are missing, in a folder of their own."""

    def __init__(self, folder: Path, rows: int, say: Callable[[str], None]) -> None:
        self._folder, self._rows, self._say = folder, rows, say

    def at(self, scale: float) -> PreparedSet:
        """The set whose tables have this scale."""
        return open_set(DATASET, self.root(scale), {"rows": self._rows, "scale": scale}, self._say)

    def root(self, scale: float) -> Path:
        """Where it lives."""
        return self._folder / f"scale-{scale:g}-{self._rows}"


@dataclass(frozen=True)
class Maker:
    """Makes contenders of one benchmark: `rounds` counted ones, and one before them."""

    data: Data
    rounds: int
    threads: int

    def system(self, name: str, system: str, rows: int, scale: float = SMALL, **how: Any) -> Contender:
        """A system in the shared loop."""
        return InTraining(name, system, self._job(system, rows, scale, **how))

    def peer(self, name: str, rows: int, scale: float = SMALL, **how: Any) -> Contender:
        """The plain TorchRec loop."""
        return Peer(name, self._job("torchrec", rows, scale, **how))

    def _job(self, system: str, rows: int, scale: float, **how: Any) -> Any:
        return contender_job(
            self.data.at(scale), system, rows=rows, rounds=self.rounds + 1, threads=self.threads, **how
        )


def groups(maker: Maker, sizes: Sizes) -> list[Group]:
    """The groups with targets, in the order in which they are measured."""
    return [
        Group(
            "against a plain TorchRec loop",
            lambda: [
                maker.peer("peer 2048", sizes.rows, batch_size=2048),
                maker.system("dlrm 2048", "dlrm", sizes.rows, batch_size=2048),
                maker.system("dlrm 2048 bf16", "dlrm", sizes.rows, batch_size=2048, precision="bf16"),
                maker.peer("peer 128", sizes.rows, batch_size=128),
                maker.system("dlrm 128", "dlrm", sizes.rows, batch_size=128),
            ],
            (
                faster("dlrm 2048", "peer 2048", 1.15, 1.3, "dlrm fp32 / TorchRec loop, batch 2048"),
                faster("dlrm 128", "peer 128", 1.25, 1.5, "dlrm fp32 / TorchRec loop, batch 128"),
                faster("dlrm 2048 bf16", "peer 2048", 1.8, 2.4, "dlrm bf16 / TorchRec loop fp32, batch 2048"),
                waiting("dlrm 2048", 0.02, 0.005),
            ),
        ),
        Group(
            "dense part",
            lambda: [
                matmul("matmul fp32", torch.float32),
                maker.system("dlrm 8192", "dlrm", sizes.rows, batch_size=8192),
                matmul("matmul bf16", torch.bfloat16),
                maker.system("dlrm 8192 bf16", "dlrm", sizes.rows, batch_size=8192, precision="bf16"),
            ],
            (
                share_of_peak("dlrm 8192", "matmul fp32", 0.65, 0.80),
                share_of_peak("dlrm 8192 bf16", "matmul bf16", 0.50, 0.65),
            ),
        ),
        Group(
            "systems, batch 2048",
            lambda: [
                maker.system("dlrm", "dlrm", sizes.long_rows, batch_size=2048, lr=GENTLE),
                maker.system("fae", "fae", sizes.long_rows, batch_size=2048, lr=GENTLE),
                maker.system("hotline", "hotline", sizes.long_rows, batch_size=2048, lr=GENTLE),
                maker.system(
                    "slipstream none",
                    "slipstream",
                    sizes.long_rows,
                    batch_size=2048,
                    lr=GENTLE,
                    settings={"skip": "none"},
                ),
                maker.system("xdl-cpu", "xdl-cpu", sizes.long_rows, batch_size=2048, lr=GENTLE),
            ],
            (
                *(trained_faster(name, "dlrm", 0.95, 1.0) for name in ("fae", "hotline", "slipstream none")),
                faster("xdl-cpu", "dlrm", 0.5, 0.7, "xdl-cpu (1 server, 1 worker) / dlrm"),
            ),
        ),
        Group(
            "skipping",
            lambda: [
                maker.system("none", "slipstream", sizes.long_rows, **CALM, settings={"skip": "none"}),
                maker.system("slipstream", "slipstream", sizes.long_rows, **CALM, settings=SKIPPING),
            ],
            (time_saved("slipstream", "none", 0.85, 0.95),),
        ),
        Group(
            "large tables",
            lambda: [
                maker.system("dlrm 3.4M", "dlrm", sizes.rows, batch_size=2048),
                maker.system("dlrm 33.8M", "dlrm", sizes.rows, FULL, batch_size=2048),
            ],
            (faster("dlrm 33.8M", "dlrm 3.4M", 0.8, 0.9, "dlrm with 33.8 M rows / with 3.4 M rows"),),
        ),
        Group(
            "deciding",
            lambda: [classification(maker.data.at(SMALL), sizes.long_rows)],
            (millions_per_s("classify", 2.0, 5.0, "counting accesses and classifying inputs"),),
        ),
    ]


def classification(data: PreparedSet, rows: int) -> Repeated:
    """Count the accesses of shuffled inputs, and say which of them are hot."""
    train = data.train.head(rows)
    inputs = np.random.default_rng(0).permutation(len(train))
    marks = np.random.default_rng(1).random(train.schema.num_rows) < 0.5

    def work() -> None:
        hotset.count_accesses(train, inputs)
        hotset.hot_inputs(train, inputs, marks)

    return Repeated("classify", len(train), work)


SYSTEMS = ("xdl-cpu", "dlrm", "torchrec", "fae", "hotline", "slipstream")


def matrix(maker: Maker, rows: int) -> list[tuple[dict[str, Any], Group]]:
    """Every system beside the peer, over sizes of tables, batch sizes and precisions; what each group is of."""
    cases = [
        {"tables": tables, "batch_size": batch_size, "precision": precision}
        for tables in ("3.4M", "33.8M")
        for batch_size in (128, 2048, 8192)
        for precision in ("fp32", "bf16")
    ]
    return [(case, _of_case(maker, rows, case)) for case in cases]


def _of_case(maker: Maker, rows: int, case: dict[str, Any]) -> Group:
    scale = FULL if case["tables"] == "33.8M" else SMALL
    batch_size, precision = case["batch_size"], case["precision"]
    systems = [name for name in SYSTEMS if name != "torchrec" or precision == "fp32"]

    def make() -> list[Contender]:
        how = {"batch_size": batch_size, "precision": precision, "lr": GENTLE}
        return [
            matmul("matmul", torch.float32 if precision == "fp32" else torch.bfloat16),
            maker.peer("peer", rows, scale, batch_size=batch_size),
            *(maker.system(name, name, rows, scale, **how, settings=_settings(name)) for name in systems),
        ]

    return Group(f"{case['tables']} rows, batch {batch_size}, {precision}", make)


def _settings(system: str) -> dict[str, Any]:
    """Nothing is skipped, and no scheduler looks at 10,000 validation inputs in rounds that are hardly longer."""
    chosen = {"slipstream": {"skip": "none", "fae.schedule": "cold-first"}, "fae": {"fae.schedule": "cold-first"}}
    return chosen.get(system, {})
