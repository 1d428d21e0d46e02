"""Configuration: where a value comes from, what is refused, what the hash stands for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from baselines.optimizer import OPTIMIZERS
from baselines.registry import SYSTEMS
from bench import config
from bench.config import RunConfig, code_version, flatten, parse_settings, read_file, resolve
from datasets.errors import UserError
from tests.bench import fakes

GIVEN = {"system": "fake", "dataset": "tiny"}


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fakes.install(monkeypatch, tmp_path)


def test_the_data_set_names_the_defaults() -> None:
    config = resolve(GIVEN, {})
    assert (config.batch_size, config.optimizer, config.lr, config.epochs) == (8, "rowwise-adagrad", 0.05, 1)
    assert config.settings == {"fake.end": "done", "skip": "random", "skip.what": "inputs", "fake.on": True}


def test_learning_rate_follows_the_optimizer_unless_given() -> None:
    assert resolve({**GIVEN, "optimizer": "sgd"}, {}).lr == 0.5
    assert resolve({**GIVEN, "optimizer": "adagrad"}, {}).lr == 0.02  # the data set names none
    assert resolve({**GIVEN, "optimizer": "sgd", "lr": "0.25"}, {}).lr == 0.25


def test_preset_paper_lies_between_defaults_and_flags() -> None:
    config = resolve({**GIVEN, "batch-size": 4}, {}, preset="paper")
    assert (config.model, config.optimizer, config.lr, config.batch_size) == ("rm2", "sgd", 0.01, 4)
    assert resolve({**GIVEN, "optimizer": "rowwise-adagrad"}, {}, preset="paper").lr == 0.05


@pytest.mark.parametrize(
    ("given", "settings", "message"),
    [
        ({"system": "slipstraem"}, {}, "'slipstream'"),
        ({"dataset": "synthetci"}, {}, "'synthetic'"),
        ({"model": "rm22"}, {}, "'rm2'"),
        ({"optimizer": "sdg"}, {}, "'sgd'"),
        ({"batch-sise": 3}, {}, "'batch-size'"),
        ({"batch-size": 0}, {}, "batch-size must be at least 1, got 0."),
        ({"batch-size": "many"}, {}, "batch-size takes a whole number, got 'many'."),
        ({"lr": "nan"}, {}, "lr must be at least"),
        ({"lr": "inf"}, {}, "lr must be at most"),
        ({}, {"skipp": "random"}, "'skip'"),
        ({}, {"fake.on": "perhaps"}, "true or false"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused(given: dict[str, object], settings: dict, message: str) -> None:
    with pytest.raises(UserError) as refused:
        resolve({**GIVEN, **given}, settings)
    assert message in str(refused.value)


def test_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="'paper'"):
        resolve(GIVEN, {}, preset="papre")


def test_settings_text_names_what_differs_from_the_data_sets_defaults() -> None:
    assert resolve(GIVEN, {}).settings_text == ""
    assert resolve(GIVEN, {"skip": "stale", "fake.on": "no"}).settings_text == "fake.on=false skip=stale"


def test_hash_stands_for_everything() -> None:
    config = resolve(GIVEN, {})
    same = resolve({**GIVEN, "lr": "0.05", "batch-size": "8"}, {"fake.on": "yes"})
    assert config.config_hash("data") == same.config_hash("data")
    others = [
        config.config_hash("other"),
        replace(config, seed=1).config_hash("data"),
        replace(config, repeat=1).config_hash("data"),
        resolve(GIVEN, {"skip": "none"}).config_hash("data"),
    ]
    assert len({config.config_hash("data"), *others}) == 5


def test_hash_stands_for_the_code_of_another_package_s_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(SYSTEMS, "tenth", "their_tenth")
    digests = []
    for share in ("0.1", "0.2", "0.1"):
        (tmp_path / "their_tenth.py").write_text(f'SUMMARY, SETTINGS, SHARE = "a tenth", (), {share}\n')
        config._foreign_code.cache_clear()
        digests.append(config.RunConfig(system="tenth").config_hash("data"))
    assert digests[0] == digests[2] != digests[1]
    assert config._foreign_code("dlrm") == ""


def test_resolved_file_gives_the_same_configuration(tmp_path: Path) -> None:
    config = resolve({**GIVEN, "epochs": 3}, {"skip.what": "updates"})
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert "[set]" in config.to_toml() and '"skip.what" = "updates"' in config.to_toml()
    assert resolve(*read_file(tmp_path / "config.toml")) == config


def test_file_takes_nested_and_quoted_keys(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('batch_size = 16\n[set]\nskip = "none"\n"skip.what" = "updates"\nfake.end = "crash"\n')
    assert read_file(path) == (
        {"batch-size": 16},
        {"skip": "none", "skip.what": "updates", "fake.end": "crash"},
    )


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*absent\.toml"):
        read_file(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("= 3")
    with pytest.raises(UserError, match=r"bad\.toml is not a TOML file"):
        read_file(tmp_path / "bad.toml")


def test_settings_are_key_value_words() -> None:
    assert parse_settings(["a.b=c=d", " e = 1"]) == {"a.b": "c=d", "e": "1"}
    with pytest.raises(UserError, match="KEY=VALUE"):
        parse_settings(["alone"])
    assert flatten({"a": {"b": {"c": 1}}, "d": 2}) == {"a.b.c": 1, "d": 2}


def test_threads_default_to_the_processors() -> None:
    assert RunConfig(threads=0).threads >= 1
    assert RunConfig(threads=3).threads == 3


def test_optimizers_are_those_of_the_baselines() -> None:
    assert config.OPTIMIZERS == OPTIMIZERS


def test_code_version_names_package_and_code() -> None:
    number, plus, digest = code_version().partition("+")
    assert number and plus and len(digest) == 8
