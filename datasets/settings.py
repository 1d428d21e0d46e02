"""Declared settings: a key, a default, a sentence and a range each; and the check of what a user gives for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from datasets.errors import UserError, unknown

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting. Its type is that of its default; `low` and `high` are inclusive."""

    key: str
    default: bool | int | float | str
    help: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None

    def check(self, value: Any) -> bool | int | float | str:
        """The value in the setting's type. UserError where it does not fit."""
        parsed = self._parse(value)
        if self.choices and parsed not in self.choices:
            raise unknown(f"value of {self.key}", str(value), self.choices)
        if not isinstance(parsed, str):
            if self.low is not None and not parsed >= self.low:  # written so that nan is refused
                raise UserError(f"{self.key} must be at least {self.low:g}, got {parsed}.")
            if self.high is not None and not parsed <= self.high:
                raise UserError(f"{self.key} must be at most {self.high:g}, got {parsed}.")
        return parsed

    def _parse(self, value: Any) -> bool | int | float | str:
        wanted = type(self.default)
        text = str(value).strip()
        try:
            if wanted is bool:
                if text.lower() not in TRUE + FALSE:
                    raise ValueError(text)
                return text.lower() in TRUE
            return wanted(text)
        except ValueError:
            kind = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}[wanted]
            raise UserError(f"{self.key} takes {kind}, got '{value}'.") from None


def resolve(declared: Iterable[Setting], given: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Every declared setting with the given value or its default. UserError for a key that `of` does not have."""
    by_key = {setting.key: setting for setting in declared}
    for key in given:
        if key not in by_key:
            if not by_key:
                raise UserError(f"{of} has no settings, so '{key}' cannot be set; leave it out.")
            raise unknown(f"setting of {of}", key, by_key)
    return {key: setting.check(given.get(key, setting.default)) for key, setting in by_key.items()}
