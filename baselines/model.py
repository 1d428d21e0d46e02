"""The named models, and the first rows of their tables.

The shapes are those of the papers' RM1 to RM4 (FAE, Table 2; Hotline, Table 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from datasets.errors import UserError
from datasets.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Model:
    """A named model: the width of a row and the layers of its MLPs.

    With `final`, the model is a TBSM, whose DLRM is that of a step; without layers, it is a logistic regression.
    """

    dim: int
    bottom: tuple[int, ...] = ()  # widths after the dense features; the last one is `dim`
    top: tuple[int, ...] = ()  # widths after the interaction; the last one is 1, or in a TBSM that of a step's vector
    attention: tuple[int, ...] = ()  # widths between the scores of the history's steps and their weights
    final: tuple[int, ...] = ()  # widths after context and candidate; the last one is 1
    summary: str


MODELS = {
    "small": Model(dim=16, bottom=(64, 16), top=(64, 32, 1), summary="a small DLRM, for a laptop and for tests"),
    "rm1": Model(
        dim=16,
        bottom=(16,),
        top=(15, 15),
        attention=(15, 15),
        final=(60, 1),
        summary="the papers' TBSM for Taobao: a DLRM of each step, attention over the steps; needs a time series",
    ),
    "rm2": Model(dim=16, bottom=(512, 256, 64, 16), top=(512, 256, 1), summary="the papers' DLRM for Criteo Kaggle"),
    "rm3": Model(dim=64, bottom=(512, 256, 64), top=(512, 512, 256, 1), summary="the papers' DLRM for Criteo Terabyte"),
    "rm4": Model(dim=16, bottom=(512, 256, 64, 16), top=(512, 256, 1), summary="the papers' DLRM for Avazu"),
    "logistic": Model(dim=1, summary="a logistic regression: one weight a row, no interactions"),
}


def check_fits(model: Model, schema: Schema) -> None:
    """UserError for a model that attends over steps where the inputs have none. Any other sees all steps at once."""
    if model.final and schema.steps < 2:
        raise UserError(
            "the model attends over the steps of a time series, and an input of this data set is a single step; "
            "take a data set of sequences, or a model without attention (`slipbench list datasets` and `models`)."
        )


def initial_rows(schema: Schema, dim: int, seed: int, table: int) -> torch.Tensor:
    """[rows, D] float32: the initial rows of one table, the same wherever they are made; the reserved row is zero.

    Those of the published DLRM: U(-sqrt(1/n), sqrt(1/n)) in a table of n rows.
    """
    num_rows = schema.tables[table].rows
    random = torch.Generator().manual_seed(seed * 1_000_003 + table)
    bound = math.sqrt(1 / num_rows)
    rows = torch.empty(num_rows, dim).uniform_(-bound, bound, generator=random)
    rows[schema.reserved_rows[table] - schema.table_offsets[table]] = 0
    return rows
