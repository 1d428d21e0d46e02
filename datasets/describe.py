"""What `data info` prints about a prepared set."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from datasets.store import PreparedSet, Split
from datasets.vocabulary import distinct
from datasets.writer import SPLITS

TOP_SHARES = (0.001, 0.01, 0.1)  # of the rows, by accesses
HOT_SHARES = (0.01, 0.02, 0.05, 0.10, 0.20, 0.40)  # of the rows: sizes of the hot set
ACCESS_SHARES = (1e-5, 1e-6, 1e-7, 1e-8)  # of a table's accesses: FAE's thresholds t, 1e-3 % to 1e-6 %
LARGE_BYTES = 1_000_000  # a smaller table is always hot (FAE, section 3)
BLOCK = 1 << 18  # inputs read at a time
BEST = ("best_auc", "best_logloss")
FACTS = {  # what modules know of their sets
    "lines": "lines of the source",
    "published_lines": "lines that were published",
    "lookups_unseen_in_training": "lookups of validation and test whose row no training input looks up",
    "lookups_too_rare": "lookups of ids that occur too rarely, in training",
}


@dataclass(frozen=True)
class HotSet:
    """The rows with at least a share of their table's accesses, and all rows of small tables (FAE, Figure 5)."""

    threshold: float  # share of the table's accesses
    rows: int
    inputs: float  # share of the inputs all of whose lookups are among them


def row_counts(split: Split) -> np.ndarray:
    """[rows] int64: how often the inputs of a split look up each row."""
    counts = np.zeros(split.schema.num_rows, dtype=np.int64)
    for first in range(0, len(split), BLOCK):
        rows, times = distinct(split.row_ids(slice(first, first + BLOCK)).ravel())
        counts[rows] += times
    return counts


def access_shares(counts: np.ndarray, tops: tuple[float, ...] = TOP_SHARES) -> list[float]:
    """The share of all accesses that goes to the top shares of the rows, ranked by count."""
    running = np.cumsum(np.sort(counts)[::-1])
    return [float(running[max(1, round(top * len(counts))) - 1] / max(1, running[-1])) for top in tops]


def hot_input_shares(split: Split, counts: np.ndarray, hots: tuple[float, ...] = HOT_SHARES) -> list[float]:
    """The share of the inputs all of whose lookups are among the top shares of the rows, ranked by count."""
    level = np.zeros(len(counts), np.int8)
    order = np.argsort(-counts, kind="stable")
    for hot in hots:
        level[order[: max(1, round(hot * len(counts)))]] += 1
    return _shares_by_level(split, level, len(hots))


def hot_sets(split: Split, counts: np.ndarray, dim: int, thresholds: tuple[float, ...] = ACCESS_SHARES) -> list[HotSet]:
    """FAE's hot sets at several access thresholds, from the highest; `dim` is the width of a row (float32)."""
    level = np.zeros(len(counts), np.int8)
    for table, (first, end) in zip(split.schema.tables, pairwise(split.schema.table_offsets.tolist()), strict=True):
        of_table = counts[first:end]
        for threshold in thresholds:
            small = table.rows * dim * 4 < LARGE_BYTES
            level[first:end] += small | (of_table >= max(1.0, threshold * of_table.sum()))
    shares = _shares_by_level(split, level, len(thresholds))
    rows = [int((level >= len(thresholds) - number).sum()) for number in range(len(thresholds))]
    return [HotSet(*found) for found in zip(thresholds, rows, shares, strict=True)]


def _shares_by_level(split: Split, level: np.ndarray, levels: int) -> list[float]:
    """Share of the inputs whose lookups are all in the 1st, 2nd, … set; `level` is the number of sets that hold a row.

    The sets grow, so a row that is in k of them is in the last k.
    """
    found = np.zeros(levels + 1, np.int64)
    for first in range(0, len(split), BLOCK):
        lowest = level[split.row_ids(slice(first, first + BLOCK))].min(axis=1)
        found += np.bincount(lowest, minlength=levels + 1)
    inside = np.cumsum(found[::-1])[:-1]  # inputs whose coldest lookup is in at least levels, levels - 1, … sets
    return [float(count / max(1, len(split))) for count in inside]


def describe(prepared: PreparedSet, dim: int) -> str:
    """Rows, tables, skew, options and origin of a prepared set, as lines of text; `dim` is the width of a row."""
    parts = [_head(prepared), _splits(prepared), _tables(prepared), _skew(prepared, dim), _origin(prepared)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _head(prepared: PreparedSet) -> list[str]:
    meta, facts = prepared.meta, prepared.meta["facts"]
    lines = [
        f"{prepared.name}  ({prepared.path})",
        f"fingerprint {prepared.fingerprint}, made by slipbench {meta['tool_version']}",
    ]
    if facts.get("best_auc") is not None and facts.get("best_logloss") is not None:
        lines.append(
            f"best reachable on the test split: AUC {facts['best_auc']:.4f}, log loss {facts['best_logloss']:.4f}"
        )
    shown = {key: facts[key] for key in (*FACTS, *facts) if key not in BEST and facts.get(key) is not None}
    lines += [f"{FACTS.get(key, key.replace('_', ' '))}: {value:,}" for key, value in shown.items()]
    return lines


def _splits(prepared: PreparedSet) -> list[str]:
    lines = [f"{'split':<12}{'inputs':>14}{'positives':>14}{'share':>9}"]
    for split in SPLITS:
        rows, positives = (prepared.meta["splits"][split][key] for key in ("rows", "positives"))
        lines.append(f"{split:<12}{rows:>14,}{positives:>14,}{positives / max(1, rows):>9.4f}")
    return lines


def _tables(prepared: PreparedSet) -> list[str]:
    schema = prepared.schema
    lines = [f"{len(schema.dense)} dense features, {len(schema.tables)} tables of {schema.num_rows:,} rows together"]
    if schema.steps > 1:
        lines[0] += f", in each of {schema.steps} steps"
    width = max(len(table.name) for table in schema.tables)
    for table in schema.tables:
        lookups = f"  {table.lookups} lookups a step" if table.lookups > 1 else ""
        lines.append(f"  {table.name:<{width}} {table.rows:>12,}{lookups}")
    return lines


def _skew(prepared: PreparedSet, dim: int) -> list[str]:
    counts = row_counts(prepared.train)
    scale = float(prepared.meta["options"].get("scale", 1.0))  # of a generated set, which keeps counts, not shares
    accesses = zip(TOP_SHARES, access_shares(counts), strict=True)
    hots = zip(HOT_SHARES, hot_input_shares(prepared.train, counts), strict=True)
    return [
        f"training inputs use {(counts > 0).sum():,} rows",
        "share of accesses:    " + ", ".join(f"top {top:.1%} of rows {share:.1%}" for top, share in accesses),
        "inputs entirely hot:  " + ", ".join(f"{hot:.0%} of rows hot {share:.1%}" for hot, share in hots),
        f"hot rows by their share of the table's accesses (FAE; {dim} wide, tables under 1 MB always hot):",
        *(
            f"  at least {hot.threshold * 100:.0e} %: {hot.rows:>12,} rows, {hot.rows * dim * 4 / 1e6:>9,.1f} MB, "
            f"{hot.inputs:>6.1%} of the inputs entirely hot"
            for hot in hot_sets(prepared.train, counts, dim, tuple(share / scale for share in ACCESS_SHARES))
        ),
    ]


def _origin(prepared: PreparedSet) -> list[str]:
    meta = prepared.meta
    lines = ["options: " + (", ".join(f"{key}={value}" for key, value in meta["options"].items()) or "none")]
    for source in meta["sources"]:
        lines.append(f"source: {source['name']}, {source['bytes']:,} bytes, sha256 {source['sha256'][:16]}…")
    if not meta["sources"]:
        lines.append("source: generated")
    for reason, count in meta["rows_dropped"].items():
        lines.append(f"dropped: {count:,} ({reason})")
    if not meta["rows_dropped"]:
        lines.append("dropped: none")
    return lines
