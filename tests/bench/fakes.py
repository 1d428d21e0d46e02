"""Fast stand-ins: a data set of a few inputs, systems that train nothing, and a loop that ends as a setting says.

The module is a system and a data set at once, so that one import gives both.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from baselines.job import Job
from baselines.registry import SYSTEMS
from bench.outcome import Diverged, Outcome
from datasets.errors import UserError
from datasets.registry import DATASETS
from datasets.schema import Schema, Table
from datasets.settings import Setting
from datasets.store import Split

SUMMARY = "stands in for a real one"
ENDS = ("done", "diverge", "crash", "refuse", "mistake", "interrupt", "hold")
SETTINGS = (
    Setting(key="fake.end", default="done", choices=ENDS, help="how the run ends"),
    Setting(key="skip", default="stale", help="a setting that is the start of another's name"),
    Setting(key="skip.what", default="inputs", choices=("inputs", "updates"), help="dotted"),
    Setting(key="fake.on", default=True, help="a switch"),
)
NEEDS_SOURCE = False
OPTIONS: tuple[Setting, ...] = ()
DEFAULTS = {
    "model": "small",
    "batch_size": 8,
    "optimizer": "rowwise-adagrad",
    "lr": {"sgd": 0.5, "rowwise-adagrad": 0.05},
    "settings": {"skip": "random", "nobody.has": 1},
}
PAPER = {"model": "rm2", "optimizer": "sgd", "lr": {"sgd": 0.01}}


@dataclass
class FakePlacement:
    """Remembers that it was closed."""

    closed: int = 0

    def close(self) -> None:
        """Count it."""
        self.closed += 1


PLACEMENTS: list[FakePlacement] = []


def check(settings: Mapping[str, Any]) -> None:
    """A mistake that only the system can judge."""
    if settings.get("skip.what") == "updates" and settings["skip"] == "loss":
        raise UserError("skip.what=updates does not go with skip=loss.")


def build(job: Job) -> Any:
    """The system, or its refusal."""
    if job.settings.get("fake.end") == "refuse":
        raise UserError("torchrec is not installed; install slipbench[cpu].")
    PLACEMENTS.append(FakePlacement())
    return SimpleNamespace(placement=PLACEMENTS[-1])


def train(job: Job, system: Any, outcome: Outcome, recorder: Any, **options: Any) -> None:
    """In place of the loop: two windows of steps and an evaluation."""
    with job.clock.run():
        for window in range(2):
            with job.clock.phase("dense_forward"):
                time.sleep(0.001)
            outcome.steps += 1
            outcome.samples_seen += len(job.train) // 2
            recorder.step(first_step=window, steps=1, samples=8, loss=0.5, seconds=0.001, data_wait_s=0.0)
            recorder.progress(outcome.samples_seen, len(job.train), job.clock.train_s, 0.5)
            ENDINGS[job.settings.get("fake.end", "done")]()
    outcome.auc_last = 0.75 + job.seed / 1000
    outcome.logloss_last = 0.5
    outcome.samples_trained = outcome.samples_seen
    recorder.eval(samples_seen=outcome.samples_seen, train_s=job.clock.train_s, auc=outcome.auc_last, logloss=0.5)
    recorder.decision(epoch=0, samples_seen=8, threshold=None, inputs_dropped=0)
    outcome.notes.append("one")
    job.notes.append("two, with a comma")


def _diverge() -> None:
    raise Diverged("the loss is nan at step 1")


def _crash() -> None:
    raise ZeroDivisionError("nothing\nwith a second line")


def _mistake() -> None:
    raise UserError("the disk is full.")


def _interrupt() -> None:
    raise KeyboardInterrupt


def _hold() -> None:
    while os.environ.get("FAKE_HOLD"):
        time.sleep(0.01)


ENDINGS: dict[str, Any] = {
    "done": lambda: None,
    "diverge": _diverge,
    "crash": _crash,
    "mistake": _mistake,
    "interrupt": _interrupt,
    "hold": _hold,
}


def tiny_split() -> Split:
    """32 inputs of one table."""
    schema = Schema(dense=("d",), tables=(Table(name="t", rows=4),))
    return Split(schema, np.zeros((32, 1), np.float32), np.ones((32, 1), np.int32), np.arange(32, dtype=np.int32) % 2)


def install(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Register the systems `fake` and `other` and the data set `tiny`, and put the loop aside."""
    split = tiny_split()
    prepared = SimpleNamespace(
        name="tiny",
        path=folder,
        cache_dir=folder / "cache",
        schema=split.schema,
        train=split,
        validation=split,
        test=split,
        fingerprint="f00d",
    )
    (folder / "data" / "tiny").mkdir(parents=True, exist_ok=True)
    patch.setenv("SLIPBENCH_DATA", str(folder / "data"))
    patch.setitem(SYSTEMS, "fake", "tests.bench.fakes")
    patch.setitem(SYSTEMS, "other", "tests.bench.fakes")
    patch.setitem(DATASETS, "tiny", "tests.bench.fakes")
    for module in ("bench.run", "bench.compare"):
        patch.setattr(f"{module}.open_set", lambda name, report: prepared)
        patch.setattr(f"{module}.code_version", lambda: "0+fake")  # whoever edits the code while the tests run
    patch.setattr("bench.loop.train", train)


if __name__ == "__main__":  # for tests that have to kill a whole process: fakes.py FOLDER ARGUMENT...
    from bench.cli import main
    from tests.bench import fakes

    fakes.install(pytest.MonkeyPatch(), Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
