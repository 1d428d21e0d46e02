"""The tables of the page: cells with the values they sort by, in columns that say whose numbers they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from bench.report.answer import listed, minus
from bench.report.source import Comparison
from bench.summary import OVER_SETS, REFERENCES, has_references, summarise
from bench.table import Table, interval, number, plus_minus, statuses

TIME, ACCURACY = "time, measured here", "accuracy, measured here"
PUBLISHED = "published, on GPU servers"
KINDS = {"faster": "good", "slower": "bad", "baseline": "base"}  # of a verdict, for its colour; the word says it too
SHORT = 16  # characters that stand on one line
NO_REASON = {"missing": "not run yet; the same compare goes on from here"}


@dataclass(frozen=True)
class Cell:
    """Text to show, the number it sorts by (empty: by its text), and a word for the style sheet."""

    text: str
    value: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Column:
    """A heading, what stands under it, and whose numbers these are."""

    name: str
    cell: Callable[[pd.Series], Cell]
    group: str = ""
    kind: str = "number"  # "text" wants room, "short" text does not


@dataclass(frozen=True)
class Grid:
    """A table: its caption, groups of columns with their widths, columns, and rows that begin with their heading."""

    title: str
    groups: list[tuple[str, int]]
    columns: Sequence[Column]
    rows: list[list[Cell]]


def grid(title: str, columns: Sequence[Column], frame: pd.DataFrame) -> Grid:
    """A table with one row for each of the frame's."""
    groups = [(name, len(list(members))) for name, members in groupby(column.group for column in columns)]
    rows = [[column.cell(row) for column in columns] for _, row in frame.iterrows()]
    return Grid(title, groups if any(name for name, _ in groups) else [], columns, rows)


def word(key: str, name: str = "", group: str = "") -> Column:
    """A column of words."""
    return Column(name or key, lambda row: Cell(str(row[key])), group, "text")


def quantity(key: str, name: str, form: str, group: str = "") -> Column:
    """A column of numbers."""
    return Column(name, lambda row: Cell(minus(number(row[key], form)), _value(row[key])), group)


def count(key: str, name: str, group: str = "") -> Column:
    """A column of how many pairs or seeds stand behind an estimate; none where there is no estimate."""
    return Column(name, lambda row: Cell(number(row[key] or None), _value(row[key])), group)


def change(key: str, name: str, group: str = "") -> Column:
    """A column of differences, each with half its interval's width."""
    return Column(name, lambda row: Cell(minus(plus_minus(row, key)), _value(row[key])), group)


def modelled(name: str, summary: pd.DataFrame, group: str) -> Column:
    """A column of modelled speed-ups, from a summary by data set and label.

    Without intervals: seeds differ in what they do, and hardly in that; how far off the model is they do not say.
    """

    def cell(row: pd.Series) -> Cell:
        place = (row["dataset"], row["label"])
        found = summary.loc[place, "speedup"] if place in summary.index else None
        return Cell(number(found, ".2f"), _value(found))

    return Column(name, cell, group)


def _value(number: float | None) -> str:
    return "" if number is None or pd.isna(number) else repr(float(number))


def _verdict(row: pd.Series) -> Cell:
    if not row["num_done"]:
        return Cell("no finished run", kind="bad")
    return Cell(row["verdict"] or "no pair of runs", kind=KINDS.get(row["verdict"], ""))


def _runs(row: pd.Series) -> Cell:
    bad = row["num_failed"] + row["num_diverged"] > 0
    return Cell(statuses(row), _value(row["num_done"]), "bad" if bad else "")


def _reason(row: pd.Series) -> Cell:
    return Cell(row["reason"] or NO_REASON.get(row["status"], "none was given"))


def _seeds(row: pd.Series) -> Cell:
    most = max(row[f"auc_vs_{reference}_n"] for reference in REFERENCES)
    return Cell(number(most or None), _value(most))


SYSTEM = word("label", "system")
SPEED_UP = Column("speed-up [95 %]", lambda row: Cell(interval(row, "speedup", ".2f"), _value(row["speedup"])), TIME)
MEASURED = Column(  # where columns of other sources follow, of which each has the baseline at 1
    SPEED_UP.name, lambda row: Cell("1", "1") if row["verdict"] == "baseline" else SPEED_UP.cell(row), TIME
)
VERDICT = Column("verdict on time", _verdict, TIME, "text")
RUNS = Column("runs", _runs, TIME, "short")
PAPERS = word("published_speedup", "speed-up (source)", PUBLISHED)
MEASURED_TIME = (
    SYSTEM,
    quantity("samples_per_s", "seen/s", ",.0f", TIME),
    quantity("train_s", "train s", ",.2f", TIME),
    quantity("prepare_s", "prepare s", ",.2f", TIME),
    SPEED_UP,
    count("speedup_n", "n pairs", TIME),
    VERDICT,
    RUNS,
)
MEASURED_ACCURACY = (
    quantity("auc", "AUC", ".4f", ACCURACY),
    change("auc_diff", "AUC difference", ACCURACY),
    change("logloss_diff", "log loss difference", ACCURACY),
    quantity("skipped_share", "skipped", ".1%", ACCURACY),
)
OVER = (SYSTEM, SPEED_UP, count("speedup_n", "n data sets", TIME), VERDICT, RUNS)
POLICIES = (
    word("policy"),
    word("layout"),
    quantity("skipped_share", "skipped", ".1%"),
    quantity("train_s", "train s", ",.2f"),
    *(
        change(f"{column}_vs_{reference}", f"{title} vs {reference}")
        for reference in REFERENCES
        for column, title in (("auc", "AUC"), ("logloss", "log loss"))
    ),
    Column("n seeds", _seeds),
)
FAILED = (
    SYSTEM,
    word("dataset", "data set"),
    quantity("seed", "seed", ".0f"),
    quantity("repeat", "repeat", ".0f"),
    Column("status", lambda row: Cell(row["status"], kind="bad"), kind="short"),
    Column("reason", _reason, kind="text"),
    word("settings"),
    word("notes"),
)
NOTED = (
    SYSTEM, word("dataset", "data set"), word("settings"), word("notes", "note"), quantity("runs", "runs", ".0f")
)  # fmt: skip


def speed(comparison: Comparison, dataset: str) -> Grid:
    """Time and accuracy of each system on a data set, as measured."""
    title = f"{dataset}: against {comparison.baseline}"
    return grid(title, (*MEASURED_TIME, *MEASURED_ACCURACY), comparison.rows(dataset))


def over_sets(comparison: Comparison) -> Grid | None:
    """The geometric means of the speed-ups over the data sets; None where there is one data set."""
    rows = comparison.rows(OVER_SETS)
    title = f"geometric mean over {listed(comparison.datasets)}: against {comparison.baseline}"
    return grid(title, OVER, rows) if len(rows) else None


def by_source(comparison: Comparison) -> list[Grid]:
    """The speed-ups on each data set, and over all, as measured, modelled and published; of where there are others."""
    models, found = _models(comparison), []
    for dataset in (*comparison.datasets, OVER_SETS):
        rows = comparison.rows(dataset)
        columns = [
            modelled(name, summary, f"modelled on {hardware}")
            for hardware, name, summary in models
            if dataset in summary.index
        ]
        if len(rows) and (columns or any(rows["published_speedup"])):
            place = "geometric mean over the data sets" if dataset == OVER_SETS else dataset
            title = f"{place}: speed-ups over {comparison.baseline} by source"
            found.append(grid(title, (SYSTEM, MEASURED, *columns, PAPERS), rows))
    return found


def _models(comparison: Comparison) -> list[tuple[str, str, pd.DataFrame]]:
    """Each hardware and number of devices that `slipbench replay` modelled runs on: names, and their summary."""
    found = []
    for (hardware, devices), rows in comparison.replayed().groupby(["hardware", "devices"], sort=False):
        summary = summarise(rows, comparison.baseline)
        if set(rows["dataset"]) != set(comparison.datasets):  # then a mean would be over others than the measured one
            summary = summary[summary["dataset"] != OVER_SETS]
        summary = summary.set_index(["dataset", "label"])
        found.append((str(hardware), f"{devices} device{'' if devices == '1' else 's'}", summary))
    return found


def policies(comparison: Comparison, dataset: str) -> Grid | None:
    """Slipstream's skip policies on a data set; None where none was run, or nothing that they are held against."""
    rows = comparison.policies[comparison.policies["dataset"] == dataset]
    title = f"{dataset}: Slipstream's policies against skip=none and skip=random of the same layout"
    return grid(title, POLICIES, rows) if has_references(rows) else None


def failed(comparison: Comparison) -> Grid | None:
    """Every run that is not done, with its reason; None where all are."""
    rows = comparison.cells[comparison.cells["status"] != "done"]
    return grid("Runs that are not done; they are in no mean", FAILED, rows) if len(rows) else None


def noted(comparison: Comparison) -> Grid | None:
    """What the runs that are done noted, equal notes in one row; None where they noted nothing."""
    cells = comparison.cells[(comparison.cells["status"] == "done") & (comparison.cells["notes"] != "")]
    keys = ["label", "dataset", "settings", "notes"]
    rows = cells.groupby(keys, sort=False).size().rename("runs").reset_index()
    return grid("Notes of the runs", NOTED, rows) if len(rows) else None


def of_table(table: Table) -> Grid:
    """A table of text."""
    columns = [
        Column(
            name, lambda row: Cell(""), kind=_kind(table, number) if number == 0 or name in table.words else "number"
        )
        for number, name in enumerate(table.header)
    ]
    rows = [[Cell(minus(text), _leading(text)) for text in line] for line in table.rows]
    return Grid(table.title, [], columns, rows)


def _kind(table: Table, number: int) -> str:
    """Of a column of words: whether it wants room."""
    return "text" if any(len(line[number]) > SHORT for line in table.rows) else "short"


def _leading(text: str) -> str:
    """The number that a text begins with; nothing where it begins with none."""
    found = re.match(r"[-+]?[\d,]*\.?\d+", text)
    return repr(float(found[0].replace(",", ""))) if found else ""


def as_given(name: str, frame: pd.DataFrame) -> Grid:
    """A CSV with the columns that it has."""
    return grid(name, [_as_given(str(column), frame[column]) for column in frame.columns], frame)


def _as_given(name: str, values: pd.Series) -> Column:
    numbers = pd.to_numeric(values.replace("", None), errors="coerce")
    if numbers.isna().all() or numbers.notna().sum() < (values != "").sum():
        return word(name)

    def cell(row: pd.Series) -> Cell:
        return Cell(minus(f"{float(row[name]):,.4g}"), _value(float(row[name]))) if row[name] else Cell("")

    return Column(name, cell)
