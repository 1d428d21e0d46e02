"""Reading raw text: any file gives what a slow reading of it in plain Python gives, wherever its blocks end."""

from __future__ import annotations

import gzip
import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import text
from datasets.errors import UserError
from datasets.layout import EMPTY, Field, Layout, quoted
from datasets.text import Block, Position, count_lines, read

EXAMPLES = int(os.environ.get("SLIPBENCH_EXAMPLES", "80"))
INTS = (  # (low, high)
    (-(10**18) + 1, 10**18 - 1),
    (0, 1),
    (-1, 2**31 - 1),
    (0, 99_999_999),
)
WORDS = (("pv", "buy", "cart", "fav"), ("a", "e"))
ODD = (  # good for some kinds of field, bad for others
    *("+5", " 5", "5 ", "1.0", "1e5", "--5", "-", "0x1f", "1_000", "nan", "a b", '"5"', "'", "\ufeff5", "#5", "g"),
    *("é", "\x00", "5\x00", "\r", "5\r", "\x1b[1m", "\x85", "\u0663", "5\v", "FfFf", "pv", "PV", "bu", "cart", "", "2"),
)
EDGES = {  # what comes near to being a value
    "int": (
        *("-0", "-1", "0" * 30 + "7", "-" + "0" * 20, "--1", "1-", "9" * 20, "-" + "9" * 25, "1" + "0" * 29),
        *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551617", "ffffffff"),
        *("1000000000000000000", "2147483648", "1e5", "2", "-2", "100000000"),
    ),
    "hex": (
        *("-0", "-1", "-1a", "-", "ffffffff", "FFFFFFFF", "100000000", "0ffffffff", "0" * 30 + "a", "f" * 16, "f" * 17),
        *("1" + "0" * 31, "0" * 40, "00-1", "1e5"),
    ),
    "unused": ("-0", "-1", "18446744073709551615", "18446744073709551616", "9" * 30, "0" * 30 + "1", "1a"),
    "word": ("p", "pvv", "PV", "0", "-1", "cartfav", "e", "pv,buy"),
}
BAD_BYTES = (b"\xff\xfe", b"\x80", b"\xc3", b"\x00\x00")


@dataclass(frozen=True)
class Row:
    """A good line: its number, from 1, and its values."""

    line: int
    values: list[int]


def value_of(item: Field, found: bytes) -> int | None:
    """The value of a field, or None: digit by digit, without what is tested."""
    if not found:
        return EMPTY if item.empty else None
    if item.kind == "word":
        return item.choices.index(found.decode("latin1")) if found.decode("latin1") in item.choices else None
    if item.kind == "hex":
        digits = "0123456789abcdef"
        if any(chr(byte).lower() not in digits for byte in found):
            return None
        value = sum(digits.index(chr(byte).lower()) << 4 * place for place, byte in enumerate(reversed(found)))
        return value if value < 2**32 else None
    if not re.fullmatch(rb"-?[0-9]+", found):
        return None
    value = reduce(lambda number, digit: 10 * number + digit - ord("0"), found.lstrip(b"-"), 0)
    value = -value if found.startswith(b"-") else value
    low, high = (0, 2**64 - 1) if item.kind == "unused" else (item.low, item.high)
    return value if low <= value <= high else None


def slowly(content: bytes, layout: Layout) -> tuple[list[Row], list[int]]:
    """(good lines, numbers of the bad ones), without the header."""
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    good: list[Row] = []
    bad: list[int] = []
    for number, line in enumerate(lines, 1):
        if layout.header and number == 1:
            continue
        found = line.removesuffix(b"\r").split(layout.separator.encode())
        values = [value_of(*pair) for pair in zip(layout.fields, found, strict=False)]
        if len(found) != len(layout.fields) or None in values:
            bad.append(number)
        else:
            kept = [v for item, v in zip(layout.fields, values, strict=True) if item.kind != "unused" and v is not None]
            good.append(Row(number, kept))
    return good, bad


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    kinds = draw(st.lists(st.sampled_from(("int", "hex", "word", "unused")), min_size=1, max_size=5))
    fields = []
    for number, kind in enumerate([*kinds, "int"] if set(kinds) == {"unused"} else kinds):
        name, empty = f"c{number}", draw(st.booleans())
        if kind == "int":
            low, high = draw(st.sampled_from(INTS))
            fields.append(Field(name=name, low=low, high=high, empty=empty))
        elif kind == "word":
            fields.append(Field(name=name, kind="word", choices=draw(st.sampled_from(WORDS)), empty=empty))
        else:
            fields.append(Field(name=name, kind="hex" if kind == "hex" else "unused", empty=empty))
    separator = draw(st.sampled_from("\t,"))
    return Layout(what="a made-up file", fields=tuple(fields), separator=separator, header=draw(st.booleans()))


def good_field(item: Field) -> st.SearchStrategy[str]:
    match item.kind:
        case "word":
            some = st.sampled_from(item.choices)
        case "hex":
            some = st.builds("{:x}".format, st.integers(0, 2**32 - 1)) | st.builds("{:08X}".format, st.integers(0, 99))
        case "unused":
            some = st.integers(0, 2**64 - 1).map(str)
        case _:
            some = st.integers(item.low, item.high).map(str) | st.integers(0, 1).map("{:03}".format)
    return some | st.just("") if item.empty else some


def good_line(layout: Layout) -> st.SearchStrategy[list[bytes]]:
    return st.tuples(*(good_field(item) for item in layout.fields)).map(lambda found: [part.encode() for part in found])


def mistake(draw: st.DrawFn, layout: Layout, found: list[bytes]) -> list[bytes]:
    """A line with something that may be wrong with it."""
    at = draw(st.integers(0, max(0, len(found) - 1)))
    match draw(st.integers(0, 9)):
        case 0:
            return found[:-1]
        case 1:
            return [*found, draw(st.sampled_from((b"", b"1")))]
        case 2:
            return [draw(st.sampled_from((b"", b"   ", b"\r", b"#", b'"')))]
        case 3:
            return [*found[:at], draw(st.sampled_from(BAD_BYTES)), *found[at + 1 :]]
        case 4:
            return [*found[:at], draw(st.sampled_from(ODD)).encode(), *found[at + 1 :]]
        case _:
            edge = draw(st.sampled_from(EDGES[layout.fields[min(at, len(layout.fields) - 1)].kind]))
            return [*found[:at], edge.encode(), *found[at + 1 :]]


@st.composite
def contents(draw: st.DrawFn, layout: Layout, most: int) -> bytes:
    """A file of good lines, with up to three mistakes."""
    lines = draw(st.lists(good_line(layout), max_size=most))
    if lines:
        for at in draw(st.lists(st.integers(0, len(lines) - 1), max_size=3)):
            lines[at] = mistake(draw, layout, lines[at])
    start = layout.heading.encode() + draw(st.sampled_from((b"\n", b"\r\n"))) if layout.header else b""
    if not layout.header and draw(st.integers(0, 15)) == 0:
        start = b"\xef\xbb\xbf"
    end = draw(st.sampled_from((b"\n", b"\r\n")))
    whole = start + b"".join(layout.separator.encode().join(line) + end for line in lines)
    return whole if draw(st.booleans()) or not lines else whole.removesuffix(b"\n")


@st.composite
def cases(draw: st.DrawFn, most_files: int = 3, most_lines: int = 40) -> tuple[Layout, list[bytes]]:
    layout = draw(layouts())
    return layout, draw(st.lists(contents(layout, most_lines), min_size=1, max_size=most_files))


def packed(content: bytes, members: int) -> bytes:
    """Gzip of one member or several."""
    cuts = [len(content) * number // members for number in range(members + 1)]
    return b"".join(gzip.compress(content[first:end]) for first, end in pairwise(cuts))


def written(folder: Path, files: list[bytes], members: int) -> list[Path]:
    """The files, zipped if there are members."""
    paths = []
    for number, content in enumerate(files):
        paths.append(folder / f"{number}.raw")
        paths[-1].write_bytes(packed(content, members) if members else content)
    return paths


def rows_of(blocks: Iterator[Block]) -> tuple[list[tuple[int, Row]], int]:
    """([(file, good line)], number of bad lines)."""
    rows, bad = [], 0
    for block in blocks:
        assert block.values.dtype == np.int64 and len(block.values) == len(block.line_numbers)
        pairs = zip(block.line_numbers.tolist(), block.values.tolist(), strict=True)
        rows += [(block.source, Row(line, values)) for line, values in pairs]
        bad += block.bad
    return rows, bad


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    case=cases(),
    members=st.integers(0, 2),
    block_bytes=st.sampled_from((1, 3, 16, 100, 1 << 20)),
    few=st.sampled_from((1, 2, 16)),
)
def test_any_file_gives_what_a_slow_reading_gives(
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[Layout, list[bytes]],
    members: int,
    block_bytes: int,
    few: int,
) -> None:
    layout, files = case
    paths = written(tmp_path_factory.mktemp("any"), files, members)
    expected = [slowly(content, layout) for content in files]
    kept = [(number, row) for number, (good, _) in enumerate(expected) for row in good]
    with mock.patch.object(text, "BLOCK_BYTES", block_bytes), mock.patch.object(text, "FEW_LINES", few):
        assert rows_of(read(paths, layout, "skip")) == (kept, sum(len(bad) for _, bad in expected))
        assert [count_lines(path, layout) for path in paths] == [len(good) + len(bad) for good, bad in expected]
        first_bad = next(((path, bad[0]) for path, (_, bad) in zip(paths, expected, strict=True) if bad), None)
        if first_bad is None:
            assert rows_of(read(paths, layout, "refuse")) == (kept, 0)
        else:
            with pytest.raises(UserError) as refused:
                list(read(paths, layout, "refuse"))
            assert str(refused.value).startswith(f"{first_bad[0]}, line {first_bad[1]:,}: ")
            assert str(refused.value).isprintable()


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(case=cases(most_lines=8), members=st.integers(0, 2), block_bytes=st.sampled_from((1, 16, 60)))
def test_reading_goes_on_from_the_end_of_any_block(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Layout, list[bytes]], members: int, block_bytes: int
) -> None:
    layout, files = case
    paths = written(tmp_path_factory.mktemp("any"), files, members)
    with mock.patch.object(text, "BLOCK_BYTES", block_bytes):
        blocks = list(read(paths, layout, "skip"))
        for number, block in enumerate(blocks, 1):
            rest = rows_of(read(paths, layout, "skip", block.end))
            assert rest == rows_of(iter(blocks[number:]))
        ends = [Position(), *(block.end for block in blocks)]
    assert ends == sorted(ends, key=lambda end: (end.source, end.offset)) and len(set(ends)) == len(ends)


ONE_OF_EACH = (
    Field(name="i", empty=True),
    Field(name="small", low=0, high=1),
    Field(name="h", kind="hex", empty=True),
    Field(name="u", kind="unused"),
    Field(name="w", kind="word", choices=WORDS[0], empty=True),
)


@pytest.mark.parametrize("alone", [True, False])
def test_a_field_is_judged_alike_alone_and_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """Alone it is Polars' to judge, in a block that Polars refuses it is read by Python."""
    layout = Layout(what="a made-up file", fields=ONE_OF_EACH)
    good = [b"-7", b"1", b"00fF", b"18446744073709551615", b"buy"]
    lines = [b"", b",", b",,,,", b",1,,5", b",1,,5,", b",1,,5,,", b"x" * 50]
    for at in range(len(good)):
        for value in (
            *ODD,
            *(edge for edges in EDGES.values() for edge in edges),
            "0" * 2000,
            "0" * 5000 + "1",
            "9" * 5000,
        ):
            lines.append(b",".join([*good[:at], value.encode(), *good[at + 1 :]]))
    content = b"".join(line + b"\n" for line in lines)
    kept, bad = slowly(content, layout)
    monkeypatch.setattr(text, "BLOCK_BYTES", 1 if alone else 1 << 20)
    monkeypatch.setattr(text, "FEW_LINES", 1 if alone else 1 << 20)
    (tmp_path / "x").write_bytes(content)
    rows, skipped = rows_of(read([tmp_path / "x"], layout, "skip"))
    assert [row for _, row in rows] == kept
    assert skipped == len(bad)


@pytest.mark.parametrize("choice", ["+5", " 5", "5", "a b", '"', "é", ""])
def test_choices_that_would_let_a_bad_number_pass_are_refused(choice: str) -> None:
    """Polars reads '+5' and ' 5' as 5; what keeps them out is that no field of ours has such bytes."""
    with pytest.raises(ValueError, match="choices are letters"):
        Field(name="w", kind="word", choices=("a", choice))


PAIR = Layout(what="a made-up file", fields=(Field(name="a"), Field(name="b", kind="hex", empty=True)), separator=",")
HEADED = Layout(what="a made-up file", fields=PAIR.fields, header=True)


def read_all(path: Path, layout: Layout = PAIR, on_bad_row: str | None = None) -> tuple[list[tuple[int, Row]], int]:
    return rows_of(read([path], layout, on_bad_row))


def test_a_short_line_is_not_filled_up(tmp_path: Path) -> None:
    """As Polars does, unless it is the first one."""
    (tmp_path / "x").write_bytes(b"1,2\n3\n4,\n")
    kept, bad = read_all(tmp_path / "x", on_bad_row="skip")
    assert kept == [(0, Row(1, [1, 2])), (0, Row(3, [4, EMPTY]))] and bad == 1


def test_one_line_too_long_and_another_too_short_are_both_found(tmp_path: Path) -> None:
    """As many separators as the lines need, so that the count alone does not tell."""
    (tmp_path / "x").write_bytes(b"1,2\n3,4,5\n6\n7,8\n")
    kept, bad = read_all(tmp_path / "x", on_bad_row="skip")
    assert [row.line for _, row in kept] == [1, 4] and bad == 2


@pytest.mark.parametrize(
    "shape", [b"\n" * 3000 + b"9" * 9000, b"9" * 9000 + b"\n" * 3000, b"1,2\n" * 3000 + b"," * 20_000]
)
def test_a_long_line_among_many_short_ones_is_found(tmp_path: Path, shape: bytes) -> None:
    (tmp_path / "x").write_bytes(shape + b"\n3,4\n")
    kept, bad = read_all(tmp_path / "x", on_bad_row="skip")
    assert len(kept) + bad == shape.count(b"\n") + 2
    assert kept[-1][1].values == [3, 4]


def test_a_file_of_bad_lines_alone_is_read_in_reasonable_time(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"?,?\n" * 20_000)
    began = time.perf_counter()
    assert read_all(tmp_path / "x", on_bad_row="skip") == ([], 20_000)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("at", [0, 5, 99])
def test_a_line_without_an_end_in_sight_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(text, "LONGEST_LINE", 5000)
    monkeypatch.setattr(text, "BLOCK_BYTES", 64)
    (tmp_path / "x").write_bytes(b"1,2\n" * at + b"3" * 20_000)
    with pytest.raises(UserError) as refused:
        read_all(tmp_path / "x")
    assert str(refused.value) == f"{tmp_path / 'x'}, line {at + 1}: longer than 5,000 bytes; is it a made-up file?"


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (b"", "nothing"),
        (b"a,b,c\n1,2\n", "'a,b,c'"),
        (b"\xef\xbb\xbfa,b\n1,2\n", r"'\\ufeffa,b'"),
        (b'"a","b"\n1,2\n', '\'"a","b"\''),
        (b"A,B\n", "'A,B'"),
        (b"1,2\n3,4\n", "'1,2'"),
        (b"\na,b\n", "nothing"),
    ],
)
def test_a_header_that_is_not_the_expected_one_is_refused(tmp_path: Path, start: bytes, found: str) -> None:
    (tmp_path / "x").write_bytes(start)
    message = rf"x, line 1: expected the 2 column names a to b, found {found}; is it a made-up file\?$"
    with pytest.raises(UserError, match=message):
        read_all(tmp_path / "x", HEADED)


def test_a_header_alone_is_no_line(tmp_path: Path) -> None:
    for content in (b"a,b", b"a,b\n", b"a,b\r\n"):
        (tmp_path / "x").write_bytes(content)
        assert read_all(tmp_path / "x", HEADED) == ([], 0)
        assert count_lines(tmp_path / "x", HEADED) == 0


@pytest.mark.parametrize("keep", [2, 9, 10, 11, 300, -9, -8, -4, -1])
def test_a_gz_that_is_cut_off_anywhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 1000)
    random = np.random.default_rng(0).integers(0, 2**32, (1000, 2))
    whole = gzip.compress(b"".join(b"%d,%x\n" % (a, b) for a, b in random.tolist()))
    (tmp_path / "x").write_bytes(whole[:keep])
    for work in (read_all, lambda path: count_lines(path, PAIR)):
        with pytest.raises(
            UserError, match=r"/x(, after line [\d,]+)?: the \.gz ends in the middle; is it downloaded "
        ):
            work(tmp_path / "x")


@pytest.mark.parametrize("at", [3, 12, 500, 4000, -6])
def test_a_gz_that_is_damaged_anywhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 1000)
    random = np.random.default_rng(0).integers(0, 2**32, (1000, 2))
    content = bytearray(gzip.compress(b"".join(b"%d,%x\n" % (a, b) for a, b in random.tolist())))
    content[at] ^= 0xFF
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UserError, match=r"/x(, (after )?line [\d,]+)?: "):
        read_all(tmp_path / "x", on_bad_row="skip")


def test_a_file_that_became_shorter_is_not_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 100)
    path = written(tmp_path, [b"1,2\n" * 200], members=1)[0]
    end = list(read([path], PAIR))[-1].end
    path.write_bytes(gzip.compress(b"1,2\n" * 100))
    with pytest.raises(UserError, match=r"0\.raw: is shorter than when it was read before; did it change\?$"):
        list(read([path], PAIR, start=end))


def test_blocks_come_in_order_however_long_each_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 40)
    (tmp_path / "x").write_bytes(b"".join(b"%d,\n" % number for number in range(200)))
    parse = text.parse

    def slowly_at_first(raw: text.Raw, *args: Any) -> Block:
        time.sleep(0.02 if raw.first_line % 3 == 1 else 0)
        return parse(raw, *args)

    monkeypatch.setattr(text, "parse", slowly_at_first)
    kept, _ = read_all(tmp_path / "x")
    assert [row.values[0] for _, row in kept] == list(range(200))


def test_the_first_bad_line_is_named_though_later_blocks_are_done_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 40)
    (tmp_path / "x").write_bytes(b"1,2\n" * 20 + b"bad\n" * 100)
    parse = text.parse

    def slowly_at_first(raw: text.Raw, *args: Any) -> Block:
        time.sleep(0.1 if raw.first_line <= 21 < raw.first_line + raw.lines else 0)
        return parse(raw, *args)

    monkeypatch.setattr(text, "parse", slowly_at_first)
    with pytest.raises(UserError, match=r"/x, line 21: expected 2 columns separated by commas, found 1\.$"):
        read_all(tmp_path / "x")


def test_a_reader_that_is_left_leaves_no_thread_and_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 40)
    (tmp_path / "x").write_bytes(b"1,2\n" * 500)
    threads, files = set(threading.enumerate()), sum(1 for _ in Path("/proc/self/fd").iterdir())
    blocks = read([tmp_path / "x"], PAIR)
    next(blocks)
    del blocks
    assert set(threading.enumerate()) == threads
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == files


def test_few_blocks_are_held_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 40)
    (tmp_path / "x").write_bytes(b"1,2\n" * 1000)
    raw_blocks, ahead, most = text.raw_blocks, 0, 0

    def counted(*args: Any) -> Iterator[text.Raw]:
        nonlocal ahead, most
        for raw in raw_blocks(*args):
            ahead += 1
            most = max(most, ahead)
            yield raw

    monkeypatch.setattr(text, "raw_blocks", counted)
    for _ in read([tmp_path / "x"], PAIR):
        ahead -= 1
    assert most <= len(os.sched_getaffinity(0)) + 2


def test_what_a_block_is_converted_to_comes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", 40)
    (tmp_path / "x").write_bytes(b"1,2\n" * 100)
    found = list(text.read_converted([tmp_path / "x"], PAIR, lambda block: int(block.values.sum())))
    assert all(item.made == 3 * item.block.lines for item in found) and sum(item.made for item in found) == 300


@given(st.lists(st.integers(0, 0x10FFFF).map(chr)).map("".join))
def test_foreign_text_is_quoted_so_that_it_can_be_printed(found: str) -> None:
    assert quoted(found).isprintable() and len(quoted(found)) < 700


def test_foreign_text_that_is_too_long_is_cut() -> None:
    assert quoted("x" * 100) == "'" + "x" * 60 + "…'"
    assert (quoted(""), quoted("a\tb\x1b"), quoted("é")) == ("nothing", r"'a\tb\x1b'", "'é'")
