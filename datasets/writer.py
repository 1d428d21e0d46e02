"""What a data set's module writes into: a stream of blocks per split, and at the end the `meta.json` beside them."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from datasets.errors import NothingLeft, UserError
from datasets.journal import Checkpoint, Journal, stamp, write_whole
from datasets.keys import pack
from datasets.npy import HEADER, NpyStream
from datasets.schema import Schema

FORMAT_VERSION = 2  # of the files and of meta.json; a set of another version is built again
SPLITS = ("train", "validation", "test")
META = "meta.json"
PARTS: dict[str, np.dtype[Any]] = {  # as TorchRec's Criteo loaders read them; sparse: ids within their tables
    "dense": np.dtype(np.float32),
    "sparse": np.dtype(np.int32),
    "labels": np.dtype(np.int32),
}
KEYS = "keys"  # a part that is there only while the ids of `sparse` are not known yet
KEY_TYPE = np.dtype(np.uint32)
ON_BAD_ROW, BAD_ROWS = "on_bad_row", "bad lines"  # the option that some sets have, and what is counted under it
VOCABULARY = "vocabulary_"  # how files begin that are there while ids are given
ENCODED = "encoded"  # the stage in which all is written, and the keys may be gone
PART_S = 5.0  # seconds between two checkpoints
PIECE = 1 << 20  # bytes of a file that are read at a time


def file_name(split: str, part: str) -> str:
    """The file of one part (`dense`, `sparse`, `labels`) of one split."""
    return f"{split}_{part}.npy"


def checksum(path: Path, stop: threading.Event | None = None) -> str:
    """SHA-256 of a file, in hex; of the part that was read where it is told to stop."""
    digest, piece = hashlib.sha256(), memoryview(bytearray(PIECE))
    with path.open("rb", buffering=0) as file:
        while (count := file.readinto(piece)) and not (stop and stop.is_set()):
            digest.update(piece[:count])
    return digest.hexdigest()


def tool_version() -> str:
    """The installed version of slipbench."""
    try:
        return version("slipbench")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def id_out_of_range(schema: Schema, ids: np.ndarray) -> tuple[int, int] | None:
    """The (input, lookup) of an id outside its table, or None. `ids`: [n, C] int32, ids within their tables."""
    if not len(ids):
        return None
    rows = np.array([schema.tables[table].rows for table in schema.lookup_tables], dtype=np.uint32)
    unsigned = ids.view(np.uint32)  # a negative id turns into a huge one: one comparison finds both
    bad = np.flatnonzero(unsigned.max(axis=0) >= rows)
    if not len(bad):
        return None
    lookup = int(bad[0])
    return int(np.argmax(unsigned[:, lookup] >= rows[lookup])), lookup


def identity(options: Mapping[str, Any], generator: int) -> dict[str, Any]:
    """What finished parts depend on beside the sources: versions and options, but for what is done with bad lines."""
    lasting = {key: value for key, value in options.items() if key != ON_BAD_ROW}
    return {"tool": tool_version(), "format": FORMAT_VERSION, "generator": generator, "options": lasting}


class StoreWriter:
    """Takes the inputs of a data set block by block and writes the prepared set's files into a folder.

    A data set's module sets `schema` (any time before the end, for table sizes may be known only then), calls
    `append` with blocks in the order of the inputs, and may use `drop`, `add_source` and `facts`. Where it calls
    `finish_part` as well, a preparation that was stopped goes on: `state` is then what it said last.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        options: Mapping[str, Any],
        generator: int = 1,
        sources: Sequence[Path] = (),
    ) -> None:
        self.schema: Schema | None = None
        self.facts: dict[str, Any] = {}  # whatever the module knows of its set, e.g. best_auc
        self.state: Mapping[str, Any] = {}  # of the last finished part
        self.folder = folder  # for files of the module's own while it works
        self._name, self._options, self._generator = name, dict(options), generator
        self._streams: dict[tuple[str, str], NpyStream] = {}
        self._widths: dict[str, int] = {}
        self._max_id: np.ndarray | None = None  # [C]
        self._positives: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._sources: dict[Path, tuple[list[Any], Future[str]]] = {}
        self._hasher = ThreadPoolExecutor(1, thread_name_prefix="checksum")
        self._closed = threading.Event()
        self._num_sources = len(sources)
        files = [path for path in sources if path.is_file()]
        self._journal = Journal.open(folder, identity(options, generator), files)
        self._journal.checkpoints = [point for point in self._journal.checkpoints if self._holds(point)]
        self._saved = time.monotonic()
        if self._journal.checkpoints:
            self._go_on(self._journal.checkpoints[-1])

    @property
    def has_parts(self) -> bool:
        """Whether there is something to go on from."""
        return bool(self._journal.checkpoints)

    def append(self, split: str, dense: np.ndarray, ids: np.ndarray, labels: np.ndarray) -> None:
        """Adds inputs to a split: `dense` [n, S·F] finite, `ids` [n, C] within their tables, `labels` [n] 0 or 1.

        ValueError for what does not fit: a data set's module must not let it come this far.
        """
        self._append(split, dense, labels, "sparse", ids)

    def append_keys(self, split: str, dense: np.ndarray, keys: np.ndarray, labels: np.ndarray) -> None:
        """As `append`, with keys [n, C] int64 that `datasets.vocabulary.encode` will make the ids from."""
        self._append(split, dense, labels, KEYS, pack(keys))

    def _append(self, split: str, dense: np.ndarray, labels: np.ndarray, part: str, block: np.ndarray) -> None:
        if not len(dense) == len(block) == len(labels):
            raise ValueError(
                f"{split}: blocks of shapes {dense.shape}, {block.shape}, {labels.shape} do not fit together"
            )
        if not np.isfinite(dense).all():
            raise ValueError(f"{split}: a dense value is not finite")
        if not ((labels == 0) | (labels == 1)).all():
            raise ValueError(f"{split}: a label is neither 0 nor 1")
        arrays = {"dense": dense, part: block, "labels": labels.reshape(-1, 1)}
        for name, array in arrays.items():
            self._check_width(split, name, array)
        if part == "sparse":
            self._check_ids(split, block)
        for name, array in arrays.items():
            self._stream(split, name).append(array)
        self._positives[split] += int(labels.sum())

    def append_ids(self, split: str, ids: np.ndarray) -> None:
        """Adds ids [n, C] of inputs whose other parts are there."""
        self._check_width(split, "sparse", ids)
        self._check_ids(split, ids)
        self._stream(split, "sparse").append(ids)

    def _check_width(self, split: str, part: str, block: np.ndarray) -> None:
        width = self._widths.setdefault(part, block.shape[1])
        if block.shape[1] != width:
            raise ValueError(f"{split}: {part} of {block.shape[1]} and of {width} columns do not fit together")

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts inputs of the source that are not in the set."""
        if count:
            self._dropped[reason] += int(count)

    def add_source(self, path: Path) -> None:
        """Records a file that the set is made from; its checksum is computed beside the work."""
        try:
            self._sources[path] = (stamp(path), self._hasher.submit(checksum, path, self._closed))
        except OSError as error:
            raise _unreadable(path, error) from error

    def finish_part(self, uses: int | None = None, force: bool = False, **state: Any) -> None:
        """Everything so far is whole; after a kill, work goes on from here, with this `state` (JSON values).

        `uses` is the number of source files that it depends on, from the first; default: all. Written down every few
        seconds only, unless `force` says that it has to be.
        """
        if not force and time.monotonic() - self._saved < PART_S:
            return
        self.flush()
        kept = {
            "streams": [[split, part, stream.width, stream.rows] for (split, part), stream in self._streams.items()],
            "max_id": None if self._max_id is None else self._max_id.tolist(),
            "positives": dict(self._positives),
            "dropped": dict(self._dropped),
            "facts": dict(self.facts),
        }
        self._journal.add(Checkpoint(self._num_sources if uses is None else uses, state, kept))
        self.state = state
        self._saved = time.monotonic()

    def _holds(self, point: Checkpoint) -> bool:
        """Whether the files are as long as a checkpoint says, and hold no more than these options would let pass."""
        if self._options.get(ON_BAD_ROW) == "refuse" and point.kept["dropped"].get(BAD_ROWS):
            return False
        for split, part, width, rows in point.kept["streams"]:
            path = self.folder / file_name(split, part)
            if not path.is_file() or path.stat().st_size < HEADER + rows * width * _type(part).itemsize:
                return False
        return True

    def _go_on(self, point: Checkpoint) -> None:
        """Everything as it was at a checkpoint; what was written after it is cut off."""
        kept = point.kept
        self.state = dict(point.state)
        self.facts = dict(kept["facts"])
        self._max_id = None if kept["max_id"] is None else np.array(kept["max_id"], np.int32)
        self._positives, self._dropped = Counter(kept["positives"]), Counter(kept["dropped"])
        for split, part, width, rows in kept["streams"]:
            self._widths[part] = width
            self._streams[split, part] = NpyStream(self.folder / file_name(split, part), width, _type(part), rows)

    def rows(self, split: str, part: str = "labels") -> int:
        """Inputs of a split whose part is written."""
        return self._streams[split, part].rows if (split, part) in self._streams else 0

    def remove_keys(self) -> None:
        """Remove what ids were made from; from then on, work goes on without it."""
        for split in SPLITS:
            if stream := self._streams.pop((split, KEYS), None):
                stream.abandon()
        schema = None if self.schema is None else self.schema.to_dict()
        self.finish_part(force=True, **{**self.state, "stage": ENCODED, "schema": schema})
        for path in (*(self.folder / file_name(split, KEYS) for split in SPLITS), *self.folder.glob(f"{VOCABULARY}*")):
            path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Have what was appended where it can be read from."""
        for stream in self._streams.values():
            stream.sync()

    def finish(self) -> None:
        """Completes the files and writes `meta.json`, the last thing to appear in the folder."""
        schema = self.schema
        if schema is None:
            raise ValueError(f"{self._name}: no schema was set")
        widths = {"dense": schema.num_dense, "sparse": schema.num_lookups, "labels": 1}
        if any(self._widths.get(part, width) != width for part, width in widths.items()):
            raise ValueError(f"{self._name}: the schema does not fit the blocks, which had widths {self._widths}")
        self._widths = dict(widths)
        if self._max_id is not None:
            self._raise_out_of_range("the set", schema, self._max_id[None])
        if not self.rows("train"):
            others = ", ".join(f"{self.rows(split):,} for {split}" for split in SPLITS[1:])
            options = ", ".join(f"{key}={value}" for key, value in self._options.items())
            dropped = "".join(f"; {count:,} dropped: {reason}" for reason, count in self._dropped.items())
            raise NothingLeft(
                f"{self._name}: no input is left for training ({others}){dropped}; check the source and the options: "
                f"{options}."
            )
        streams = {(split, part): self._stream(split, part) for split in SPLITS for part in PARTS}
        for stream in streams.values():
            stream.close()
        self.facts = {key: _number(self._name, key, value) for key, value in self.facts.items()}
        meta = self._meta(schema, {split: streams[split, "labels"].rows for split in SPLITS})
        write_whole(self.folder / META, json.dumps(meta, indent=1) + "\n")

    def _meta(self, schema: Schema, rows: Mapping[str, int]) -> dict[str, Any]:
        paths = [self.folder / file_name(split, part) for split in SPLITS for part in PARTS]
        with ThreadPoolExecutor(thread_name_prefix="checksum") as pool:
            sums = list(pool.map(checksum, paths))
        return {
            "name": self._name,
            "format_version": FORMAT_VERSION,
            "generator_version": self._generator,
            "tool_version": tool_version(),
            "schema": schema.to_dict(),
            "splits": {split: {"rows": rows[split], "positives": self._positives[split]} for split in SPLITS},
            "options": self._options,
            "sources": [self._source(path) for path in self._sources],
            "rows_dropped": dict(self._dropped),
            "files": {
                path.name: {"bytes": path.stat().st_size, "sha256": digest}
                for path, digest in zip(paths, sums, strict=True)
            },
            "facts": self.facts,
        }

    def _source(self, path: Path) -> dict[str, Any]:
        before, digest = self._sources[path]
        try:
            result, after = digest.result(), stamp(path)
        except OSError as error:
            raise _unreadable(path, error) from error
        if before != after:
            raise UserError(f"{path}: it changed while it was read; run the same command again.")
        return {"name": path.name, "bytes": before[1], "sha256": result}

    def _stream(self, split: str, part: str) -> NpyStream:
        if split not in SPLITS:
            raise ValueError(f"no split is named '{split}'")
        if (split, part) not in self._streams:
            path = self.folder / file_name(split, part)
            self._streams[split, part] = NpyStream(path, self._widths[part], _type(part))
        return self._streams[split, part]

    def _check_ids(self, split: str, ids: np.ndarray) -> None:
        if not len(ids):
            return
        if int(ids.min()) < 0 or int(ids.max()) > np.iinfo(np.int32).max:
            raise ValueError(f"{split}: an id does not fit into 0 … 2³¹-1")
        highest = ids.max(axis=0).astype(np.int32)
        self._max_id = highest if self._max_id is None else np.maximum(self._max_id, highest)
        if self.schema is not None:
            self._raise_out_of_range(split, self.schema, highest[None])

    def _raise_out_of_range(self, where: str, schema: Schema, ids: np.ndarray) -> None:
        found = id_out_of_range(schema, ids)
        if found:
            table = schema.tables[schema.lookup_tables[found[1]]]
            raise ValueError(f"{where}: table {table.name} has {table.rows} rows, got id {ids[found]}")

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed.set()
        self._hasher.shutdown(cancel_futures=True)
        for stream in self._streams.values():
            stream.abandon()


def _type(part: str) -> np.dtype[Any]:
    return KEY_TYPE if part == KEYS else PARTS[part]


def _number(name: str, key: str, value: Any) -> int | float | None:
    """A fact as `meta.json` keeps it. ValueError for what is no number, which a data set's module must not leave."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and (isinstance(plain, bool) or not isinstance(plain, int | float)):
        raise ValueError(f"{name}: the fact {key} is {value!r}, not a number")
    return plain


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be read ({error.strerror}).")
