"""The arrays of a prepared set: mapped, not read into memory, and checked value by value when they are opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from datasets.npy import HEADER, read_rows
from datasets.schema import Schema
from datasets.writer import META, PARTS, file_name, id_out_of_range

CHECK_ROWS = 1 << 18  # inputs that are checked at a time


def load_split(path: Path, split: str, schema: Schema, rows: int, check: bool = True) -> dict[str, np.ndarray]:
    """Part → array of one split. ValueError, with the file and the row, for what does not fit or cannot be.

    Without `check` the values are not looked at: those that were just written were looked at then.
    """
    widths = {"dense": schema.num_dense, "sparse": schema.num_lookups, "labels": 1}
    files = {part: path / file_name(split, part) for part in PARTS}
    arrays = {part: _map(file, part, (rows, widths[part])) for part, file in files.items()}
    # read, not looked at through the map, whose pages would all count as this process's memory
    blocks = {part: read_rows(files[part], widths[part], PARTS[part], rows, CHECK_ROWS) for part in PARTS}
    for first in range(0, rows if check else 0, CHECK_ROWS):
        block = {part: next(of_part) for part, of_part in blocks.items()}
        fault = _fault(schema, block["dense"], block["sparse"], block["labels"].reshape(-1))
        if fault:
            part, row, why = fault
            raise ValueError(f"{path / file_name(split, part)}, row {first + row} of the {split} split: {why}")
    return arrays


def _map(file: Path, part: str, shape: tuple[int, int]) -> np.ndarray:
    try:
        # mapped copy on write, so that PyTorch takes it as writable; as a plain array, so that its parts are too
        array = np.lib.format.open_memmap(file, mode="c")
    except Exception as error:  # NumPy has many for a header that is damaged
        raise ValueError(f"{file} ({error})") from None
    if array.dtype != PARTS[part] or array.shape != shape or not array.flags.c_contiguous:
        order = "" if array.flags.c_contiguous else ", in Fortran order"
        found = f"{array.dtype} {array.shape}{order}"
        raise ValueError(f"{file} does not fit {META}: expected {PARTS[part]} {shape}, found {found}")
    if array.size and array.offset != HEADER:
        raise ValueError(f"{file} has a header of {array.offset} bytes, expected {HEADER}")
    return np.asarray(array)


def _fault(schema: Schema, dense: np.ndarray, ids: np.ndarray, labels: np.ndarray) -> tuple[str, int, str] | None:
    """(part, row in the block, what is wrong with it), or None."""
    finite = np.isfinite(dense)
    if not finite.all():
        row, column = (int(at) for at in np.argwhere(~finite)[0])
        name = schema.dense[column % len(schema.dense)]
        return "dense", row, f"{name} is {dense[row, column]}, not a finite number"
    wrong = labels.view(np.uint32) > 1
    if wrong.any():
        row = int(np.argmax(wrong))
        return "labels", row, f"the label is {labels[row]}, neither 0 nor 1"
    found = id_out_of_range(schema, ids)
    if found:
        table = schema.tables[schema.lookup_tables[found[1]]]
        return "sparse", found[0], f"id {ids[found]}, but table {table.name} has {table.rows} rows"
    return None
