"""What a line of a raw text file holds, and the plain reading of one line: what the fast one has to agree with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

EMPTY = int(np.iinfo(np.int64).min)  # the value of an empty field
LARGEST_ID = (1 << 32) - 1  # ffffffff
LARGEST_INT = 10**18 - 1

Kind = Literal["int", "hex", "word", "unused"]


@dataclass(frozen=True, kw_only=True)
class Field:
    """One column. A `word` is read as the index of the choice; an `unused` one is checked and left out."""

    name: str
    kind: Kind = "int"
    low: int = -LARGEST_INT
    high: int = LARGEST_INT
    choices: tuple[str, ...] = ()
    modulus: int = 0  # if not 0, the value modulo this …
    remainders: int = 0  # … is below this: the hour in YYMMDDHH
    empty: bool = False  # whether there may be nothing

    def __post_init__(self) -> None:
        if not all(re.fullmatch("[A-Za-z_]+", choice) for choice in self.choices):
            raise ValueError(f"{self.name}: choices are letters, lest '+5' or ' 5' pass for a number beside them")

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value, both included."""
        match self.kind:
            case "hex":
                return 0, LARGEST_ID
            case "unused":
                return 0, (1 << 64) - 1
            case "word":
                return 0, len(self.choices) - 1
            case _:
                return self.low, self.high

    @property
    def expected(self) -> str:
        """What a person is told that should be there."""
        match self.kind:
            case "hex":
                what = "a hexadecimal id of at most ffffffff"
            case "word":
                what = " or ".join(filter(None, (", ".join(self.choices[:-1]), self.choices[-1])))
            case "unused":
                what = "a whole number of at most 64 bits"
            case _ if self.modulus:
                what = f"a whole number whose remainder by {self.modulus} is below {self.remainders}"
            case _ if self.high - self.low == 1:
                what = f"{self.low} or {self.high}"
            case _ if self.low > -LARGEST_INT:
                what = f"a whole number of at least {self.low}"
                what += f" and at most {self.high}" if self.high < LARGEST_INT else ""
            case _:
                what = "a whole number"
        return what + (" or nothing" if self.empty else "")

    def parse(self, text: str) -> int | None:
        """The value of one field, or None where it is bad."""
        if not text:
            return EMPTY if self.empty else None
        if self.kind == "word":
            return self.choices.index(text) if text in self.choices else None
        base, pattern = (16, r"()0*([0-9a-fA-F]{1,8})") if self.kind == "hex" else (10, r"(-?)0*([0-9]{1,20})")
        found = re.fullmatch(pattern, text)
        if not found:
            return None
        value = int(found[1] + found[2], base)
        low, high = self.limits
        fits = low <= value <= high and (not self.modulus or value % self.modulus < self.remainders)
        return value if fits else None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a text file, one input or event a line."""

    what: str  # the file's name for people, e.g. "Criteo Kaggle's train.txt"
    fields: tuple[Field, ...]
    separator: str = ","
    header: bool = False  # whether the first line names the columns
    widths: Mapping[int, str] = field(default_factory=dict)  # other numbers of columns → what a file with them is

    @cached_property
    def columns(self) -> dict[str, int]:
        """Name → column of the values that are read."""
        names = [item.name for item in self.fields if item.kind != "unused"]
        return {name: at for at, name in enumerate(names)}

    @cached_property
    def alphabet(self) -> bytes:
        """The bytes that a good line can hold."""
        parts = {"int": "-0123456789", "hex": "0123456789abcdefABCDEF", "unused": "0123456789", "word": ""}
        allowed = {character for item in self.fields for character in parts[item.kind] + "".join(item.choices)}
        return "".join(sorted(allowed | {self.separator, "\n"})).encode()

    @property
    def heading(self) -> str:
        """The first line of a file with a header."""
        return self.separator.join(item.name for item in self.fields)

    def parse(self, line: bytes) -> list[int] | str:
        """The values of one line (without its end), or what is wrong with it."""
        texts = line.decode("utf-8", "replace").split(self.separator)
        if len(texts) != len(self.fields):
            return self._wrong_width(line, len(texts))
        values = []
        for item, text in zip(self.fields, texts, strict=True):
            value = item.parse(text)
            if value is None:
                return f"column {item.name}: expected {item.expected}, found {quoted(text)}"
            if item.kind != "unused":
                values.append(value)
        return values

    def other(self, line: bytes) -> str:
        """What a file is whose lines are as wide as this one, if that is known."""
        found = line.count(self.separator.encode()) + 1
        return f"{found} columns: {self.widths[found]}" if found in self.widths else ""

    def _wrong_width(self, line: bytes, found: int) -> str:
        separator = {"\t": "tabs", ",": "commas"}.get(self.separator, repr(self.separator))
        text = "an empty line" if not line else f"{found}"
        return f"expected {len(self.fields)} columns separated by {separator}, found {text}"


def quoted(text: str, most: int = 60) -> str:
    """A piece of a foreign file for a message: what cannot be printed is escaped, what is too long is cut."""
    if not text:
        return "nothing"
    cut = text[:most] + ("…" if len(text) > most else "")
    return "'" + "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut) + "'"
