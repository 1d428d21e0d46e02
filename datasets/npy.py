"""Flat `.npy` files that are written by appending and read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

HEADER = 128  # bytes: NumPy leaves room for any number of rows, so the header of our files always takes as much


class NpyStream:
    """A flat `.npy` file [rows, width] that grows by appending, from a number of rows that are there already.

    The header gets the number of rows at the end.
    """

    def __init__(self, path: Path, width: int, dtype: np.dtype[Any], rows: int = 0) -> None:
        self.width, self.dtype, self.rows = width, dtype, rows
        self._file: BinaryIO = path.open("r+b" if rows else "wb")
        self._write_header()
        end = HEADER + rows * width * dtype.itemsize
        if self._file.seek(0, os.SEEK_END) < end:
            raise ValueError(f"{path} is shorter than its {rows} rows")
        self._file.truncate(end)
        self._file.seek(end)

    def _write_header(self) -> None:
        self._file.seek(0)
        fields = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, self.width)}
        np.lib.format.write_array_header_1_0(self._file, fields)
        assert self._file.tell() == HEADER, "the .npy header moved"

    def append(self, block: np.ndarray) -> None:
        """Adds [n, width] rows."""
        self._file.write(np.ascontiguousarray(block, dtype=self.dtype).data)
        self.rows += len(block)

    def sync(self) -> None:
        """Have the rows on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Completes the header and closes the file."""
        self._write_header()
        self.sync()
        self._file.close()

    def abandon(self) -> None:
        """Closes the file as it is; what could not be written is lost."""
        with suppress(OSError):
            self._file.close()


def read_rows(
    path: Path, width: int, dtype: np.dtype[Any], rows: int, block: int, first: int = 0
) -> Iterator[np.ndarray]:
    """Blocks [n, width] of a file's rows, read rather than mapped, so that memory holds one block at a time."""
    with path.open("rb") as file:
        file.seek(HEADER + first * width * dtype.itemsize)
        for at in range(first, rows, block):
            wanted = min(block, rows - at)
            values = np.fromfile(file, dtype, wanted * width)
            if len(values) < wanted * width:
                raise ValueError(f"{path} is shorter than its {rows} rows")
            yield values.reshape(wanted, width)
