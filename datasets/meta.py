"""`meta.json`, the last file of a prepared set to appear: what tells our sets from anything else, and its shape."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from datasets.journal import JOURNAL
from datasets.schema import Schema
from datasets.writer import FORMAT_VERSION, META, PARTS, SPLITS, file_name

CACHE = "cache"  # folder in a prepared set: what systems keep between runs on it, such as FAE's profile
MOST_ROWS, MOST_LOOKUPS, MOST_STEPS = 1 << 31, 1 << 16, 1 << 16  # of a table: ids are int32
LARGEST = sys.float_info.max
FILES = tuple(file_name(split, part) for split in SPLITS for part in PARTS)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST  # nan is not


def _scalars(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, bool | str) or _number(v) for v in value.values())


def _counts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_count, value.values()))


def _facts(value: Any) -> bool:
    """Whatever a module knows of its set, as numbers, for `data info` prints some of them."""
    return isinstance(value, dict) and all(number is None or _number(number) for number in value.values())


IDENTITY = {"name": _text, "format_version": _count, "generator_version": _count, "options": _scalars}
SHAPE: dict[str, Any] = IDENTITY | {
    "tool_version": _text,
    "schema": {
        "steps": lambda value: _count(value) and 1 <= value <= MOST_STEPS,
        "dense": [_text],
        "tables": [
            {
                "name": _text,
                "rows": lambda value: _count(value) and value <= MOST_ROWS,
                "lookups": lambda value: _count(value) and value <= MOST_LOOKUPS,
            }
        ],
    },
    "splits": {split: {"rows": _count, "positives": _count} for split in SPLITS},
    "sources": [{"name": _text, "bytes": _count, "sha256": _text}],
    "rows_dropped": _counts,
    "files": {file: {"bytes": _count, "sha256": _text} for file in FILES},
    "facts": _facts,
}


def _fault(value: Any, shape: Any, at: str = "") -> str | None:
    """Where a value from JSON does not have a shape: keys with shapes, a list of one shape, or a test; else None."""
    parts: Iterable[tuple[Any, Any, str]]
    if isinstance(shape, dict) and isinstance(value, dict):
        parts = ((value.get(key), part, f"{at}.{key}".lstrip(".")) for key, part in shape.items())
    elif isinstance(shape, list) and isinstance(value, list):
        parts = ((item, shape[0], f"{at}[{number}]") for number, item in enumerate(value))
    else:
        return None if callable(shape) and shape(value) else at
    return next((fault for part in parts if (fault := _fault(*part))), None)


def read_own(path: Path, name: str) -> dict[str, Any] | None:
    """The metadata of a folder that slipbench prepared as the set `name`, in any version; None for anything else."""
    try:
        if not (path / META).is_file():
            return None
        meta = json.loads((path / META).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return meta if isinstance(meta, dict) and not _fault(meta, IDENTITY) and meta["name"] == name else None


def foreign(path: Path, meta: Mapping[str, Any]) -> list[str]:
    """Names in a prepared set's folder that slipbench did not put there."""
    files = meta.get("files")
    ours = {META, JOURNAL, CACHE, *FILES, *(files if isinstance(files, dict) else ())}
    return sorted(entry.name for entry in path.iterdir() if entry.name not in ours)


def versions(meta: Mapping[str, Any]) -> tuple[int, int]:
    """The versions of the format and of the generator that a set was made with."""
    return meta["format_version"], meta["generator_version"]


def is_current(meta: Mapping[str, Any], generator: int) -> bool:
    """Whether this version of slipbench makes such sets."""
    return versions(meta) == (FORMAT_VERSION, generator)


def is_older(meta: Mapping[str, Any], generator: int) -> bool:
    """Whether an earlier version of slipbench made the set, so that it may be made again unasked."""
    made = versions(meta)
    return not is_current(meta, generator) and made[0] <= FORMAT_VERSION and made[1] <= generator


def read_schema(meta: Mapping[str, Any]) -> Schema:
    """The schema of a current set. ValueError that says where `meta.json` is not complete."""
    fault = _fault(meta, SHAPE)
    if fault or not meta["schema"]["tables"]:
        raise ValueError(fault or "schema.tables")
    try:
        return Schema.from_dict(meta["schema"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"schema: {error}") from None
