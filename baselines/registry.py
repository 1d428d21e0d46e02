"""Names of systems → the module of each, imported when used; third parties add theirs by entry point."""

from __future__ import annotations

from types import ModuleType

from datasets.registry import load, names

SYSTEMS = {
    "xdl-cpu": "baselines.xdl_cpu",
    "xdl": "baselines.xdl",
    "dlrm": "baselines.dlrm",
    "torchrec": "baselines.torchrec",
    "fae": "baselines.fae",
    "hotline": "baselines.hotline",
    "slipstream": "slipstream.system",
}
BASELINES = tuple(name for name in SYSTEMS if name != "slipstream")


def system_names() -> dict[str, str]:
    """Every system's name and dotted path."""
    return names(SYSTEMS, "slipbench.systems")


def load_system(name: str) -> ModuleType:
    """The module of a system: `SUMMARY`, `SETTINGS` and `build(job)`."""
    return load("system", name, system_names())
