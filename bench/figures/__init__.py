"""The figures: what each draws, from a `Source`; `bench.plot` loads and saves. To add one, add it to `FIGURES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pandas as pd

from bench.figures.accuracy import accuracy_over_time
from bench.figures.bars import skip_policies, speedups
from bench.figures.common import Source
from bench.figures.coverage import coverage
from bench.figures.decisions import decisions_over_training
from bench.figures.phases import time_by_phase
from bench.figures.sources import speedups_by_source
from bench.figures.study import skipping_by_drop_ratio, skipping_by_size
from bench.figures.traffic import traffic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Source"]

FIGURES: dict[str, Callable[[Source, pd.DataFrame, str], Figure | None]] = {  # None: no data for it
    "speedup": speedups,
    "speedup-by-source": speedups_by_source,
    "accuracy-over-time": accuracy_over_time,
    "time-by-phase": time_by_phase,
    "traffic": traffic,
    "skip-policies": skip_policies,
    "decisions": decisions_over_training,
    "hot-set-coverage": coverage,
    "skipping-by-drop-ratio": skipping_by_drop_ratio,
    "skipping-by-size": skipping_by_size,
}
