"""What a data set's module writes into: a stream of blocks per split, and at the end the `meta.json` beside them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from datasets.errors import UserError
from datasets.schema import Schema

FORMAT_VERSION = 1  # of the files and of meta.json; a set of another version is built again
SPLITS = ("train", "validation", "test")
META = "meta.json"
PARTS: dict[str, np.dtype[Any]] = {  # as TorchRec's Criteo loaders read them; sparse: ids within their tables
    "dense": np.dtype(np.float32),
    "sparse": np.dtype(np.int32),
    "labels": np.dtype(np.int32),
}


def file_name(split: str, part: str) -> str:
    """The file of one part (`dense`, `sparse`, `labels`) of one split."""
    return f"{split}_{part}.npy"


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


class NpyStream:
    """A flat `.npy` file [rows, width] that grows by appending; the header gets its number of rows at the end."""

    def __init__(self, path: Path, width: int, dtype: np.dtype[Any]) -> None:
        self.width, self.dtype, self.rows = width, dtype, 0
        self._file: BinaryIO = path.open("wb")
        self._header = self._write_header()

    def _write_header(self) -> int:
        """Writes the header at the start; NumPy pads it, so that any number of rows takes the same space."""
        self._file.seek(0)
        fields = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, self.width)}
        np.lib.format.write_array_header_1_0(self._file, fields)
        return self._file.tell()

    def append(self, block: np.ndarray) -> None:
        """Adds [n, width] rows."""
        self._file.write(np.ascontiguousarray(block, dtype=self.dtype).data)
        self.rows += len(block)

    def close(self) -> None:
        """Completes the header and closes the file."""
        header = self._write_header()
        assert header == self._header, "the .npy header moved"
        self._file.close()

    def abandon(self) -> None:
        """Closes the file as it is; what could not be written is lost."""
        with suppress(OSError):
            self._file.close()


class StoreWriter:
    """Takes the inputs of a data set block by block and writes the prepared set's files into an empty folder.

    A data set's module sets `schema` (any time before the end, for table sizes may be known only then), calls
    `append` with blocks in the order of the inputs, and may use `drop`, `add_source` and `facts`.
    """

    def __init__(self, folder: Path, name: str, options: Mapping[str, Any], generator: int = 1) -> None:
        self.schema: Schema | None = None
        self.facts: dict[str, Any] = {}  # whatever the module knows of its set, e.g. best_auc
        self._folder, self._name, self._options, self._generator = folder, name, dict(options), generator
        self._streams: dict[tuple[str, str], NpyStream] = {}
        self._widths: dict[str, int] = {}
        self._max_id: np.ndarray | None = None  # [C]
        self._positives: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._sources: list[dict[str, Any]] = []

    def append(self, split: str, dense: np.ndarray, ids: np.ndarray, labels: np.ndarray) -> None:
        """Adds inputs to a split: `dense` [n, F] finite, `ids` [n, C] within their tables, `labels` [n] 0 or 1.

        ValueError for what does not fit: a data set's module must not let it come this far.
        """
        widths = {"dense": dense.shape[1], "sparse": ids.shape[1], "labels": 1}
        self._widths = self._widths or widths
        if widths != self._widths or not len(dense) == len(ids) == len(labels):
            raise ValueError(
                f"{split}: blocks of shapes {dense.shape}, {ids.shape}, {labels.shape} do not fit together"
            )
        if not np.isfinite(dense).all():
            raise ValueError(f"{split}: a dense value is not finite")
        if not np.isin(labels, (0, 1)).all():
            raise ValueError(f"{split}: a label is neither 0 nor 1")
        self._check_ids(split, ids)
        for part, block in (("dense", dense), ("sparse", ids), ("labels", labels.reshape(-1, 1))):
            self._stream(split, part).append(block)
        self._positives[split] += int(labels.sum())

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts inputs of the source that are not in the set."""
        if count:
            self._dropped[reason] += int(count)

    def add_source(self, path: Path) -> None:
        """Records a file that the set was made from."""
        try:
            self._sources.append({"name": path.name, "bytes": path.stat().st_size, "sha256": checksum(path)})
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}).") from error

    def finish(self) -> None:
        """Completes the files and writes `meta.json`, the last thing to appear in the folder."""
        schema = self.schema
        if schema is None:
            raise ValueError(f"{self._name}: no schema was set")
        self._widths = self._widths or {"dense": len(schema.dense), "sparse": schema.num_lookups, "labels": 1}
        if (self._widths["dense"], self._widths["sparse"]) != (len(schema.dense), schema.num_lookups):
            raise ValueError(f"{self._name}: the schema does not fit the blocks, which had widths {self._widths}")
        if self._max_id is not None:
            self._raise_out_of_range("the set", schema, self._max_id[None])
        if not self._inputs("train"):
            others = ", ".join(f"{self._inputs(split):,} for {split}" for split in SPLITS[1:])
            options = ", ".join(f"{key}={value}" for key, value in self._options.items())
            raise UserError(
                f"{self._name}: no input is left for training ({others}); check the source and the options: {options}"
            )
        streams = {(split, part): self._stream(split, part) for split in SPLITS for part in PARTS}
        for stream in streams.values():
            stream.close()
        meta = self._meta(schema, {split: streams[split, "labels"].rows for split in SPLITS})
        (self._folder / META).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")

    def _meta(self, schema: Schema, rows: Mapping[str, int]) -> dict[str, Any]:
        paths = [self._folder / file_name(split, part) for split in SPLITS for part in PARTS]
        return {
            "name": self._name,
            "format_version": FORMAT_VERSION,
            "generator_version": self._generator,
            "tool_version": tool_version(),
            "schema": schema.to_dict(),
            "splits": {split: {"rows": rows[split], "positives": self._positives[split]} for split in SPLITS},
            "options": self._options,
            "sources": self._sources,
            "rows_dropped": dict(self._dropped),
            "files": {path.name: {"bytes": path.stat().st_size, "sha256": checksum(path)} for path in paths},
            "facts": self.facts,
        }

    def _inputs(self, split: str) -> int:
        return self._streams[split, "labels"].rows if (split, "labels") in self._streams else 0

    def _stream(self, split: str, part: str) -> NpyStream:
        if split not in SPLITS:
            raise ValueError(f"no split is named '{split}'")
        if (split, part) not in self._streams:
            path = self._folder / file_name(split, part)
            self._streams[split, part] = NpyStream(path, self._widths[part], PARTS[part])
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
        for stream in self._streams.values():
            stream.abandon()
