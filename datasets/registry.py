"""Names of data sets → what stands behind each, imported when used; third parties add theirs by entry point.

Behind a name stands a module, `package.module`, or an object in one, `package.module:NAME`, with the same names in it.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from datasets.errors import unknown

DATASETS = {
    "synthetic": "datasets.synthetic",
    "kuairand": "datasets.kuairand",
    "kuairand-history": "datasets.kuairand_history",
    "synthetic-kaggle": "datasets.shapes.kaggle",
    "synthetic-terabyte": "datasets.shapes.terabyte",
    "synthetic-avazu": "datasets.shapes.avazu",
    "synthetic-taobao": "datasets.synthetic_taobao",
    "taobao": "datasets.taobao",
    "criteo-kaggle": "datasets.criteo_kaggle",
    "criteo-terabyte": "datasets.criteo_terabyte",
    "avazu": "datasets.avazu",
}


@cache
def _installed(group: str) -> dict[str, str]:
    """Names that installed packages add; once, since every file of every package's metadata is read for it."""
    return {point.name: point.value for point in entry_points(group=group)}


def names(builtin: dict[str, str], group: str) -> dict[str, str]:
    """The built-in names and those that installed packages add under the entry-point group."""
    return _installed(group) | builtin


def load(kind: str, name: str, known: dict[str, str]) -> Any:
    """What stands behind a name. UserError with the nearest name where there is none."""
    if name not in known:
        raise unknown(kind, name, known)
    path, _, attribute = known[name].partition(":")
    module = importlib.import_module(path)
    return getattr(module, attribute) if attribute else module


def dataset_names() -> dict[str, str]:
    """Every data set's name and dotted path."""
    return names(DATASETS, "slipbench.datasets")


def load_dataset(name: str) -> Any:
    """A data set: `SUMMARY`, `NEEDS_SOURCE`, `OPTIONS`, `DEFAULTS` and `write(writer, sources, options, report)`."""
    return load("data set", name, dataset_names())
