"""The page: what stands on it, in which order, and how it is written. Everything on it is within it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from bench import study, table
from bench.replay import judge
from bench.replay import report as replayed
from bench.report import answer, grid
from bench.report.pictures import pictures
from bench.report.source import PAPERS, REPLAY, Comparison, environments, load
from bench.results import write_whole

HERE = Path(__file__).resolve().parent
RULES = HERE.parent / "rules.md"
NAME = "report.html"
FACTS = {  # what runs of a comparison have in common → column of cells.csv
    "model": "model", "optimizer": "optimizer", "learning rate": "lr", "batch size": "batch_size", "epochs": "epochs",
    "precision": "precision", "device": "device", "threads": "threads", "seeds": "seed",
    "machine": "machine", "code": "code_version",
}  # fmt: skip
FILES = {
    "compare.csv": "the comparison: a row for each data set and system",
    "compare_policies.csv": "Slipstream's policies against their references",
    "cells.csv": "the runs that the comparison is made of",
    "runs.csv": "all runs of the folder",
    "evals.csv": "accuracy against training time",
    "phases.csv": "seconds and counts of each phase",
    "steps.csv": "loss and time of windows of steps",
    "decisions.csv": "what Slipstream decided",
    "study.csv": "the last study: skip policies over sizes and drop ratios",
    "study_cells.csv": "the runs that the study is made of",
    "replay.csv": "modelled times",
    "papers.csv": "published figures beside modelled ones",
}


def report(out: Path) -> Path:
    """Write the page of a folder's last comparison into the folder, and return its path.

    The same CSVs and figures give the same bytes. UserError where there is no comparison, or a CSV is damaged.
    """
    page = render(load(out))
    write_whole(out / NAME, lambda path: path.write_text(page, encoding="utf-8"))
    return out / NAME


def _studied(comparison: Comparison) -> dict[str, Any]:
    """The tables of the folder's study, and what is said about them."""
    if comparison.study_cells.empty:
        return {"study": [], "studied": []}
    summary = study.summarise(comparison.study_cells)
    return {
        "study": [grid.of_table(found) for found in study.tables(summary)],
        "studied": study.notes(comparison.study_cells, summary),
    }


def _modelled(comparison: Comparison) -> list[str]:
    """What is said about the models: how far they are off, and what they leave out."""
    saying = {PAPERS: judge.said, REPLAY: replayed.said}
    return [
        line for name, said in saying.items() if name in comparison.extras for line in said(comparison.extras[name])
    ]


def render(comparison: Comparison) -> str:
    """The page's HTML."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "sort.js"))
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    judgements = table.judgements(comparison.policies)
    lines = table.notes(comparison.cells, comparison.summary, comparison.policies)
    environment.filters |= {"breakable": breakable, "code": code}
    return environment.get_template("page.html").render(
        comparison=comparison,
        facts=facts(comparison.cells),
        answers=(answer.time(comparison), answer.accuracy(comparison)),
        **_studied(comparison),
        modelled=_modelled(comparison),
        speed=[grid.speed(comparison, name) for name in comparison.datasets],
        over_sets=grid.over_sets(comparison),
        by_source=grid.by_source(comparison),
        extras=[grid.as_given(name, frame) for name, frame in comparison.extras.items()],
        policies=[found for name in comparison.datasets if (found := grid.policies(comparison, name))],
        failed=grid.failed(comparison),
        noted=grid.noted(comparison),
        judgements=judgements,
        notes=[line for line in lines if line not in judgements],
        pictures=pictures(comparison),
        rules=rules(RULES.read_text(encoding="utf-8")),
        environments=environments(comparison),
        files=[(path.name, FILES.get(path.name, "")) for path in sorted(comparison.out.glob("*.csv"))],
        style=Markup(style),
        script=Markup(script),
        policy=content_policy(style, script),
    )


def content_policy(style: str, script: str) -> str:
    """A Content-Security-Policy: nothing is loaded, and nothing runs but the page's own script."""
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'; "
        "base-uri 'none'; form-action 'none'"
    )


def facts(cells: pd.DataFrame) -> dict[str, str]:
    """What the runs have in common, or the values in which they differ, in the order in which they occur."""
    found = {"data sets": answer.listed(_distinct(cells["dataset"])), "systems": str(cells["label"].nunique())}
    done = int((cells["status"] == "done").sum())
    found["runs"] = f"{len(cells)}, of which {done} are done"
    found["repeats of a seed"] = str(cells["pair"].nunique())
    for name, column in FACTS.items():
        found[name] = ", ".join(_distinct(cells[column]))
    started = sorted(filter(None, cells["started_at"]))
    return found | {"started": " to ".join(dict.fromkeys([*started[:1], *started[-1:]]))}


def _distinct(values: pd.Series) -> list[str]:
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values.dropna().unique()]
    return list(filter(None, texts))


def rules(text: str) -> list[str]:
    """The items of a numbered list in Markdown."""
    items = re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]
    return [" ".join(item.split()) for item in items]


def code(text: str) -> Markup:
    """Text with what stands in backticks as code."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def breakable(text: str) -> Markup:
    """Text that may be broken within a label, after a colon."""
    return Markup(re.sub(":(?! )", ":<wbr>", str(escape(text))))
