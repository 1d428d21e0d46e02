"""The benchmark: groups of contenders in turn, round by round, and the targets read off them.

A group's contenders stay in memory and do a round each, A B C A B C, so that a ratio compares what ran within seconds
of one another. Nothing here is a test: times are reported, and tests assert behaviour.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from baselines import process
from baselines.model import MODELS
from baselines.registry import load_system
from bench import env
from bench.config import code_version
from bench.loop import train
from bench.outcome import Outcome
from bench.progress import Progress
from bench.results import write_whole
from bench.speed.contenders import Sample, Silent, contender_job
from bench.speed.groups import DATASET, FULL, QUICK, SMALL, WHOLE, Data, Group, Maker, Sizes, groups, matrix
from bench.speed.scaling import growth, plot_growth
from bench.speed.targets import Limit, Round, faster, share_of_peak, trained_faster
from bench.stats import Estimate, paired_difference
from datasets.errors import UserError

ACCURACY_ROWS = 100_000
FINE_ENOUGH = 0.002  # of AUC: a wider interval would hold 0 whatever bf16 does
MATRIX_ROWS, MATRIX_ROUNDS = 32_768, 3  # three leave an interval, and twelve cases take a while


@dataclass(frozen=True)
class Line:
    """A limit and what was measured."""

    target: str
    needed: float  # at least, or with `most` at most
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
            f"{bound} {self.needed:g}, wanted {self.wanted:g}: {self.verdict}"
        )


def line(limit: Limit, estimate: Estimate | None, verdict: str | None = None) -> Line:
    """A line of the table; the verdict is the limit's unless another is given."""
    common = (limit.name, limit.needed, limit.wanted, limit.most, limit.unit)
    if estimate is None or np.isnan(estimate.value):
        return Line(*common, None, None, None, 0, "not measured")
    said = verdict or limit.verdict(estimate.value)
    return Line(*common, estimate.value, estimate.low, estimate.high, estimate.n, said)


PARTS = ("targets", "matrix", "growth")


def bench(out: Path, quick: bool, parts: Sequence[str], progress: Progress) -> tuple[list[Line], int]:
    """Measure the parts; the targets' lines and the exit status: 1 if a target is missed.

    All is written to `out` group by group, so that a benchmark that is stopped has what it measured.
    """
    sizes, threads = (QUICK if quick else WHOLE), len(os.sched_getaffinity(0))
    process.set_up(threads)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write results to {out}: {error.strerror}; name another folder with --out.") from None
    write_env(out)
    data = Data(out / "data", sizes.long_rows, progress.say)
    lines = measure_targets(out, data, sizes, threads, progress.say) if "targets" in parts else []
    if "matrix" in parts:
        measure_matrix(out, Maker(data, MATRIX_ROUNDS, threads), progress.say)
    if "growth" in parts:
        write(out, "growth", growth(threads, progress.say))
        plot_growth(out)
    return lines, int(any(found.verdict in ("missed", "not measured") for found in lines))


def measure_targets(out: Path, data: Data, sizes: Sizes, threads: int, say: Callable[[str], None]) -> list[Line]:
    """`samples.csv` and `targets.csv`."""
    samples: list[dict[str, Any]] = []
    lines: list[Line] = []
    for group in groups(Maker(data, sizes.rounds, threads), sizes):
        rounds = measure(group, sizes.rounds, say)
        samples += [{"group": group.name, **sample.to_dict()} for taken in rounds for sample in taken.values()]
        lines += [line(target.limit, target.estimate(rounds)) for target in group.targets]
        write(out, "samples", samples)
        write(out, "targets", [asdict(found) for found in lines])
    lines += [accuracy(data, sizes.seeds, threads, say), memory(out, data, say), help_time()]
    write(out, "targets", [asdict(found) for found in lines])
    return lines


def measure(group: Group, num_rounds: int, say: Callable[[str], None]) -> list[Round]:
    """The group's rounds; a first one is not counted, in which Hotline learns and caches fill."""
    say(f"{group.name}: setting up")
    contenders = group.make()
    unknown = {name for target in group.targets for name in target.needs} - {contender.name for contender in contenders}
    assert not unknown, f"no contender of the group '{group.name}' is named {unknown}"
    rounds: list[dict[str, Sample]] = []
    try:
        for number in range(num_rounds + 1):
            taken = {contender.name: contender.round(number) for contender in contenders}
            if number:
                rounds.append(taken)
                say(f"{group.name}: round {number} of {num_rounds}: "
                    + ", ".join(f"{name} {sample.per_s:,.3g}/s" for name, sample in taken.items()))  # fmt: skip
    finally:
        for contender in contenders:
            contender.close()
        contenders.clear()
        gc.collect()
    return list(rounds)


def measure_matrix(out: Path, maker: Maker, say: Callable[[str], None]) -> None:
    """`matrix.csv`: each contender of each case, its rate, and its ratios to the peer, to `dlrm` and to the peak."""
    table: list[dict[str, Any]] = []
    for case, group in matrix(maker, MATRIX_ROWS):
        rounds = measure(group, maker.rounds, say)
        for name in rounds[0]:
            if name == "matmul":
                continue
            per_s = float(np.median([taken[name].per_s for taken in rounds]))
            row = case | {"contender": name, "samples_per_s": per_s, "n": len(rounds)}
            row |= _spread("to_peer", faster(name, "peer", 0, 0, "").estimate(rounds))
            row |= _spread("to_dlrm", trained_faster(name, "dlrm", 0, 0).estimate(rounds))
            peak = None if name == "peer" else share_of_peak(name, "matmul", 0, 0).estimate(rounds)
            table.append(row | _spread("dense_share_of_peak", peak))
        write(out, "matrix", table)


def _spread(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    if estimate is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def accuracy(data: Data, seeds: int, threads: int, say: Callable[[str], None]) -> Line:
    """Whether bf16 changes the AUC: the paired mean over seeds, with an interval that holds 0 and is narrow enough."""
    pairs = []
    for seed in range(seeds):
        found = [_auc(data, precision, seed, threads) for precision in ("bf16", "fp32")]
        pairs.append((found[0], found[1]))
        say(f"AUC of bf16 and fp32, seed {seed}: {found[0]:.5f}, {found[1]:.5f}")
    estimate = paired_difference(pairs)
    limit = Limit(f"AUC of bf16 less fp32: the interval holds 0, ± {FINE_ENOUGH} at most", 0, 0, unit="")
    return line(limit, estimate, _same(estimate))


def _same(estimate: Estimate | None) -> str:
    """What an interval says about a difference that should be none."""
    if estimate is None or estimate.half_width is None:
        return "not measured"
    return "reached as wanted" if estimate.holds(0.0) and estimate.half_width <= FINE_ENOUGH else "missed"


def _auc(data: Data, precision: str, seed: int, threads: int) -> float:
    prepared = data.at(SMALL)
    job = contender_job(
        prepared, "dlrm", precision=precision, seed=seed, optimizer="rowwise-adagrad",
        batch_size=1024, rows=ACCURACY_ROWS, rounds=1, threads=threads,
    )  # fmt: skip
    system, outcome = load_system("dlrm").build(job), Outcome(job.clock)
    train(job, system, outcome, Silent(), test=prepared.test)
    assert outcome.auc_last is not None, "the generated test split has both classes"
    return outcome.auc_last


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
    tables = prepared.schema.num_rows * MODELS["rm2"].dim * np.dtype(np.float32).itemsize
    above = (float(row["peak_rss_bytes"]) - tables) / 1e9
    limit = Limit("peak memory above the tables' (dlrm, SGD, 2.0 GiB)", 1.2, 0.8, unit=" GB", most=True)
    return line(limit, Estimate(above, None, None, 1))


def help_time(times: int = 7) -> Line:
    """The median time of `slipbench --help`."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "bench.cli", "--help"], check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    limit = Limit("slipbench --help", 0.3, 0.15, unit=" s", most=True)
    return line(limit, Estimate(float(np.median(taken)), None, None, times))


def write(out: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """One of the benchmark's CSVs."""
    write_whole(out / f"{name}.csv", lambda path: pd.DataFrame(rows).to_csv(path, index=False))


def write_env(out: Path) -> None:
    """`env.json`: where and with what it was measured."""
    facts = env.describe() | {"code_version": code_version()}
    write_whole(out / "env.json", lambda path: path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8"))
