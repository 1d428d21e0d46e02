"""Commands that say what there is: what can be chosen, and the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from bench.commands.group import cli
from datasets.errors import unknown


@cli.command(name="list")
@click.argument("what", metavar="systems|datasets|models|hardware")
def list_(what: str) -> int:
    """Name what can be chosen, with a sentence each."""
    if what not in LISTS:
        raise unknown("list", what, LISTS)
    summaries = LISTS[what]()
    width = max(map(len, summaries))
    for name, summary in summaries.items():
        click.echo(f"{name:{width}}  {summary}")
        for line in SETTINGS_OF[what](name) if what in SETTINGS_OF else ():
            click.echo(f"{'':{width}}    {line}")
    return 0


def _settings_of_system(name: str) -> list[str]:
    from baselines.registry import load_system

    return _declared("--set", lambda: load_system(name).SETTINGS)


def _options_of_dataset(name: str) -> list[str]:
    from datasets.registry import load_dataset

    return _declared("--option", lambda: load_dataset(name).OPTIONS)


def _declared(flag: str, load: Callable[[], Sequence[Any]]) -> list[str]:
    """Settings as they are given to a flag, with their defaults; of what cannot be imported, none."""
    try:
        declared = load()
    except ImportError:
        return []
    return [f"{flag} {item.key}={_default(item.default)}  {item.help}{_choices(item.choices)}" for item in declared]


SETTINGS_OF: dict[str, Callable[[str], list[str]]] = {"systems": _settings_of_system, "datasets": _options_of_dataset}


def _choices(choices: Sequence[str]) -> str:
    return f" ({' | '.join(choices)})" if choices else ""


def _default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _summaries(names: Sequence[str], load: Callable[[str], Any]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = str(load(name).SUMMARY)
        except ImportError as error:  # one broken plug-in leaves the others in the list
            found[name] = f"cannot be used here: {error}"
    return found


def _systems() -> dict[str, str]:
    from baselines.registry import load_system, system_names

    return _summaries(list(system_names()), load_system)


def _datasets() -> dict[str, str]:
    from datasets.registry import dataset_names, load_dataset

    return _summaries(list(dataset_names()), load_dataset)


def _models() -> dict[str, str]:
    from baselines.model import MODELS

    return {name: model.summary for name, model in MODELS.items()}


def _hardware() -> dict[str, str]:
    from bench.replay import profile

    measured = {profile.THIS_MACHINE: "this machine, as `slipbench replay --calibrate` measured it"}
    return measured | {name: profile.load(name).summary for name in profile.names()}


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "systems": _systems,
    "datasets": _datasets,
    "models": _models,
    "hardware": _hardware,
}


@cli.command()
def env() -> int:
    """Versions, processor, memory and GPU, for a bug report."""
    from bench.env import text

    click.echo(text())
    return 0
