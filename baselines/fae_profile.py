"""FAE's static pre-processing (Mahajan et al., PVLDB 15(1), sections 3 and 4): sample, log, search, classify.

Input Sampler: a share x of the inputs. Embedding Logger: accesses of each row in the sample. Statistical Optimizer: the
access threshold t whose hot rows fill the budget L, each size estimated from a few chunks of the log with a confidence
interval. Classifiers: a row is hot if its accesses reach the cutoff, an input if all its lookups are hot.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.stats import t as student_t

from baselines import hotset
from baselines.job import Job
from datasets.schema import Schema
from datasets.settings import Setting

FORMAT = 2  # of the stored profile
CHUNKS, CHUNK_ROWS = 35, 1024  # n and m: chunks sampled from a table's log, and entries in each
CONFIDENCE = 0.999
SMALL_TABLE = (1 << 20) / (512 << 20)  # of the budget L: smaller tables are always hot (1 MB at L = 512 MB)
WELL_USED = 0.9  # of the budget: a threshold that fills less is too coarse for this set
STEPS = 40  # of the threshold search

SETTINGS = (
    hotset.HOT_BYTES,
    Setting(key="fae.sample_rate", default=0.05, low=1e-6, high=1.0, help="share of the inputs that is profiled"),
    Setting(
        key="fae.min_sample",
        default=65536,
        low=1,
        help="inputs profiled at least: 5 % of a small set would miss most of its rows",
    ),
)


@dataclass(frozen=True)
class Profile:
    """What the pre-processing of a data set found."""

    rows: np.ndarray  # [h] int64, the hot rows
    inputs: np.ndarray  # [N] bool, the hot inputs
    rule: str  # how the rows were chosen, in words
    seconds: float  # that it took to make


def profile(job: Job) -> Profile:
    """The profile of the job's training inputs: read from disk if it was made before, else made and stored.

    What making it took counts as this run's preparation either way, so that it does not matter who ran first.
    """
    path = job.cache_dir / f"fae-{_key(job)}.npz"
    made = _read(path)
    if made is None:
        made = make_profile(job)
        try:
            _store(path, made)
        except OSError as error:
            job.notes.append(f"FAE profile not kept: {error.strerror}")
    else:
        job.notes.append("FAE profile reused")
    job.clock.prepare_s += made.seconds
    return made


def _read(path: Path) -> Profile | None:
    """The stored profile; None where there is none, or none that can be read, which is made again then."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return Profile(stored["rows"], stored["inputs"], str(stored["rule"]), float(stored["seconds"]))
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def make_profile(job: Job) -> Profile:
    """Sample, log, search, classify."""
    start = job.clock.now()
    train, schema = job.train, job.schema
    size = min(len(train), max(int(job.settings["fae.sample_rate"] * len(train)), job.settings["fae.min_sample"]))
    random = np.random.default_rng([job.seed, 0xFAE])
    sample = np.sort(random.choice(len(train), size, replace=False))
    counts = hotset.count_accesses(train, sample)
    budget = hotset.budget_rows(job, train, sample, counts)
    rows, rule = search_threshold(schema, counts, len(train), size / len(train), budget, random)
    marks = np.zeros(schema.num_rows, bool)
    marks[rows] = True
    inputs = hotset.hot_inputs(train, np.arange(len(train)), marks)
    return Profile(rows, inputs, rule, job.clock.now() - start)


def search_threshold(
    schema: Schema, counts: np.ndarray, num_inputs: int, rate: float, budget: int, random: np.random.Generator
) -> tuple[np.ndarray, str]:
    """The hot rows under the lowest threshold t that the budget [rows] has room for, and how they were found.

    Where that threshold cannot be resolved, because its cutoff is less than one access in the sample (H < 1) or because
    the next lower one would overfill the budget while this one leaves a good part of it empty, the most accessed rows
    are taken instead. FAE gives no step rule; this is a bisection of log t.
    """
    log = AccessLog(schema, counts, num_inputs, rate, budget, random)
    low, high = -12.0, 0.0  # log10 of t: at `high` nothing is hot but the small tables
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if log.estimate(10**middle) <= budget else (middle, high)
    threshold = 10**high
    rows = np.flatnonzero(log.hot(threshold))
    if log.cutoffs(threshold).min() < 1 or not WELL_USED * budget <= len(rows) <= budget + len(schema.tables):
        return hotset.hot_rows(counts, budget, schema.reserved_rows), f"top {budget} rows by count"
    return rows, f"threshold t = {100 * threshold:.2g} %"


class AccessLog:
    """The logged accesses, and the size of the hot set at a threshold: exact for small tables, else an estimate."""

    def __init__(
        self,
        schema: Schema,
        counts: np.ndarray,
        num_inputs: int,
        rate: float,
        budget: int,
        random: np.random.Generator,
    ) -> None:
        offsets = schema.table_offsets
        self._tables = [counts[first:last] for first, last in pairwise(offsets)]
        lookups = np.array([schema.steps * table.lookups for table in schema.tables])  # of an input
        self._accesses = lookups * num_inputs * rate  # T · x / 100
        self._always = [len(table) < SMALL_TABLE * budget for table in self._tables]
        self._reserved = schema.reserved_rows
        self._chunks = [_sample_chunks(table, random) for table in self._tables]

    def cutoffs(self, threshold: float) -> np.ndarray:
        """[T] H_zt = t · T · x / 100 (Eq. 1): accesses in the sample that make a row of table z hot."""
        return threshold * self._accesses

    def estimate(self, threshold: float) -> float:
        """Hot rows at a threshold: the upper end of the confidence interval."""
        cutoffs = self.cutoffs(threshold)
        return sum(
            len(table) if always else estimate_hot_rows(table, chunks, cutoff)
            for table, always, chunks, cutoff in zip(self._tables, self._always, self._chunks, cutoffs, strict=True)
        )

    def hot(self, threshold: float) -> np.ndarray:
        """[R] bool: the hot rows at a threshold; reserved rows are always among them."""
        cutoffs = np.maximum(self.cutoffs(threshold), 1)
        marks = np.concatenate(
            [
                np.full(len(table), True) if always else table >= cutoff
                for table, always, cutoff in zip(self._tables, self._always, cutoffs, strict=True)
            ]
        )
        marks[self._reserved] = True
        return marks


def estimate_hot_rows(table: np.ndarray, chunks: np.ndarray | None, cutoff: float) -> float:
    """Rows of a table with at least `cutoff` accesses: exact without chunks, else the interval's upper end (Eq. 2-4).

    C_i is the number of such rows in chunk i; the mean of the C_i has the half-width
    t_{alpha/2} · sqrt((N - n) / N · s² / n), with N chunks in the table, n sampled, and s their standard deviation.
    """
    if chunks is None:
        return float(np.count_nonzero(table >= cutoff))
    hot = np.count_nonzero(chunks >= cutoff, axis=1)
    num_chunks = len(table) / CHUNK_ROWS
    spread = np.sqrt((num_chunks - CHUNKS) / num_chunks * hot.var(ddof=1) / CHUNKS)
    upper = hot.mean() + student_t.ppf((1 + CONFIDENCE) / 2, CHUNKS - 1) * spread
    return float(upper * num_chunks)


def _sample_chunks(table: np.ndarray, random: np.random.Generator) -> np.ndarray | None:
    """[n, m] random chunks of a table's log; None for a table so small that counting all of it is no more work."""
    if len(table) < CHUNKS * CHUNK_ROWS:
        return None
    starts = random.choice(len(table) // CHUNK_ROWS, CHUNKS, replace=False) * CHUNK_ROWS
    return np.stack([table[start : start + CHUNK_ROWS] for start in starts])


def _key(job: Job) -> str:
    """What a profile depends on, beside the data set that the cache folder belongs to."""
    settings = {setting.key: job.settings[setting.key] for setting in SETTINGS}
    parts = [FORMAT, job.schema.to_dict(), len(job.train), job.seed, job.model.dim, job.dtype.itemsize, settings]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _store(path: Path, made: Profile) -> None:
    """Write beside the final name and rename, so that a profile is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        try:
            np.savez(file, rows=made.rows, inputs=made.inputs, rule=np.array(made.rule), seconds=made.seconds)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
