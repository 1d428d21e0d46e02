"""Names of data sets → the module of each, imported when used; third parties add theirs by entry point."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from types import ModuleType

from datasets.errors import unknown

DATASETS = {
    "synthetic": "datasets.synthetic",
    "kuairand": "datasets.kuairand",
    "criteo-kaggle": "datasets.criteo",
}


def names(builtin: dict[str, str], group: str) -> dict[str, str]:
    """The built-in names and those that installed packages add under the entry-point group."""
    return {point.name: point.value for point in entry_points(group=group)} | builtin


def load(kind: str, name: str, known: dict[str, str]) -> ModuleType:
    """The module that stands behind a name. UserError with the nearest name where there is none."""
    if name not in known:
        raise unknown(kind, name, known)
    return importlib.import_module(known[name])


def dataset_names() -> dict[str, str]:
    """Every data set's name and dotted path."""
    return names(DATASETS, "slipbench.datasets")


def load_dataset(name: str) -> ModuleType:
    """The module of a data set."""
    return load("data set", name, dataset_names())
