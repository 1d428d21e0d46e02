"""Declared settings and names: what a user gives is taken in the right type or refused in one sentence."""

from __future__ import annotations

import pytest

from datasets.errors import UserError
from datasets.registry import DATASETS, load_dataset
from datasets.settings import Setting, resolve

DECLARED = (
    Setting(key="share", default=0.5, low=0.0, high=1.0, help="a share"),
    Setting(key="rows", default=10, low=1, help="a count"),
    Setting(key="on", default=True, help="a switch"),
    Setting(key="how", default="fast", choices=("fast", "slow"), help="a word"),
)


def test_defaults_and_given_values() -> None:
    assert resolve(DECLARED, {}, "it") == {"share": 0.5, "rows": 10, "on": True, "how": "fast"}
    given = {"share": "1", "rows": " 7", "on": "off", "how": "slow"}
    assert resolve(DECLARED, given, "it") == {"share": 1.0, "rows": 7, "on": False, "how": "slow"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"share": "nan"}, "share must be at least 0, got nan"),
        ({"share": 1.1}, "share must be at most 1, got 1.1"),
        ({"rows": "ten"}, "rows takes a whole number, got 'ten'"),
        ({"rows": "1.5"}, "rows takes a whole number"),
        ({"on": "maybe"}, "on takes true or false"),
        ({"how": "slw"}, "did you mean 'slow'"),
        ({"shore": 1}, "unknown setting of it 'shore': did you mean 'share'"),
    ],
)
def test_refusals(given: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        resolve(DECLARED, given, "it")


def test_nothing_to_set() -> None:
    with pytest.raises(UserError, match="has no settings, so 'x' cannot be set"):
        resolve((), {"x": 1}, "it")


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_every_data_set_has_what_the_suite_asks_of_it(name: str) -> None:
    module = load_dataset(name)
    assert module.SUMMARY.endswith(".") and isinstance(module.NEEDS_SOURCE, bool)
    assert resolve(module.OPTIONS, {}, name)
    for preset in (module.DEFAULTS, module.PAPER):
        assert set(preset) == {"model", "batch_size", "optimizer", "lr", "settings"}
        assert preset["optimizer"] in preset["lr"]
    assert set(module.DEFAULTS["lr"]) == {"sgd", "rowwise-adagrad", "adagrad"}
    assert callable(module.write)


def test_unknown_data_set() -> None:
    with pytest.raises(UserError, match="unknown data set 'syntetic': did you mean 'synthetic'"):
        load_dataset("syntetic")
