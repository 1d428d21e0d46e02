"""The study of what skipping buys: policies and `none` over training sizes, epochs and drop ratios, paired over seeds.

It is planned, run and resumed as a comparison is (`bench.compare`); its own are which runs there are and what is made
of them: study.csv, study.md, and study_cells.csv with the runs behind both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from baselines.registry import load_system
from bench import compare
from bench.compare import FAILED, Cell, Entry, Options
from bench.estimate import seconds_left
from bench.progress import Progress, duration
from bench.results import STUDY_CELLS, Results, write_whole
from bench.stats import NO_INTERVAL, Estimate, paired_ratio, verdict
from bench.summary import REFERENCES, STATUSES, against, count_statuses, done, paired, policy, spread
from bench.table import (
    Column,
    Table,
    as_markdown,
    as_text,
    build,
    estimate_of,
    number,
    plus_minus,
    share_interval,
    statuses,
)
from datasets.errors import UserError, unknown
from datasets.store import data_root, open_set
from slipstream.policies import POLICIES
from slipstream.sampling import NO_THRESHOLD

SYSTEM, SKIP, DROP, NONE = "slipstream", "skip", "slipstream.drop", "none"
EQUAL_AUC = 0.001  # what counts as a difference in click-through prediction: Song et al. (2019), AutoInt, CIKM
EQUAL, LOWER, OPEN = "equal", "lower", "open"  # what the interval of a difference in AUC shows about that


@dataclass(frozen=True)
class Grid:
    """What a study varies."""

    sizes: Sequence[int]  # training inputs
    epochs: Sequence[int]
    drops: Sequence[float]  # D, the share of hot inputs to drop
    policies: Sequence[str]  # `none` is always there beside them
    seeds: Sequence[int]


@dataclass(frozen=True)
class Point:
    """A run of a study without its seed."""

    policy: str
    size: int
    epochs: int
    drop: float | None  # None: nothing is dropped

    @property
    def label(self) -> str:
        """The name in progress, figures and study_cells.csv."""
        drop = "" if self.drop is None else f" drop={self.drop:g}"
        return f"{self.policy}{drop}, {self.size:,} inputs, {self.epochs} epoch{'s' if self.epochs > 1 else ''}"

    @property
    def entry(self) -> Entry:
        """The system and its settings."""
        return Entry(SYSTEM, {SKIP: self.policy} | ({} if self.drop is None else {DROP: str(self.drop)}), 0)


def check_policy(name: str) -> str:
    """The policy of that name. UserError where there is none."""
    if name not in (*POLICIES, NONE):
        raise unknown("policy", name, POLICIES)
    return name


def check_drop(given: str) -> float:
    """A drop ratio. UserError for what is none."""
    return float(next(item for item in load_system(SYSTEM).SETTINGS if item.key == DROP).check(given))


def plan(grid: Grid, dataset: str, options: Options) -> list[tuple[Point, Cell]]:
    """Every run of a study, seed by seed: what disturbs the machine for a while disturbs all points alike.

    UserError for a setting that the study varies itself.
    """
    for key, flag in ((SKIP, "--policies"), (DROP, "--drops")):
        if key in options.settings:
            raise UserError(f"a study varies {key} itself; leave it out of the settings and name it with {flag}.")
    rounds: list[list[tuple[Point, Cell]]] = [[] for _ in grid.seeds]
    for size in grid.sizes:
        for epochs in grid.epochs:
            points = {point.entry.label: point for point in _points(grid, size, epochs)}
            own = replace(options, given={**options.given, "limit-rows": size, "epochs": epochs})
            cells = compare.plan([point.entry for point in points.values()], [dataset], grid.seeds, 1, own)
            for index, cell in enumerate(cells):
                point = points[cell.label]
                rounds[index // len(points)].append((point, replace(cell, label=point.label)))
    return [run for one in rounds for run in one]


def _points(grid: Grid, size: int, epochs: int) -> Iterator[Point]:
    yield Point(NONE, size, epochs, None)
    for drop in grid.drops:
        for name in grid.policies:
            if name != NONE:
                yield Point(name, size, epochs, drop)


def study(runs: Sequence[tuple[Point, Cell]], out: Path, progress: Progress, force: bool = False) -> tuple[str, int]:
    """Run what is not done yet; write study_cells.csv, study.csv and study.md.

    Returns the printed tables and the exit status: 1 where a run failed, diverged or was interrupted. UserError where
    the data set has fewer inputs than a size asks for.
    """
    Results(out)  # refuses a folder that cannot be written before anything runs
    cells = [cell for _, cell in runs]
    digests = compare.hashes(cells, progress.say)
    check_sizes(runs, progress.say)
    if force or (todo := compare.not_done(cells, digests, out)):
        progress.say(time_left(cells if force else todo, out))
    compare.run_all(cells, digests, out, progress, force)
    rows = mark(compare.collect(cells, digests, out), runs)
    return write_study(rows, out), int(rows["status"].isin(FAILED).any())


def describe_plan(runs: Sequence[tuple[Point, Cell]], out: Path, report: Callable[[str], None]) -> str:
    """The runs of a study, which of them are left, and about how long these take, for `--dry-run`."""
    cells = [cell for _, cell in runs]
    if (data_root() / cells[0].config.dataset).exists():
        check_sizes(runs, report)
    todo = compare.not_done(cells, compare.hashes(cells, report, make=False), out)
    return "\n".join([compare.describe_plan(cells, out, report), *([time_left(todo, out)] if todo else [])])


def check_sizes(runs: Sequence[tuple[Point, Cell]], report: Callable[[str], None]) -> None:
    """UserError for a size of more inputs than there are: its runs would be those of a smaller size."""
    dataset = runs[0][1].config.dataset
    there, wanted = len(open_set(dataset, report=report).train), max(point.size for point, _ in runs)
    if wanted > there:
        raise UserError(f"{dataset} has {there:,} training inputs, and a size of {wanted:,} asks for more; name "
                        "smaller --sizes, or prepare a larger set.")  # fmt: skip


def time_left(todo: Sequence[Cell], out: Path) -> str:
    """About how long runs take, by what the finished runs of this data set in the folder took."""
    seconds = seconds_left(todo, out)
    if seconds is None:
        return f"{len(todo)} runs left; how long they take can be told once one of them is done"
    return f"{len(todo)} runs left: about {duration(seconds)}"


def mark(rows: pd.DataFrame, runs: Sequence[tuple[Point, Cell]]) -> pd.DataFrame:
    """The rows of `compare.collect` as study_cells.csv has them: each with its point."""
    points = {cell.label: asdict(point) for point, cell in runs}
    marked = rows.drop(columns="epochs").merge(pd.DataFrame(points).T, left_on="label", right_index=True)
    return marked[list(STUDY_CELLS)].astype({"size": int, "epochs": int, "drop": float})


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """study.csv: a row for each policy, size, number of epochs and drop ratio.

    Differences in AUC and log loss are against `none`, and against `random` at the same drop ratio, of the same size
    and epochs; `time_saved` is a share of `none`'s time. All are paired over seeds.
    """
    lines = []
    for (size, epochs), group in rows.groupby(["size", "epochs"], sort=False):
        plain = group[group["policy"] == NONE]
        for (name, drop), runs in group.groupby(["policy", "drop"], sort=False, dropna=False):
            others = group[(group["policy"] == "random") & (group["drop"] == drop)]
            point = {"policy": name, "size": size, "epochs": epochs, "drop": drop}
            lines.append(point | _line(runs, str(name), plain, others))
    return pd.DataFrame(lines)


def _line(runs: pd.DataFrame, name: str, plain: pd.DataFrame, others: pd.DataFrame) -> dict[str, Any]:
    good = done(runs)
    line = {
        "dataset": runs["dataset"].iloc[0],
        "layout": policy(str(runs["settings"].iloc[0]))[0],
        **count_statuses(runs),
        "without_threshold": int(good["notes"].astype(str).str.contains(NO_THRESHOLD).sum()),
        "skipped_share": (good["samples_skipped"] / good["samples_seen"]).mean(),
        "train_s": good["train_s"].median(),
        "auc": good["auc_last"].mean(),
        "logloss": good["logloss_last"].mean(),
        **against(runs, dict(zip(REFERENCES, (plain, others), strict=True)), name),
        **spread("time_saved", None if name == NONE else time_saved(runs, plain)),
    }
    return line | {"accuracy": "" if name == NONE else equality(estimate_of(pd.Series(line), "auc_vs_none"))}


def time_saved(runs: pd.DataFrame, plain: pd.DataFrame) -> Estimate | None:
    """The share of the other runs' time that these do without, paired over seeds."""
    ratio = paired_ratio(paired(runs, plain, "train_s", ["seed"]))
    if ratio is None or ratio.low is None or ratio.high is None:
        return None if ratio is None else Estimate(1 - ratio.value, None, None, ratio.n)
    return Estimate(1 - ratio.value, 1 - ratio.high, 1 - ratio.low, ratio.n)


def equality(estimate: Estimate | None) -> str:
    """Whether AUC is shown to be equal, which is more than that no difference is shown: its interval ends above
    -EQUAL_AUC. `lower`: it is shown to be lower by more than that; `open`: neither.

    A test of non-inferiority; Walker and Nowacki (2011), Understanding equivalence and noninferiority testing, Journal
    of General Internal Medicine 26(2).
    """
    if estimate is None:
        return ""
    if estimate.low is None or estimate.high is None:
        return NO_INTERVAL
    return EQUAL if estimate.low > -EQUAL_AUC else LOWER if estimate.high < -EQUAL_AUC else OPEN


COLUMNS: tuple[Column, ...] = (
    ("policy", lambda row: row["policy"]),
    ("D", lambda row: number(row["drop"], "g")),
    ("skipped", lambda row: number(row["skipped_share"], ".1%")),
    ("train s", lambda row: number(row["train_s"], ".2f")),
    ("time saved [95 %]", lambda row: share_interval(row, "time_saved")),
    ("AUC", lambda row: number(row["auc"], ".4f")),
    ("AUC vs none", lambda row: plus_minus(row, "auc_vs_none")),
    ("shown", lambda row: row["accuracy"]),
    ("log loss vs none", lambda row: plus_minus(row, "logloss_vs_none")),
    ("AUC vs random", lambda row: plus_minus(row, "auc_vs_random")),
    ("log loss vs random", lambda row: plus_minus(row, "logloss_vs_random")),
    ("runs", statuses),
)


def tables(summary: pd.DataFrame) -> list[Table]:
    """One table for each size and number of epochs."""
    return [
        build(f"{rows['dataset'].iloc[0]}, {rows['layout'].iloc[0]}'s layout: {_where(size, epochs)}", COLUMNS, rows)
        for (size, epochs), rows in summary.groupby(["size", "epochs"], sort=False)
    ]


def _where(size: Any, epochs: Any) -> str:
    return f"{size:,} training inputs, {epochs} epoch{'s' if epochs > 1 else ''}"


def answers(summary: pd.DataFrame) -> list[str]:
    """For each size and number of epochs: what saves the most time at equal AUC, and staleness against chance."""
    lines = []
    for (size, epochs), rows in summary.groupby(["size", "epochs"], sort=False):
        lines.append(f"{_where(size, epochs)}: {_best(rows)}")
        for _, row in rows[rows["policy"] == "stale"].iterrows():
            if estimate := estimate_of(row, "auc_vs_random"):
                lines.append(
                    f"{_where(size, epochs)}, D = {row['drop']:g}: AUC of stale minus that of random is "
                    f"{plus_minus(row, 'auc_vs_random')} (n = {estimate.n}): "
                    f"{verdict(estimate, 0.0, 'higher', 'lower')}."
                )
    return lines


def _best(rows: pd.DataFrame) -> str:
    equal = rows[rows["accuracy"] == EQUAL]
    if equal.empty:
        return f"no policy is shown to lose less than {EQUAL_AUC} of AUC."
    row = equal.sort_values("time_saved").iloc[-1]
    said = verdict(estimate_of(row, "time_saved"), 0.0, "saves time", "costs time")
    return (
        f"{len(equal)} of {len(rows) - 1} policies are shown to lose less than {EQUAL_AUC} of AUC; of these "
        f"{row['policy']} at D = {row['drop']:g} saves the most time, {share_interval(row, 'time_saved')} (n = "
        f"{int(row['time_saved_n'])}): {said}."
    )


def notes(rows: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """The answers, and what a reader has to know to read the tables right."""
    lines = [
        *answers(summary),
        f"Means over up to {rows['seed'].nunique()} seed(s), train s their median; ± and brackets are 95 % intervals "
        "over paired runs, which a command interleaves. Time saved: the share of none's train s; it holds what FAE's "
        "scheduler saves where it swaps, and computes its validation loss, less often. D is the wanted share "
        "of hot inputs, skipped the share of all inputs. random, loss and importance drop as many as staleness would "
        "in the same run.",
        f"Shown: '{EQUAL}' where the interval of AUC vs none ends above -{EQUAL_AUC}, '{LOWER}' where it ends below "
        f"-{EQUAL_AUC} entirely, '{OPEN}' where it is too wide to tell. '{NO_INTERVAL}': take more --seeds.",
    ]
    for _, row in summary.iterrows():
        point = Point(row["policy"], row["size"], row["epochs"], None if pd.isna(row["drop"]) else row["drop"])
        if row["without_threshold"]:
            num = row["without_threshold"]
            lines.append(f"{point.label}: {num} run(s) found no threshold in some epoch, and skipped nothing in it.")
        if row["num_done"] < sum(row[f"num_{status}"] for status in STATUSES):
            lines.append(f"{point.label}: {statuses(row)}; {row['reason'] or 'not run yet'}. In no mean.")
    return lines


def write_study(rows: pd.DataFrame, out: Path) -> str:
    """Write the study's files and return its text."""
    summary = summarise(rows)
    built, lines = tables(summary), notes(rows, summary)
    texts = {"study_cells.csv": rows.to_csv(index=False), "study.csv": summary.to_csv(index=False)}
    for name, text in {**texts, "study.md": as_markdown(built, lines)}.items():
        write_whole(out / name, lambda path, text=text: path.write_text(text))  # type: ignore[misc]
    return as_text(built, lines)
