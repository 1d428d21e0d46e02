"""From recorded work and a profile to seconds. Pure arithmetic: sums over Seq, maxima over Par."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from baselines.work import BETWEEN, DEVICE, LINK, STEP, Stage, Steps, leaves, spent
from bench.replay.profile import FABRIC, PASSES, Profile
from bench.replay.store import Facts, Work

PER_CALL = ("tables", "net_trips")
NETWORK = ("dense_flops", PASSES)  # either is a price of the dense network


@dataclass
class Modelled:
    """Modelled seconds, by stage; those of a stage that nobody waits for are not among them."""

    by_stage: defaultdict[Stage, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def seconds(self) -> float:
        """In all."""
        return sum(self.by_stage.values())

    def of(self, resource: str) -> float:
        """Seconds that a resource is waited for."""
        return sum(seconds for stage, seconds in self.by_stage.items() if stage.resource == resource)

    def where(self, resource: str, *phases: str) -> float:
        """Seconds that a resource is waited for in some phases."""
        return sum(s for stage, s in self.by_stage.items() if stage.resource == resource and stage.phase in phases)


def _done(work: Work) -> set[Stage]:
    """The stages of which something was done."""
    return {
        stage
        for group in work.steps
        for stage, amount in zip(leaves(group.tree), group.amounts.sum(axis=0), strict=True)
        if amount
    }


def unpriced(work: Work, profile: Profile, system: str) -> set[str]:
    """The kinds of work, as `resource.kind`, that were done and cost nothing, since the profile has no constant."""
    return {
        f"{stage.resource}.{stage.kind}"
        for stage in _done(work)
        if profile.constant(stage.resource, stage.kind, system) is None
    }


def prices_network(work: Work, profile: Profile, system: str) -> bool:
    """Whether the dense network costs something wherever the work has any of it.

    A server whose profile is of its GPUs says nothing about a system that has its network on the CPU.
    """
    places = {stage.resource for stage in _done(work) if stage.kind in NETWORK}
    prices = ([profile.constant(place, kind, system) for kind in NETWORK] for place in places)
    return all(any(each and (each.each_s or each.per_s < math.inf) for each in constants) for constants in prices)


def replay(work: Work, profile: Profile, system: str, devices: int = 1) -> Modelled:
    """What the work costs on so many devices.

    Weak scaling, as in the papers: each device has the batch of one, so that a mini-batch of n devices is n of the
    recorded ones. It has their work on shared resources one after the other, that on the devices side by side, one
    framework's step, and an all-reduce of the dense gradients and of those of the hot rows. Between mini-batches
    every device gets its own copy of what goes up.
    """
    found = Modelled()
    for group in work.steps:
        unit = np.array([profile.unit_s(stage, work.facts, system) for stage in leaves(group.tree)])
        between = group.name == BETWEEN
        each = group.amounts * (unit * [_repeats(stage, between, profile, devices) for stage in leaves(group.tree)])
        share = 1 if between else devices
        for stage, seconds in zip(leaves(group.tree), (spent(group.tree, each).sum(axis=0) / share), strict=True):
            found.by_stage[stage] += float(seconds)
        if devices > 1 and not between:
            for stage, seconds in _all_reduce(group, work.facts, profile, system, devices):
                found.by_stage[stage] += seconds / devices
    return found


def _repeats(stage: Stage, between: bool, profile: Profile, devices: int) -> int:
    """How often a stage comes in a step of several devices, one after the other."""
    if between:
        return devices if stage.kind == "link_to_device_bytes" and LINK in profile.shared else 1
    if stage.kind == PASSES:  # one process may have to make those of all devices, one after the other
        return devices if PASSES in profile.shared else 1
    per_call = stage.kind in PER_CALL and stage.resource != LINK  # of a call for a larger mini-batch there is one too
    return devices if stage.resource in profile.shared and not per_call else 1


def _all_reduce(
    group: Steps, facts: Facts, profile: Profile, system: str, devices: int
) -> Iterator[tuple[Stage, float]]:
    """A ring's 2 (n - 1) / n of the bytes over each connection, in 2 (n - 1) trips (Patarasuk and Yuan, 2009).

    The dense gradients are as large as one device's; of the hot rows, each device has written others.
    """
    amounts = dict(zip(leaves(group.tree), group.amounts.sum(axis=0).tolist(), strict=True))
    of_device = {stage: amount for stage, amount in amounts.items() if stage.resource == DEVICE}
    weights = sum(amount for stage, amount in of_device.items() if stage.kind == "dense_weights")
    written = [stage for stage in of_device if stage.kind == "rows_written" and "update" in stage.phase]
    rows = sum(of_device[stage] for stage in written)
    if num_bytes := 4 * weights + devices * facts.row_bytes * rows:
        trips = 2 * (devices - 1) * steps_in(group)
        for kind, amount in (("bytes", 2 * (devices - 1) / devices * num_bytes), ("trips", trips)):
            stage = Stage(FABRIC, kind, "all_reduce")
            yield stage, amount * profile.unit_s(stage, facts, system)


def steps_in(group: Steps) -> float:
    """Mini-batches that a group of steps stands for; none between runs."""
    ours = [stage.resource == STEP for stage in leaves(group.tree)]
    return float(group.amounts.sum(axis=0)[ours].sum())
