"""A small results folder for the tests of the report, made without training, and a reader of the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.compare import write_tables
from bench.figures import FIGURES
from bench.results import CELLS, RUNS, TEXT, Results
from tests.bench.test_summary import cell

# Markup, both kinds of quotes, a bell, a character that turns text around, and Hebrew, which runs from the right.
HOSTILE = "<script>document.title='owned'</script>\"><img src=x onerror=alert(1)> & \a \u202egnihton שלום"
SHOWN = HOSTILE.replace("\a", r"\x07").replace("\u202e", r"\u202e")  # what cannot be seen is spelt out
TIMES = {"dlrm": 4.0, "xdl": 8.0, "slipstream": 2.0, "slipstream skip=none": 3.9, "slipstream skip=random": 2.1}
AUCS = {"slipstream": 0.70, "slipstream skip=none": 0.75, "slipstream skip=random": 0.70}
FIGURES_DRAWN = ("speedup", "time-by-phase", "skip-policies")
VOID = {"meta", "link", "img", "br", "wbr", "hr", "input", "col"}


def comparison(num_seeds: int = 3) -> list[dict[str, Any]]:
    """Rows of a comparison: xdl is slower, slipstream faster, skip=none neither."""
    rows = []
    for number, (label, train_s) in enumerate(TIMES.items()):
        for seed in range(num_seeds):
            wobble = 0.2 * (-1) ** seed * (label == "slipstream skip=none")
            auc = AUCS.get(label, 0.75) + 0.001 * ((seed + number) % 3)
            rows.append(cell(label, seed, train_s + wobble, auc, samples_skipped=20 * ("skip=none" not in label)))
    return rows


@contextmanager
def few_figures() -> Iterator[None]:
    """Fewer figures than there are, which is quicker and enough to try the page on."""
    with pytest.MonkeyPatch.context() as patch:
        for name in set(FIGURES) - set(FIGURES_DRAWN):
            patch.delitem(FIGURES, name)
        yield


def hostile() -> list[dict[str, Any]]:
    """The same, with a run that failed and one that is done, both of which say hostile things."""
    failed = {"status": "failed", "reason": HOSTILE, "settings": f"skip={HOSTILE}"}
    return [
        *comparison(),
        cell("fae", 0, 3.0, 0.7, notes=HOSTILE, **failed),
        cell(f"hotline:{HOSTILE}", 0, 3.0, 0.7, notes=HOSTILE),
    ]


def write_folder(
    out: Path, rows: list[dict[str, Any]], baseline: str = "dlrm", env: Mapping[str, Any] | None = None
) -> Path:
    """The files of a comparison of these rows."""
    results = Results(out)
    fixed = {
        "model": "small",
        "machine": "a machine",
        "repeat": 0,
        "prepare_s": 0.0,
        "row_updates_skipped": 0,
        "notes": "",
    }
    whole = []
    for number, row in enumerate(rows):
        run_id = f"run-{number}"
        whole.append({**{key: value for key, value in row.items() if value is not None}, "run_id": run_id})
        whole[-1] = fixed | whole[-1]
        results.append("runs", {key: value for key, value in whole[-1].items() if key in RUNS})
        results.append(
            "phases", {"run_id": run_id, "lane": "main", "phase": "dense_forward", "seconds": row["train_s"]}
        )
        results.folder(run_id).mkdir()
        results.write_text(run_id, "env.json", json.dumps(env or {"python": "3.11", "versions": {"torch": "2"}}))
    frame = pd.DataFrame(whole, columns=list(CELLS))
    for column in set(CELLS) - TEXT - {"label"}:
        frame[column] = pd.to_numeric(frame[column])
    write_tables(frame, out, baseline)
    return out


class Element:
    """A tag with its attributes and what stands in it."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes = tag, attributes
        self.children: list[Element | str] = []

    def __getitem__(self, name: str) -> str:
        return self.attributes.get(name, "")

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, *tags: str) -> Iterator[Element]:
        """Every element in it with one of the tags, or every one."""
        for child in self.children:
            if isinstance(child, Element):
                if not tags or child.tag in tags:
                    yield child
                yield from child.all(*tags)

    def one(self, identity: str) -> Element:
        """The element of an id."""
        (found,) = (element for element in self.all() if element["id"] == identity)
        return found


class Reader(HTMLParser):
    """Builds the elements, and insists that every tag is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute twice in <{tag}>"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: Path) -> Element:
    """The page's elements."""
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].tag}> is not closed"
    return reader.root
