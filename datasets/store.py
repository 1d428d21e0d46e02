"""Prepared data sets: where they live, how they are made whole or not at all, and how they are opened."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from datasets.errors import UserError
from datasets.registry import load_dataset
from datasets.schema import Schema
from datasets.settings import resolve
from datasets.writer import FORMAT_VERSION, META, PARTS, SPLITS, StoreWriter, file_name, id_out_of_range

__all__ = ["PreparedSet", "Split", "StoreWriter", "data_root", "open_set", "prepare"]

Report = Callable[[str], None]
CHECK_ROWS = 1 << 18  # inputs whose ids are checked at a time
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Split:
    """The inputs of one split, memory-mapped (private copy on write)."""

    schema: Schema
    dense: np.ndarray  # [N, F] float32
    ids: np.ndarray  # [N, C] int32, ids within their tables
    labels: np.ndarray  # [N] int32, 0 or 1

    def __len__(self) -> int:
        return len(self.labels)

    def row_ids(self, inputs: np.ndarray | slice) -> np.ndarray:
        """[n, C] int64: the row ids that the named inputs look up."""
        rows: np.ndarray = self.ids[inputs] + self.schema.lookup_offsets
        return rows

    def head(self, n: int) -> Split:
        """The first n inputs (or all, if fewer)."""
        return Split(self.schema, self.dense[:n], self.ids[:n], self.labels[:n])


@dataclass(frozen=True)
class PreparedSet:
    """A prepared data set, opened."""

    name: str
    path: Path
    schema: Schema
    meta: dict[str, Any]
    train: Split
    validation: Split
    test: Split

    @cached_property
    def fingerprint(self) -> str:
        """12 hex digits that stand for schema, options and every byte of the inputs."""
        parts = [self.meta["schema"], self.meta["options"], self.meta["files"]]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def data_root() -> Path:
    """Where prepared sets live: $SLIPBENCH_DATA, or the user's cache folder."""
    chosen = os.environ.get("SLIPBENCH_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "slipbench"


def prepare(
    name: str,
    sources: Sequence[Path] = (),
    options: Mapping[str, Any] | None = None,
    root: Path | None = None,
    report: Report = lambda line: None,
) -> PreparedSet:
    """Makes the set anew from its raw files, replacing an old one only when the new one is whole.

    A second preparation of the same set waits for the first. UserError for missing sources, unknown options, a bad
    source or a full disk; nothing half made is left behind.
    """
    module, root = load_dataset(name), root or data_root()
    resolved = resolve(module.OPTIONS, options or {}, f"data set {name}")
    _check_sources(name, module, sources)
    with _turning_os_errors(root), _only_one(root, name, report):
        _make(name, module, sources, resolved, root, report)
    return _open(name, module, root)


def open_set(
    name: str,
    root: Path | None = None,
    options: Mapping[str, Any] | None = None,
    report: Report = lambda line: None,
) -> PreparedSet:
    """Opens a prepared set; one that needs no source is made at once where it is absent or of an older version.

    `options`: those that the set must have been made with (the others at their defaults); None accepts any.
    UserError, with the command that rebuilds the set, where it is absent, incomplete, or made otherwise.
    """
    module, root = load_dataset(name), root or data_root()
    wanted = None if options is None else resolve(module.OPTIONS, options, f"data set {name}")
    if not module.NEEDS_SOURCE and not _current(root / name, module):
        with _turning_os_errors(root), _only_one(root, name, report):
            if not _current(root / name, module):  # nobody else made it while this process waited
                _make(name, module, (), wanted or resolve(module.OPTIONS, {}, name), root, report)
    prepared = _open(name, module, root)
    if wanted is not None and wanted != prepared.meta["options"]:
        made = prepared.meta["options"]
        other = ", ".join(f"{k}={made.get(k)} (asked for: {v})" for k, v in wanted.items() if made.get(k) != v)
        raise _refused(name, module, f"was made with {other or 'other options'}", wanted)
    return prepared


def rebuild_command(name: str, module: ModuleType, options: Mapping[str, Any] | None = None) -> str:
    """The command that prepares a set."""
    defaults = resolve(module.OPTIONS, {}, name)
    chosen = [f" --set {key}={value}" for key, value in (options or {}).items() if value != defaults.get(key)]
    return f"slipbench data prepare {name}{' --source PATH' if module.NEEDS_SOURCE else ''}{''.join(chosen)}"


def _refused(name: str, module: ModuleType, why: str, options: Mapping[str, Any] | None = None) -> UserError:
    return UserError(f"data set {name} {why}; make it with: {rebuild_command(name, module, options)}")


def _check_sources(name: str, module: ModuleType, sources: Sequence[Path]) -> None:
    if module.NEEDS_SOURCE and not sources:
        raise UserError(f"data set {name} is made from raw files: {rebuild_command(name, module)}")
    if sources and not module.NEEDS_SOURCE:
        raise UserError(f"data set {name} is generated and takes no --source; leave it out.")
    for path in sources:
        if not path.exists():
            raise UserError(f"there is no file or folder {path}; check --source.")


def _generator_version(module: ModuleType) -> int:
    return int(getattr(module, "VERSION", 1))


def _make(
    name: str, module: ModuleType, sources: Sequence[Path], options: Mapping[str, Any], root: Path, report: Report
) -> None:
    """Writes the set beside its final name and renames it when whole. Needs the lock of `_only_one`."""
    for left in root.glob(f".{name}.*.partial"):  # of a preparation that was killed: we hold the lock
        shutil.rmtree(left)
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".partial", dir=root))
    work.chmod(0o755)
    try:
        with StoreWriter(work, name, options, _generator_version(module)) as writer:
            module.write(writer, list(sources), options, report)
            writer.finish()
        final = root / name
        if final.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".partial", dir=root))
            final.rename(old / name)
            work.rename(final)
            shutil.rmtree(old)
        else:
            work.rename(final)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _only_one(root: Path, name: str, report: Report) -> Iterator[None]:
    """Holds the lock under which a set is made; the kernel lets go of it when the process dies."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / f".{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{name}: waiting for another process that is preparing it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _turning_os_errors(root: Path) -> Iterator[None]:
    """A full disk or a folder that cannot be written is the user's to mend: one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise UserError(
                f"the disk that holds {root} is full; free some space there or point SLIPBENCH_DATA elsewhere."
            ) from error
        if isinstance(error, PermissionError | NotADirectoryError | FileExistsError):
            raise UserError(f"cannot write under {root} ({error}); point SLIPBENCH_DATA at another folder.") from error
        raise


def _read_meta(path: Path) -> dict[str, Any] | None:
    """The metadata of a prepared set, or None where there is none that can be read."""
    try:
        meta = json.loads((path / META).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return meta if isinstance(meta, dict) else None


def _current(path: Path, module: ModuleType) -> bool:
    """Whether a set is there, in this format and of the module's present version."""
    return _versions(_read_meta(path)) == (FORMAT_VERSION, _generator_version(module))


def _versions(meta: Mapping[str, Any] | None) -> tuple[Any, Any] | None:
    return None if meta is None else (meta.get("format_version"), meta.get("generator_version"))


def _open(name: str, module: ModuleType, root: Path) -> PreparedSet:
    path = root / name
    if not path.exists():
        raise _refused(name, module, f"is not prepared under {root}")
    meta = _read_meta(path)
    if meta is None:
        raise _refused(name, module, f"has no readable {META} in {path}")
    if not _current(path, module):
        raise _refused(name, module, f"in {path} was made by another version of slipbench", meta.get("options"))
    try:
        schema = Schema.from_dict(meta["schema"])
        expected = {file_name(split, part): meta["files"][file_name(split, part)] for split in SPLITS for part in PARTS}
        options, rows = dict(meta["options"]), {split: int(meta["splits"][split]["rows"]) for split in SPLITS}
    except (KeyError, TypeError, ValueError):
        raise _refused(name, module, f"has a {META} in {path} that is not complete") from None
    for file, facts in expected.items():
        found = (path / file).stat().st_size if (path / file).exists() else None
        if found != facts["bytes"]:
            state = "is missing" if found is None else f"has {found} bytes, expected {facts['bytes']}"
            raise _refused(name, module, f"is damaged: {path / file} {state}", options)
    splits = {split: _open_split(name, module, path, split, schema, rows[split], options) for split in SPLITS}
    return PreparedSet(name=name, path=path, schema=schema, meta=meta, **splits)


def _open_split(
    name: str, module: ModuleType, path: Path, split: str, schema: Schema, rows: int, options: Mapping[str, Any]
) -> Split:
    """Maps one split's files and checks their shapes, types and ids."""
    widths = {"dense": len(schema.dense), "sparse": schema.num_lookups, "labels": 1}
    arrays = {}
    for part, dtype in PARTS.items():
        file = path / file_name(split, part)
        try:
            # mapped copy on write, so that PyTorch takes it as writable; as a plain array, so that its parts are too
            array = np.asarray(np.load(file, mmap_mode="c", allow_pickle=False))
        except (ValueError, OSError) as error:
            raise _refused(name, module, f"is damaged: {file} ({error})", options) from None
        if array.dtype != dtype or array.shape != (rows, widths[part]):
            raise _refused(name, module, f"is damaged: {file} does not fit {META}", options)
        arrays[part] = array
    for first in range(0, rows, CHECK_ROWS):
        found = id_out_of_range(schema, arrays["sparse"][first : first + CHECK_ROWS])
        if found:
            row, lookup = first + found[0], found[1]
            table = schema.tables[schema.lookup_tables[lookup]]
            why = f"is damaged: table {table.name} has {table.rows} rows, but row {row} of the {split} split has id "
            raise _refused(name, module, f"{why}{arrays['sparse'][row, lookup]}", options)
    return Split(schema, arrays["dense"], arrays["sparse"], arrays["labels"].reshape(-1))
