"""What each step of a run did: small trees of stages with counted amounts, and their arithmetic.

A tree is a `Stage` (an amount of one kind of work on one resource), a `Seq` of trees, one after the other, or a `Par`
of trees, side by side. Steps whose trees look alike are kept together as `Steps`: one tree, and an array of amounts
[steps, leaves]. Amounts depend on the inputs alone, never on time, so that what a run did can be replayed on other
hardware: the seconds of a `Seq` are the sum, and those of a `Par` the maximum, of the seconds of its parts.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

HOST, DEVICE, LINK, NET, STEP = "host", "device", "link", "net", "step"
RESOURCES = (HOST, DEVICE, LINK, NET, STEP)
# Kinds of work beside the counters of runs.csv (baselines.clock.COUNTERS), which are kinds too.
KINDS = (
    "tables",  # operations on one table at one time step: what a framework with an operator a table calls
    "lookups_updated",  # gradients that are summed by row
    "lookups_unique",  # lookups whose distinct rows are found
    "lookups_scanned",  # lookups that are counted or classified
    "lookups_split",  # lookups of a mini-batch whose inputs are parted by kind
    "lookups_placed",  # lookups whose place in the hot table is looked up
    "lookups_spread",  # vectors that are copied from distinct rows to the lookups that want them
    "passes",  # of inputs through the dense network, forward and, in training, backward
    "dense_weights",  # dense weights that the optimizer updates
    "link_copies",  # tensors that cross the link
    "net_trips",  # requests to the servers, each with its reply
)
BETWEEN = "between"  # the name of what is done between two runs of mini-batches


class Stage(NamedTuple):
    """Work of one kind (a counter or one of `KINDS`) on one resource, in one phase of the clock."""

    resource: str
    kind: str
    phase: str


@dataclass(frozen=True)
class Seq:
    """One part after the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Par:
    """All parts side by side."""

    parts: tuple[Tree, ...]


Tree = Stage | Seq | Par


@dataclass(frozen=True)
class Steps:
    """Steps of one name whose trees look alike."""

    name: str  # the kind of the run that a mini-batch belongs to, or BETWEEN
    tree: Tree
    amounts: np.ndarray  # [steps, leaves] int64, or float64 where they were scaled; leaves in the order of `leaves`


def leaves(tree: Tree) -> list[Stage]:
    """The stages of a tree, from the left."""
    return [tree] if isinstance(tree, Stage) else [stage for part in tree.parts for stage in leaves(part)]


def spent(tree: Tree, each: np.ndarray) -> np.ndarray:
    """[steps, leaves]: the seconds of each stage [steps, leaves] where the step waits for them, and 0 elsewhere.

    Their sum over a step is the step's time. Of a `Par` only the slowest part is waited for, the first of equal ones.
    """
    if isinstance(tree, Stage):
        return each
    sizes = [len(leaves(part)) for part in tree.parts]
    columns = np.split(each, np.cumsum(sizes)[:-1], axis=1) if sizes else []
    found = [spent(part, own) for part, own in zip(tree.parts, columns, strict=True)]
    if isinstance(tree, Par) and found:
        slowest = np.argmax([part.sum(axis=1) for part in found], axis=0)
        found = [np.where((slowest == place)[:, None], part, 0) for place, part in enumerate(found)]
    return np.concatenate(found, axis=1) if found else np.empty((len(each), 0))


def seconds(tree: Tree, each: np.ndarray) -> np.ndarray:
    """[steps]: the time of steps whose stages take `each` [steps, leaves] seconds: sums over Seq, maxima over Par."""
    found: np.ndarray = spent(tree, each).sum(axis=1)
    return found


def totals(steps: Sequence[Steps]) -> Counter[tuple[str, str]]:
    """The summed amounts of all steps by resource and kind."""
    found: Counter[tuple[str, str]] = Counter()
    for group in steps:
        for stage, amount in zip(leaves(group.tree), group.amounts.sum(axis=0).tolist(), strict=True):
            found[stage.resource, stage.kind] += amount
    return found


def to_plain(tree: Tree) -> Any:
    """A tree as lists and strings, for JSON."""
    if isinstance(tree, Stage):
        return list(tree)
    return {"seq" if isinstance(tree, Seq) else "par": [to_plain(part) for part in tree.parts]}


def from_plain(plain: Any) -> Tree:
    """The tree that `to_plain` was given. ValueError for anything else."""
    match plain:
        case [str(resource), str(kind), str(phase)]:
            return Stage(resource, kind, phase)
        case {"seq": [*parts]}:
            return Seq(tuple(from_plain(part) for part in parts))
        case {"par": [*parts]}:
            return Par(tuple(from_plain(part) for part in parts))
    raise ValueError(f"not a tree of stages: {plain!r}")


Key = tuple[str, str, str]  # resource, kind and phase, of which a Stage is made once the run is over
Part = dict[Key, int]
Shape = tuple[tuple[Key, ...], ...]  # the stages before the fork, beside the side lane, in it, and after the join


class WorkRecorder:
    """Collects the stages of the step under way, and keeps finished steps.

    From `fork` to `join` the main lane runs beside the side lane. What is forked in one step may be joined in the next:
    then it runs beside all of the first one's rest, and what the side lane does in either step belongs to that step.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Shape], array[int]] = {}
        self._begin()

    def _begin(self) -> None:
        self._parts: tuple[Part, Part, Part, Part] = ({}, {}, {}, {})  # as in a `Shape`
        self._main = self._parts[0]  # where the main lane's amounts go

    def add(self, stage: Key, amount: int, side: bool = False) -> None:
        """Add to a stage of the main lane, or of the side lane."""
        part = self._parts[2] if side else self._main
        part[stage] = part.get(stage, 0) + amount

    def fork(self) -> None:
        """From here on the main lane runs beside the side lane."""
        self._main = self._parts[1]

    def join(self) -> None:
        """The side lane has been waited for."""
        self._main = self._parts[3]

    def close(self, name: str) -> None:
        """The step is done; one that did nothing is not kept."""
        amounts = [amount for part in self._parts for amount in part.values()]
        if amounts:
            shape = tuple(tuple(part) for part in self._parts)
            self._kept.setdefault((name, shape), array("q")).extend(amounts)
        self._begin()

    def steps(self) -> Iterator[Steps]:
        """The finished steps, by name and tree."""
        for (name, shape), amounts in self._kept.items():
            before, beside, side, after = (Seq(tuple(Stage(*key) for key in part)) for part in shape)
            tree = Seq((before, Par((beside, side)), after)) if beside.parts or side.parts else before
            yield Steps(name, tree, np.array(amounts, np.int64).reshape(-1, sum(map(len, shape))))
