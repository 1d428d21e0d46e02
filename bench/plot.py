"""The figures of a results folder, from its CSVs alone: loading and saving; what is drawn is in `bench.figures`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from bench.figures import FIGURES, Source
from bench.figures.common import of_dataset
from bench.results import CELLS, STUDY_CELLS, read, read_file, read_rows, read_whole, write_whole
from bench.summary import OVER_SETS, done
from datasets.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPLAYED = ("run_id", "hardware", "devices", "modelled_s", "modelled_full_epoch_s")  # what is drawn of replay.csv


def load(out: Path) -> Source:
    """The runs of the folder's last comparison and study, or all its runs where there was neither.

    UserError for an empty folder, and for a damaged file.
    """
    from bench.study import summarise

    runs = read(out, "runs")
    if runs.empty:
        raise UserError(f"there are no runs in {out}; make some with `slipbench run` or `slipbench compare`.")
    study_cells = read_whole(out / "study_cells.csv", STUDY_CELLS, filled=("pair", "size", "epochs"))
    cells = read_whole(out / "cells.csv", CELLS, filled=("pair",))
    summary = pd.DataFrame(read_rows(out / "compare.csv"))
    if len(cells) and "baseline" in summary:
        baseline = str(summary["baseline"].iloc[0])
    elif len(study_cells):
        cells, baseline = runs.assign(label="", pair=0).head(0), ""
    else:
        same = ["dataset", "system", "settings", "seed", "repeat"]
        cells = runs.drop_duplicates(same, keep="last").assign(pair=lambda rows: rows["repeat"])
        cells["label"] = (cells["system"] + " " + cells["settings"]).str.strip()
        baseline = "dlrm" if "dlrm" in set(cells["label"]) else str(cells["label"].iloc[0])
    return Source(
        cells,
        read(out, "evals"),
        read(out, "phases"),
        baseline,
        decisions=read(out, "decisions"),
        study=summarise(study_cells) if len(study_cells) else study_cells,
        study_cells=study_cells,
        replay=_replay(out / "replay.csv"),
    )


def _replay(path: Path) -> pd.DataFrame:
    replayed = read_file(path)
    if len(replayed) and not set(REPLAYED) <= set(replayed):
        raise UserError(f"{path} has other columns than this version writes; remove it, and replay again.")
    return read_whole(path, filled=("devices", "modelled_s"), numbers=("modelled_full_epoch_s",))


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
        for name, figure in _draw(source):
            for kind in ("png", "pdf"):
                save = partial(figure.savefig, format=kind, dpi=150, bbox_inches="tight")
                write_whole(folder / f"{name}.{kind}", save)
            paths.append(folder / f"{name}.png")
            plt.close(figure)
        for path in _names(out, folder) - {*paths, *(path.with_suffix(".pdf") for path in paths)}:
            path.unlink(missing_ok=True)  # of an earlier comparison
    except OSError as error:
        raise UserError(f"cannot write figures to {folder}: {error.strerror}.") from None
    return paths


def _names(out: Path, folder: Path) -> set[Path]:
    """Every file that a figure of the folder's runs could be in."""
    sets = {*map(str, read(out, "runs")["dataset"]), OVER_SETS}
    return {folder / f"{name}-{dataset}.{kind}" for name in FIGURES for dataset in sets for kind in ("png", "pdf")}


def _draw(source: Source) -> Iterator[tuple[str, Figure]]:
    """The figures of each data set, and those over several, by the names of their files."""
    sets = list(dict.fromkeys([*source.cells["dataset"], *source.study_cells["dataset"]]))
    for dataset in [*sets, *([OVER_SETS] if source.cells["dataset"].nunique() > 1 else [])]:
        cells = done(of_dataset(source.cells, dataset))
        for name, draw in FIGURES.items():
            if figure := draw(source, cells, str(dataset)):
                yield f"{name}-{dataset}", figure
