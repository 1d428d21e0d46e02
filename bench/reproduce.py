"""The papers' comparison from nothing: data, runs, study, replay, figures, report, each step going on where it stopped.

The four data sets of the papers are generated, at a scale at which a row is looked up as often as in the whole set
(`datasets.shapes.generated`); where the real one is prepared, and not a small part of it, it is taken instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from baselines.registry import BASELINES
from bench import compare, study
from bench.compare import Cell, Options, parse_systems
from bench.estimate import seconds_left
from bench.progress import Progress, duration
from bench.results import Results
from bench.study import Grid, Point
from datasets.errors import UserError
from datasets.meta import read_own
from datasets.registry import load_dataset
from datasets.shapes import avazu, kaggle, terabyte
from datasets.store import data_root, open_set

SYSTEMS = (*BASELINES, "slipstream", "slipstream:layout=hotline")
BASELINE = "dlrm"
SMALLEST_SCALE = 0.001


@dataclass(frozen=True)
class PaperSet:
    """A data set of the papers."""

    generated: str
    real: str
    inputs: int  # for training, as its readers count them; for replay the papers' own bytes say how many
    share: float  # of the scope's inputs that a run takes; inputs of TBSM are 21 steps each
    inputs_per_s: float  # about, on two cores, for an estimate before anything has run


SETS = (
    PaperSet("synthetic-kaggle", "criteo-kaggle", kaggle.SHAPE.inputs, 1.0, 30_000),
    PaperSet("synthetic-terabyte", "criteo-terabyte", terabyte.SHAPE.inputs, 1.0, 15_000),
    PaperSet("synthetic-avazu", "avazu", avazu.SHAPE.inputs, 1.0, 35_000),
    PaperSet("synthetic-taobao", "taobao", 10_000_000, 0.5, 8_000),
)


@dataclass(frozen=True)
class Scope:
    """How much is run."""

    rows: int  # training inputs of a run
    seeds: Sequence[int]
    test_rows: int
    grids: Sequence[Grid]  # of the study


POLICIES = ("stale", "random", "loss")
QUICK = Scope(40_000, (0, 1, 2), 20_000, [Grid((40_000,), (1,), (0.3,), POLICIES, (0, 1, 2))])
# Small sizes are cheap and say the most about drop ratios and passes; ten million inputs are four minutes a run, and
# are there for what the number of updates a row gets does to staleness.
FULL = Scope(
    200_000,
    (0, 1, 2, 3, 4),
    50_000,
    [
        Grid((100_000,), (1, 3), (0.1, 0.3, 0.5), POLICIES, (0, 1, 2, 3, 4)),
        Grid((1_000_000,), (1,), (0.1, 0.3, 0.5), POLICIES, (0, 1, 2)),
        Grid((1_000_000,), (3,), (0.3,), POLICIES, (0, 1, 2)),
        Grid((10_000_000,), (1,), (0.3,), ("stale", "random"), (0, 1, 2)),
    ],
)


@dataclass(frozen=True)
class Part:
    """The runs on one data set, and where that is."""

    dataset: str
    root: Path
    options: dict[str, Any] | None  # that it is generated with; None: it is real
    inputs_per_s: float
    cells: list[Cell]
    points: list[tuple[Point, Cell]]  # of the study: none, or those of `cells`

    def make(self, progress: Progress) -> None:
        """Generate the data where it is missing."""
        open_set(self.dataset, self.root, self.options, progress.say)

    @property
    def title(self) -> str:
        """What is run, in words."""
        what = f"study of {self.points[0][0].size:,} inputs" if self.points else "comparison"
        return f"{what} on {self.dataset}"


def parts(scope: Scope, out: Path) -> list[Part]:
    """The comparison on each data set, and the study on generated Kaggle sets of each of its sizes."""
    return [*(_comparison(paper_set, scope, out) for paper_set in SETS), *_study(scope, out)]


def _comparison(paper_set: PaperSet, scope: Scope, out: Path) -> Part:
    rows = round(scope.rows * paper_set.share)
    is_real = _is_there(paper_set)
    dataset = paper_set.real if is_real else paper_set.generated
    root = data_root() if is_real else _root(out, rows, scope)
    cells = compare.plan(parse_systems(SYSTEMS), [dataset], scope.seeds, 1, Options({"limit-rows": rows}, {}))
    options = None if is_real else _options(paper_set, rows, scope)
    return Part(dataset, root, options, paper_set.inputs_per_s, cells, [])


def _is_there(paper_set: PaperSet) -> bool:
    """Whether the real set is prepared, with at least half of the published inputs."""
    meta: Any = read_own(data_root() / paper_set.real, paper_set.real)
    try:
        return bool(2 * meta["splits"]["train"]["rows"] >= paper_set.inputs)
    except (TypeError, KeyError):  # there is no such set
        return False


def _study(scope: Scope, out: Path) -> Iterator[Part]:
    on = SETS[0]
    for grid in scope.grids:
        (size,) = grid.sizes  # a set of its own, whose scale goes with it
        points = study.plan(grid, on.generated, Options({}, {}))
        root, options = _root(out, size, scope), _options(on, size, scope)
        yield Part(on.generated, root, options, on.inputs_per_s, [cell for _, cell in points], points)


def _root(out: Path, rows: int, scope: Scope) -> Path:
    return out / "data" / f"{rows}-{scope.test_rows}"


def _options(paper_set: PaperSet, rows: int, scope: Scope) -> dict[str, Any]:
    """Of a generated set of so many training inputs: the scale that keeps the skew is their share of all."""
    scale = min(1.0, max(SMALLEST_SCALE, round(rows / paper_set.inputs, 4)))
    wanted = {"rows": rows, "scale": scale, "validation_rows": scope.test_rows // 2, "test_rows": scope.test_rows}
    known = {option.key for option in load_dataset(paper_set.generated).OPTIONS}
    return {key: value for key, value in wanted.items() if key in known}  # Taobao's has shares of its users instead


@contextmanager
def data_in(root: Path) -> Iterator[None]:
    """Runs find their data sets in this folder."""
    before = os.environ.get("SLIPBENCH_DATA")
    os.environ["SLIPBENCH_DATA"] = str(root)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SLIPBENCH_DATA"]
        else:
            os.environ["SLIPBENCH_DATA"] = before


def describe_plan(scope: Scope, out: Path, progress: Progress) -> str:
    """What is left to run and about how long that takes, for `--dry-run`."""
    lines, seconds, left, total = [], 0.0, 0, 0
    for part in parts(scope, out):
        with data_in(part.root):
            todo = compare.not_done(part.cells, compare.hashes(part.cells, progress.say, make=False), out)
        took = seconds_left(todo, out, part.inputs_per_s) or 0.0
        state = "made" if (part.root / part.dataset).exists() else "to be made"
        lines.append(f"{part.title} ({state}): {len(todo)} of {len(part.cells)} runs left, about {duration(took)}")
        seconds, left, total = seconds + took, left + len(todo), total + len(part.cells)
    return "\n".join([*lines, f"{left} of {total} runs left, about {duration(seconds)}; then replay, figures, report"])


def reproduce(scope: Scope, out: Path, progress: Progress) -> tuple[str, int]:
    """All steps; the printed tables and the exit status: 1 where a run failed or was interrupted."""
    Results(out)  # refuses a folder that cannot be written before anything runs
    compared, studied, stopped = [], [], False
    for number, part in enumerate(todo := parts(scope, out), 1):
        if not stopped:
            progress.say(f"part {number} of {len(todo)}: {part.title}")
            part.make(progress)
        with data_in(part.root):
            digests = compare.hashes(part.cells, progress.say, make=False)
            if not stopped:
                compare.run_all(part.cells, digests, out, progress, force=False)
            rows = compare.collect(part.cells, digests, out)
        stopped = stopped or bool(rows["status"].isin(("interrupted", "missing")).any())
        if part.points:
            studied.append(study.mark(rows, part.points))
        else:
            compared.append(rows)
    texts = [compare.write_tables(pd.concat(compared), out, BASELINE), study.write_study(pd.concat(studied), out)]
    status = int(stopped or pd.concat([*compared, *studied])["status"].isin(compare.FAILED).any())
    if stopped:
        progress.say("the same command goes on from here; replay, figures and report come when all is run.")
        return "\n\n".join(texts), status
    return "\n\n".join([*texts, *_finish(todo, out, progress)]), status


def _finish(done: Sequence[Part], out: Path, progress: Progress) -> list[str]:
    """Replay on this machine and on the papers' servers, figures, report."""
    from bench.plot import plot
    from bench.replay.calibrate import calibrate_folder
    from bench.replay.command import replay
    from bench.replay.judge import fitted_profile
    from bench.replay.papers import FAE, PROFILES
    from bench.replay.profile import THIS_MACHINE
    from bench.report.page import report

    for part in {part.dataset: part for part in reversed(done)}.values():  # of a set in several sizes, the comparison's
        with data_in(part.root):
            calibrate_folder(out, progress.say, part.dataset, again=False)
    lines = replay(out, THIS_MACHINE, [], calibrate=False, fit=False, say=progress.say)
    try:
        lines += replay(out, None, [], calibrate=False, fit=True, say=progress.say)
        lines += replay(out, str(fitted_profile(out, PROFILES[FAE])), [], calibrate=False, fit=False, say=progress.say)
    except UserError as error:  # such as a system without a finished run: the figures and the page come all the same
        lines.append(f"the papers' servers are not modelled: {error}")
    for path in plot(out):
        progress.say(f"figure: {path}")
    return ["\n".join(lines), f"the report: {report(out)}"]
