"""The recorded work of a run, `work.npz` in its folder: trees and facts as JSON text, amounts as arrays, no pickle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from baselines.work import Steps, from_plain, leaves, to_plain
from datasets.errors import UserError

if TYPE_CHECKING:
    from baselines.job import Job

FILE = "work.npz"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Sizes that a run's amounts refer to."""

    inputs: int  # training inputs
    batch_size: int
    epochs: int
    lookups: int  # of an input
    vectors: int  # pooled vectors of an input: tables times time steps
    towers: int  # how often an input goes through the dense network's tower: once, or once a time step
    rows: int  # of all tables
    hot_rows: int  # 0 where a system knows none
    row_bytes: int  # of a row's weights
    state_bytes: int  # of a row's optimizer state


@dataclass(frozen=True)
class Work:
    """What a run did."""

    facts: Facts
    steps: tuple[Steps, ...]


def facts_of(job: Job, hot_rows_share: float | None) -> Facts:
    """The sizes of a job, and of the hot set that its system ended with."""
    from baselines.optimizer import state_width  # which imports torch, and a replay needs none

    return Facts(
        inputs=len(job.train),
        batch_size=job.batch_size,
        epochs=job.epochs,
        lookups=job.schema.num_lookups,
        vectors=job.schema.num_vectors,
        towers=job.schema.steps if job.model.final else 1,
        rows=job.schema.num_rows,
        hot_rows=round((hot_rows_share or 0.0) * job.schema.num_rows),
        row_bytes=job.model.dim * job.dtype.itemsize,
        state_bytes=state_width(job.optimizer, job.model.dim) * job.dtype.itemsize,
    )


def save(path: Path, facts: Facts, steps: Sequence[Steps]) -> None:
    """Write the work of a run."""
    described = {
        "format": FORMAT,
        "facts": asdict(facts),
        "steps": [{"name": group.name, "tree": to_plain(group.tree)} for group in steps],
    }
    arrays = {f"amounts{number}": group.amounts for number, group in enumerate(steps)}
    np.savez_compressed(path, described=np.array(json.dumps(described)), allow_pickle=False, **arrays)


def _checked(work: Work) -> Work:
    """The work. ValueError where it is none that a run could have recorded."""
    facts = asdict(work.facts)
    for name, value in facts.items():
        least = 1 if name in ("inputs", "batch_size", "epochs") else 0
        if not (isinstance(value, int) and value >= least):
            raise ValueError(f"{name} is {value!r}")
    for group in work.steps:
        amounts = group.amounts
        if amounts.ndim != 2 or amounts.shape[1] != len(leaves(group.tree)) or amounts.dtype.kind not in "uif":
            raise ValueError(f"amounts of {group.name} of the wrong shape")
        if not (np.isfinite(amounts) & (amounts >= 0)).all():
            raise ValueError(f"amounts of {group.name} that are none")
    return work


def load(path: Path) -> Work:
    """The work of a run. UserError where the file is damaged or of another version."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            described = json.loads(str(stored["described"]))
            if described["format"] != FORMAT:
                raise ValueError(f"format {described['format']}")
            groups = tuple(
                Steps(str(group["name"]), from_plain(group["tree"]), stored[f"amounts{number}"])
                for number, group in enumerate(described["steps"])
            )
            return _checked(Work(Facts(**described["facts"]), groups))
    except Exception as error:  # a damaged archive makes its readers raise a dozen kinds
        raise UserError(f"{path} is not a record of a run's work ({error}); run it again with --force.") from None
