"""The replay of a results folder's finished runs: a row for each run and number of devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from baselines.work import RESOURCES
from bench.published import published_name
from bench.replay import store
from bench.replay.extrapolate import FULL, full_epoch
from bench.replay.model import prices_network, replay, unpriced
from bench.replay.profile import FABRIC, Profile
from bench.results import RUNS, read_rows, read_text, write_whole
from bench.table import Table, number
from datasets.errors import UserError

FILE = "replay.csv"
SPLIT = (*RESOURCES, FABRIC)
Row = Mapping[str, str]  # of runs.csv
AT_NO_COST = "at_no_cost"  # column: kinds of work that the profile has no constant for
COPIED = ("run_id", "system", "settings", "dataset", "model", "batch_size", "seed")


def finished_runs(out: Path) -> list[dict[str, str]]:
    """The rows of a folder's runs that are done, the last of each configuration. UserError where there are none."""
    rows = {row["config_hash"]: row for row in read_rows(out / "runs.csv", RUNS) if row["status"] == "done"}
    if not rows:
        raise UserError(f"there is nothing to replay in {out}: no run in it is done.")
    return list(rows.values())


def work_of(out: Path, run_id: str) -> store.Work | None:
    """What a run recorded; None for one of a version that recorded nothing."""
    path = out / "runs" / run_id / store.FILE
    return store.load(path) if path.exists() else None


def recorded_runs(out: Path) -> Iterator[tuple[dict[str, str], store.Work]]:
    """The finished runs that recorded their work. UserError where none did."""
    found = False
    for row in finished_runs(out):
        work = work_of(out, row["run_id"])
        if work is not None:
            found = True
            yield row, work
    if not found:
        raise UserError(f"no run in {out} has recorded its work ({store.FILE}); run them again with --force.")


def replay_folder(
    out: Path, profile_of: Callable[[Row], Profile | None], devices: Sequence[int] = ()
) -> tuple[pd.DataFrame, set[str], set[str]]:
    """Replay every finished run on its profile; in DIR/replay.csv the rows take the place of those of the profile.

    A run that has none is left out, and one whose dense network has no price there. Returns the rows, the kinds of work
    that cost nothing since the profile has no constant for them, and the systems left out for their network.
    """
    rows, free, without = [], set(), set()
    for row, work in recorded_runs(out):
        if (profile := profile_of(row)) is None:
            continue
        if not prices_network(work, profile, row["system"]):
            without.add(row["system"])
            continue
        free |= (own := unpriced(work, profile, row["system"]))
        at_no_cost = {AT_NO_COST: " ".join(sorted(own))}
        rows += [_row(row, work, profile, number) | at_no_cost for number in devices or profile.devices]
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame, free, without
    names = {row["hardware"] for row in rows}
    kept = read_text(out / FILE).to_dict("records") if (out / FILE).exists() else []
    before = [row for row in kept if row.get("hardware") not in names and list(row) == list(rows[0])]
    every = pd.DataFrame([*before, *rows])
    write_whole(out / FILE, lambda path: every.to_csv(path, index=False))
    return frame, free, without


def _row(row: Row, work: store.Work, profile: Profile, devices: int) -> dict[str, Any]:
    found = replay(work, profile, row["system"], devices)
    if not 0 < found.seconds < math.inf:
        raise UserError(
            f"the profile {profile.name} makes {found.seconds:g} s of {row['system']} on {row['dataset']}; it has to "
            "have constants for what a step costs, and for the work that is done in it."
        )
    full = FULL.get(published_name(row["dataset"]))
    epoch = replay(full_epoch(work, full), profile, row["system"], devices).seconds if full else None
    return {
        **{key: row[key] for key in COPIED},
        "hardware": profile.name,
        "devices": devices,
        **{f"modelled_{resource}_s": found.of(resource) for resource in SPLIT},
        "modelled_s": found.seconds,
        "modelled_full_epoch_s": epoch,
        "measured_train_s": float(row["train_s"]),
        "measured_on": row["machine"],
    }


def table(frame: pd.DataFrame, title: str) -> Table:
    """The replayed runs, for people."""
    header = ("system", "settings", "dataset", "seed", "devices", *(f"{name} s" for name in SPLIT))
    header += ("modelled s", "full epoch s", "measured here s")
    rows = [
        (
            *(str(row[key]) for key in ("system", "settings", "dataset", "seed", "devices")),
            *(number(row[f"modelled_{name}_s"], ",.3f") for name in SPLIT),
            number(row["modelled_s"], ",.3f"),
            number(row["modelled_full_epoch_s"], ",.1f"),
            number(row["measured_train_s"], ",.3f"),
        )
        for _, row in frame.iterrows()
    ]
    return Table(f"modelled on {title}", header, rows, ("settings", "dataset"))


def said(frame: pd.DataFrame) -> list[str]:
    """What replay.csv, all text, says that each hardware has no cost of, in sentences."""
    if not {"hardware", AT_NO_COST} <= set(frame):
        return []
    kinds = frame.groupby("hardware", sort=False)[AT_NO_COST].agg(lambda texts: sorted({*" ".join(texts).split()}))
    return [
        f"Modelled on {hardware} without a cost of {', '.join(found)}." for hardware, found in kinds.items() if found
    ]
