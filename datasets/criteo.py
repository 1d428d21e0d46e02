"""What the two Criteo sets share: a line is a label, 13 integers and 26 hexadecimal ids, the last 39 empty or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from datasets.click_log import Inputs, log_dense, to_keys
from datasets.layout import Field, Layout
from datasets.text import Block

DENSE = tuple(f"I{number}" for number in range(1, 14))
SPARSE = tuple(f"C{number}" for number in range(1, 27))
FIELDS = (
    Field(name="label", low=0, high=1),
    *(Field(name=name, empty=True) for name in DENSE),
    *(Field(name=name, kind="hex", empty=True) for name in SPARSE),
)
SPARSE_AT = 1 + len(DENSE)


def layout(what: str, unlabelled: str) -> Layout:
    """The columns, with the file's name for people and what a file without labels is."""
    return Layout(what=what, fields=FIELDS, separator="\t", widths={len(FIELDS) - 1: unlabelled})


def convert(block: Block) -> Inputs:
    """Labels, log-scaled integers and keys of a block of lines."""
    values = block.values
    return Inputs(log_dense(values[:, 1:SPARSE_AT]), to_keys(values[:, SPARSE_AT:]), values[:, 0].astype(np.int32))


def paper(model: str, lr: float, batch_size: int) -> dict[str, Any]:
    """The papers' configuration: plain SGD."""
    return {"model": model, "batch_size": batch_size, "optimizer": "sgd", "lr": {"sgd": lr}, "settings": {}}
