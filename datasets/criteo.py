"""`criteo-kaggle`: the raw training file of the Criteo Kaggle display advertising challenge, streamed with Arrow.

A line is a label, 13 integers and 26 hexadecimal ids, separated by tabs, any of the last 39 empty. Lines are counted,
then read for the vocabularies, then read again and written; memory grows with the number of distinct ids only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from datasets.errors import UserError, printable
from datasets.schema import Schema, Table
from datasets.settings import Setting
from datasets.writer import StoreWriter

SUMMARY = "Criteo Kaggle: a week of display ads, 45.8 M rows, 13 dense and 26 categorical features, was it clicked."
NEEDS_SOURCE = True
OPTIONS = (
    Setting(
        key="vocab",
        default="all",
        choices=("all", "train"),
        help="give rows to the ids of the whole file, as the papers, or to those of the training split only",
    ),
    Setting(
        key="train_share", default=6 / 7, low=0.01, high=1.0, help="of the lines, from the first; the rest is halved"
    ),
)
DEFAULTS: dict[str, Any] = {
    "model": "rm2",
    "batch_size": 1024,
    "optimizer": "rowwise-adagrad",
    "lr": {"sgd": 0.1, "rowwise-adagrad": 0.02, "adagrad": 0.02},
    "settings": {},
}
PAPER: dict[str, Any] = {"model": "rm2", "batch_size": 1024, "optimizer": "sgd", "lr": {"sgd": 0.01}, "settings": {}}

DENSE = tuple(f"I{number}" for number in range(1, 14))
SPARSE = tuple(f"C{number}" for number in range(1, 27))
COLUMNS = ("label", *DENSE, *SPARSE)
UNLABELLED = len(COLUMNS) - 1  # columns of the challenge's test.txt
READ_BYTES = 1 << 24
HEX_DIGITS = 8
ID_BITS = 32
GZIP = b"\x1f\x8b"
WRONG_WIDTH = re.compile(r"Row #(\d+): Expected \d+ columns, got (\d+)")  # Arrow's words
MISSING = 1 << ID_BITS  # the key of a missing id, beyond every real one
NOT_A_DIGIT = 255
LABEL_PATTERN, DENSE_PATTERN, HEX_PATTERN = r"\A[01]\z", r"\A-?[0-9]{1,18}\z", r"\A[0-9a-fA-F]{1,8}\z"
EXPECTED = (
    {"label": "0 or 1"}
    | dict.fromkeys(DENSE, "a whole number or nothing")
    | dict.fromkeys(SPARSE, "up to 8 hexadecimal digits or nothing")
)

Report = Callable[[str], None]
Columns = tuple[np.ndarray, np.ndarray, np.ndarray]  # labels [n], dense [n, 13], keys [n, 26]

_DIGITS = np.full(256, NOT_A_DIGIT, dtype=np.uint8)
for _value, _digit in enumerate("0123456789abcdef"):
    _DIGITS[[ord(_digit), ord(_digit.upper())]] = _value


def write(writer: StoreWriter, sources: Sequence[Path], options: Mapping[str, Any], report: Report) -> None:
    """Reads the files in the given order, first for vocabularies, then for the inputs."""
    for path in sources:
        if not path.is_file():
            raise UserError(f"--source {path} is a folder; criteo-kaggle takes the challenge's train.txt itself.")
    lines = sum(count_lines(path) for path in sources)
    if not lines:
        raise UserError(
            f"{', '.join(map(str, sources))}: no line in it; criteo-kaggle needs the challenge's train.txt."
        )
    train = int(lines * options["train_share"])
    report(f"criteo-kaggle: {lines:,} lines, {train:,} of them for training")
    vocabularies = _vocabularies(sources, lines if options["vocab"] == "all" else train)
    tables = (Table(name=name, rows=1 + max(1, len(keys))) for name, keys in zip(SPARSE, vocabularies, strict=True))
    writer.schema = Schema(dense=DENSE, tables=tuple(tables))
    bounds = {"train": (0, train), "validation": (train, train + (lines - train) // 2)}
    bounds["test"] = (bounds["validation"][1], lines)
    first = 0
    for labels, dense, keys in inputs(sources):
        ids = np.stack([_lookup(vocabulary, keys[:, at]) for at, vocabulary in enumerate(vocabularies)], axis=1)
        for split, (start, end) in bounds.items():
            part = slice(max(start - first, 0), max(end - first, 0))
            if len(labels[part]):
                writer.append(split, dense[part], ids[part], labels[part])
        first += len(labels)
        report(f"criteo-kaggle: {first:,} of {lines:,} lines written")
    if first != lines:
        raise UserError(f"{', '.join(map(str, sources))}: {lines:,} lines counted, but {first:,} read; did it change?")
    for path in sources:
        writer.add_source(path)


def _vocabularies(sources: Sequence[Path], lines: int) -> list[np.ndarray]:
    """Per column, the sorted distinct keys of the first `lines` lines; that of a missing id is the last."""
    found: list[np.ndarray] = [np.empty(0, dtype=np.int64) for _ in SPARSE]
    pending: list[list[np.ndarray]] = [[] for _ in SPARSE]
    left = lines
    for _, _, keys in inputs(sources):
        for at, new in enumerate(pending):
            new.append(np.unique(keys[:left, at]))
            if sum(map(len, new)) > len(
                found[at]
            ):  # merged as they double, so that each key is sorted a few times only
                found[at] = np.unique(np.concatenate([found[at], *new]))
                new.clear()
        left -= min(left, len(keys))
        if not left:
            break
    return [np.unique(np.concatenate([known, *new])) for known, new in zip(found, pending, strict=True)]


def _lookup(vocabulary: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """[n] int32: ids of keys [n]; those that the vocabulary lacks get the reserved id."""
    if not len(vocabulary):
        return np.zeros(len(keys), dtype=np.int32)
    at = np.minimum(np.searchsorted(vocabulary, keys), len(vocabulary) - 1)
    return np.where(vocabulary[at] == keys, at + 1, 0).astype(np.int32)


def inputs(sources: Sequence[Path]) -> Iterator[Columns]:
    """The lines of the files as arrays, block by block; dense values transformed, ids as int64 keys."""
    for path in sources:
        for block, first_line in blocks(path):
            yield parse(block, path, first_line)


def blocks(path: Path) -> Iterator[tuple[pa.RecordBatch, int]]:
    """(40 columns of text, null where empty; number of the first line, from 1). UserError for a line of other width."""
    first = 1
    try:
        with (
            _stream(path) as stream,
            pacsv.open_csv(
                stream,
                # one thread, for only then does Arrow know the number of a bad line
                read_options=pacsv.ReadOptions(column_names=COLUMNS, block_size=READ_BYTES, use_threads=False),
                parse_options=pacsv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict.fromkeys(COLUMNS, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    check_utf8=False,  # the parser below says which line is wrong; Arrow would not
                ),
            ) as reader,
        ):
            for block in reader:
                yield block, first
                first += len(block)
    except (pa.ArrowException, OSError) as error:
        wrong = WRONG_WIDTH.search(str(error))  # an `invalid_row_handler` is not called for a line that is no text
        if wrong:
            raise _wrong_width(path, int(wrong[1]), int(wrong[2])) from None
        raise _unreadable(path, error, f", after line {first - 1}") from error


def _stream(path: Path) -> pa.NativeFile:
    """The bytes of a file, decompressed; gzip is known by its first bytes, the others by the name's ending."""
    with path.open("rb") as file:
        zipped = file.read(len(GZIP)) == GZIP
    return pa.input_stream(str(path), compression="gzip" if zipped else "detect")


def _unreadable(path: Path, error: Exception, where: str = "") -> UserError:
    return UserError(f"{path}{where}: cannot be read ({printable(str(error), 200)}); is the file whole?")


def _wrong_width(path: Path, line: int, columns: int) -> UserError:
    if columns == UNLABELLED:
        return UserError(
            f"{path}, line {line}: {columns} columns, as in the challenge's unlabelled test.txt; give its train.txt."
        )
    return UserError(f"{path}, line {line}: expected {len(COLUMNS)} columns separated by tabs, found {columns}.")


def count_lines(path: Path) -> int:
    """Lines of a plain or compressed file; the last one need not end."""
    lines, lone, last = 0, 0, b"\n"
    try:
        with _stream(path) as stream:
            while piece := stream.read(READ_BYTES):
                lines += piece.count(b"\n")
                if b"\r" in piece or last == b"\r":
                    lone += piece.count(b"\r") - (last + piece).count(b"\r\n")
                last = piece[-1:]
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    if lone:  # Arrow would end a line there
        raise UserError(f"{path}: {lone:,} carriage returns without a line feed; lines end with \\n or \\r\\n.")
    return lines + (last != b"\n")


def parse(block: pa.RecordBatch, path: Path, first_line: int) -> Columns:
    """The arrays of a block of text columns. UserError with file, line and column for a bad label, number or id."""
    checks = [(name, LABEL_PATTERN if name == "label" else DENSE_PATTERN) for name in ("label", *DENSE)]
    for name, pattern in checks:
        good = pc.match_substring_regex(block[name], pattern)
        _refuse_bad(good.fill_null(name != "label"), block[name], name, path, first_line)
    numbers = [pc.cast(block[name], pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) for name in DENSE]
    dense = np.log1p(np.maximum(np.stack(numbers, axis=1), 0)).astype(np.float32)
    labels = pc.equal(block["label"], "1").to_numpy(zero_copy_only=False).astype(np.int32)
    keys = np.stack([_keys(block[name], name, path, first_line) for name in SPARSE], axis=1)
    return labels, dense, keys


def _keys(column: pa.StringArray, name: str, path: Path, first_line: int) -> np.ndarray:
    """[n] int64: the numbers that hexadecimal ids stand for; `MISSING` where there is none."""
    text = column.fill_null("0" * HEX_DIGITS)
    if not pc.all(pc.equal(pc.binary_length(text), HEX_DIGITS)).as_py():
        _refuse_bad(pc.match_substring_regex(text, HEX_PATTERN), text, name, path, first_line)
        text = pc.utf8_lpad(text, HEX_DIGITS, "0")
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    digits = _DIGITS[np.frombuffer(text.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]].reshape(-1, HEX_DIGITS)
    if (digits == NOT_A_DIGIT).any():
        _refuse_bad(pc.match_substring_regex(text, HEX_PATTERN), text, name, path, first_line)
    octets = np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2])  # [n, 4], the highest first
    keys = octets.view(">u4").reshape(-1).astype(np.int64)
    keys[column.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return keys


def _refuse_bad(good: pa.BooleanArray, column: pa.StringArray, name: str, path: Path, first_line: int) -> None:
    bad = np.flatnonzero(~good.to_numpy(zero_copy_only=False))
    if len(bad):
        at = int(bad[0])
        found = column.view(pa.binary())[at].as_py()
        shown = "nothing" if found is None else f"'{printable(found.decode('utf-8', 'replace'))}'"
        raise UserError(f"{path}, line {first_line + at}, column {name}: expected {EXPECTED[name]}, found {shown}.")
