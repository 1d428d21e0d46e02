"""Hardware profiles: those of the package, and what is said about a bad one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from baselines.system import Kind
from baselines.work import Stage
from bench.replay import profile as profiles
from bench.replay.profile import load, names, to_toml
from datasets.errors import UserError
from tests.bench.replay.small import FACTS, constant, profile

GOOD = '[host.rows_read]\neach_s = 1e-7\nhow = "measured"\nsource = "here"\n'


@pytest.mark.parametrize("name", names())
def test_every_profile_says_where_its_constants_are_from(name: str) -> None:
    loaded = load(name)
    assert loaded.summary and loaded.constants
    for found in loaded.constants.values():
        assert found.source and found.how in profiles.HOW
        assert found.each_s or found.per_s < float("inf") or found.how == "fitted"


def test_the_papers_servers_have_ten_fitted_constants_at_most() -> None:
    for name in ("papers-v100", "papers-v100-hotline"):
        assert 1 <= sum(found.how == "fitted" for found in load(name).constants.values()) <= 10


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    made = profile(host__rows_read=constant(1e-7, per_s=5e9), step__any__xdl=constant(0.25))
    path = tmp_path / "hand-made.toml"
    path.write_text(to_toml(made))
    assert load(str(path)).constants == made.constants


def test_a_row_costs_by_number_and_by_bytes() -> None:
    hardware = profile(host__rows_read=constant(1.0, per_s=32.0), host__rows_written=constant(per_s=34.0))
    assert hardware.unit_s(Stage("host", "rows_read", ""), FACTS, "dlrm") == 1 + 64 / 32
    assert hardware.unit_s(Stage("host", "rows_written", ""), FACTS, "dlrm") == (64 + 4) / 34
    assert hardware.unit_s(Stage("net", "net_trips", ""), FACTS, "dlrm") == 0


def test_there_is_a_constant_for_each_kind_of_step() -> None:
    assert set(profiles.STEP_KINDS) == set(get_args(Kind)) - {"skipped"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[host.rows_read\n", "is not a TOML file"),
        ("devices = 4\n", "`devices` is a list of numbers of devices, such as [1, 2, 4]."),
        ("devices = [0]\n", "`devices` is a list of numbers of devices, such as [1, 2, 4]."),
        ('shared = ["cpu"]\n', '`shared` is a list of resources, such as ["host", "link"].'),
        ("host = 3\n", "host is a table, such as [host.rows_read] with each_s = 1e-8 below it."),
        (GOOD.replace("host", "hots"), "unknown resource 'hots': did you mean 'host'?"),
        (GOOD.replace("rows_read", "rows_red"), "unknown kind of work on host 'rows_red': did you mean 'rows_read'?"),
        (GOOD.replace("each_s", "each"), "unknown key of [host.rows_read] 'each': did you mean 'each_s'?"),
        (GOOD.replace("1e-7", '"fast"'), "[host.rows_read]: each_s is 'fast', which is no float."),
        (
            GOOD.replace("1e-7", "-1"),
            "[host.rows_read]: each_s is 0 to 1e+09, per_s more than 0, and repeats",
        ),
        ("[host.rows_read]\n", "[host.rows_read] does not say its how"),
        ("devices = [1, 1]\n", "`devices` names each number once, and none over 1000000."),
        ("devices = [" + "9" * 5000 + "]\n", "is not a TOML file"),
        (GOOD.replace('how = "measured"\n', ""), "[host.rows_read] does not say its how; every constant names"),
        (GOOD.replace("measured", "guessed"), "unknown origin of a constant 'guessed'"),
    ],
)
def test_a_bad_profile_is_refused_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        load(str(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_unknown_hardware_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown hardware 'papers-v10': did you mean 'papers-v100'"):
        load("papers-v10")
    with pytest.raises(UserError, match="cannot read the hardware profile"):
        load("missing.toml")
