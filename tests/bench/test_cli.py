"""The command line: what it offers, what it refuses, and how fast its help is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from bench import env
from bench.cli import main
from bench.commands import cli
from tests.bench.conftest import Slipbench

SHARED = """model batch-size epochs lr optimizer precision device threads limit-rows eval-every set config preset out
force dry-run""".split()  # noqa: SIM905
COMMANDS = {
    "run": {"system", "dataset", "seed", *SHARED},
    "compare": {"systems", "datasets", "seeds", "repeats", "baseline", *SHARED},
    "plot": {"out"},
    "data prepare": {"source", "option", "set"},
    "data info": set(),
    "list": set(),
    "env": set(),
}


def commands(group: click.Group, prefix: str = "") -> dict[str, click.Command]:
    """Every command by its words."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        found |= commands(command, f"{name} ") if isinstance(command, click.Group) else {prefix + name: command}
    return found


def test_command_line_is_frozen() -> None:
    offered = {
        name: {
            word.lstrip("-")
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for word in parameter.opts
        } - {"help"}
        for name, command in commands(cli).items()
    }  # fmt: skip
    assert offered == COMMANDS


def test_every_option_has_its_sentence() -> None:
    for command in commands(cli).values():
        assert command.help and command.help.strip().endswith((".", "..."))
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from bench.cli import main; main(['run', '--help']); "
    code += "print([name for name in ('torch', 'pandas', 'matplotlib', 'numba', 'scipy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]") and "--batch-size" in done.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rum", "unknown command 'rum': did you mean 'run'?"),
        ("run --batch-sise 3", "No such option '--batch-sise'. Did you mean '--batch-size'?"),
        ("run --system slipstraem", "unknown system 'slipstraem': did you mean 'slipstream'?"),
        ("run --system fake --dataset tyni", "unknown data set 'tyni': did you mean 'tiny'?"),
        (
            "run --system fake --dataset tiny --set skp=1",
            "unknown setting of system 'fake' 'skp': did you mean 'skip'?",
        ),
        ("run --system dlrm --dataset tiny --set skip=1", "system 'dlrm' has no settings, so 'skip' cannot be set"),
        ("run", "name a system with --system"),
        ("run --system fake --config nowhere.toml", "cannot read the configuration nowhere.toml"),
        ("compare --systems fake,othre", "unknown system 'othre': did you mean 'other'?"),
        ("compare --systems fake --seeds a", "seeds takes whole numbers, got 'a'."),
        ("compare --systems fake --repeats 0", "repeats must be at least 1, got 0."),
        ("plot --out nowhere", "there are no runs in nowhere"),
        ("list system", "unknown list 'system': did you mean 'systems'?"),
        ("data inof synthetic", "unknown command 'inof': did you mean 'info'?"),
        ("data prepare kuairand somewhere", "raw files are named with --source"),
    ],
)
def test_mistake_ends_in_one_sentence_and_status_2(
    slipbench: Slipbench, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    assert slipbench(line) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("slipbench: ") and message in shown.err and shown.err.count("\n") == 1


def test_unknown_key_of_a_file_is_refused(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.toml").write_text('system = "fake"\nepoch = 3\n')
    assert slipbench("run --config c.toml") == 2
    assert "unknown option 'epoch': did you mean 'epochs'?" in capsys.readouterr().err


def test_unwritable_out_is_refused_before_the_run(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").write_text("")
    assert slipbench("run --system fake --dataset tiny --out taken") == 2
    assert "cannot write results to taken" in capsys.readouterr().err


def test_defect_is_a_sentence_and_status_1(
    slipbench: Slipbench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> str:
        raise RuntimeError("broken")

    monkeypatch.setattr("bench.env.text", broken)
    assert main(["env"]) == 1
    assert capsys.readouterr().err == "slipbench: RuntimeError: broken (SLIPBENCH_DEBUG=1 shows where)\n"


def test_lists_name_what_can_be_chosen(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench("list datasets") == 0 and slipbench("list models") == 0
    shown = capsys.readouterr().out
    assert "synthetic" in shown and "stands in for a real one" in shown and "rm2" in shown


def test_list_systems_shows_settings(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    assert slipbench("list systems") == 0
    assert "--set fake.on=true  a switch" in capsys.readouterr().out


def test_env_is_fit_for_a_bug_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env"]) == 0
    shown = capsys.readouterr().out
    assert "torch: " in shown and "processor: " in shown and "code: " in shown
    assert str(Path.home()) not in shown.replace("\n/", "") or str(Path.home()) == "/"


def test_other_datasets_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(env, "ROOT", tmp_path)
    assert main(["run", "--help"]) == 2
    assert "what gets imported as `datasets`" in capsys.readouterr().err
