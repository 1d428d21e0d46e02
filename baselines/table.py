"""An embedding table: the rows of one memory tier with their optimizer's state, and its two operations."""

from __future__ import annotations

from collections.abc import Callable

import torch

from baselines import kernels
from baselines.model import initial_rows
from baselines.optimizer import row_state
from datasets.schema import Schema


class EmbeddingTable:
    """A matrix of rows [rows, D], their optimizer's state, and a mark on the rows that are never updated."""

    def __init__(self, weights: torch.Tensor, state: torch.Tensor, frozen: torch.Tensor, lr: float) -> None:
        self.weights = weights
        self.state = state  # [rows, 0], [rows, 1] or [rows, D]
        self.frozen = frozen  # [rows] uint8: kernels.FREE, RESERVED or STALE
        self.lr = lr

    def __len__(self) -> int:
        return len(self.weights)

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """The vectors [n, D] of rows [n]."""
        return kernels.gather(self.weights, rows)

    def update(self, rows: torch.Tensor, grads: torch.Tensor) -> tuple[int, int]:
        """One optimizer step with the gradients [n, D] of lookups [n]; rows written, and rows left as stale."""
        return kernels.update(self.weights, self.state, self.frozen, rows, grads, self.lr)

    def freeze(self, stale: torch.Tensor) -> None:
        """Leave the rows that `stale` [rows] bool marks as they are, instead of those of an earlier call."""
        self.frozen[self.frozen == kernels.STALE] = kernels.FREE
        self.frozen[stale & (self.frozen == kernels.FREE)] = kernels.STALE

    def part(self, rows: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]) -> EmbeddingTable:
        """A table of copies of some rows and their state, moved to where `move` puts them."""
        copies = (kernels.gather(matrix, rows) for matrix in (self.weights, self.state))
        weights, state = (move(copy) for copy in copies)
        return EmbeddingTable(weights, state, move(self.frozen[rows]), self.lr)

    def put(self, rows: torch.Tensor, part: EmbeddingTable, move: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Write a part's rows and state, moved by `move`, back over rows [n]."""
        self.weights.index_copy_(0, rows, move(part.weights))
        if self.state.shape[1]:
            self.state.index_copy_(0, rows, move(part.state))


def initial_table(
    schema: Schema,
    dim: int,
    optimizer: str,
    lr: float,
    dtype: torch.dtype,
    seed: int,
    shard: int = 0,
    num_shards: int = 1,
) -> EmbeddingTable:
    """Rows of all tables in the host's memory, as they are before training; the reserved rows are frozen.

    Of `num_shards` shards, shard s holds the row ids r with r mod num_shards = s, in order.
    """
    weights = torch.empty(len(range(shard, schema.num_rows, num_shards)), dim, dtype=dtype)
    for table, offset in enumerate(schema.table_offsets[:-1].tolist()):
        skipped = (shard - offset) % num_shards  # rows of the table before the shard's first one
        rows = initial_rows(schema, dim, seed, table)[skipped::num_shards]
        first = (offset + skipped) // num_shards
        weights[first : first + len(rows)] = rows
    frozen = torch.zeros(len(weights), dtype=torch.uint8)
    reserved = torch.from_numpy(schema.reserved_rows)
    frozen[reserved[reserved % num_shards == shard] // num_shards] = kernels.RESERVED
    return EmbeddingTable(weights, row_state(optimizer, weights), frozen, lr)
