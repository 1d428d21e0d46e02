"""Constants fitted to published figures: a non-negative linear least-squares problem, since time is linear in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import nnls

from bench.replay.model import Modelled, replay
from bench.replay.profile import Constant, Profile
from bench.replay.store import Work

Field = Literal["each_s", "per_s"]


@dataclass(frozen=True)
class Unknown:
    """A constant to be fitted: where it stands in the profile, and which of the two numbers it is."""

    place: tuple[str, ...]
    field: Field


def whole(found: Modelled) -> float:
    """All that a run takes."""
    return found.seconds


@dataclass(frozen=True)
class Target:
    """A published time on one device: of a run's whole work, or of a part of it."""

    work: Work
    system: str
    seconds: float
    part: Callable[[Modelled], float] = whole  # a sum of stages


def _modelled(target: Target, profile: Profile) -> float:
    return target.part(replay(target.work, profile, target.system))


def solve(base: Profile, unknowns: Sequence[Unknown], targets: Sequence[Target], source: str) -> Profile:
    """The profile with the unknowns that fit the targets best, by least squares of the relative errors.

    `base` holds the constants that are known. All systems' steps have to be sequences, as those of XDL and DLRM are:
    of a maximum, the time would not be linear. An unknown that comes out as 0 stands in the profile as that, so that
    no more general constant takes its place.
    """
    published = np.array([target.seconds for target in targets])
    nothing = Constant(how="fitted", source=source)
    start = {unknown.place: nothing for unknown in unknowns} | dict(base.constants)
    known = np.array([_modelled(target, replace(base, constants=start)) for target in targets])
    zeros = dict.fromkeys(start, nothing)
    units = [replace(base, constants=zeros | {u.place: _constant(u, 1.0, source)}) for u in unknowns]
    columns = np.array([[_modelled(target, unit) for unit in units] for target in targets])
    scale = np.maximum(columns.max(axis=0), 1e-300)  # amounts differ by many orders of magnitude
    found, _ = nnls(columns / scale / published[:, None], 1 - known / published)
    for unknown, value in zip(unknowns, (found / scale).tolist(), strict=True):
        if value:
            start[unknown.place] = _joined(start[unknown.place], _constant(unknown, value, source))
    return replace(base, constants=start)


def _constant(unknown: Unknown, cost: float, source: str) -> Constant:
    """A constant by which one unit costs so much, by number (each_s) or by size (per_s)."""
    if unknown.field == "each_s":
        return Constant(each_s=cost, how="fitted", source=source)
    return Constant(per_s=1 / cost, how="fitted", source=source)


def _joined(known: Constant, found: Constant) -> Constant:
    """Both numbers of one place."""
    by_size = 1 / known.per_s + 1 / found.per_s
    return replace(found, each_s=known.each_s + found.each_s, per_s=1 / by_size if by_size else math.inf)
