"""Prepared data sets: where they live, how they are made whole or not at all, and how they are opened."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from datasets.arrays import load_split
from datasets.errors import NothingLeft, UserError, printable
from datasets.journal import JOURNAL, sync_folder, unfinished
from datasets.meta import CACHE, FILES, foreign, is_current, is_older, read_own, read_schema
from datasets.pace import Report
from datasets.registry import load_dataset
from datasets.schema import Schema
from datasets.settings import resolve
from datasets.writer import META, SPLITS, StoreWriter, identity

__all__ = ["PreparedSet", "Split", "StoreWriter", "data_root", "open_set", "prepare"]

OLD = ".old"  # how a folder ends that holds a set while another takes its place
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

    @property
    def cache_dir(self) -> Path:
        """Where what is worth keeping between runs on this set may be stored; it goes when the set is made anew."""
        return self.path / CACHE

    @cached_property
    def fingerprint(self) -> str:
        """12 hex digits that stand for schema, options and every byte of the inputs."""
        parts = [self.meta["schema"], self.meta["options"], self.meta["files"]]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def data_root() -> Path:
    """Where prepared sets live: $SLIPBENCH_DATA, or the user's cache folder."""
    chosen = os.environ.get("SLIPBENCH_DATA")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(chosen).expanduser() if chosen else Path(cache).expanduser() / "slipbench"
    except RuntimeError as error:
        raise UserError(f"there is no folder {chosen or cache} ({error}); point SLIPBENCH_DATA elsewhere.") from None


def prepare(
    name: str,
    sources: Sequence[Path] = (),
    options: Mapping[str, Any] | None = None,
    root: Path | None = None,
    report: Report = lambda line: None,
    restart: bool = False,
) -> PreparedSet:
    """Makes the set anew from its raw files, replacing an old one only when the new one is whole.

    A second preparation of the same set waits for the first. UserError for missing sources, unknown options, a bad
    source, a full disk or anything in the set's place that slipbench did not make. Finished parts are kept for the next
    try, out of sight, but not on a full disk; those of a preparation with other options are in the way, and go only
    where `restart` says so.
    """
    module, root = load_dataset(name), root or data_root()
    resolved = resolve(module.OPTIONS, options or {}, f"data set {name}")
    _check_sources(name, module, sources)
    if find := getattr(module, "find_files", None):
        sources = find(sources, resolved)
    _check_distinct(sources)
    with _turning_os_errors(root, "write"), _only_one(root, name, report):
        _make(name, module, sources, resolved, root, report, restart)
    return _open(name, module, root, check=False)


def open_set(
    name: str,
    root: Path | None = None,
    options: Mapping[str, Any] | None = None,
    report: Report = lambda line: None,
) -> PreparedSet:
    """Opens a prepared set; one that needs no source is made at once where it is absent or of an older version.

    `options`: those that the set must have been made with (the others at their defaults); None accepts any. Opening
    one that is there writes nothing.
    UserError, with the command that rebuilds the set, where it is absent, incomplete, or made otherwise.
    """
    module, root = load_dataset(name), root or data_root()
    wanted = None if options is None else resolve(module.OPTIONS, options, f"data set {name}")
    if not module.NEEDS_SOURCE and _to_make(name, module, root, wanted) is not None:
        with _turning_os_errors(root, "write"), _only_one(root, name, report):
            chosen = _to_make(name, module, root, wanted)
            if chosen is not None:  # nobody else made it while this process waited
                _make(name, module, (), chosen, root, report)
    prepared = _open(name, module, root)
    _check_options(name, module, prepared.meta["options"], wanted)
    return prepared


def _to_make(name: str, module: ModuleType, root: Path, wanted: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The options to make a generated set with; None where there is something at its place that has to stay."""
    defaults = resolve(module.OPTIONS, {}, name)
    with _turning_os_errors(root, "read"):
        if not _occupied(root / name):
            return wanted or defaults
        meta = read_own(root / name, name)
    if meta is None or not is_older(meta, _generator_version(module)):
        return None
    _check_options(name, module, meta["options"], wanted)
    try:
        return resolve(module.OPTIONS, meta["options"], f"data set {name}")
    except UserError as error:
        raise _refused(name, module, f"in {root / name} was made by another version of slipbench ({error})") from None


def _check_options(name: str, module: ModuleType, made: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> None:
    if wanted is not None and wanted != made:
        other = ", ".join(f"{k}={made.get(k)} (asked for: {v})" for k, v in wanted.items() if made.get(k) != v)
        raise _refused(name, module, f"was made with {other or 'other options'}", wanted)


def rebuild_command(name: str, module: ModuleType, options: Mapping[str, Any] | None = None) -> str:
    """The command that prepares a set."""
    defaults = resolve(module.OPTIONS, {}, name)
    chosen = [f" --set {key}={value}" for key, value in (options or {}).items() if value != defaults.get(key)]
    return f"slipbench data prepare {name}{' --source PATH' if module.NEEDS_SOURCE else ''}{''.join(chosen)}"


def _refused(name: str, module: ModuleType, why: str, options: Mapping[str, Any] | None = None) -> UserError:
    return UserError(f"data set {name} {why}; make it with: {rebuild_command(name, module, options)}")


def _not_ours(name: str, module: ModuleType, path: Path, why: str) -> UserError:
    """The refusal to touch what stands in a set's place: it may be all that the user has."""
    return UserError(f"{path} {why}; move it away, then make the set with: {rebuild_command(name, module)}")


def _occupied(path: Path) -> bool:
    """Whether there is anything at a path, be it a link to nowhere."""
    return path.is_symlink() or path.exists()


def _check_sources(name: str, module: ModuleType, sources: Sequence[Path]) -> None:
    if module.NEEDS_SOURCE and not sources:
        raise UserError(f"data set {name} is made from raw files: {rebuild_command(name, module)}")
    if sources and not module.NEEDS_SOURCE:
        raise UserError(f"data set {name} is generated and takes no --source; leave it out.")
    for path in sources:
        try:
            there, readable = path.exists(), path.is_file() or path.is_dir()
        except OSError as error:
            raise UserError(f"--source {path} cannot be read ({error.strerror}).") from None
        if not there:
            raise UserError(f"there is no file or folder '{path}'; check --source.")
        if not readable:  # sources are read more than once
            raise UserError(f"--source {path} is neither a file nor a folder; save what comes from it as a file first.")


def _check_distinct(sources: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for path in sources:
        if path.resolve() in seen:
            raise UserError(f"--source {path} is given twice; give each file once.")
        seen.add(path.resolve())


def _generator_version(module: ModuleType) -> int:
    return int(getattr(module, "VERSION", 1))


def _make(
    name: str,
    module: ModuleType,
    sources: Sequence[Path],
    options: Mapping[str, Any],
    root: Path,
    report: Report,
    restart: bool = False,
) -> None:
    """Writes the set beside its final name and renames it when whole. Needs the lock of `_only_one`."""
    final = root / name
    _put_back(final, root)
    replaces = _occupied(final)
    if replaces:
        _check_replaceable(name, module, final)
    work = root / f".{name}.partial"
    if work.is_symlink() or (work.exists() and not work.is_dir()):
        raise UserError(f"{work} is in the way of what slipbench keeps there while it prepares {name}; remove it.")
    if not restart:
        _check_unfinished(name, module, work, options)
    work.mkdir(exist_ok=True)
    if restart:
        _empty(work)
    try:
        begun = (work / JOURNAL).exists()
        with StoreWriter(work, name, options, _generator_version(module), sources) as writer:
            if writer.has_parts:
                report(f"{name}: goes on where it was stopped; what is in {work} is kept")
            else:
                if begun:
                    report(f"{name}: a source or the version of slipbench has changed; begins anew")
                _empty(work)
            module.write(writer, list(sources), options, report)
            writer.finish()
        _put_in_place(work, final, root, replaces)
    except BaseException as error:
        if (work / JOURNAL).exists() and _is_worth_keeping(error):
            report(f"{name}: stopped; the same command goes on there")
        else:
            shutil.rmtree(work, ignore_errors=True)
        raise


def _check_unfinished(name: str, module: ModuleType, work: Path, options: Mapping[str, Any]) -> None:
    """UserError where a preparation with other options was stopped: its parts may be days of work."""
    wanted, found = identity(options, _generator_version(module)), unfinished(work)
    if found is None or any(found[key] != wanted[key] for key in wanted if key != "options"):
        return
    old, new = found["options"], json.loads(json.dumps(wanted["options"]))
    if old != new:
        other = ", ".join(f"{key}={value}" for key, value in old.items() if value != new.get(key))
        raise UserError(
            f"data set {name}: a preparation with {other} was stopped, and its parts are in {work}; give the same "
            f"options to go on, or discard them with: {rebuild_command(name, module, options)} --restart"
        )


def _is_worth_keeping(error: BaseException) -> bool:
    """Whether the same command may come further after an error: not on a full disk, nor where nothing would be left."""
    full = isinstance(error, OSError) and error.errno in FULL
    return not full and not isinstance(error, NothingLeft)


def _put_in_place(work: Path, final: Path, root: Path, replaces: bool) -> None:
    """Rename a whole set to its name, in the place of an older one if there is one."""
    if replaces:
        old = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=OLD, dir=root))
        final.rename(old / final.name)
        work.rename(final)
        shutil.rmtree(old)
    else:
        work.rename(final)
    (final / JOURNAL).unlink(missing_ok=True)
    sync_folder(root)


def _put_back(final: Path, root: Path) -> None:
    """Mend a kill within `_put_in_place`: a set that was moved away and not replaced yet goes back to its place."""
    for old in root.glob(f".{final.name}.*{OLD}"):
        if (old / final.name).exists() and not _occupied(final):
            (old / final.name).rename(final)
        shutil.rmtree(old)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _check_replaceable(name: str, module: ModuleType, path: Path) -> None:
    """UserError unless all that stands at the path is a set that slipbench prepared."""
    meta = read_own(path, name)
    if meta is None:
        raise _not_ours(name, module, path, f"has no readable {META} of slipbench's set {name}, so it is not replaced")
    others = foreign(path, meta)
    if others:
        raise _not_ours(name, module, path, f"holds what slipbench did not put there ({printable(', '.join(others))})")


@contextmanager
def _only_one(root: Path, name: str, report: Report) -> Iterator[None]:
    """Holds the lock under which a set is made; the kernel lets go of it when the process dies."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / f".{name}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{name}: waiting for another process that is preparing it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _turning_os_errors(root: Path, doing: str) -> Iterator[None]:
    """A full disk or a folder that cannot be written (`doing`) is the user's to mend: one sentence."""
    try:
        yield
    except BrokenPipeError:  # of the progress that nobody reads any more
        raise
    except OSError as error:
        if error.errno in FULL:
            raise UserError(
                f"the disk that holds {root} is full; free some space there, or have "
                "the data elsewhere (SLIPBENCH_DATA; of reproduce, --out)."
            ) from error
        raise UserError(f"cannot {doing} under {root} ({error}); point SLIPBENCH_DATA at another folder.") from error


def _open(name: str, module: ModuleType, root: Path, check: bool = True) -> PreparedSet:
    path = root / name
    with _turning_os_errors(root, "read"):
        if not _occupied(path):
            raise _refused(name, module, f"is not prepared under {root}")
        meta = read_own(path, name)
    if meta is None:
        raise _not_ours(name, module, path, f"has no readable {META} of slipbench's set {name}")
    options = meta["options"]
    if not is_current(meta, _generator_version(module)):
        raise _refused(name, module, f"in {path} was made by another version of slipbench", options)
    try:
        schema = read_schema(meta)
    except ValueError as error:
        raise _refused(name, module, f"has a {META} in {path} that is not complete ({error})", options) from None
    for file in FILES:
        expected = meta["files"][file]["bytes"]
        found = (path / file).stat().st_size if (path / file).is_file() else None
        if found != expected:
            state = "is missing" if found is None else f"has {found} bytes, expected {expected}"
            raise _refused(name, module, f"is damaged: {path / file} {state}", options)
    try:
        arrays = {split: load_split(path, split, schema, meta["splits"][split]["rows"], check) for split in SPLITS}
    except ValueError as error:
        raise _refused(name, module, f"is damaged: {error}", options) from None
    splits = {
        split: Split(schema, parts["dense"], parts["sparse"], parts["labels"].reshape(-1))
        for split, parts in arrays.items()
    }
    return PreparedSet(name=name, path=path, schema=schema, meta=meta, **splits)
