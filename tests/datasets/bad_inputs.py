"""What a user can get wrong with the raw files of the click logs.

bad_inputs.md has the sentence that each ends in; `python -m tests.datasets.bad_inputs` prints it anew.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from datasets import criteo_terabyte
from datasets.errors import UserError
from datasets.store import prepare
from tests.datasets.raw_logs import avazu_lines, avazu_text, criteo_lines, criteo_text

Files = Mapping[str, bytes]
KAGGLE, TERABYTE, AVAZU = "criteo-kaggle", "criteo-terabyte", "avazu"
CRITEO = criteo_text(criteo_lines(40))
CLICKS = avazu_text(avazu_lines(40))
ZIPPED = gzip.compress(criteo_text(criteo_lines(4000)).encode())
DAMAGED = gzip.compress(b"0\n" * 999)[:-8] + bytes(8)  # another checksum
HEADLESS = b"1,0,14102100" + b",1" * 21
RAW = "RAW"  # stands for the folder of the raw files


@dataclass(frozen=True)
class Mistake:
    """What is wrong, and what is given."""

    what: str
    dataset: str
    files: Files
    options: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()  # default: all files


def edited(text: str, line: int, column: int, value: str, separator: str = "\t") -> bytes:
    """A file with another value in a line (from 1) and column (from 0)."""
    rows = [row.split(separator) for row in text.splitlines()]
    rows[line - 1][column] = value
    return "".join(separator.join(row) + "\n" for row in rows).encode("latin1")


def without(text: str, column: int, separator: str = "\t") -> bytes:
    """A file without a column."""
    rows = [row.split(separator) for row in text.splitlines()]
    return "".join(separator.join(row[:column] + row[column + 1 :]) + "\n" for row in rows).encode()


def kaggle(what: str, content: bytes, **options: Any) -> Mistake:
    """With a train.txt."""
    return Mistake(what, KAGGLE, {"train.txt": content}, options)


def clicks(what: str, content: bytes, **options: Any) -> Mistake:
    """With a train.csv."""
    return Mistake(what, AVAZU, {"train.csv": content}, options)


def days(what: str, files: Files, sources: tuple[str, ...] = (), **options: Any) -> Mistake:
    """With days."""
    return Mistake(what, TERABYTE, files, options, sources)


def day(first: int = 0, end: int = 40) -> bytes:
    """Some lines of a day."""
    return "".join(CRITEO.splitlines(keepends=True)[first:end]).encode()


MISTAKES = (
    kaggle("a column too few", day(end=6) + without(day(6, 7).decode(), 5) + day(7)),
    kaggle("a column too many", edited(CRITEO, 37, 5, "3\t4")),
    kaggle("an empty line", (CRITEO + "\n" + CRITEO).encode()),
    kaggle("the unlabelled test.txt", without(CRITEO, 0)),
    kaggle("a label of 2", edited(CRITEO, 37, 0, "2")),
    kaggle("no label", edited(CRITEO, 37, 0, "")),
    kaggle("a fraction", edited(CRITEO, 37, 3, "1.5")),
    kaggle("a sign", edited(CRITEO, 37, 3, "+5")),
    kaggle("a number of 40 digits", edited(CRITEO, 37, 3, "9" * 40)),
    kaggle("an id that is no number", edited(CRITEO, 2, 14, "xyz")),
    kaggle("an id of 9 digits", edited(CRITEO, 40, 39, "100000000")),
    kaggle("a negative id", edited(CRITEO, 37, 20, "-0")),
    kaggle("a quoted value", edited(CRITEO, 37, 20, '"68fd1e64"')),
    kaggle("bytes that are not UTF-8", edited(CRITEO, 37, 20, "\xff\xfe")),
    kaggle("control codes", edited(CRITEO, 37, 20, "\x1b[2J" * 50)),
    kaggle("a byte-order mark", b"\xef\xbb\xbf" + CRITEO.encode()),
    kaggle("a header", b"\t".join([b"label"] * 40) + b"\n" + CRITEO.encode()),
    kaggle("line ends of old Macs", CRITEO.replace("\n", "\r").encode()),
    kaggle("another data set's file", CLICKS.encode()),
    kaggle("a picture", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 9),
    kaggle("one endless line", b"5" * (3 << 20)),
    kaggle("a .gz that is cut off", ZIPPED[: len(ZIPPED) // 2]),
    kaggle("a .gz with nothing but its first bytes", ZIPPED[:2]),
    kaggle("a .gz with damage", DAMAGED),
    kaggle("a .gz with something after it", gzip.compress(CRITEO.encode()) + b"more"),
    kaggle("an empty file", b""),
    kaggle("test.txt, with its lines skipped", without(CRITEO, 0), on_bad_row="skip"),
    kaggle("a threshold that no id reaches", CRITEO.encode(), min_count=200),
    kaggle("an option that is not there", CRITEO.encode(), hashsize=7),
    kaggle("an option of another set", CRITEO.encode(), days="some"),
    kaggle("a negative hash size", CRITEO.encode(), hash_size=-1),
    kaggle("a hash size that is no number", CRITEO.encode(), hash_size="10M"),
    kaggle("a hash size beyond 2³¹", CRITEO.encode(), hash_size=2**31),
    kaggle("a threshold of 0", CRITEO.encode(), min_count=0),
    kaggle("a share beyond 1", CRITEO.encode(), train_share=1.5),
    kaggle("a share that is no number", CRITEO.encode(), train_share="nan"),
    kaggle("an unknown word", CRITEO.encode(), vocab="test"),
    kaggle("an unknown way with bad lines", CRITEO.encode(), on_bad_row="ignore"),
    Mistake("a folder without the file", KAGGLE, {"raw/test.txt": b""}, sources=("raw",)),
    Mistake("no such file", KAGGLE, {}, sources=("train.txt",)),
    Mistake("no source", KAGGLE, {}),
    Mistake("a file twice", KAGGLE, {"train.txt": CRITEO.encode()}, sources=("train.txt", "./raw/../train.txt")),
    days("days that are missing", {f"day_{n}": day() for n in range(24) if n not in (3, 17)}),
    days("no day in a folder", {"raw/train.txt": day()}, ("raw",)),
    days("a day twice", {"day_0": day(), "day_0.gz": ZIPPED, "day_1": day()}, days="some"),
    days("one day", {"day_7": day()}, days="some"),
    days("a file that is no day", {"day_0": day(), "train.txt": day()}, days="some"),
    days("a day beyond the last", {"day_0": day(), "day_24": day()}, days="some"),
    days("a day that is cut off", {f"day_{n}": day(end=31 if n == 5 else 40) for n in range(24)}),
    days("an empty day", {f"day_{n}": day(end=0 if n == 5 else 40) for n in range(24)}),
    days("a day that is too long", {f"day_{n}": day() + (day(end=1) if n == 23 else b"") for n in range(24)}),
    days("a day's .gz that is cut off", {f"day_{n}": day() if n else ZIPPED[:9000] for n in range(24)}),
    days("a day without labels", {"day_0": day(), "day_1": without(CRITEO, 0)}, days="some"),
    days("a seed that is too large", {"day_0": day(), "day_1": day()}, days="some", sample_seed=10**30),
    clicks("no header", HEADLESS),
    clicks("another header", CLICKS.replace("click", "clicked", 1).encode()),
    clicks("the unlabelled test.csv", without(CLICKS, 1, ",")),
    clicks("an empty file", b""),
    clicks("nothing but the header", CLICKS.split("\n", 1)[0].encode()),
    clicks("the zip file of the download", b"PK\x03\x04\x14\x00" + bytes(99)),
    clicks("semicolons", CLICKS.replace(",", ";").encode()),
    clicks("a line with semicolons", CLICKS.encode() + CLICKS.splitlines()[1].replace(",", ";").encode()),
    clicks("an hour with a dash", edited(CLICKS, 3, 2, "2014-10-21", ",")),
    clicks("an id below -1", edited(CLICKS, 5, 22, "-2", ",")),
    clicks("an id beyond 2³¹", edited(CLICKS, 5, 22, "2147483648", ",")),
    clicks("a line without a name", edited(CLICKS, 5, 0, "", ",")),
    clicks("a site that is no number", edited(CLICKS, 41, 5, "siteone", ",")),
    clicks("a click of -1", edited(CLICKS, 2, 1, "-1", ",")),
    clicks("an unknown split", CLICKS.encode(), split="day"),
    clicks("a share of another set", CLICKS.encode(), train_share=0.5),
)


def message_of(mistake: Mistake, folder: Path, report: Callable[[str], None] = lambda line: None) -> str:
    """Make the mistake below a folder; the message, with RAW for the folder of the raw files."""
    raw = folder / "raw-files"
    (raw / "raw").mkdir(parents=True)
    for name, content in mistake.files.items():
        (raw / name).write_bytes(content)
    sources = [raw / name for name in mistake.sources or mistake.files]
    try:
        with mock.patch.object(criteo_terabyte, "PUBLISHED_LINES", (40,) * 24):
            prepare(mistake.dataset, sources, mistake.options, folder / "data", report)
    except UserError as error:
        return str(error).replace(str(raw), RAW)
    return "nothing was said"


def row(mistake: Mistake, message: str) -> str:
    """A line of the table."""
    return f"| {mistake.dataset} | {mistake.what} | {message} |"


def main() -> None:
    """Print data set, input and message as a table."""
    print("| data set | input | message |\n| --- | --- | --- |")
    for mistake in MISTAKES:
        with tempfile.TemporaryDirectory() as folder:
            print(row(mistake, message_of(mistake, Path(folder))))


if __name__ == "__main__":
    main()
