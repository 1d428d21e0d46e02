"""From the rows of a comparison to its numbers: one row a system, and one a skip policy against its references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from bench.published import speedups_text
from bench.replay.profile import THIS_MACHINE
from bench.stats import Estimate, geometric_mean, paired_difference, paired_ratio, verdict

MEANS = {  # column of the summary → column of runs.csv, or a share of two
    "auc": "auc_last",
    "logloss": "logloss_last",
    "hot_inputs_share": "hot_inputs_share",
    "link_to_device_bytes": "link_to_device_bytes",
    "link_to_host_bytes": "link_to_host_bytes",
    "net_bytes": "net_bytes",
    "rows_read": "rows_read",
    "rows_written": "rows_written",
}
MEDIANS = ("samples_per_s", "train_s", "prepare_s", "peak_rss_bytes")
STATUSES = ("done", "diverged", "failed", "interrupted", "skipped", "missing")
POLICY_KEYS = ("skip", "skip.what", "stale")  # settings in which a policy differs from its references
REFERENCES = ("none", "random")
OVER_SETS = "geomean"  # in place of a data set: the geometric mean over all of them, as in results/published


def done(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that count: a run that failed is in no mean."""
    return rows[rows["status"] == "done"]


def paired(first: pd.DataFrame, second: pd.DataFrame, column: str, by: list[str]) -> list[tuple[float, float]]:
    """Values of a column in two sets of runs, matched. Runs that share the key are averaged first."""
    means = [done(rows).groupby(by)[column].mean().dropna() for rows in (first, second)]
    both = pd.concat(means, axis=1, join="inner")
    return [(float(left), float(right)) for left, right in both.to_numpy()]


def difference(first: pd.DataFrame, second: pd.DataFrame, column: str) -> Estimate | None:
    """Mean of first − second, paired over seeds: repeats of a seed differ in time only, so they are one value."""
    return paired_difference(paired(first, second, column, ["seed"]))


def _times(rows: pd.DataFrame, baseline: pd.DataFrame) -> list[tuple[float, float]]:
    return paired(baseline, rows, "train_s", ["seed", "pair"])


def modelled_seconds(replay: pd.DataFrame) -> pd.Series:
    """What the rows of replay.csv say that a run takes: as it was made on this machine, a full epoch elsewhere.

    A run as it was made is what was measured; an epoch of the full set, where that was modelled, is what was published.
    """
    full = replay["modelled_full_epoch_s"].where(replay["hardware"] != THIS_MACHINE)
    return full.fillna(replay["modelled_s"])


def speedup(rows: pd.DataFrame, baseline: pd.DataFrame) -> Estimate | None:
    """Baseline's time over the system's, paired over seeds and repeats."""
    return paired_ratio(_times(rows, baseline))


def speedups(rows: pd.DataFrame, baseline: pd.DataFrame) -> list[float]:
    """The ratio of each pair behind `speedup`."""
    return [first / second for first, second in _times(rows, baseline)]


def spread(name: str, estimate: Estimate | None) -> dict[str, Any]:
    """An estimate as four columns."""
    if estimate is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None, f"{name}_n": 0}
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high, f"{name}_n": estimate.n}


def count_statuses(rows: pd.DataFrame) -> dict[str, Any]:
    """How many runs ended how, and the first reason given."""
    return {
        **{f"num_{status}": int((rows["status"] == status).sum()) for status in STATUSES},
        "reason": next((reason for reason in rows["reason"] if reason), ""),
    }


def against(runs: pd.DataFrame, references: Mapping[str, pd.DataFrame], name: str) -> dict[str, Any]:
    """AUC and log loss minus those of each reference, but not of the reference of this `name`, which the runs are."""
    line: dict[str, Any] = {}
    for reference, other in references.items():
        for column in ("auc", "logloss"):
            estimate = None if name == reference else difference(runs, other, f"{column}_last")
            line |= spread(f"{column}_vs_{reference}", estimate)
    return line


def _one(rows: pd.DataFrame, baseline: pd.DataFrame, is_baseline: bool) -> dict[str, Any]:
    """The summary of one system on one data set."""
    good = done(rows)
    ratio = None if is_baseline else speedup(rows, baseline)
    auc = None if is_baseline else difference(rows, baseline, "auc_last")
    return {
        "system": rows["system"].iloc[0],
        "settings": rows["settings"].iloc[0],
        **count_statuses(rows),
        **{column: good[column].median() for column in MEDIANS},
        **spread("speedup", ratio),
        "verdict": "baseline" if is_baseline else verdict(ratio, 1.0, "faster", "slower"),
        **{name: good[column].mean() for name, column in MEANS.items()},
        "skipped_share": (good["samples_skipped"] / good["samples_seen"]).mean(),
        "row_updates_skipped": good["row_updates_skipped"].mean(),
        **spread("auc_diff", auc),
        **spread("logloss_diff", None if is_baseline else difference(rows, baseline, "logloss_last")),
    }


def summarise(cells: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """One row for each data set and label, in the order of the comparison. `cells` are runs with `label` and `pair`.

    With two or more data sets, rows of the data set `geomean` follow: each label's geometric mean over all of them.
    """
    summary = []
    for (dataset, label), rows in cells.groupby(["dataset", "label"], sort=False):
        same = cells[(cells["dataset"] == dataset) & (cells["label"] == baseline)]
        system = rows["system"].iloc[0]
        published = "" if rows["settings"].iloc[0] else speedups_text(system, _system_of(same), str(dataset))
        names = {"dataset": dataset, "label": label, "baseline": baseline}
        summary.append({**names, **_one(rows, same, label == baseline), "published_speedup": published})
    return pd.DataFrame([*summary, *_over_sets(cells, baseline)])


def _over_sets(cells: pd.DataFrame, baseline: str) -> list[dict[str, Any]]:
    """One row for each label over all data sets; none where there is one data set only."""
    sets = list(dict.fromkeys(cells["dataset"]))
    same = cells[cells["label"] == baseline]
    if len(sets) < 2:
        return []
    return [_over(sets, rows, same, str(label), baseline) for label, rows in cells.groupby("label", sort=False)]


def _over(sets: list[str], rows: pd.DataFrame, same: pd.DataFrame, label: str, baseline: str) -> dict[str, Any]:
    """A label's geometric mean over the data sets. One without a finished pair of runs leaves no mean, but its name."""
    is_baseline, system = label == baseline, str(rows["system"].iloc[0])
    ratios = {name: speedups(rows[rows["dataset"] == name], same[same["dataset"] == name]) for name in sets}
    missing = [name for name, found in ratios.items() if not found]
    mean = None if is_baseline else geometric_mean(list(ratios.values()))
    settings = rows["settings"].iloc[0]
    return {
        **{"dataset": OVER_SETS, "label": label, "baseline": baseline, "system": system, "settings": settings},
        **count_statuses(rows),
        "reason": f"no finished pair of runs with {baseline} on {', '.join(missing)}" if missing else "",
        **spread("speedup", mean),
        "verdict": "baseline" if is_baseline else verdict(mean, 1.0, "faster", "slower"),
        **{key: value for name in ("auc_diff", "logloss_diff") for key, value in spread(name, None).items()},
        "published_speedup": "" if settings else speedups_text(system, _system_of(same), OVER_SETS),
    }


def _system_of(rows: pd.DataFrame) -> str:
    return str(rows["system"].iloc[0]) if len(rows) else ""


def parse(settings: str) -> dict[str, str]:
    """The words of the column `settings` as a mapping."""
    return dict(word.split("=", 1) for word in settings.split() if "=" in word)


def policy(settings: str) -> tuple[str, str, str]:
    """Of a Slipstream run: its layout, its policy, and what else is set (which references must share)."""
    words = parse(settings)
    name = words.get("skip", "stale")
    extra = [f"{key}={words[key]}" for key in POLICY_KEYS[1:] if key in words]
    rest = [f"{key}={value}" for key, value in sorted(words.items()) if key not in POLICY_KEYS]
    return words.get("slipstream.layout", "fae"), " ".join([name, *extra]), " ".join(rest)


def summarise_policies(cells: pd.DataFrame) -> pd.DataFrame:
    """Each Slipstream policy's AUC and log loss against `none` and `random` of the same layout, paired over seeds."""
    rows = cells[cells["system"] == "slipstream"].copy()
    rows[["layout", "policy", "rest"]] = [policy(text) for text in rows["settings"]] or None
    summary: list[dict[str, Any]] = []
    for (dataset, _, layout), group in rows.groupby(["dataset", "rest", "layout"], sort=False):
        for (label, name), runs in group.groupby(["label", "policy"], sort=False):
            line: dict[str, Any] = {"dataset": dataset, "layout": layout, "label": label, "policy": name}
            good = done(runs)
            line["skipped_share"] = (good["samples_skipped"] / good["samples_seen"]).mean()
            line["train_s"] = good["train_s"].median()
            references = {reference: group[group["policy"] == reference] for reference in REFERENCES}
            summary.append(line | against(runs, references, str(name)))
    return pd.DataFrame(summary)


def has_references(policies: pd.DataFrame) -> bool:
    """Whether any of these policies was held against a reference."""
    return bool(len(policies)) and bool(policies[[f"auc_vs_{name}_n" for name in REFERENCES]].to_numpy().any())
