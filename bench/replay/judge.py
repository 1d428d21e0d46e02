"""`slipbench replay --fit`: fits the papers' servers, predicts every other figure, and says how far off each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from bench import published
from bench.replay import profile as profiles
from bench.replay.papers import compare, fit_servers, full_works
from bench.results import write_whole
from bench.table import Table, number
from datasets.errors import UserError

FILE = "papers.csv"
TIMES = ("train_time_10_epochs", "link_time_10_epochs")
SPEEDUPS = (published.CHART, "slipstream_speedup_over", "fae_speedup_over")
GOALS = {"times": 0.15, "speed-ups": 0.10, "bytes": 0.15, "shares": 0.15}  # median absolute error of what is held out
NAMING = ("source", "where", "dataset", "system", "gpus", "metric")
HEADER = ("role", "figures", "number", "median |error|", "goal")
# Why a figure is missed, the first that fits: (of these columns, these values) → in words.
REASONS: tuple[tuple[Mapping[str, tuple[str, ...]], str], ...] = (
    (
        {"metric": ("slipstream_speedup_over",)},  # whose rows name the baseline
        "the paper's hardware, batch sizes and shares of dropped inputs could not be found",
    ),
    (
        {"metric": ("link_bytes_one_epoch_one_direction", "link_time_10_epochs"), "system": ("xdl",)},
        "the papers' XDL sends indices and dense weights over the link, ours the looked-up vectors",
    ),
    (
        {"metric": ("link_bytes_one_epoch_one_direction",), "dataset": ("taobao",)},
        "the published bytes are those of three vectors an input, and an input of 21 steps looks up 63",
    ),
    (
        {"metric": ("share_embedding_sync",)},
        "published: some 55 µs a hot row and epoch in three sets of four, as of a loop over rows in Python",
    ),
    (
        {"metric": ("train_time_10_epochs", published.CHART), "dataset": ("taobao",), "system": ("fae", "hotline")},
        "how TBSM's cost divides between passes through 21 towers and operations on 63 vectors is not in the baselines",
    ),
    (
        {"metric": ("train_time_10_epochs", published.CHART), "system": ("fae",), "gpus": ("1",)},
        "FAE's synchronisation, 3 to 20 % of its time (Fig. 14), costs a tenth of that in the model",
    ),
    (
        {"system": ("fae",), "gpus": ("2", "4")},
        "as on one GPU; and how FAE sums the gradients of hot rows over GPUs is not published",
    ),
    (
        {"metric": ("link_time_10_epochs",), "gpus": ("2", "4")},
        "the link is modelled as shared by all devices, at its rate for one; published times fall or rise",
    ),
    (
        {"system": ("xdl", "dlrm"), "gpus": ("2", "4")},
        "how a framework's cost grows with devices cannot be told from one GPU, which is all that is fitted",
    ),
    (
        {"system": ("fae",)},
        "cold steps' copies take what DLRM's do, and those of hot inputs' indices, a tenth, come on top",
    ),
    (
        {"system": ("hotline",)},
        "the paper's software Hotline splits with Python processes, of which no cost is published",
    ),
)


def fit_folder(out: Path, say: Callable[[str], None]) -> list[str]:
    """Fit the papers' servers on a folder's runs, write papers.csv and the profiles, and summarise the errors."""
    if not published.figures():
        raise UserError(f"there is no {published.FIGURES}; --fit needs the papers' figures, which a checkout has.")
    works = full_works(out)
    servers = fit_servers(works)
    rows = [row | {"reason": reason(row) if misses(row) else ""} for row in compare(works, servers)]
    frame = pd.DataFrame(rows)
    write_whole(out / FILE, lambda path: frame.to_csv(path, index=False))
    for source, server in servers.items():
        path, text = fitted_profile(out, server.name), profiles.to_toml(server)
        write_whole(path, partial(Path.write_text, data=text))
        say(f"{source}'s server: {path}")
    return [*summary(rows), f"a row for each published figure is in {out / FILE}"]


def fitted_profile(out: Path, name: str) -> Path:
    """Where a folder's own fit of a server is: not under the name of the package's, which is of other runs."""
    return out / f"{name}-refitted.toml"


def group_of(metric: str) -> str:
    """Which goal a metric belongs to."""
    if metric in TIMES:
        return "times"
    if metric in SPEEDUPS:
        return "speed-ups"
    return "shares" if metric.startswith("share_") else "bytes"


def misses(row: Mapping[str, Any]) -> bool:
    """Whether a prediction is further off than its group's median should be."""
    return row["role"] == "held out" and abs(row["error"]) > GOALS[group_of(row["metric"])]


def reason(row: Mapping[str, Any]) -> str:
    """The likely reason of a miss."""
    for where, words in REASONS:
        if all(row[column] in values for column, values in where.items()):
            return words
    return "no reason known"


def said(frame: pd.DataFrame) -> list[str]:
    """What papers.csv, all text, says about the model, in sentences; nothing where no figure in it was held out."""
    if not {"role", "metric", "error", "reason"} <= set(frame):
        return []
    held_out = frame[frame["role"] == "held out"]
    errors = pd.to_numeric(held_out["error"], errors="coerce").abs()
    if errors.isna().all():
        return []
    groups = errors.groupby(held_out["metric"].map(group_of))
    each = [f"{group} {found.median():.0%} (goal {GOALS[str(group)]:.0%}, n = {len(found)})" for group, found in groups]
    return [
        f"Of {len(held_out)} held-out figures of the papers the model of their servers misses "
        f"{(held_out['reason'] != '').sum()}; median absolute errors: {', '.join(each)}. "
        "Modelled speed-ups are no better than that.",
        "torchrec keeps its rows on the device, whose memory the model does not limit.",
    ]


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Median absolute errors by role and group, and every miss with its reason."""
    errors: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["role"] in ("fit", "held out"):
            errors.setdefault((row["role"], group_of(row["metric"])), []).append(abs(row["error"]))
    medians: list[tuple[str, ...]] = [
        (role, group, str(len(found)), f"{median(found):.1%}", f"{GOALS[group]:.0%}" if role == "held out" else "")
        for (role, group), found in sorted(errors.items())
    ]
    missed = [
        (
            *(str(row[key]) for key in NAMING),
            *(number(row[key], ".3g") for key in ("published", "modelled")),
            f"{row['error']:+.0%}",
            row["reason"],
        )
        for row in rows
        if row["reason"]
    ]
    held_out = sum(row["role"] == "held out" for row in rows)
    words = (*NAMING, "reason", "figures")
    return [
        Table("how far the model is from the papers", HEADER, medians, words).text(),
        Table(
            f"{len(missed)} of {held_out} held-out figures are missed",
            (*NAMING, "published", "modelled", "error", "reason"),
            missed,
            words,
        ).text(),
    ]
