"""What the user gave, on the command line and in a file: read, checked, and blamed on where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.config import CHECKED, PRESETS, RunConfig, blaming, check_model, parse_settings, read_file
from datasets.errors import UserError, printable, unknown

T = TypeVar("T")


@dataclass(frozen=True)
class Given:
    """What the user gave: options and settings on the command line, and those of the file under them."""

    config: str | None
    flags: dict[str, Any]
    sets: dict[str, Any]
    file: dict[str, Any]
    file_sets: dict[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """Flags over the file."""
        return self.file | self.flags

    def source(self, *keys: str) -> str | None:
        """The file, where one of these options comes from it."""
        return self.config if any(key in self.file and key not in self.flags for key in keys) else None

    def resolved(self, attempt: Callable[[dict[str, Any]], T]) -> T:
        """What `attempt` makes of the settings. A mistake in what the file says names the file."""
        try:
            return attempt(self.file_sets | self.sets)
        except UserError:
            if self.config and self.file_sets:
                attempt({})  # what is wrong without any is not theirs
                with blaming(self.config):
                    attempt({key: value for key, value in self.file_sets.items() if key not in self.sets})
            raise


def gather(flags: dict[str, Any], config: str | None, also: Sequence[str] = ()) -> tuple[Given, str]:
    """Everything that is given, with the preset. `also`: options of a file beside the fields of a run."""
    sets = parse_settings(flags.pop("sets"))
    named = {key.replace("_", "-"): value for key, value in flags.items() if value is not None}
    RunConfig(**{item.key.replace("-", "_"): named[item.key] for item in CHECKED if item.key in named})
    file, file_sets = read_file(Path(config), (*also, "preset")) if config else ({}, {})
    given = Given(config, named, sets, file, file_sets)
    with blaming(given.source("preset")):
        preset = str(given.options.get("preset", PRESETS[0]))
        if preset not in PRESETS:
            raise unknown("preset", preset, PRESETS)
    with blaming(given.source("model")):
        if "model" in given.options:
            check_model(str(given.options["model"]))
    named.pop("preset", None)
    file.pop("preset", None)
    return given, preset


def words(given: Any) -> list[str]:
    """A list written with commas, or a list."""
    parts = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else [given]
    return [str(part).strip() for part in parts if str(part).strip()]


def whole(name: str, given: Any, low: int = 0, high: int | None = None) -> int:
    """A whole number of at least `low`, and at most `high`."""
    try:
        number = int(str(given))
    except ValueError:
        raise UserError(f"{name} takes whole numbers, got '{printable(str(given))}'.") from None
    if number < low:
        raise UserError(f"{name} must be at least {low}, got {number}.")
    if high is not None and number > high:
        raise UserError(f"{name} must be at most {high}, got {printable(str(given))}.")
    return number


def distinct(name: str, values: list[T]) -> list[T]:
    """The values, of which there is at least one, and none twice."""
    if not values:
        raise UserError(f"{name} names none; give at least one or leave it out.")
    if twice := [str(value) for value in dict.fromkeys(values) if values.count(value) > 1]:
        raise UserError(f"{name} names {', '.join(twice)} more than once; once is enough.")
    return values
