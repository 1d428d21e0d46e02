"""The figures of the page: `slipbench plot`'s, within the page, each with its caption and a text in its place."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from bench.figures import FIGURES
from bench.plot import load, plot
from bench.report.answer import listed, minus
from bench.report.source import Comparison
from bench.summary import OVER_SETS, done
from bench.table import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Picture:
    """A figure: the name of its file, its data as an URI, its size in pixels, and its texts."""

    name: str
    uri: str
    width: int
    height: int
    alternative: str  # what is to be seen, for whoever does not see it
    caption: str


def pictures(comparison: Comparison) -> dict[str, list[Picture]]:
    """The figures of each data set, and of all together under OVER_SETS; drawn anew if one is older than a CSV.

    A data set that there is nothing to draw of is left out.
    """
    texts = captions(comparison)
    changed = max(path.stat().st_mtime_ns for path in comparison.out.glob("*.csv"))
    if not all(_is_png(path := _path(comparison.out, *w)) and path.stat().st_mtime_ns >= changed for w in texts):
        plot(comparison.out)
    found: dict[str, list[Picture]] = {}
    for (name, dataset), caption in texts.items():
        found.setdefault(dataset, []).append(_picture(comparison, name, dataset, caption))
    return found


def captions(comparison: Comparison) -> dict[tuple[str, str], str]:
    """Each figure that the folder has data for, by name and data set, with what it says below its axes.

    The drawing is thrown away: it is to learn these two, which no file says.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    source = load(comparison.out)
    over = [OVER_SETS] if len(comparison.rows(OVER_SETS)) else []
    texts = {}
    for dataset in [*comparison.datasets, *over]:
        cells = done(source.cells[source.cells["dataset"] == dataset])
        for name, draw in FIGURES.items():
            if figure := draw(source, cells, dataset):
                texts[name, dataset] = _caption(figure)
                plt.close(figure)
    return texts


def _caption(figure: Figure) -> str:
    """The caption of a figure, which is by far the longest text on its axes."""
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    return " ".join(max(texts, key=len, default="").split())


def _path(out: Path, name: str, dataset: str) -> Path:
    return out / "figures" / f"{name}-{dataset.replace('/', '')}.png"  # a name from a CSV leads nowhere else


def _is_png(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(PNG)) == PNG
    except (OSError, ValueError):
        return False


def _picture(comparison: Comparison, name: str, dataset: str, caption: str) -> Picture:
    path = _path(comparison.out, name, dataset)
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])  # of the header chunk, which comes first
    uri = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    said = (FIGURES[name].__doc__ or name).splitlines()[0].rstrip(".")
    shown = SHOWN[name](comparison, dataset) if name in SHOWN else ""
    return Picture(path.name, uri, width, height, f"{said}, on {dataset}{shown}.", caption)


def _column(column: str, form: str) -> Callable[[Comparison, str], str]:
    """What a figure of a column of the summary shows: every system with its number."""

    def shown(comparison: Comparison, dataset: str) -> str:
        rows = comparison.rows(dataset).dropna(subset=[column])
        return _each([(row["label"], number(row[column], form)) for _, row in rows.iterrows()])

    return shown


def _policies(comparison: Comparison, dataset: str) -> str:
    of_set: pd.DataFrame = comparison.policies[comparison.policies["dataset"] == dataset]
    rows = of_set.dropna(subset=["auc_vs_random"])
    return _each([(f"{r['policy']} on {r['layout']}", number(r["auc_vs_random"], "+.4f")) for _, r in rows.iterrows()])


def _each(found: list[tuple[str, str]]) -> str:
    return f": {listed([f'{name} {minus(value)}' for name, value in found])}" if found else ""


SHOWN: dict[str, Callable[[Comparison, str], str]] = {  # figures with one number for each system
    "speedup": _column("speedup", ".2f"),
    "accuracy-over-time": _column("auc", ".4f"),
    "time-by-phase": _column("train_s", ".2f"),
    "skip-policies": _policies,
}
