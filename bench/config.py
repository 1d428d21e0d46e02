"""The configuration of one run: resolved, checked, hashed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import tomli_w

from baselines.registry import load_system, system_names
from datasets.errors import UserError, unknown
from datasets.registry import dataset_names, load_dataset
from datasets.settings import Setting
from datasets.settings import resolve as resolve_settings

OPTIMIZERS = ("sgd", "rowwise-adagrad", "adagrad")  # of baselines.optimizer, which is slow to import
LEARNING_RATES = {"sgd": 0.1, "rowwise-adagrad": 0.02, "adagrad": 0.02}  # where a data set names none
PRESETS = ("default", "paper")
PACKAGES = ("bench", "baselines", "slipstream", "datasets")
ROOT = Path(__file__).resolve().parent.parent


def option(default: Any, help: str, flag: bool = True, **limits: Any) -> Any:
    """A field of `RunConfig`: its sentence, its range, and whether the command line has it as a flag."""
    return field(default=default, metadata={"help": help, "flag": flag, "limits": limits})


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything that one run depends on beside the code and the data."""

    system: str = option("dlrm", "Training system; `slipbench list systems` names them.")
    dataset: str = option("synthetic", "Data set; `slipbench list datasets` names them.")
    model: str = option("small", "Model; `slipbench list models` names them. Default: the data set's.")
    batch_size: int = option(1024, "Inputs of a mini-batch. Default: the data set's.", low=1, high=2**31 - 1)
    epochs: int = option(1, "Passes over the training inputs.", low=1, high=2**31 - 1)
    lr: float = option(0.1, "Learning rate. Default: by data set and optimizer.", low=1e-12, high=1e6)
    optimizer: str = option("sgd", "Optimizer of rows and dense part. Default: the data set's.", choices=OPTIMIZERS)
    precision: str = option("fp32", "Number format; bf16 keeps float32 rows.", choices=("fp32", "bf16", "fp64"))
    device: str = option("auto", "Where the dense part runs; auto takes a GPU if any.", choices=("auto", "cpu", "cuda"))
    threads: int = option(0, "Threads of the CPU; 0 takes as many as it has.", low=0, high=4096)
    seed: int = option(0, "Seed of initial weights, order and sampling.", low=0, high=2**31 - 1)
    repeat: int = option(0, "Number of this run among equal ones, which measure time only.", flag=False, low=0)
    limit_rows: int = option(0, "Train on no more than this many inputs; 0 takes all.", low=0)
    eval_every: int = option(0, "Training inputs between two evaluations; 0 evaluates at the end only.", low=0)
    warmup_steps: int = option(5, "Steps before the clock starts; what they trained is undone.", flag=False, low=0)
    window_steps: int = option(50, "Steps in a row of steps.csv.", flag=False, low=1)
    settings: Mapping[str, Any] = field(default_factory=dict, metadata={"help": "The system's settings, all of them."})

    def __post_init__(self) -> None:
        for item in CHECKED:
            checked = item.check(getattr(self, item.key.replace("-", "_")))
            object.__setattr__(self, item.key.replace("-", "_"), checked)
        for kind, name, known in (
            ("system", self.system, system_names()),
            ("data set", self.dataset, dataset_names()),
        ):
            if name not in known:
                raise unknown(kind, name, known)
        if self.threads == 0:
            object.__setattr__(self, "threads", len(os.sched_getaffinity(0)))

    @property
    def settings_text(self) -> str:
        """The settings that differ from what the system has by default on this data set, as `key=value` words."""
        usual = usual_settings(load_system(self.system), load_dataset(self.dataset))
        changed = {key: value for key, value in self.settings.items() if value != usual.get(key)}
        return " ".join(f"{key}={_word(value)}" for key, value in sorted(changed.items()))

    def config_hash(self, fingerprint: str) -> str:
        """Short name of this configuration on the data with this fingerprint; equal if and only if all is equal.

        All is the code of a system from another package, too; that of this one is in `code_version`.
        """
        added = [digest] if (digest := _foreign_code(self.system)) else []
        text = json.dumps([asdict(self), fingerprint, *added], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_toml(self) -> str:
        """The form that `--config` reads: the keys of the flags, and one table `[set]`."""
        values = {name.replace("_", "-"): value for name, value in asdict(self).items() if name != "settings"}
        return tomli_w.dumps({**values, "set": dict(self.settings)})


def _checked_fields() -> tuple[Setting, ...]:
    described: list[Any] = [item for item in fields(RunConfig) if item.name != "settings"]
    return tuple(
        Setting(key=f.name.replace("_", "-"), default=f.default, help=f.metadata["help"], **f.metadata["limits"])
        for f in described
    )


CHECKED = _checked_fields()  # every field but `settings`, by the name of its flag
FLAGS = {item.name.replace("_", "-") for item in fields(RunConfig) if item.metadata.get("flag")}


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def usual_settings(system: ModuleType, dataset: ModuleType) -> dict[str, Any]:
    """Every setting of a system as it is on a data set where the user says nothing."""
    return resolve_settings(
        system.SETTINGS, _known(system, _defaults(system, dataset, "default")["settings"]), "the data set"
    )


def _known(system: ModuleType, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that the system has."""
    keys = {setting.key for setting in system.SETTINGS}
    return {key: value for key, value in settings.items() if key in keys}


def _defaults(system: ModuleType, dataset: ModuleType, preset: str) -> dict[str, Any]:
    """The values for the fields before anything is given; `lr` by optimizer and `settings` as mappings."""
    layers = [dataset.DEFAULTS]
    if preset == "paper":
        layers += [{"settings": getattr(system, "PAPER", {})}, getattr(dataset, "PAPER", {})]
    merged: dict[str, Any] = {}
    rates: dict[str, float] = dict(LEARNING_RATES)
    settings: dict[str, Any] = {}
    for layer in layers:
        merged |= layer
        lr = layer.get("lr", {})
        rates |= lr if isinstance(lr, Mapping) else {merged.get("optimizer", "sgd"): lr}
        settings |= layer.get("settings", {})
    return {**merged, "lr": rates, "settings": settings}


def check_names(given: Iterable[str], also: Sequence[str] = ()) -> None:
    """UserError for a key that is no field of `RunConfig` (nor among `also`)."""
    known = [item.key for item in CHECKED] + list(also)
    for key in given:
        if key not in known:
            raise unknown("option", key, known)


def resolve(given: Mapping[str, Any], settings: Mapping[str, Any], preset: str = "default") -> RunConfig:
    """The configuration of a run: field defaults < the data set's < the preset's < what is given.

    `given` holds fields by the names of their flags. A setting that the system does not have is refused where it is
    given, and left out where it is a default of the data set's.
    """
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    check_names(given)
    names = {key.replace("-", "_"): value for key, value in given.items()}
    first = RunConfig(**names)  # refuses wrong values before anything heavy is imported
    system, dataset = load_system(first.system), load_dataset(first.dataset)
    defaults = _defaults(system, dataset, preset)
    merged = defaults | names
    if isinstance(merged["lr"], Mapping):
        merged["lr"] = merged["lr"][merged.get("optimizer", first.optimizer)]
    merged["settings"] = resolve_settings(
        system.SETTINGS, _known(system, defaults["settings"]) | dict(settings), f"system '{first.system}'"
    )
    if check := getattr(system, "check", None):
        check(merged["settings"])
    config = RunConfig(**merged)
    check_model(config.model)
    return config


def check_model(name: str) -> None:
    """UserError where there is no such model."""
    from baselines.model import MODELS

    if name not in MODELS:
        raise unknown("model", name, MODELS)


def parse_settings(words: tuple[str, ...] | list[str]) -> dict[str, str]:
    """`KEY=VALUE` words as a mapping."""
    parsed = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise UserError(f"a setting is written KEY=VALUE, got '{word}'.")
        parsed[key.strip()] = value.strip()
    return parsed


@contextmanager
def blaming(path: object) -> Iterator[None]:
    """A UserError inside is a mistake in this file, which its sentence names; in none, if that is None."""
    try:
        yield
    except UserError as error:
        raise error if path is None else UserError(f"{path}: {error}") from None


def read_file(path: Path, also: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options and the settings of a configuration file. Nested tables under `[set]` are joined by dots.

    UserError for an option that is no field of `RunConfig` (nor among `also`), or whose value does not fit.
    """
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"cannot read the configuration {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a TOML file: {error}") from None
    settings = content.pop("set", {})
    if not isinstance(settings, dict):
        raise UserError(f'{path}: `set` is a table of settings, such as [set] with skip = "random" below it.')
    given = {key.replace("_", "-"): value for key, value in content.items()}
    with blaming(path):
        check_names(given, also)
        for key in content:
            if "_" in key and key.replace("_", "-") in content:
                raise UserError(f"{key} and {key.replace('_', '-')} are the same option; leave one out.")
        RunConfig(**{item.key.replace("-", "_"): given[item.key] for item in CHECKED if item.key in given})
    return given, flatten(settings)


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


@cache
def _foreign_code(system: str) -> str:
    """Checksum over the source of a system that an installed package adds; nothing for those of this one."""
    path = system_names()[system].partition(":")[0]
    if path.split(".")[0] in PACKAGES:
        return ""
    load_system(system)
    top = sys.modules[path.split(".")[0]]
    folders = [Path(folder) for folder in getattr(top, "__path__", [])]
    files = [file for folder in folders for file in folder.rglob("*.py")] or [Path(str(top.__file__))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:8]


@cache
def code_version() -> str:
    """Version of the package and a short checksum over the project's own code, which works without git too."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode())
            digest.update(path.read_bytes())
    try:
        number = version("slipbench")
    except PackageNotFoundError:
        number = "0"
    return f"{number}+{digest.hexdigest()[:8]}"
