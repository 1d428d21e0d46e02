"""What one labelled input looks like: the dense features, the embedding tables, and the flat space of row ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

RESERVED_ID = 0  # in every table, the row of ids that were not seen in training: zero, and never trained


@dataclass(frozen=True, kw_only=True)
class Table:
    """One embedding table."""

    name: str
    rows: int  # the reserved row included
    lookups: int = 1  # ids of one step of an input; their vectors are summed

    def __post_init__(self) -> None:
        if self.rows < 2 or self.lookups < 1:
            raise ValueError(
                f"table {self.name}: needs at least 2 rows and 1 lookup, got {self.rows} and {self.lookups}"
            )


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The features of a data set.

    A *row id* is an index into the concatenation of all tables: the table's offset plus the id within the table.
    Shapes used throughout: B inputs of a batch, F dense features, T tables, S steps, C lookups of an input, D width of
    a row.

    An input of a time series has S > 1 steps (TBSM: the history, oldest first, and last the candidate), each with the
    same dense features and tables. Its dense values are [S, F] flattened; its lookups stand table by table, so that
    those of one table over all steps, the table's *sequence*, lie side by side.
    """

    dense: tuple[str, ...]
    tables: tuple[Table, ...]
    steps: int = 1

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a schema has at least one step, got {self.steps}")

    @cached_property
    def num_rows(self) -> int:
        """Rows of all tables together."""
        return sum(table.rows for table in self.tables)

    @cached_property
    def num_lookups(self) -> int:
        """C, the lookups of one input in all steps."""
        return self.steps * sum(table.lookups for table in self.tables)

    @cached_property
    def num_vectors(self) -> int:
        """T · S, the pooled vectors of one input: one of each table in each step, table by table."""
        return self.steps * len(self.tables)

    @cached_property
    def num_dense(self) -> int:
        """S · F, the dense values of one input."""
        return self.steps * len(self.dense)

    @cached_property
    def table_offsets(self) -> np.ndarray:
        """[T + 1] int64: row id of each table's first row, and the number of rows at the end."""
        return np.concatenate([[0], np.cumsum([table.rows for table in self.tables])]).astype(np.int64)

    @cached_property
    def lookup_tables(self) -> np.ndarray:
        """[C] int64: the table of each lookup."""
        return np.repeat(np.arange(len(self.tables)), [self.steps * table.lookups for table in self.tables])

    @cached_property
    def lookup_vectors(self) -> np.ndarray:
        """[C] int64: the pooled vector that each lookup is summed into."""
        lookups = np.repeat([table.lookups for table in self.tables], self.steps)
        return np.repeat(np.arange(self.num_vectors), lookups)

    @cached_property
    def sequences(self) -> tuple[slice, ...]:
        """The lookups that staleness is counted in together: all of an input; in a time series, those of each table."""
        if self.steps == 1:
            return (slice(0, self.num_lookups),)
        ends = np.cumsum([self.steps * table.lookups for table in self.tables]).tolist()
        return tuple(slice(first, end) for first, end in zip([0, *ends], ends, strict=False))

    @cached_property
    def lookup_offsets(self) -> np.ndarray:
        """[C] int64: what turns an id within its table into a row id."""
        return self.table_offsets[:-1][self.lookup_tables]

    @cached_property
    def reserved_rows(self) -> np.ndarray:
        """[T] int64: the row ids of the reserved rows."""
        return self.table_offsets[:-1] + RESERVED_ID

    def to_dict(self) -> dict[str, Any]:
        """The form kept in `meta.json`."""
        return {
            "steps": self.steps,
            "dense": list(self.dense),
            "tables": [{"name": t.name, "rows": t.rows, "lookups": t.lookups} for t in self.tables],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Schema:
        """The inverse of `to_dict`."""
        tables = tuple(Table(**table) for table in fields["tables"])
        return cls(steps=fields["steps"], dense=tuple(fields["dense"]), tables=tables)
