"""What one mini-batch counts, by the rule: a tensor that crosses the link counts once, with all its bytes; a row counts
as read once a lookup, or once where each row is read once; a copied row counts as read and as written.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from baselines.clock import COUNTERS
from baselines.fae import FaePlacement
from baselines.hotline import HotlinePlacement
from baselines.job import Job
from baselines.placement import Placement
from datasets.loader import Batch, read
from tests.small import build, make_job

SIZE, FEATURES, TABLES, LOOKUPS, WIDTH = 32, 3, 4, 8, 8  # B, F, T, C, D
FLOAT, PLACE, MARK = 4, 8, 1  # bytes of a float32, of an index, of a bool or a uint8
VECTORS = SIZE * TABLES * WIDTH * FLOAT  # a mini-batch's pooled vectors, or their gradients
STATE = {"sgd": 0, "rowwise-adagrad": 1, "adagrad": WIDTH}  # numbers a row
FORWARD = 2 * (3 * 12 + 12 * 8 + (8 + 10) * 10 + 10 * 1) + 2 * 5 * 5 * 8  # flops of an input: layers, dot products
TRAINING = 3 * FORWARD - 2 * 3 * 12  # the dense features need no gradient
NUM_WEIGHTS = (3 + 1) * 12 + (12 + 1) * 8 + (18 + 1) * 10 + (10 + 1)

weighted = pytest.mark.parametrize("weights", [False, True], ids=["", "weighted"])
optimizers = pytest.mark.parametrize("optimizer", STATE)


def make(name: str, optimizer: str = "sgd", steps: int = 1, **settings: int) -> tuple[Job, Placement]:
    keys = {key.replace("__", "."): value for key, value in settings.items()}
    job = make_job(name, optimizer=optimizer, lookups=(1, 4, 1, 2), steps=steps, settings=keys)
    return job, build(name, job).placement


def make_batch(job: Job, weights: bool = False, first: int = 0) -> Batch:
    factors = np.linspace(0.5, 1.5, SIZE, dtype=np.float32) if weights else None
    return read(job.train, np.arange(first, first + SIZE), factors)


def inputs(weights: bool = False) -> int:
    """Bytes of dense features, labels and, where there are any, weights."""
    return SIZE * (FEATURES + 1 + weights) * FLOAT


def distinct(ids: torch.Tensor) -> int:
    return len(torch.unique(ids))


def counts(job: Job) -> dict[str, int]:
    """What is counted now, and what is not 0 of it."""
    return {name: job.clock.totals[name] for name in COUNTERS if job.clock.totals[name]}


def after_training(job: Job, placement: Placement, batch: Batch) -> dict[str, int]:
    with job.clock.run():
        placement.train(batch)
    placement.close()
    return counts(job)


def expect(**amounts: int) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def expect_of_dlrm(batch: Batch, weights: bool) -> dict[str, int]:
    """Vectors up, their gradients down."""
    return expect(
        link_to_device_bytes=inputs(weights) + VECTORS,
        link_to_host_bytes=VECTORS,
        rows_read=SIZE * LOOKUPS,
        rows_written=distinct(batch.ids),
        dense_flops=SIZE * TRAINING,
    )


@weighted
@optimizers
def test_dlrm(optimizer: str, weights: bool) -> None:
    job, placement = make("dlrm", optimizer)
    batch = make_batch(job, weights)
    assert after_training(job, placement, batch) == expect_of_dlrm(batch, weights)


def test_a_forward_pass_alone() -> None:
    job, placement = make("dlrm")
    with job.clock.run():
        placement.logits(make_batch(job))
    assert counts(job) == expect(
        link_to_device_bytes=SIZE * FEATURES * FLOAT + VECTORS,
        rows_read=SIZE * LOOKUPS,
        dense_flops=SIZE * FORWARD,
    )


@weighted
def test_faes_cold_mini_batch_is_that_of_dlrm(weights: bool) -> None:
    job, placement = make("fae")
    batch = make_batch(job, weights)
    assert after_training(job, placement, batch) == expect_of_dlrm(batch, weights)


@weighted
@optimizers
def test_faes_hot_mini_batch_sends_places_up_and_nothing_down(optimizer: str, weights: bool) -> None:
    job, placement = make("fae", optimizer)
    assert isinstance(placement, FaePlacement)
    batch = make_batch(job, weights)
    placement.place(torch.unique(batch.ids).numpy())
    placement.to_hot()
    assert after_training(job, placement, batch) == expect(
        link_to_device_bytes=inputs(weights) + SIZE * LOOKUPS * PLACE,
        rows_read=SIZE * LOOKUPS,
        rows_written=distinct(batch.ids),
        dense_flops=SIZE * TRAINING,
    )


@optimizers
def test_faes_swaps_copy_rows_and_state_both_ways_and_marks_up(optimizer: str) -> None:
    job, placement = make("fae", optimizer)
    assert isinstance(placement, FaePlacement)
    placement.place(np.arange(50))
    row = (WIDTH + STATE[optimizer]) * FLOAT
    with job.clock.run():
        placement.to_hot()
    up = expect(link_to_device_bytes=50 * (row + MARK), rows_read=50, rows_written=50)
    assert counts(job) == up
    with job.clock.run():
        placement.to_cold()
    assert counts(job) == up | expect(link_to_host_bytes=50 * row, rows_read=100, rows_written=100)


@weighted
@optimizers
@pytest.mark.parametrize("num_popular", [0, SIZE // 2, SIZE])
def test_hotline(num_popular: int, optimizer: str, weights: bool) -> None:
    job, placement = make("hotline", optimizer)
    assert isinstance(placement, HotlinePlacement)
    batch = make_batch(job, weights)
    rows = torch.unique(batch.ids[:num_popular])
    placement.move_hot(rows.numpy())
    hot = torch.isin(batch.ids, rows)
    assert num_popular <= int(hot.all(dim=1).sum()) < num_popular + SIZE // 4
    cold = batch.ids[~hot]
    row = (WIDTH + STATE[optimizer]) * FLOAT
    places = SIZE * LOOKUPS * PLACE  # each lookup's, in the hot table or in the staging table
    staged = distinct(cold) * (row + MARK)
    assert after_training(job, placement, batch) == expect(
        link_to_device_bytes=inputs(weights) + places + staged,
        link_to_host_bytes=distinct(cold) * row,
        rows_read=SIZE * LOOKUPS + 2 * distinct(cold),  # and copied: from the host, from the staging table
        rows_written=distinct(batch.ids) + 2 * distinct(cold),  # and copied: to the staging table, to the host
        dense_flops=SIZE * TRAINING,
    )


def test_xdl_moves_each_row_once_and_all_dense_weights() -> None:
    servers = 2
    job, placement = make("xdl", "adagrad", xdl__servers=servers)
    assert sum(parameter.numel() for parameter in placement.dense.network.parameters()) == NUM_WEIGHTS
    batch = make_batch(job)
    rows = distinct(batch.ids)
    ids, values = rows * PLACE, (rows * WIDTH + NUM_WEIGHTS) * FLOAT  # to pull, and again to push
    headers, replies = 2 * 3 * 8, 2 * 8  # of each server: of both requests, and how a push went
    assert after_training(job, placement, batch) == expect(
        net_bytes=2 * (ids + values) + servers * (headers + replies),
        link_to_device_bytes=inputs() + VECTORS + NUM_WEIGHTS * FLOAT,
        link_to_host_bytes=VECTORS + NUM_WEIGHTS * FLOAT,
        rows_read=rows,
        rows_written=rows,
        dense_flops=SIZE * TRAINING,
    )


def test_torchrec_sends_ids_up_and_nothing_down() -> None:
    job, placement = make("torchrec")
    placement.train(make_batch(job))  # the lengths of lookups go up with the first mini-batch of a size
    batch = make_batch(job, first=SIZE)
    assert after_training(job, placement, batch) == expect(
        link_to_device_bytes=inputs() + SIZE * LOOKUPS * 4,
        rows_read=SIZE * LOOKUPS,
        rows_written=distinct(batch.ids),
        dense_flops=SIZE * TRAINING,
    )


STEPS = 3


@pytest.mark.parametrize("name", ["dlrm", "torchrec"])
def test_in_a_time_series_all_steps_are_read_and_their_rows_written_once(name: str) -> None:
    job, placement = make(name, steps=STEPS)
    placement.train(make_batch(job))
    batch = make_batch(job, first=SIZE)
    assert (batch.ids[:, 0] == batch.ids[:, STEPS - 1]).all()  # the user, who is looked up in every step
    up = SIZE * STEPS * LOOKUPS * 4 if name == "torchrec" else STEPS * VECTORS
    assert after_training(job, placement, batch) == expect(
        link_to_device_bytes=SIZE * (STEPS * FEATURES + 1) * FLOAT + up,
        link_to_host_bytes=0 if name == "torchrec" else STEPS * VECTORS,
        rows_read=SIZE * STEPS * LOOKUPS,
        rows_written=distinct(batch.ids),
        dense_flops=SIZE * placement.dense.network.training_flops,
    )
