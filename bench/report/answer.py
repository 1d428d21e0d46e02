"""The answer of a comparison in two sentences, one on time and one on accuracy. They say what the verdicts say."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from bench.report.source import Comparison
from bench.stats import NO_DIFFERENCE, NO_INTERVAL, Estimate, verdict
from bench.summary import OVER_SETS, REFERENCES
from bench.table import none_if_nan, number, plus_minus

MOST = 3  # systems named for each verdict; the table has all
UNDECIDED = {  # verdict → what is said of one system, and of several
    NO_DIFFERENCE: ("shows no significant difference", "show no significant difference"),
    NO_INTERVAL: ("has too few pairs of runs to tell", "have too few pairs of runs to tell"),
    "": ("has no finished pair of runs", "have no finished pair of runs"),
}
SAID = {
    "higher": "a higher AUC",
    "lower": "a lower AUC",
    NO_DIFFERENCE: "no significant difference in AUC",
    NO_INTERVAL: "a difference in AUC that too few seeds can judge",
}
DROPPED = {"none": "not skipping at all", "random": "skipping as many at random"}


def listed(words: Sequence[str], last: str = " and ") -> str:
    """`a, b and c`."""
    return last.join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def minus(text: str) -> str:
    """A number's text with a minus sign in place of the hyphen, and not to be broken before its interval."""
    return text.replace("-", "−").replace(" ± ", "\u00a0±\u00a0")


def time(comparison: Comparison) -> str:
    """Which systems are faster and slower than the baseline, data set by data set."""
    if set(comparison.summary["label"]) == {comparison.baseline}:
        return f"Only {comparison.baseline} was run, so there is nothing that its time could be compared with."
    clauses = [f"on {name} {_on_time(comparison.rows(name))}" for name in comparison.datasets]
    if len(over := comparison.rows(OVER_SETS)):
        clauses.append(f"in the geometric mean over them {_on_time(over)}")
    return f"In training time against {comparison.baseline} (in brackets the speed-up), {'; '.join(clauses)}."


def _on_time(rows: pd.DataFrame) -> str:
    said = {word: rows[rows["verdict"] == word] for word in ("faster", "slower", *UNDECIDED)}
    faster = (
        f"{_named(said['faster'], ascending=False)} faster" if len(said["faster"]) else "none is shown to be faster"
    )
    rest = [f"{_named(said['slower'], ascending=True)} slower"] if len(said["slower"]) else []
    rest += [f"{num} {text[num > 1]}" for word, text in UNDECIDED.items() if (num := len(said[word]))]
    return f"{faster}, while {listed(rest, ', and ')}" if rest else faster


def _named(rows: pd.DataFrame, ascending: bool) -> str:
    """The systems that are furthest from the baseline by name, the others by number, with `is` or `are`."""
    rows = rows.sort_values("speedup", ascending=ascending, kind="stable")
    names = [f"{row['label']} ({number(row['speedup'], '.2f')})" for _, row in rows.head(MOST).iterrows()]
    rest = len(rows) - len(names)
    return listed([*names, *([f"{rest} more"] if rest else [])]) + (" is" if len(rows) == 1 else " are")


def accuracy(comparison: Comparison) -> str:
    """What skipping stale inputs does to AUC; where no policy was compared, AUC against the baseline."""
    stale = comparison.policies[comparison.policies["policy"] == "stale"]
    clauses = [clause for reference in reversed(REFERENCES) if (clause := _of_staleness(stale, reference))]
    if clauses:
        return f"On the test split, skipping stale inputs shows, {'; '.join(clauses)}."
    rows = comparison.summary[comparison.summary["auc_diff_n"] > 0]
    if rows.empty:
        return "There is no finished pair of runs whose accuracy could be compared."
    parts = [f"on {name} {_of_systems(group)}" for name, group in rows.groupby("dataset", sort=False)]
    return f"On the test split against {comparison.baseline}, {'; '.join(parts)}."


def _of_staleness(stale: pd.DataFrame, reference: str) -> str:
    """`against skipping as many at random, a lower AUC on SET (…) and SET (…)`; nothing where no run tells."""
    name = f"auc_vs_{reference}"
    places: dict[str, dict[str, list[str]]] = {}
    for _, row in stale[stale[f"{name}_n"] > 0].iterrows():
        where = places.setdefault(_said(row, name), {}).setdefault(str(row["dataset"]), [])
        where.append(f"{row['layout']}'s layout {minus(plus_minus(row, name))}")
    said = [f"{SAID[word]} on {listed(_places(found))}" for word, found in places.items()]
    return f"against {DROPPED[reference]}, {listed(said)}" if said else ""


def _places(found: dict[str, list[str]]) -> list[str]:
    return [f"{dataset} ({', '.join(where)})" for dataset, where in found.items()]


def _of_systems(rows: pd.DataFrame) -> str:
    counts = pd.Series([_said(row, "auc_diff") for _, row in rows.iterrows()]).value_counts(sort=False)
    return listed([f"{num} of {len(rows)} show {SAID[str(said)]}" for said, num in counts.items()])


def _said(row: pd.Series, name: str) -> str:
    low, high = none_if_nan(row[f"{name}_low"]), none_if_nan(row[f"{name}_high"])
    return verdict(Estimate(float(row[name]), low, high, int(row[f"{name}_n"])), 0.0, "higher", "lower")
