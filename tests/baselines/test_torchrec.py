"""TorchRec beside the shared parts: what it refuses, and that nobody else needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from datasets.errors import UserError
from datasets.loader import Batch
from tests.small import build, epoch_batches, make_job, train_epochs

ROOT = Path(__file__).parents[2]
TRY = """
from datasets.errors import UserError
from tests.small import build, make_job, train_epochs
job = make_job("dlrm")
train_epochs(job, build("dlrm", job), 1)
try:
    build("torchrec", make_job("torchrec"))
except UserError as error:
    print(error)
"""


def test_refuses_float64() -> None:
    with pytest.raises(UserError, match="float32 rows only; --precision fp64"):
        build("torchrec", make_job("torchrec", precision="fp64"))


def test_refuses_a_width_that_fbgemm_cannot_do() -> None:
    with pytest.raises(UserError, match=r"multiple of 4; the model's is 6"):
        build("torchrec", make_job("torchrec", dim=6))


def test_broken_fbgemm_is_one_sentence_and_stops_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "fbgemm_gpu").mkdir()
    (tmp_path / "fbgemm_gpu" / "__init__.py").write_text("raise OSError('undefined symbol: x')")
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    found = subprocess.run(
        [sys.executable, "-c", TRY], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    (sentence,) = found.stdout.splitlines()
    assert sentence.startswith("system torchrec needs torchrec 1.8.0 and fbgemm-gpu-cpu 1.8.0")
    assert f"torch {torch.__version__}" in sentence


@pytest.mark.parametrize("optimizer", ["sgd", "rowwise-adagrad", "adagrad"])
def test_reserved_rows_stay_zero_even_when_looked_up(optimizer: str) -> None:
    job = make_job("torchrec", optimizer=optimizer)
    placement = build("torchrec", job).placement
    batch = next(epoch_batches(job, build("torchrec", job), 0))
    ids = batch.ids.clone()
    ids[:5] = torch.from_numpy(job.schema.reserved_rows)
    with job.clock.run():
        placement.train(Batch(batch.dense, ids, batch.labels))
    assert not placement.rows()[torch.from_numpy(job.schema.reserved_rows)].any()
    assert job.clock.totals["row_updates_skipped"] == 0
    assert job.clock.totals["rows_written"] == len(torch.unique(ids)) - len(job.schema.tables)


def test_counts_what_dlrm_counts() -> None:
    counted = []
    for name in ("dlrm", "torchrec"):
        job = make_job(name)
        train_epochs(job, build(name, job), 1)
        counted.append([job.clock.totals[key] for key in ("rows_read", "rows_written", "dense_flops")])
    assert counted[0] == counted[1]
