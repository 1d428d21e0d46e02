"""Hand-made work and hardware."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from baselines.work import BETWEEN, DEVICE, HOST, LINK, STEP, Par, Seq, Stage, Steps
from bench.replay.profile import Constant, Profile
from bench.replay.store import Facts, Work

FACTS = Facts(
    inputs=100,
    batch_size=10,
    epochs=1,
    lookups=4,
    vectors=4,
    towers=1,
    rows=50,
    hot_rows=20,
    row_bytes=64,
    state_bytes=4,
)
READ = Stage(HOST, "rows_read", "embedding_forward")
UP = Stage(LINK, "link_to_device_bytes", "embedding_forward")
DENSE = Stage(DEVICE, "dense_flops", "dense_forward")
WEIGHTS = Stage(DEVICE, "dense_weights", "dense_update")
STEP_ = Stage(STEP, "plain", "step")
SYNC_UP = Stage(LINK, "link_to_device_bytes", "synchronize")
SYNC_READ = Stage(HOST, "rows_read", "synchronize")
CLASSIFY = Stage(HOST, "lookups_scanned", "classify")
VALIDATE = Stage(DEVICE, "dense_flops", "validation")


def plain_steps(*amounts: list[int]) -> Steps:
    """Steps of a gather, a copy, the dense network and its optimizer."""
    return Steps("plain", Seq((READ, UP, DENSE, WEIGHTS, STEP_)), np.array(amounts))


def work(*steps: Steps, **facts: int) -> Work:
    """Work of these steps."""
    return Work(replace(FACTS, **facts), steps)


def side_by_side(*amounts: list[int]) -> Steps:
    """Steps that gather beside the dense network."""
    return Steps("mixed", Par((Seq((READ, UP)), Seq((DENSE,)))), np.array(amounts))


def between(*amounts: list[int]) -> Steps:
    """What is done between two runs of mini-batches."""
    return Steps(BETWEEN, Seq((SYNC_READ, SYNC_UP, CLASSIFY, VALIDATE)), np.array(amounts))


def constant(each_s: float = 0.0, **more: float) -> Constant:
    """A constant of a test."""
    return Constant(each_s=each_s, how="assumed", source="a test", **more)


def profile(**constants: Constant) -> Profile:
    """Hardware with these constants, by `resource__kind` or `resource__kind__system`."""
    return Profile(name="hand-made", summary="", constants={tuple(k.split("__")): v for k, v in constants.items()})
