"""What `slipbench replay` does: calibrate, fit, or replay a folder's runs on a profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from bench.replay import profile
from bench.replay.profile import THIS_MACHINE
from bench.replay.report import FILE, replay_folder, table
from datasets.errors import UserError

Say = Callable[[str], None]


def replay(out: Path, hardware: str | None, devices: Sequence[int], calibrate: bool, fit: bool, say: Say) -> list[str]:
    """The lines that the command prints. UserError for options that do not go together."""
    if calibrate + fit + (hardware is not None) != 1:
        raise UserError(
            "give one of --hardware (`slipbench list hardware` shows what there is), --calibrate, which measures this "
            "machine, and --fit, which fits the papers' servers."
        )
    if fit:
        if devices:
            raise UserError("--fit judges the papers' servers at 1, 2 and 4 GPUs; leave --devices out.")
        from bench.replay.judge import fit_folder

        return fit_folder(out, say)
    if calibrate or hardware == THIS_MACHINE:
        from bench.replay.calibrate import Shape, calibrate_folder, profile_at

        if calibrate:
            calibrate_folder(out, say)
        lacking = set()

        def measured(row: Mapping[str, str]) -> profile.Profile | None:
            if (found := profile_at(out, row)) is None:
                lacking.add(str(Shape.of(row)))
            return found

        frame, free, without = replay_folder(out, measured, devices)
        shapes = ", ".join(sorted(lacking))
        said = f"this machine has not been measured at {shapes}; `slipbench replay --calibrate` does that"
        if frame.empty:
            raise UserError(f"{said}.") if lacking else _without_network(THIS_MACHINE, without)
        return [*_lines(out, frame, free, without, "this machine"), *([f"{said}: left out"] if lacking else [])]
    found = profile.load(str(hardware))
    frame, free, without = replay_folder(out, lambda row: found, devices)
    if frame.empty:
        raise _without_network(found.name, without)
    return _lines(out, frame, free, without, f"{found.name}: {found.summary}")


def _without_network(name: str, systems: set[str]) -> UserError:
    return UserError(
        f"the profile {name} has no cost of the dense network of {', '.join(sorted(systems))}: give it dense_flops or "
        "passes on the device or host where they have it."
    )


def _lines(out: Path, frame: pd.DataFrame, free: set[str], without: set[str], title: str) -> list[str]:
    lines = [table(frame, title).text(), f"its rows are in {out / FILE}"]
    if without:
        lines.append(f"left out, since the profile has no cost of their dense network: {', '.join(sorted(without))}")
    if free:
        lines.append(f"without a constant in the profile, and so at no cost: {', '.join(sorted(free))}")
    return lines
