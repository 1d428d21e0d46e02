"""The printed tables of a comparison, as text and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from bench.stats import NO_DIFFERENCE, NO_INTERVAL, Estimate, verdict
from bench.summary import OVER_SETS, REFERENCES, STATUSES, has_references
from slipstream.sampling import NO_THRESHOLD

MB, MILLION = 1e6, 1e6
WIDTH = 120  # columns of the notes under the tables
HUGE = 1000  # an interval of two noisy pairs can end anywhere


@dataclass(frozen=True)
class Table:
    """Cells as text under a title; the first column is left-aligned, as are those named in `words`."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    words: tuple[str, ...] = ()

    def text(self) -> str:
        """Columns aligned with blanks."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        aligned = ["  ".join(self._align(line, widths)).rstrip() for line in lines]
        return "\n".join([self.title, aligned[0], "-" * max(map(len, aligned)), *aligned[1:]])

    def markdown(self) -> str:
        """A Markdown table."""
        rule = ["---" if self._is_text(column) else "---:" for column in range(len(self.header))]
        lines = [self.header, tuple(rule), *self.rows]
        return "\n".join([f"### {self.title}", "", *(f"| {' | '.join(line)} |" for line in lines)])

    def _is_text(self, column: int) -> bool:
        return column == 0 or self.header[column] in self.words

    def _align(self, line: tuple[str, ...], widths: list[int]) -> list[str]:
        return [
            cell.ljust(width) if self._is_text(column) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]


def number(value: object, form: str = ",.0f", scale: float = 1.0) -> str:
    """A number in a format, or nothing where it was not measured."""
    return "" if value is None or pd.isna(value) else format(float(value) / scale, form)  # type: ignore[arg-type,call-overload]


def interval(row: pd.Series, name: str, form: str) -> str:
    """A value with its interval in brackets."""
    value = number(row[name], form)
    low, high = number(row[f"{name}_low"], form), number(row[f"{name}_high"], form)
    high = high if pd.isna(row[f"{name}_high"]) or row[f"{name}_high"] < HUGE else f">{HUGE - 1}"
    return f"{value} [{low}, {high}]" if low else value


def plus_minus(row: pd.Series, name: str, form: str = "+.4f") -> str:
    """A difference with half its interval's width."""
    value = number(row[name], form)
    if not value or pd.isna(row[f"{name}_low"]):
        return value
    return f"{value} ± {(row[f'{name}_high'] - row[f'{name}_low']) / 2:.4f}"


def share_interval(row: pd.Series, name: str) -> str:
    """A share with its interval, in per cent."""
    value, low, high = (number(row[column], ".1f", 0.01) for column in (name, f"{name}_low", f"{name}_high"))
    return f"{value} % [{low}, {high}]" if low else f"{value} %" if value else ""


def statuses(row: pd.Series) -> str:
    """How many runs ended how: `3` that are done, or `2 + 1 failed`."""
    counts = {status: int(row[f"num_{status}"]) for status in STATUSES}
    ended = [f"{count} {status}".removesuffix(" done") for status, count in counts.items() if count]
    return " + ".join(ended)


Column = tuple[str, Callable[[pd.Series], str]]
MAIN: tuple[Column, ...] = (
    ("system", lambda row: row["label"]),
    ("seen/s", lambda row: number(row["samples_per_s"])),
    ("train s", lambda row: number(row["train_s"], ".2f")),
    ("speed-up [95 %]", lambda row: interval(row, "speedup", ".2f")),
    ("verdict on time", lambda row: row["verdict"]),
    ("AUC", lambda row: number(row["auc"], ".4f")),
    ("AUC difference", lambda row: plus_minus(row, "auc_diff")),
    ("skipped", lambda row: number(row["skipped_share"], ".1%")),
    ("runs", statuses),
)
WORK: tuple[Column, ...] = (
    ("system", lambda row: row["label"]),
    ("log loss", lambda row: number(row["logloss"], ".4f")),
    ("log loss difference", lambda row: plus_minus(row, "logloss_diff")),
    ("link up MB", lambda row: number(row["link_to_device_bytes"], ",.1f", MB)),
    ("link down MB", lambda row: number(row["link_to_host_bytes"], ",.1f", MB)),
    ("net MB", lambda row: number(row["net_bytes"], ",.1f", MB)),
    ("rows written M", lambda row: number(row["rows_written"], ",.2f", MILLION)),
    ("published on GPU servers (source)", lambda row: row["published_speedup"]),
)
POLICIES: tuple[Column, ...] = (
    ("layout", lambda row: row["layout"]),
    ("policy", lambda row: row["policy"]),
    ("skipped", lambda row: number(row["skipped_share"], ".1%")),
    ("train s", lambda row: number(row["train_s"], ".2f")),
    *(
        (f"{title} vs {reference}", lambda row, name=f"{column}_vs_{reference}": plus_minus(row, name))
        for reference in REFERENCES
        for column, title in (("auc", "AUC"), ("logloss", "log loss"))
    ),
    ("n", lambda row: str(max(int(row[f"auc_vs_{reference}_n"]) for reference in REFERENCES))),
)
OVER: tuple[Column, ...] = (
    ("system", lambda row: row["label"]),
    ("speed-up [95 %]", lambda row: interval(row, "speedup", ".2f")),
    ("verdict on time", lambda row: row["verdict"] or "no mean: see below"),
    ("data sets", lambda row: number(row["speedup_n"] or None)),
    ("runs", statuses),
    ("published over the papers' sets (source)", lambda row: row["published_speedup"]),
)
WORDS = (
    *("verdict on time", "runs", "policy"),
    *("published on GPU servers (source)", "published over the papers' sets (source)"),
)


def build(title: str, columns: Sequence[Column], frame: pd.DataFrame) -> Table:
    """A table with one row for each of the frame's."""
    rows = [tuple(cell(row) for _, cell in columns) for _, row in frame.iterrows()]
    return Table(title, tuple(name for name, _ in columns), rows, WORDS)


def tables(summary: pd.DataFrame, policies: pd.DataFrame) -> list[Table]:
    """The tables of a comparison, data set by data set, and the geometric mean over several."""
    built = []
    for dataset, rows in summary.groupby("dataset", sort=False):
        baseline = rows["baseline"].iloc[0]
        if dataset == OVER_SETS:
            sets = ", ".join(dict.fromkeys(summary["dataset"][summary["dataset"] != OVER_SETS]))
            built.append(build(f"geometric mean over {sets}: measured here, against {baseline}", OVER, rows))
            continue
        built.append(build(f"{dataset}: measured here, against {baseline}", MAIN, rows))
        built.append(build(f"{dataset}: log loss and work of a run, and what the papers published", WORK, rows))
        if len(policies) and has_references(chosen := policies[policies["dataset"] == dataset]):
            title = f"{dataset}: what Slipstream's policies cost, against skip=none and skip=random of the same layout"
            built.append(build(title, POLICIES, chosen))
    return built


def notes(cells: pd.DataFrame, summary: pd.DataFrame, policies: pd.DataFrame, num_before: int = 0) -> list[str]:
    """What a reader has to know to read the tables right."""
    num_seeds = cells["seed"].nunique()
    lines = [
        *judgements(policies),
        f"seen/s (samples seen by train s; skipped ones count as seen) and train s are medians, AUC and log loss means "
        f"over {num_seeds} seed(s), on the test split. Speed-up: the baseline's train s over the system's, the "
        "geometric mean over pairs of runs; above 1 is faster. Brackets and ± are 95 % intervals over paired "
        "runs, which a command interleaves.",
        f"'{NO_DIFFERENCE}': the interval holds 1. '{NO_INTERVAL}': take more --seeds or --repeats.",
    ]
    if (summary["dataset"] == OVER_SETS).any():
        lines.append(
            "Geometric mean over data sets: each weighs alike. Its interval is about these data sets, from what "
            "differs between their paired runs; it says nothing about others."
        )
    if num_before:
        lines.append(
            f"{num_before} of the {len(cells)} runs were made by an earlier command: their times are not interleaved "
            "with the others', so ratios between the two say less. --force runs all of them again."
        )
    if cells["device"].astype(str).str.startswith("cpu").any():
        lines.append(
            "Host and device are one CPU here, so layouts alone are not expected to win: the link's bytes are counted, "
            "but crossing it costs next to nothing."
        )
        if {"xdl", "xdl-cpu"} <= set(cells["system"]):
            lines.append("Without a GPU xdl and xdl-cpu are the same run; what differs between the two is noise.")
    lines.append(
        "Published ratios are the papers' own, on servers with GPUs (charts: one GPU; abstracts: an average); a set "
        "that is not in the papers stands beside their averages."
    )
    lines += _without_threshold(cells)
    lines += _ends(summary)
    return lines


def judgements(policies: pd.DataFrame) -> list[str]:
    """What the paper's policy buys: a sentence for each data set and layout, staleness against random dropping."""
    if not len(policies):
        return []
    lines = []
    for _, row in policies[policies["policy"] == "stale"].iterrows():
        for reference in REFERENCES:
            name = f"auc_vs_{reference}"
            if (estimate := estimate_of(row, name)) is None:
                continue
            said = verdict(estimate, 0.0, "higher", "lower")
            lines.append(
                f"{row['dataset']}, {row['layout']}'s layout: AUC of skip=stale minus that of skip={reference} is "
                f"{plus_minus(row, name)} (n = {estimate.n}): {said}."
            )
    return lines


def _without_threshold(cells: pd.DataFrame) -> list[str]:
    """One line for each Slipstream that found no threshold in some epoch, and so skipped nothing in it."""
    missed = cells[cells["notes"].astype(str).str.contains(NO_THRESHOLD)]
    return [
        f"{label} on {dataset}: {len(rows)} run(s) found no threshold in some epoch, and skipped nothing in it."
        for (dataset, label), rows in missed.groupby(["dataset", "label"], sort=False)
    ]


def none_if_nan(value: float) -> float | None:
    """None for what is not a number in a frame."""
    return None if pd.isna(value) else float(value)


def estimate_of(row: pd.Series, name: str) -> Estimate | None:
    """An estimate from its four columns: the other way of `bench.summary.spread`."""
    if not row[f"{name}_n"]:
        return None
    low, high = (none_if_nan(row[f"{name}_{end}"]) for end in ("low", "high"))
    return Estimate(float(row[name]), low, high, int(row[f"{name}_n"]))


def _ends(summary: pd.DataFrame) -> list[str]:
    """One line for each system with runs that did not end well, or without a geometric mean."""
    over = summary["dataset"] == OVER_SETS
    total = sum(summary[f"num_{status}"] for status in STATUSES)
    ended = summary[~over & (summary["num_done"] < total)]
    reasons = [str(reason or "not run yet").rstrip(".") for reason in ended["reason"]]
    lines = [
        f"{row['label']} on {row['dataset']}: {statuses(row)}; {reason}. In no mean."
        for reason, (_, row) in zip(reasons, ended.iterrows(), strict=True)
    ]
    without = summary[over & (summary["reason"] != "")]
    return lines + [f"{row['label']}: no geometric mean, {row['reason']}." for _, row in without.iterrows()]


def as_text(built: Sequence[Table], lines: Sequence[str]) -> str:
    """Tables and notes for a terminal."""
    wrapped = [textwrap.fill(line, WIDTH, initial_indent="* ", subsequent_indent="  ") for line in lines]
    return "\n\n".join([*(table.text() for table in built), "\n".join(wrapped)]) + "\n"


def as_markdown(built: Sequence[Table], lines: Sequence[str]) -> str:
    """Tables and notes as Markdown."""
    return "\n\n".join([*(table.markdown() for table in built), "\n".join(f"- {line}" for line in lines)]) + "\n"
