"""The profile `this-machine`: the parts of the systems, measured here at the shapes of a folder's runs.

The measurements use the validation inputs, which no run trains on, and single parts of steps; runs are judged whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

from baselines import kernels, process
from baselines.job import Job
from bench import env
from bench.config import resolve
from bench.jobs import make_job
from bench.replay import profile as profiles
from bench.replay.parts import Stopwatch, base, measures
from bench.replay.profile import THIS_MACHINE, Profile
from bench.replay.report import recorded_runs
from bench.results import write_whole
from datasets.errors import UserError
from datasets.store import data_root, open_set


@dataclass(frozen=True)
class Shape:
    """What the cost of a part depends on."""

    dataset: str
    model: str
    optimizer: str
    precision: str
    device: str
    batch_size: int
    threads: int

    @classmethod
    def of(cls, row: Mapping[str, str]) -> Shape:
        """The shape of a row of runs.csv."""
        return cls(
            dataset=row["dataset"],
            model=row["model"],
            optimizer=row["optimizer"],
            precision=row["precision"],
            device=row["device"],
            batch_size=int(row["batch_size"]),
            threads=int(row["threads"]),
        )

    def __str__(self) -> str:
        return "-".join(map(str, astuple(self)))


def calibrate_folder(out: Path, say: Callable[[str], None], dataset: str | None = None, again: bool = True) -> None:
    """Measure every shape of a folder's runs, for the systems that ran at it, and store the profiles in the folder.

    With `dataset` only those of its runs: where the folder's data sets lie apart. Unless `again`, what was measured
    after the last run is not measured another time.
    """
    systems: dict[Shape, list[str]] = {}
    sizes: dict[Shape, set[int]] = {}  # table rows of the sets of the runs
    for row, work in recorded_runs(out):
        if dataset in (None, row["dataset"]):
            systems.setdefault(Shape.of(row), []).append(row["system"])
            sizes.setdefault(Shape.of(row), set()).add(work.facts.rows)
    (out / THIS_MACHINE).mkdir(exist_ok=True)
    for shape, names in systems.items():
        if not again and _is_newer(_path(out, shape), out / "runs.csv"):
            continue
        _check_set(shape, sizes[shape], say)
        say(f"measuring {', '.join(sorted(set(names)))} at {shape}")
        if plain := sorted(name for name in set(names) - {"dlrm"} if not measures(name)):
            say(f"of {', '.join(plain)} only the parts of dlrm, without a function `measure` in the system's module")
        found = calibrate(shape, set(names), say)
        write_whole(_path(out, shape), lambda beside, found=found: beside.write_text(profiles.to_toml(found)))  # type: ignore[misc]


def _check_set(shape: Shape, sizes: set[int], say: Callable[[str], None]) -> None:
    """UserError where the set of that name is another than that of the runs, which would take other times."""
    if (rows := open_set(shape.dataset, report=say).schema.num_rows) not in sizes:
        raise UserError(
            f"{shape.dataset} in {data_root()} has tables of {rows:,} rows, and that of the runs had "
            f"{' or '.join(f'{size:,}' for size in sorted(sizes))}; set SLIPBENCH_DATA to where that one is."
        )


def calibrate(shape: Shape, systems: set[str], say: Callable[[str], None]) -> Profile:
    """The profile of this machine at a shape, with all that these systems do."""
    process.set_up(shape.threads)
    kernels.warm()
    found = Profile(name=THIS_MACHINE, summary=f"{env.machine()}, at {shape}")
    watch = Stopwatch(_job(shape, "dlrm", say), f"{env.machine()}: parts of steps on validation inputs")
    found = base(watch, found)
    for system in sorted(systems):
        own = Stopwatch(_job(shape, system, say), watch.source)
        for measure in measures(system):
            found = measure(own, found, system)
    return found


def _job(shape: Shape, system: str, say: Callable[[str], None]) -> Job:
    """A job whose training inputs are the validation inputs; the test inputs where there are none."""
    data = open_set(shape.dataset, report=say)
    given = {key.replace("_", "-"): value for key, value in asdict(shape).items()}
    config = resolve({"system": system, **given}, {})
    return make_job(config, data, data.validation if len(data.validation) else data.test)


def profile_at(out: Path, row: Mapping[str, str]) -> Profile | None:
    """This machine's profile at the shape of a run; None where it has not been measured."""
    path = _path(out, Shape.of(row))
    if not path.exists():
        return None
    return replace(profiles.load(str(path)), name=THIS_MACHINE)


def _is_newer(path: Path, than: Path) -> bool:
    return path.exists() and path.stat().st_mtime_ns > than.stat().st_mtime_ns


def _path(out: Path, shape: Shape) -> Path:
    return out / THIS_MACHINE / f"{shape}.toml"
