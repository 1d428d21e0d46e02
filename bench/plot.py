"""The figures of a results folder, from its CSVs alone: loading and saving; what is drawn is in `bench.figures`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pandas as pd

from bench.figures import FIGURES, Source
from bench.results import CELLS, read, read_rows, write_whole
from bench.summary import done
from datasets.errors import UserError


def load(out: Path) -> Source:
    """The runs of the folder's last comparison, or all its runs where there was none. UserError for an empty folder."""
    runs = read(out, "runs")
    if runs.empty:
        raise UserError(f"there are no runs in {out}; make some with `slipbench run` or `slipbench compare`.")
    chosen = pd.DataFrame(read_rows(out / "cells.csv", CELLS))
    summary = pd.DataFrame(read_rows(out / "compare.csv"))
    if len(chosen) and len(summary):
        try:
            cells = chosen[["label", "pair", "run_id"]].astype({"pair": int}).merge(runs, on="run_id")
            baseline = str(summary["baseline"].iloc[0])
        except (KeyError, ValueError):
            raise UserError(
                f"{out / 'cells.csv'} or compare.csv is damaged; the same compare writes them anew."
            ) from None
    else:
        same = ["dataset", "system", "settings", "seed", "repeat"]
        cells = runs.drop_duplicates(same, keep="last").assign(pair=lambda rows: rows["repeat"])
        cells["label"] = (cells["system"] + " " + cells["settings"]).str.strip()
        baseline = "dlrm" if "dlrm" in set(cells["label"]) else str(cells["label"].iloc[0])
    return Source(cells, read(out, "evals"), read(out, "phases"), baseline)


def plot(out: Path) -> list[Path]:
    """Draw every figure that the folder has data for, as PNG and PDF in `figures/`, and return their paths.

    None where no run is done.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    source, folder = load(out), out / "figures"
    paths = []
    try:
        folder.mkdir(exist_ok=True)
        for dataset in dict.fromkeys(source.cells["dataset"]):
            cells = done(source.cells[source.cells["dataset"] == dataset])
            for name, draw in FIGURES.items():
                figure = draw(source, cells, str(dataset)) if len(cells) else None
                if figure is None:
                    continue
                for kind in ("png", "pdf"):
                    save = partial(figure.savefig, format=kind, dpi=150, bbox_inches="tight")
                    write_whole(folder / f"{name}-{dataset}.{kind}", save)
                paths.append(folder / f"{name}-{dataset}.png")
                plt.close(figure)
    except OSError as error:
        raise UserError(f"cannot write figures to {folder}: {error.strerror}.") from None
    return paths
