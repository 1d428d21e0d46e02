"""A comparison: the same runs for several systems, interleaved, resumable; then its tables and figures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from baselines.registry import BASELINES, load_system, system_names
from bench import table
from bench.config import RunConfig, code_version, parse_settings, resolve
from bench.progress import Progress, duration
from bench.results import CELLS, RUNS, Results, read, read_rows, write_whole
from bench.run import on_device, run_cell
from bench.summary import summarise, summarise_policies
from datasets.errors import UserError, unknown
from datasets.settings import Setting
from datasets.store import data_root, open_set

POLICIES = ("", "skip=none", "skip=random", "skip=loss", "skip=importance", "stale=touched-only", "skip.what=updates")
HOTLINE_POLICIES = POLICIES[:5]
CONTROLS = (  # Slipstream, and what it is held against
    *(f"slipstream:{policy}".rstrip(":") for policy in POLICIES),
    *(f"slipstream:layout=hotline:{policy}".rstrip(":") for policy in HOTLINE_POLICIES),
)
FAILED = ("failed", "diverged", "interrupted", "missing")


def default_systems() -> list[str]:
    """Every system, those of installed packages at the end, and Slipstream's controls."""
    return [*dict.fromkeys([*BASELINES, *CONTROLS, *system_names()])]


@dataclass(frozen=True)
class Entry:
    """A system of a comparison with settings of its own; `copy` numbers those that are listed more than once."""

    system: str
    settings: Mapping[str, str]
    copy: int

    @property
    def label(self) -> str:
        """The name in tables and figures: `slipstream:layout=hotline:skip=random`, `dlrm#2`."""
        words = [f"{key.removeprefix(self.system + '.')}={value}" for key, value in self.settings.items()]
        return ":".join([self.system, *words]) + (f"#{self.copy + 1}" if self.copy else "")


@dataclass(frozen=True)
class Cell:
    """One run of a comparison; `pair` is its number among the repeats, which runs of all systems share."""

    label: str
    pair: int
    config: RunConfig


@dataclass(frozen=True)
class Options:
    """What the runs of a comparison have in common, as given by the user."""

    given: Mapping[str, Any]  # fields of RunConfig by the names of their flags
    settings: Mapping[str, Any]
    preset: str = "default"


def parse_systems(specs: Sequence[str]) -> list[Entry]:
    """`NAME[:KEY=VALUE]...` each. The same one listed again is a second, independent set of runs.

    A key that begins with the system's own name may leave it out: `slipstream:layout=hotline`.
    """
    seen: Counter[tuple[str, str]] = Counter()
    entries = []
    for spec in specs:
        name, *words = spec.strip().split(":")
        if name not in system_names():
            raise unknown("system", name, system_names())
        declared = {setting.key for setting in load_system(name).SETTINGS}
        settings = {_whole(name, key, declared): value for key, value in parse_settings(words).items()}
        key = (name, repr(sorted(settings.items())))
        entries.append(Entry(name, settings, seen[key]))
        seen[key] += 1
    if not entries:
        raise UserError("a comparison needs at least one system; name some with --systems a,b.")
    return entries


def _whole(system: str, key: str, declared: set[str]) -> str:
    longer = f"{system}.{key}"
    return longer if key not in declared and longer in declared else key


def plan(
    entries: Sequence[Entry], datasets: Sequence[str], seeds: Sequence[int], repeats: int, options: Options
) -> list[Cell]:
    """Every run, in rounds: what disturbs the machine for a while disturbs all systems alike.

    Each round begins with another system (A B C, B C A, …), so that none has the same neighbours or place every time.
    """
    declared: dict[str, tuple[Setting, ...]] = {entry.system: load_system(entry.system).SETTINGS for entry in entries}
    everywhere = sorted({setting.key for settings in declared.values() for setting in settings})
    for key in options.settings:
        if not everywhere:
            raise UserError(f"none of the selected systems has settings, so '{key}' cannot be set; leave it out.")
        if key not in everywhere:
            raise unknown("setting of the selected systems", key, everywhere)
    cells: list[Cell] = []
    for dataset in datasets:
        for seed in seeds:
            for pair in range(repeats):
                for entry in rotated(entries, len(cells) // len(entries)):
                    own = {setting.key for setting in declared[entry.system]}
                    shared = {key: value for key, value in options.settings.items() if key in own}
                    names = {"system": entry.system, "dataset": dataset, "seed": seed}
                    number = {"repeat": entry.copy * repeats + pair}
                    config = resolve({**options.given, **names, **number}, {**shared, **entry.settings}, options.preset)
                    cells.append(Cell(entry.label, pair, config))
    return cells


def rotated(entries: Sequence[Entry], by: int) -> list[Entry]:
    """The entries from number `by` (modulo their number) on, and then those before it."""
    by %= len(entries)
    return [*entries[by:], *entries[:by]]


def check_baseline(entries: Sequence[Entry], baseline: Any) -> str:
    """The label of the baseline: the one that is asked for, or dlrm, or the first."""
    labels = [entry.label for entry in entries]
    if baseline is None:
        return "dlrm" if "dlrm" in labels else labels[0]
    if baseline not in labels:
        raise unknown("baseline (it has to be among the systems)", str(baseline), labels)
    return str(baseline)


def hashes(cells: Sequence[Cell], report: Callable[[str], None], make: bool = True) -> list[str]:
    """The configuration hash of each cell; without `make`, an empty one where the data is not prepared yet."""
    prints = {}
    for dataset in dict.fromkeys(cell.config.dataset for cell in cells):
        ready = make or (data_root() / dataset).exists()
        prints[dataset] = open_set(dataset, report=report).fingerprint if ready else ""
    return [
        on_device(cell.config).config_hash(found) if (found := prints[cell.config.dataset]) else "" for cell in cells
    ]


def finished_hashes(out: Path) -> set[str]:
    """Hashes of the configurations that are done with this code."""
    rows = read_rows(out / "runs.csv", RUNS)
    return {row["config_hash"] for row in rows if row["status"] == "done" and row["code_version"] == code_version()}


def num_of_other_code(digests: Sequence[str], out: Path) -> int:
    """How many of these configurations are done, but with another version of the code only."""
    done = {row["config_hash"] for row in read_rows(out / "runs.csv", RUNS) if row["status"] == "done"}
    return len((done & set(digests)) - finished_hashes(out))


def compare(
    cells: Sequence[Cell], out: Path, progress: Progress, baseline: str, force: bool = False
) -> tuple[str, int]:
    """Run what is not done yet; write cells.csv, compare.csv, compare_policies.csv and compare.md.

    Returns the printed table and the exit status: 1 where a run failed, diverged or was interrupted.
    """
    Results(out)  # refuses a folder that cannot be written before anything runs
    digests = hashes(cells, progress.say)
    num_before = run_all(cells, digests, out, progress, force)
    rows = collect(cells, digests, out)
    return write_tables(rows, out, baseline, num_before), int(rows["status"].isin(FAILED).any())


def not_done(cells: Sequence[Cell], digests: Sequence[str], out: Path) -> list[Cell]:
    """The cells that a command with these cells would run."""
    before = finished_hashes(out)
    return [cell for cell, digest in zip(cells, digests, strict=True) if digest not in before]


def weight(config: RunConfig) -> int:
    """How long a run takes beside others of its command: its inputs, or its passes over all there are."""
    return config.epochs * (config.limit_rows or 1)


def run_all(cells: Sequence[Cell], digests: Sequence[str], out: Path, progress: Progress, force: bool) -> int:
    """Run the cells in order, and return how many were done before; the same command goes on after an interruption."""
    todo = list(cells) if force else not_done(cells, digests, out)
    weights = [weight(cell.config) for cell in todo]
    num_before = len(cells) - len(todo)
    if num_before:
        progress.say(f"{num_before} of {len(cells)} runs are done already; --force runs them again")
    if num_stale := num_of_other_code(digests, out):
        progress.say(f"{num_stale} runs in {out} were made by other code than {code_version()}, and do not count")
    begin = time.monotonic()
    for index, cell in enumerate(todo):
        left = (time.monotonic() - begin) / sum(weights[:index]) * sum(weights[index:]) if index else 0.0
        progress.aside = f"; all runs: about {duration(left)} left" if index else ""
        where = f"{cell.label} on {cell.config.dataset}, seed {cell.config.seed}"
        title = f"run {index + 1 + len(cells) - len(todo)} of {len(cells)}: {where}"
        row = run_cell(cell.config, out, progress, title=title, force=force)
        if row["status"] == "interrupted":
            progress.say("interrupted; the same command goes on from here.")
            break
    return num_before


def collect(cells: Sequence[Cell], digests: Sequence[str], out: Path) -> pd.DataFrame:
    """The last row of each cell that is done, or its last, with its label and pair, in the order of the first round.

    A cell without a row has the status `missing`.
    """
    runs = read(out, "runs")
    runs = runs[runs["code_version"] == code_version()]
    unfinished = runs["status"] != "done"  # as of one that was forced and stopped: what was done before stays so
    runs = pd.concat([runs[unfinished], runs[~unfinished]]).drop_duplicates("config_hash", keep="last")
    by_hash: dict[str, dict[Any, Any]] = {row["config_hash"]: row for row in runs.to_dict("records")}
    rows = []
    for cell, digest in zip(cells, digests, strict=True):
        names = {key: getattr(cell.config, key) for key in ("system", "dataset", "seed", "repeat", "device")}
        missing: dict[Any, Any] = {"status": "missing", "reason": "", "settings": cell.config.settings_text, **names}
        rows.append({"label": cell.label, "pair": cell.pair, **by_hash.get(digest, missing)})
    frame = pd.DataFrame(rows, columns=list(CELLS)).astype({"pair": int, "seed": int})
    listed = {name: number for number, name in enumerate(dict.fromkeys(frame["dataset"]))}
    listed |= {name: number for number, name in enumerate(dict.fromkeys(frame["label"]))}
    return frame.sort_values(["dataset", "label"], key=lambda names: names.map(listed), kind="stable")


def write_tables(rows: pd.DataFrame, out: Path, baseline: str, num_before: int = 0) -> str:
    """Write the comparison's files and return its text; `num_before` of its runs are of an earlier command."""
    summary, policies = summarise(rows, baseline), summarise_policies(rows)
    built, lines = table.tables(summary, policies), table.notes(rows, summary, policies, num_before)
    texts = {"cells.csv": rows.to_csv(index=False), "compare.csv": summary.to_csv(index=False)}
    if len(policies):
        texts["compare_policies.csv"] = policies.to_csv(index=False)
    else:  # nor are there those of an earlier comparison
        (out / "compare_policies.csv").unlink(missing_ok=True)
    for name, text in {**texts, "compare.md": table.as_markdown(built, lines)}.items():
        write_whole(out / name, lambda path, text=text: path.write_text(text))  # type: ignore[misc]
    return table.as_text(built, lines)


def describe_plan(cells: Sequence[Cell], out: Path, report: Callable[[str], None]) -> str:
    """The runs of a comparison and which of them are left, for `--dry-run`."""
    todo = not_done(cells, hashes(cells, report, make=False), out)
    states = ["to run" if cell in todo else "done" for cell in cells]
    lines = [
        f"{state:6}  {cell.config.dataset}  seed {cell.config.seed}  repeat {cell.config.repeat}  {cell.label}"
        for cell, state in zip(cells, states, strict=True)
    ]
    return "\n".join([*lines, f"{len(todo)} of {len(cells)} runs left"])
