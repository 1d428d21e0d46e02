"""Made-up raw files of Criteo's two sets and of Avazu's, and what a slow reading of them has to give."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets.avazu import HEX, LAYOUT
from datasets.avazu import SPARSE as AVAZU_SPARSE
from datasets.store import PreparedSet

NO_KEY = 1 << 32  # of a missing id: after all others


@dataclass(frozen=True)
class Line:
    """One labelled input; None where the field is empty."""

    label: int
    dense: Sequence[int | None]
    ids: Sequence[int | None]
    name: int = 0  # Avazu's id


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]  # labels [n], dense [n, F], ids [n, C]


def criteo_lines(count: int, seed: int = 0) -> list[Line]:
    """Lines with few distinct ids, so that they recur."""
    random = np.random.default_rng(seed)

    def some(values: np.ndarray) -> list[int | None]:
        missing = random.random(len(values)) < 0.1
        return [None if gone else value for value, gone in zip(values.tolist(), missing.tolist(), strict=True)]

    lines = []
    for _ in range(count):
        keys = np.minimum(random.geometric(0.2, 26), 31) * 2**27
        lines.append(Line(int(random.integers(4) == 0), some(random.integers(-2, 99, 13)), some(keys)))
    return lines


def criteo_text(lines: Sequence[Line], end: str = "\n") -> str:
    """As in train.txt and the days."""
    rows = ([str(line.label), *map(_decimal, line.dense), *map(_hex, line.ids)] for line in lines)
    return "".join("\t".join(row) + end for row in rows)


def avazu_lines(count: int, seed: int = 0) -> list[Line]:
    """Lines in the order of time; `dense` is the hour in the file, YYMMDDHH."""
    random = np.random.default_rng(seed)
    lines = []
    for number in range(count):
        hour = 14102100 + 100 * (10 * number // count) + int(random.integers(24))
        ids = [int(value) for value in random.geometric(0.3, 21)]
        ids[AVAZU_SPARSE.index("C20")] = -1 if random.random() < 0.4 else 100_000 + int(random.integers(9))
        lines.append(Line(int(random.integers(6) == 0), [hour], ids, name=int(random.integers(2**63))))
    return lines


def avazu_text(lines: Sequence[Line], end: str = "\n") -> str:
    """As in train.csv, with the header."""
    rows = [LAYOUT.heading]
    for line in lines:
        ids = (_hex(key) if name in HEX else _decimal(key) for name, key in zip(AVAZU_SPARSE, line.ids, strict=True))
        rows.append(",".join([str(line.name), str(line.label), *map(_decimal, line.dense), *ids]))
    return "".join(row + end for row in rows)


def _decimal(value: int | None) -> str:
    return "" if value is None else str(value)


def _hex(value: int | None) -> str:
    return "" if value is None else f"{value:08x}"


def expected(lines: Sequence[Line], counted: Sequence[Line], min_count: int = 1, hash_size: int = 0) -> Arrays:
    """What the lines give, one by one, with ids ranked among those of the lines that are counted."""

    def key(value: int | None) -> int:
        if value is None:
            return hash_size or NO_KEY
        unsigned = value if value >= 0 else 2**32 - 1  # -1 is Avazu's unknown
        return unsigned % hash_size if hash_size else unsigned

    columns = []
    for column in range(len(lines[0].ids)):
        keys = [key(line.ids[column]) for line in counted]
        order = [None, *(known for known in sorted(set(keys)) if keys.count(known) >= min_count)]
        found = [key(line.ids[column]) for line in lines]
        columns.append([order.index(one) if one in order else 0 for one in found])
    dense = [[math.log1p(max(value or 0, 0)) for value in line.dense] for line in lines]
    return np.array([line.label for line in lines]), np.array(dense, np.float32), np.array(columns).T


def of_split(prepared: PreparedSet, split: str) -> Arrays:
    """The arrays of a split."""
    found = getattr(prepared, split)
    return found.labels, found.dense, found.ids


CRITEO_ORDER = ("train", "test", "validation")


def of_all(prepared: PreparedSet, order: tuple[str, ...] = ("train", "validation", "test")) -> Arrays:
    """The arrays of the three splits, one after the other."""
    parts = [of_split(prepared, split) for split in order]
    labels, dense, ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return labels, dense, ids


def assert_same(found: Arrays, wanted: Arrays) -> None:
    """The same labels, dense values and ids."""
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def checksums(prepared: PreparedSet) -> dict[str, str]:
    """File → SHA-256 of the set's arrays."""
    return {name: facts["sha256"] for name, facts in prepared.meta["files"].items()}


def save(path: Path, text: str | bytes, zipped: bool = False) -> Path:
    """Write a raw file, compressed or not."""
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path
