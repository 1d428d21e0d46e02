"""What `data info` prints about a prepared set."""

from __future__ import annotations

import numpy as np

from datasets.store import PreparedSet, Split
from datasets.writer import SPLITS

TOP_SHARES = (0.001, 0.01, 0.1)  # of the rows, by accesses
HOT_SHARES = (0.01, 0.02, 0.05, 0.10, 0.20, 0.40)  # of the rows: sizes of the hot set
BLOCK = 1 << 18  # inputs read at a time


def row_counts(split: Split) -> np.ndarray:
    """[rows] int64: how often the inputs of a split look up each row."""
    counts = np.zeros(split.schema.num_rows, dtype=np.int64)
    for first in range(0, len(split), BLOCK):
        counts += np.bincount(split.row_ids(slice(first, first + BLOCK)).ravel(), minlength=len(counts))
    return counts


def access_shares(counts: np.ndarray, tops: tuple[float, ...] = TOP_SHARES) -> list[float]:
    """The share of all accesses that goes to the top shares of the rows, ranked by count."""
    running = np.cumsum(np.sort(counts)[::-1])
    return [float(running[max(1, round(top * len(counts))) - 1] / max(1, running[-1])) for top in tops]


def hot_input_shares(split: Split, counts: np.ndarray, hots: tuple[float, ...] = HOT_SHARES) -> list[float]:
    """The share of the inputs all of whose lookups are among the top shares of the rows, ranked by count."""
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    inside = np.zeros(len(hots), dtype=np.int64)
    limits = np.array([max(1, round(hot * len(counts))) for hot in hots])
    for first in range(0, len(split), BLOCK):
        coldest = rank[split.row_ids(slice(first, first + BLOCK))].max(axis=1)  # [n]
        inside += (coldest[:, None] < limits).sum(axis=0)
    return [float(count / max(1, len(split))) for count in inside]


def describe(prepared: PreparedSet) -> str:
    """Rows, tables, skew, options and origin of a prepared set, as lines of text."""
    parts = [_head(prepared), _splits(prepared), _tables(prepared), _skew(prepared), _origin(prepared)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _head(prepared: PreparedSet) -> list[str]:
    meta, facts = prepared.meta, prepared.meta["facts"]
    lines = [
        f"{prepared.name}  ({prepared.path})",
        f"fingerprint {prepared.fingerprint}, made by slipbench {meta['tool_version']}",
    ]
    if facts.get("best_auc") is not None:
        lines.append(
            f"best reachable on the test split: AUC {facts['best_auc']:.4f}, log loss {facts['best_logloss']:.4f}"
        )
    if "lookups_unseen_in_training" in facts:
        lines.append(f"lookups of ids that training does not have: {facts['lookups_unseen_in_training']:,}")
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
    width = max(len(table.name) for table in schema.tables)
    for table in schema.tables:
        lookups = f"  {table.lookups} lookups an input" if table.lookups > 1 else ""
        lines.append(f"  {table.name:<{width}} {table.rows:>12,}{lookups}")
    return lines


def _skew(prepared: PreparedSet) -> list[str]:
    counts = row_counts(prepared.train)
    accesses = zip(TOP_SHARES, access_shares(counts), strict=True)
    hots = zip(HOT_SHARES, hot_input_shares(prepared.train, counts), strict=True)
    return [
        f"training inputs use {(counts > 0).sum():,} rows",
        "share of accesses:    " + ", ".join(f"top {top:.1%} of rows {share:.1%}" for top, share in accesses),
        "inputs entirely hot:  " + ", ".join(f"{hot:.0%} of rows hot {share:.1%}" for hot, share in hots),
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
