"""Generated inputs as the raw text files of the real sets, so that what reads those can be tried at any size.

The lines are the inputs of the generated set: the same integers before their logarithm, the same labels, and ids under
other names (one-to-one in each column). Only Criteo Terabyte's labels differ, 3 % of them being positive where the set
has 21 %, since its preparation leaves most of the negative lines out.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from datasets import avazu, criteo_kaggle, criteo_terabyte
from datasets.errors import UserError, unknown
from datasets.layout import Layout
from datasets.pace import Pace, Report
from datasets.shapes import avazu as avazu_shape
from datasets.shapes import kaggle, terabyte
from datasets.shapes.features import MISSING, SmallColumn
from datasets.shapes.generated import Labelled, labelled
from datasets.shapes.labels import Planted
from datasets.shapes.levels import BLOCK
from datasets.shapes.log import HOURS_A_DAY, Log
from datasets.shapes.spec import Shape
from datasets.threads import in_threads

ZIPPING = 1  # gzip's level: the fastest
FIRST_HOUR = 14_10_21_00  # YYMMDDHH
LARGEST_ID = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a shape is written."""

    shape: Shape
    layout: Layout
    files: tuple[str, ...]  # each with the same number of lines
    # what is added to an id (from 1) of a column of whole numbers, so that its values look like the real ones
    bases: Mapping[str, int] = field(default_factory=dict)
    unknown: str = ""  # the column of whole numbers whose most frequent value is -1


FORMATS = {
    "synthetic-kaggle": Format(shape=kaggle.SHAPE, layout=criteo_kaggle.LAYOUT, files=("train.txt",)),
    "synthetic-terabyte": Format(
        shape=terabyte.SHAPE,
        layout=criteo_terabyte.LAYOUT,
        files=tuple(f"day_{day}" for day in range(len(criteo_terabyte.PUBLISHED_LINES))),
    ),
    "synthetic-avazu": Format(
        shape=avazu_shape.SHAPE,
        layout=avazu.LAYOUT,
        files=("train.csv",),
        bases={
            "C1": 1_000, "banner_pos": -1, "device_type": -1, "device_conn_type": -1, "C14": 374, "C15": 119,
            "C16": 19, "C17": 111, "C18": -1, "C19": 32, "C20": 99_999, "C21": 0,
        },
        unknown="C20",
    ),
}  # fmt: skip


def write_text(
    name: str,
    folder: Path,
    rows: int,
    seed: int = 0,
    scale: float = 1.0,
    gz: bool = False,
    report: Report = lambda line: None,
) -> list[Path]:
    """Writes the first `rows` inputs of a generated set as raw text, compressed or not, and returns the files.

    They are the inputs that the set has with the same seed and scale, `rows` being those of its three splits together.
    A file appears under its name when all of them are whole; UserError where one is there already.
    """
    if name not in FORMATS:
        raise unknown("generated data set with a raw text format", name, FORMATS)
    if rows < 1:
        raise UserError(f"{name}: at least one line has to be written, got rows={rows}.")
    form = FORMATS[name]
    paths = [folder / (file + ".gz" if gz else file) for file in form.files]
    for path in paths:
        if path.exists():
            raise UserError(f"{path} is there already; move it away or choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    new = [path.with_name(path.name + ".new") for path in paths]
    try:
        _write(form, new, rows, seed, scale, gz, Pace(report, name, "lines", rows))
        for path, finished in zip(paths, new, strict=True):
            finished.replace(path)
    finally:
        for path in new:
            path.unlink(missing_ok=True)
    return paths


def _write(form: Format, paths: list[Path], rows: int, seed: int, scale: float, gz: bool, pace: Pace) -> None:
    log = Log(form.shape, seed, scale, length=rows)
    text = Text(form, log, Planted(log, seed), seed)
    bounds = [rows * number // len(paths) for number in range(len(paths) + 1)]
    pack: Callable[[bytes], bytes] = partial(gzip.compress, compresslevel=ZIPPING, mtime=0) if gz else bytes

    def make(block: int) -> list[bytes]:
        made = labelled(log, text.planted, block, raw=True)
        parts = (made.part(slice(start, end)) for start, end in pairwise(bounds))
        return [pack(text.lines(part)) if len(part.labels) else b"" for part in parts]

    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        if form.layout.header:
            for file in files:
                file.write(pack(form.layout.heading.encode() + b"\n"))
        for block, texts in enumerate(in_threads(make, range(-(-rows // BLOCK)))):
            for file, part in zip(files, texts, strict=True):
                file.write(part)
            pace.add(min(BLOCK, rows - block * BLOCK))
    pace.end()


class Text:
    """Turns inputs of a log into lines."""

    def __init__(self, form: Format, log: Log, planted: Planted, seed: int) -> None:
        self.planted = planted
        self._layout, self._bases, self._log, self._seed = form.layout, form.bases, log, seed
        self._tables = {table.name: at for at, table in enumerate(log.schema.tables)}
        self._dense = {name: at for at, name in enumerate(log.schema.dense)}
        most = {c.name: int(c.table[0]) for c in log.columns if isinstance(c, SmallColumn)}  # most frequent values
        self._unknown = (form.unknown, most.get(form.unknown))
        hexadecimal = next(f.name for f in form.layout.fields if f.kind == "hex" and f.name in most)
        key = mixed(self._tables[hexadecimal], np.array([most[hexadecimal]], np.int32))
        self._flipped = (hexadecimal, key[0] ^ LARGEST_ID)  # so that ffffffff is an id, and not a rare one

    def lines(self, part: Labelled) -> bytes:
        """The text of inputs of one block."""
        columns = [self._column(item.name, item.kind == "hex", part) for item in self._layout.fields]
        file = io.BytesIO()
        pl.DataFrame({str(at): column for at, column in enumerate(columns)}).write_csv(
            file, include_header=False, separator=self._layout.separator, null_value="", quote_style="never"
        )
        return file.getvalue()

    def _column(self, name: str, hexadecimal: bool, part: Labelled) -> pl.Series:
        inputs, block = part.inputs, part.first // BLOCK
        at = part.first - block * BLOCK
        if name in ("label", "click"):
            return pl.Series(part.labels)
        if name == "id":
            return pl.Series(unique(self._seed, part.first + np.arange(len(part.labels))))
        if name == "hour":
            hours = self._log.hours(block)[at : at + len(part.labels)]
            return pl.Series(FIRST_HOUR + hours // HOURS_A_DAY * 100 + hours % HOURS_A_DAY)
        if name in self._dense:
            assert inputs.counts is not None
            counts = inputs.counts[:, self._dense[name]]
            return _series(pa.array(counts, mask=counts == MISSING))
        table = self._tables[name]
        ids = inputs.ids[:, table]
        if hexadecimal:
            keys = mixed(table, ids)
            if name == self._flipped[0]:
                keys ^= self._flipped[1]
            return _series(hex_strings(keys, ids == self._log.columns[table].missing_id))
        values = ids + self._bases[name]
        return pl.Series(np.where(ids == self._unknown[1], -1, values) if name == self._unknown[0] else values)


def _series(array: pa.Array) -> pl.Series:
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series


def mixed(table: int, ids: np.ndarray) -> np.ndarray:
    """[n] uint32: a one-to-one mixing of a table's ids [n] int32 (MurmurHash3's finalizer, Appleby)."""
    keys = ids.astype(np.uint32) + np.uint32((table + 1) * 0x9E3779B1 % (1 << 32))
    keys = (keys ^ (keys >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    keys = (keys ^ (keys >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return keys ^ (keys >> np.uint32(16))


def unique(seed: int, index: np.ndarray) -> np.ndarray:
    """[n] uint64: a one-to-one mixing of numbers (SplitMix64's output function, Steele et al., OOPSLA 2014)."""
    keys = index.astype(np.uint64) + np.uint64(seed * 0x9E3779B97F4A7C15 % (1 << 64))
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_QUADS = np.stack(  # the four digits of each 16-bit number, as one word
    [_DIGITS[np.arange(1 << 16) >> shift & 15] for shift in (12, 8, 4, 0)], axis=1
).view(np.uint32)[:, 0]  # fmt: skip


def hex_strings(keys: np.ndarray, missing: np.ndarray) -> pa.Array:
    """Eight digits for each key [n] uint32, null where missing [n] bool.

    In Arrow's layout of short strings (length, then up to 12 bytes in place), which Polars takes as it is.
    """
    views = np.zeros((len(keys), 4), dtype=np.uint32)
    views[:, 0] = 8
    views[:, 1], views[:, 2] = _QUADS[keys >> np.uint32(16)], _QUADS[keys & np.uint32(0xFFFF)]
    present = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.string_view(), len(keys), [present, pa.py_buffer(views)])
