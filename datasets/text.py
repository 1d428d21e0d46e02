"""Large text files, read as blocks of numbers: streamed, in order, with two or more blocks parsed at a time.

Polars parses a block; it was measured against Arrow and DuckDB (README). What it would let pass is found by counting:
the bytes are those of the layout, the separators as many as the lines need, every value within its limits. A block that
Polars or a count refuses is halved until a few lines are left, which are then read one by one, so that the bad line is
known by its number and the good ones are kept.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Generic, TypeVar

import numpy as np
import polars as pl

from datasets.errors import UserError
from datasets.layout import EMPTY, Field, Layout, quoted
from datasets.threads import in_threads

BLOCK_BYTES = 8 << 20
LONGEST_LINE = 1 << 20
GZIP, ARCHIVE = b"\x1f\x8b", b"PK\x03\x04"  # how such files begin
FEW_LINES = 16  # read one by one
NEWLINE = ord("\n")
REFUSE, SKIP = "refuse", "skip"  # what is done with a bad line

T = TypeVar("T")


@dataclass(frozen=True)
class Position:
    """How far the files are read: the file, bytes of it (decompressed), lines of it (the header included)."""

    source: int = 0
    offset: int = 0
    line: int = 0


@dataclass(frozen=True)
class Raw:
    """Whole lines of a file; the last one ends with a line feed."""

    data: bytes
    source: int
    first_line: int  # number of the first line, from 1
    lines: int
    end: Position


@dataclass(frozen=True)
class Block:
    """Lines as numbers."""

    values: np.ndarray  # [n, columns] int64, EMPTY where a field is empty
    line_numbers: np.ndarray  # [n] int64, from 1, of each row of `values`
    source: int
    lines: int  # that were read, the bad ones among them
    end: Position

    @property
    def bad(self) -> int:
        """Lines that were skipped."""
        return self.lines - len(self.values)


@dataclass(frozen=True)
class Converted(Generic[T]):
    """A block, and what `convert` made of it."""

    block: Block
    made: T


class Refused(Exception):
    """Something in a block is not as it should be."""


def read(
    paths: Sequence[Path], layout: Layout, on_bad_row: str | None = None, start: Position | None = None
) -> Iterator[Block]:
    """The lines of the files, in order, from a position on. UserError for the first bad line, unless it is skipped.

    `on_bad_row` is the user's choice, None where there is none.
    """
    for item in read_converted(paths, layout, lambda block: None, on_bad_row, start):
        yield item.block


def read_converted(
    paths: Sequence[Path],
    layout: Layout,
    convert: Callable[[Block], T],
    on_bad_row: str | None = None,
    start: Position | None = None,
) -> Iterator[Converted[T]]:
    """As `read`, with what a function makes of each block, beside the parsing of the others."""

    def work(raw: Raw) -> Converted[T]:
        block = parse(raw, paths[raw.source], layout, on_bad_row)
        return Converted(block, convert(block))

    yield from in_threads(work, raw_blocks(paths, layout, start or Position()))


def raw_blocks(paths: Sequence[Path], layout: Layout, start: Position) -> Iterator[Raw]:
    """Whole lines of the files, from a position on."""
    for source in range(start.source, len(paths)):
        at = start if source == start.source else Position(source)
        yield from _blocks_of(paths[source], source, layout, at)


def _blocks_of(path: Path, source: int, layout: Layout, at: Position) -> Iterator[Raw]:
    offset, line = at.offset, at.line
    with opened(path) as file:
        _skip(file, offset, path)
        if layout.header and not line:
            offset, line = _read_header(file, path, layout), 1
        while data := _read(file, path, line):
            if not data.endswith(b"\n"):
                with _naming_damage(path, line):
                    data += file.readline(LONGEST_LINE)
            length = len(data)
            if not data.endswith(b"\n"):
                if length > LONGEST_LINE and data.rfind(b"\n") < length - LONGEST_LINE:
                    number = line + count_byte(data, NEWLINE) + 1
                    raise UserError(f"{path}, line {number:,}: longer than {LONGEST_LINE:,} bytes; "
                                    f"is it {layout.what}?")  # fmt: skip
                data += b"\n"  # which the file's last line need not have
            lines = count_byte(data, NEWLINE)
            offset, first, line = offset + length, line + 1, line + lines
            yield Raw(data, source, first, lines, Position(source, offset, line))


def count_byte(data: bytes, byte: int) -> int:
    """How often a byte occurs."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte))


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed where its first bytes say gzip."""
    try:
        with path.open("rb") as file:
            with _naming_damage(path, 0):
                begin = file.read(len(ARCHIVE))
            zipped = begin.startswith(GZIP)
            if begin == ARCHIVE:
                raise UserError(f"{path} is a zip archive; unpack it and give the file in it.")
            file.seek(0)
            if not zipped:
                yield file
                return
            with gzip.GzipFile(fileobj=file) as plain:
                yield plain  # type: ignore[misc]
    except OSError as error:
        if error.filename is None or Path(error.filename) != path:  # of what is done with the bytes
            raise
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from error


def _read(file: IO[bytes], path: Path, line: int) -> bytes:
    """The next bytes, b"" at the end. UserError where the file is damaged or cut off."""
    with _naming_damage(path, line):
        return file.read(BLOCK_BYTES)


@contextmanager
def _naming_damage(path: Path, line: int) -> Iterator[None]:
    where = f"{path}, after line {line:,}" if line else f"{path}"
    try:
        yield
    except EOFError:
        raise UserError(f"{where}: the .gz ends in the middle; is it downloaded whole?") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{where}: the .gz is damaged ({error}); download it again.") from None
    except OSError as error:
        raise UserError(f"{where}: cannot be read ({error.strerror}).") from error


def _skip(file: IO[bytes], offset: int, path: Path) -> None:
    """Go to a byte; in a compressed file everything before it is decompressed again."""
    if file.seekable() and not isinstance(file, gzip.GzipFile):
        file.seek(offset)
        return
    while offset:
        with _naming_damage(path, 0):
            piece = file.read(min(offset, BLOCK_BYTES))
        if not piece:
            raise UserError(f"{path}: is shorter than when it was read before; did it change?")
        offset -= len(piece)


def _read_header(file: IO[bytes], path: Path, layout: Layout) -> int:
    """Check the first line; the number of bytes it takes."""
    with _naming_damage(path, 0):
        line = file.readline(LONGEST_LINE)
    found = line.decode("utf-8", "replace").rstrip("\r\n")
    if found != layout.heading:
        if other := layout.other(line):
            raise UserError(f"{path}, line 1: {other}.")
        expected = f"the {len(layout.fields)} column names {layout.fields[0].name} to {layout.fields[-1].name}"
        raise UserError(f"{path}, line 1: expected {expected}, found {quoted(found)}; is it {layout.what}?")
    return len(line)


def parse(raw: Raw, path: Path, layout: Layout, on_bad_row: str | None) -> Block:
    """The numbers of whole lines. UserError with file and line for the first bad one, unless it is skipped."""
    data = raw.data.replace(b"\r\n", b"\n") if b"\r" in raw.data else raw.data
    values, good = _parse(data, raw.lines, layout)
    numbers = np.arange(raw.first_line, raw.first_line + raw.lines)
    if not good.all() and on_bad_row != SKIP:
        at = int(np.argmin(good))
        line = data.split(b"\n", at + 1)[at]
        first = numbers[at] == 1 + layout.header
        raise UserError(f"{path}, line {numbers[at]:,}: {_fault(line, layout, first, on_bad_row is not None)}")
    return Block(values, numbers[good], raw.source, raw.lines, raw.end)


def _fault(line: bytes, layout: Layout, first: bool, can_skip: bool) -> str:
    """What is wrong with a line, and what to do."""
    if first and (other := layout.other(line)):
        return f"{other}."
    if first:
        return f"{layout.parse(line)}; is it {layout.what}?"
    hint = f"; `--option on_bad_row={SKIP}` leaves such lines out and counts them" if can_skip else ""
    return f"{layout.parse(line)}{hint}."


def _parse(data: bytes, lines: int, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """(values of the good lines [n, columns], which lines are good [lines])."""
    try:
        return _parse_fast(data, lines, layout), np.ones(lines, bool)
    except Refused:
        pass
    if lines <= FEW_LINES:
        rows = [layout.parse(line) for line in data.split(b"\n")[:lines]]
        good = np.array([not isinstance(row, str) for row in rows])
        values = [row for row in rows if not isinstance(row, str)]
        return np.array(values, np.int64).reshape(-1, len(layout.columns)), good
    # after the line in the middle, or before it where it is the last one
    middle = (data.find(b"\n", len(data) // 2, -1) + 1) or (data.rindex(b"\n", 0, len(data) // 2) + 1)
    before = count_byte(data[:middle], NEWLINE)
    halves = [_parse(data[:middle], before, layout), _parse(data[middle:], lines - before, layout)]
    return np.concatenate([half[0] for half in halves]), np.concatenate([half[1] for half in halves])


def _parse_fast(data: bytes, lines: int, layout: Layout) -> np.ndarray:
    """[lines, columns] int64, by Polars. Refused if anything is not as the layout says."""
    characters = np.frombuffer(data, np.uint8)
    separators = int(np.count_nonzero(characters == ord(layout.separator)))
    # Polars fills short lines up; together with its refusal of long ones, the count says that there is none
    if separators != lines * (len(layout.fields) - 1) or data.translate(None, layout.alphabet):
        raise Refused
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            separator=layout.separator,
            quote_char=None,
            schema={item.name: _TYPES[item.kind] for item in layout.fields},
        )
        frame = frame.with_columns(_numbers(item) for item in layout.fields)
        if len(frame) != lines:
            raise Refused
        used = frame.select(list(layout.columns))
        _check(frame, layout)
        return used.fill_null(EMPTY).to_numpy()
    except pl.exceptions.PolarsError:
        raise Refused from None


_TYPES = {"int": pl.Int64, "hex": pl.String, "word": pl.String, "unused": pl.UInt64}


def _numbers(item: Field) -> pl.Expr:
    column = pl.col(item.name)
    if item.kind == "hex":
        return column.str.to_integer(base=16, dtype=pl.UInt32).cast(pl.Int64)  # as a signed one, '-0' would pass
    if item.kind == "word":
        return column.replace_strict(list(item.choices), list(range(len(item.choices))), return_dtype=pl.Int64)
    return column


def _check(frame: pl.DataFrame, layout: Layout) -> None:
    """Refused if a value is missing or out of its limits."""
    nulls, lowest, highest = (found.row(0) for found in (frame.null_count(), frame.min(), frame.max()))
    for item, missing, least, most in zip(layout.fields, nulls, lowest, highest, strict=True):
        low, high = item.limits
        if (missing and not item.empty) or (least is not None and not low <= least <= most <= high):
            raise Refused
        if item.modulus and (frame[item.name] % item.modulus >= item.remainders).any():
            raise Refused


def count_lines(path: Path, layout: Layout, counted: Callable[[int], None] = lambda lines: None) -> int:
    """Lines of a file, without its header; the last one need not end. `counted` is told of each block's."""
    lines, last = 0, b"\n"
    with opened(path) as file:
        while piece := _read(file, path, lines):
            found = count_byte(piece, NEWLINE)
            counted(found)
            lines += found
            last = piece[-1:]
    lines += last != b"\n"
    return max(0, lines - layout.header)
