"""What a system is given to train with: the same for all systems of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from baselines.clock import Clock
from baselines.model import Model
from datasets.schema import Schema
from datasets.store import Split


@dataclass(frozen=True, kw_only=True)
class Job:
    """Everything a system is given; the same for all systems of a comparison."""

    schema: Schema
    train: Split
    validation: Split  # all that an adapting system may look at beside the training inputs
    model: Model
    optimizer: str  # one of baselines.optimizer.OPTIMIZERS
    lr: float
    precision: str  # fp32, bf16 or fp64
    batch_size: int
    epochs: int
    seed: int
    device: torch.device
    threads: int
    settings: Mapping[str, Any]  # every declared setting of the system, defaults filled in
    clock: Clock
    cache_dir: Path  # where what is worth keeping between runs on this data set may be stored
    notes: list[str] = field(default_factory=list)  # sentences for the run's row
    decisions: list[dict[str, Any]] = field(default_factory=list)  # of decisions.csv, that the loop has yet to fetch

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows and of the dense master weights."""
        return torch.float64 if self.precision == "fp64" else torch.float32
