"""From the work of a scaled-down run to that of an epoch of the full data set.

The rule, by what an amount comes from:

- mini-batches, and what is decided input by input (`PER_INPUT` phases): in proportion to the training inputs;
- copies of the hot rows (`PER_HOT_ROW` phases): in proportion to the rows of the hot set;
- everything else between two runs of mini-batches (the scheduler's validation loss, the sample that a threshold is
  sought on): as it was, once as often;
- Hotline's learning phase: not at all.

Mini-batches keep their shares of hot inputs and of distinct rows; so the run's set has to have the full one's skew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from baselines.work import BETWEEN, Stage, Steps, leaves
from bench.replay.model import steps_in
from bench.replay.store import Work

LEARNING = "cold"  # the name of the steps in which Hotline learns
PER_INPUT = ("classify", "hot_inputs", "score", "learning", "order")
PER_HOT_ROW = ("synchronize", "snapshot", "learning")


@dataclass(frozen=True, kw_only=True)
class FullSize:
    """A data set as the papers trained on it."""

    inputs: int
    hot_rows: int


# Training inputs: the one-epoch bytes of FAE's Table 7 over those of an input (see results/published/README.md); for
# Taobao 42,700 steps of 256, TBSM's published curve. Hot rows: FAE's Fig. 1B, share of the rows of Table 2.
FULL = {
    "criteo-kaggle": FullSize(inputs=39_291_954, hot_rows=round(0.068 * 33_762_577)),
    "criteo-terabyte": FullSize(inputs=60_503_000, hot_rows=round(0.007 * 266_000_000)),
    "avazu": FullSize(inputs=32_320_000, hot_rows=round(0.17 * 9_300_000)),
    "taobao": FullSize(inputs=10_931_200, hot_rows=round(0.76 * 5_100_000)),
}


def full_epoch(work: Work, full: FullSize) -> Work:
    """The work of one epoch of the full set, all epochs of the run counting alike; amounts are float64."""
    work = steady(work)
    facts = work.facts
    per_input = full.inputs / facts.inputs / facts.epochs
    per_hot_row = full.hot_rows / facts.hot_rows / facts.epochs if facts.hot_rows else 0.0
    groups = []
    for group in work.steps:
        stages = leaves(group.tree)
        if group.name == BETWEEN:
            factors = [_factor(stage, per_input, per_hot_row, 1 / facts.epochs) for stage in stages]
        else:
            factors = [per_input] * len(stages)
        groups.append(Steps(group.name, group.tree, group.amounts * np.array(factors)))
    grown = replace(facts, inputs=full.inputs, epochs=1, hot_rows=full.hot_rows if facts.hot_rows else 0)
    return Work(grown, tuple(groups))


def _factor(stage: Stage, per_input: float, per_hot_row: float, per_epoch: float) -> float:
    """How much of a stage between two runs the full set has."""
    of_rows = stage.kind.startswith(("rows_", "link_to_"))
    if stage.phase in PER_HOT_ROW and (of_rows or stage.phase == "snapshot"):
        return per_hot_row
    return per_input if stage.phase in PER_INPUT else per_epoch


def steady(work: Work) -> Work:
    """Hotline's work without its learning phase, with as many mini-batches: of the papers' ten epochs it is one's part.

    A scaled-down run has to learn from a larger share of its inputs than the full set to know the popular rows as well.
    """
    if not any(stage.phase == "learning" for group in work.steps for stage in leaves(group.tree)):
        return work
    learning = [group for group in work.steps if group.name == LEARNING]
    num_learning, num_all = sum(map(steps_in, learning)), sum(map(steps_in, work.steps))
    if num_learning in (0, num_all):
        return work
    mini_batches = math.ceil(work.facts.inputs / work.facts.batch_size) * work.facts.epochs  # with those skipped later
    factor = mini_batches / (mini_batches - num_learning)
    kept = [
        group if group.name == BETWEEN else replace(group, amounts=group.amounts * factor)
        for group in work.steps
        if group.name != LEARNING
    ]
    return replace(work, steps=tuple(without_phase(group, "learning") for group in kept))


def without_phase(group: Steps, phase: str) -> Steps:
    """The steps, with nothing done in a phase."""
    own = [stage.phase != phase for stage in leaves(group.tree)]
    return replace(group, amounts=group.amounts * own)
