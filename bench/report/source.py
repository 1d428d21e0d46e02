"""What a report is made of: the CSVs of a results folder, checked as they are read.

Unlike a figure, a page may not leave out what it cannot read. So every row has to be whole here, and every number one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.results import CELLS, COLUMNS, LONGEST, STUDY_CELLS, TEXT, damaged, read_rows, read_text, read_whole
from bench.stats import NO_DIFFERENCE, NO_INTERVAL
from bench.summary import OVER_SETS, REFERENCES, STATUSES, modelled_seconds
from datasets.errors import UserError, printable

ALWAYS = ("runs", "evals", "phases", "steps")  # every results folder has these, however little it has run
VERDICTS = ("baseline", "faster", "slower", NO_DIFFERENCE, NO_INTERVAL, "")
ESTIMATES = ("speedup", "auc_diff", "logloss_diff")
SPREAD = ("", "_low", "_high", "_n")
SUMMARY_WORDS = ("dataset", "label", "baseline", "system", "settings", "reason", "verdict", "published_speedup")
SUMMARY_NUMBERS = (
    *(f"num_{status}" for status in STATUSES),
    *("samples_per_s", "train_s", "prepare_s", "auc", "logloss", "skipped_share"),
    *(name + end for name in ESTIMATES for end in SPREAD),
)
POLICY_WORDS = ("dataset", "layout", "label", "policy")
POLICY_NUMBERS = (
    *("skipped_share", "train_s"),
    *(f"{of}_vs_{other}{end}" for of in ("auc", "logloss") for other in REFERENCES for end in SPREAD),
)
REPLAY, PAPERS = "replay.csv", "papers.csv"
REPLAYED = ("run_id", "hardware", "devices", "modelled_s", "modelled_full_epoch_s")  # of replay.csv
CELL_NUMBERS = tuple(column for column in CELLS if column not in (*TEXT, "label"))


@dataclass(frozen=True)
class Comparison:
    """The last comparison of a folder."""

    out: Path
    summary: pd.DataFrame  # compare.csv: a row for each data set and label
    policies: pd.DataFrame  # compare_policies.csv; empty where Slipstream was not run
    cells: pd.DataFrame  # cells.csv: a row a run
    study_cells: pd.DataFrame  # study_cells.csv; no rows where there was no study
    extras: dict[str, pd.DataFrame]  # replay.csv and papers.csv as they are, all text, where there are any

    @property
    def baseline(self) -> str:
        """The label that ratios and differences refer to."""
        return str(self.summary["baseline"].iloc[0])

    @property
    def datasets(self) -> list[str]:
        """The data sets, in the order of the comparison."""
        return [str(name) for name in dict.fromkeys(self.summary["dataset"]) if name != OVER_SETS]

    def rows(self, dataset: str) -> pd.DataFrame:
        """The summary's rows of a data set, or of OVER_SETS."""
        return self.summary[self.summary["dataset"] == dataset]

    def replayed(self) -> pd.DataFrame:
        """The runs once for each hardware and number of devices that they were replayed on, `train_s` being modelled.

        No rows where nothing was replayed. UserError where replay.csv lacks a column, or a time in it is no number.
        """
        replay = self.extras.get(REPLAY)
        if replay is None:
            return self.cells.head(0).assign(hardware="", devices="")
        times = _checked(replay, REPLAYED[:-2], REPLAYED[-2:], self.out / REPLAY)[list(REPLAYED)]
        if not (times["modelled_s"] > 0).all():
            raise damaged(self.out / REPLAY)
        return self.cells.merge(times, on="run_id").assign(train_s=modelled_seconds)


def load(out: Path) -> Comparison:
    """The comparison in a folder. UserError where there is none, or where a CSV is missing or damaged."""
    if not (out / "runs.csv").is_file():
        raise UserError(f"there are no results in {out}; make some with `slipbench compare --out {out}`.")
    for name in ALWAYS:
        if not (out / f"{name}.csv").is_file():
            raise UserError(f"{out / name}.csv is missing; take the whole folder, or compare anew into another.")
    for name, columns in COLUMNS.items():
        read_rows(out / f"{name}.csv", columns)  # for its header; these may end in a torn row
    if not (out / "compare.csv").is_file():
        raise UserError(f"there is no comparison in {out}; make one with `slipbench compare --out {out}`.")
    summary = _read(out / "compare.csv", SUMMARY_WORDS, SUMMARY_NUMBERS)
    cells = _read(out / "cells.csv", ("label", *TEXT & set(CELLS)), CELL_NUMBERS)
    policies = pd.DataFrame(columns=[*POLICY_WORDS, *POLICY_NUMBERS])
    if (out / "compare_policies.csv").exists():
        policies = _read(out / "compare_policies.csv", POLICY_WORDS, POLICY_NUMBERS)
    if summary.empty or not set(summary["verdict"]) <= set(VERDICTS):
        raise damaged(out / "compare.csv")
    if cells.empty:
        raise damaged(out / "cells.csv")
    if set(summary["label"]) != set(cells["label"]):
        raise UserError(f"compare.csv and cells.csv in {out} are of two comparisons; a compare writes both anew.")
    known = {row["run_id"] for row in read_rows(out / "runs.csv", COLUMNS["runs"])}
    if not set(cells["run_id"]) - {""} <= known:
        raise UserError(f"{out / 'cells.csv'} names runs that runs.csv lacks; the same compare writes both anew.")
    extras = {name: read_text(out / name) for name in (REPLAY, PAPERS) if (out / name).exists()}
    study_cells = read_whole(out / "study_cells.csv", STUDY_CELLS, filled=("size", "epochs", "seed"))
    return Comparison(out, summary, policies, cells, study_cells, extras)


def _read(path: Path, words: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """A CSV with its numbers as floats, NaN for not measured. Columns of which nothing is known stay text."""
    return _checked(read_text(path), words, numbers, path)


def _checked(frame: pd.DataFrame, words: Sequence[str], numbers: Sequence[str], path: Path) -> pd.DataFrame:
    if not {*words, *numbers} <= set(frame.columns):
        raise damaged(path)
    try:
        found = frame[list(numbers)].replace("", None).astype(float)
    except (ValueError, OverflowError):
        raise damaged(path) from None
    counted = [name for name in numbers if name.startswith("num_") or name.endswith("_n")]
    if np.isinf(found).any(axis=None) or not found[counted].ge(0).all(axis=None):
        raise damaged(path)
    return frame.assign(**{name: found[name] for name in numbers})


def environments(comparison: Comparison) -> list[tuple[dict[str, str], int]]:
    """The distinct environments of the comparison's runs, flat and as text, each with its number of runs.

    Runs whose `env.json` is not there, or is none, have the environment {}.
    """
    found: dict[str, int] = {}
    for run_id in filter(None, comparison.cells["run_id"]):
        facts = json.dumps(_environment(comparison.out / "runs", str(run_id)))
        found[facts] = found.get(facts, 0) + 1
    return [(json.loads(facts), num_runs) for facts, num_runs in found.items()]


def _environment(folder: Path, run_id: str) -> dict[str, str]:
    if Path(run_id).name != run_id:  # such as ../../elsewhere
        return {}
    try:
        facts = json.loads((folder / run_id / "env.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return _flat(facts) if isinstance(facts, dict) else {}


def _flat(facts: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested facts under dotted names; a list in one line."""
    flat: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            flat[printable(prefix + name, LONGEST)] = printable(words if value not in (None, []) else "none", LONGEST)
    return flat
