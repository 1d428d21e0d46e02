"""The command line: what it offers, what it refuses, and how fast its help is."""

from __future__ import annotations

import subprocess
import sys
import warnings
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
    "run": {"system", "dataset", "seed", "profile", *SHARED},
    "compare": {"systems", "datasets", "seeds", "repeats", "baseline", *SHARED},
    "study": {"dataset", "sizes", "drops", "policies", "seeds", *SHARED} - {"limit-rows"},
    "plot": {"out"},
    "report": {"out"},
    "bench": {"quick", "parts", "out"},
    "reproduce": {"quick", "rows", "seeds", "dry-run", "out"},
    "replay": {"hardware", "devices", "calibrate", "fit", "out"},
    "data prepare": {"source", "option", "set", "on-bad-row", "restart"},
    "data info": set(),
    "data verify": set(),
    "data skew": {"rows", "seed", "scale"},
    "data generate": {"out", "rows", "seed", "scale", "gz"},
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
        ("bench --parts growht", "unknown part 'growht': did you mean 'growth'?"),
        ("list system", "unknown list 'system': did you mean 'systems'?"),
        ("data inof synthetic", "unknown command 'inof': did you mean 'info'?"),
        ("data prepare kuairand somewhere", "raw files are named with --source"),
        ("compare --systems fake --seeds ,", "seeds names none"),
        ("compare --systems fake --datasets ,", "datasets names none"),
        ("compare --systems fake --seeds 0,1,0", "seeds names 0 more than once"),
        ("compare --systems fake --datasets tiny,tiny", "datasets names tiny more than once"),
        ("compare --systems fake --datasets tyni", "unknown data set 'tyni'"),
        (
            "compare --systems fake --datasets tiny --set skip=loss --set skip.what=updates --dry-run",
            "does not go with",
        ),
        ("run --system fake --dataset tiny --set skip=loss --set skip.what=updates", "does not go with"),
        ("run --system fake --dataset tiny --set skip=loss --set skip.what=updates --dry-run", "does not go with"),
    ],
)
def test_mistake_ends_in_one_sentence_and_status_2(
    slipbench: Slipbench, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    assert slipbench(line) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("slipbench: ") and message in shown.err and shown.err.count("\n") == 1


@pytest.mark.parametrize(
    "option", ["seeds", "datasets", "systems", "baseline", "out", "config", "preset", "set", "model"]
)
def test_empty_value_is_refused(slipbench: Slipbench, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["compare", f"--{option}", ""]) == 2
    assert f"'--{option}': it is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "content", "message"),
    [
        ("run", 'sistem = "fake"', "unknown option 'sistem': did you mean 'system'?"),
        ("run --system fake", "epochs = 0", "epochs must be at least 1"),
        ("run --system fake", 'dataset = "tyni"', "unknown data set 'tyni'"),
        ("run --system fake", 'model = "rm22"', "unknown model 'rm22'"),
        ("run --system fake", 'preset = "papre"', "unknown preset 'papre'"),
        ("run --system fake --dataset tiny", "[set]\nskp = 1", "did you mean 'skip'?"),
        ("run", "batch_size = 3\nbatch-size = 4", "batch_size and batch-size are the same option"),
        ("compare", 'systems = ["fake", "othre"]', "unknown system 'othre'"),
        ("compare --systems fake", "baseline = 5", "unknown baseline (it has to be among the systems) '5'"),
        ("compare --systems fake", "seeds = []", "seeds names none"),
        ("compare --systems fake", 'datasets = ""', "datasets names none"),
        ("compare --systems fake", "repeats = 0", "repeats must be at least 1"),
        ("compare --systems fake --datasets tiny", "[set]\nskp = 1", "did you mean 'skip'?"),
    ],
)
def test_mistake_in_a_file_names_the_file(
    slipbench: Slipbench, capsys: pytest.CaptureFixture[str], command: str, content: str, message: str
) -> None:
    Path("c.toml").write_text(content)
    assert slipbench(f"{command} --config c.toml") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("slipbench: c.toml: ") and message in shown and shown.count("\n") == 1


def test_mistake_beside_a_file_is_not_blamed_on_it(slipbench: Slipbench, capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.toml").write_text('system = "fake"\ndataset = "tiny"\n[set]\nskip = "none"\n')
    for mistake in ("--epochs 0", "--set skp=1", "--system fkae", "--model rm22"):
        assert slipbench(f"run --config c.toml {mistake}") == 2
        assert "c.toml" not in capsys.readouterr().err


def test_help_shows_whole_sentences(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "..." not in shown.partition("Commands:")[2] and "Train one system once and add its row" in shown


def test_output_that_cannot_be_written_is_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        code = "import sys; from bench.cli import main; sys.exit(main(['list', 'datasets']))"
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "slipbench: cannot write the output: No space left on device.\n"


def test_warnings_of_libraries_are_not_shown(
    slipbench: Slipbench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warning() -> str:
        warnings.warn("invalid value", RuntimeWarning, stacklevel=1)
        return "shown"

    monkeypatch.setattr("bench.env.text", warning)
    assert slipbench("env") == 0
    assert capsys.readouterr().err == ""


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
