"""The documents say what is so: their commands run, their example is a system, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from bench.cli import main
from bench.replay.profile import parse
from tests.small import epoch_runs, make_job

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.split("#")[0].strip() for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
SMALL = ["--limit-rows", "1500"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of prepared sets with `criteo-kaggle` in it, made as the README says."""
    folder = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLIPBENCH_DATA", str(folder / "data"))
        for words in (["generate", "synthetic-kaggle"], ["prepare", "criteo-kaggle"]):
            (command,) = (command for command in COMMANDS if command.startswith(" ".join(["slipbench data", *words])))
            assert main(placed(command, folder)) == 0
    return folder


def placed(command: str, folder: Path) -> list[str]:
    """The words of a command after `slipbench`, its results in a folder."""
    words = shlex.split(command)[1:]
    return [str(folder / word) if word.startswith("results/") else word for word in words]


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("slipbench")])
def test_a_command_of_the_readme_runs(
    command: str, tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = placed(command, tmp_path)
    if "criteo-kaggle" in words:
        monkeypatch.setenv("SLIPBENCH_DATA", str(root / "data"))
        words = placed(command, root)
    if words[0] in ("run", "compare"):
        words += [*SMALL, "--out", str(tmp_path / "out")]
    if words[0] == "compare":
        words += ["--seeds", "0"]
    if words[0] in ("plot", "report", "replay"):
        before = ["compare", "--systems", "dlrm", "--seeds", "0", *SMALL, "--out", words[words.index("--out") + 1]]
        assert main(before) == 0
    assert main(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make")])
def test_a_target_of_the_readme_exists(command: str) -> None:
    assert subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True).returncode == 0


def test_every_command_of_the_readme_is_tried() -> None:
    assert len(COMMANDS) > 8
    assert all(command.startswith(("make ", "slipbench ")) for command in COMMANDS if command), COMMANDS


def test_the_example_of_the_readme_is_a_system() -> None:
    (source,) = (text for kind, text in BLOCKS if kind == "python")
    module = ModuleType("tenth")
    exec(source, module.__dict__)
    job = make_job("dlrm", num_inputs=5000)
    job = type(job)(**{**vars(job), "settings": {s.key: s.default for s in module.SETTINGS}})
    runs = list(epoch_runs(job, module.build(job), 0))
    skipped = sum(len(run.inputs) for run in runs if run.kind == "skipped")
    assert skipped == pytest.approx(500, abs=100)


def test_the_example_of_the_readme_is_a_hardware_profile() -> None:
    (source,) = (text for kind, text in BLOCKS if kind == "toml")
    profile = parse(tomllib.loads(source), "laptop")
    assert {("host", "rows_read"), ("device", "dense_flops"), ("step", "any")} == set(profile.constants)


@pytest.mark.parametrize("document", ["README.md", "ARCHITECTURE.md"])
def test_files_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = re.findall(r"`((?:bench|baselines|slipstream|datasets|results|tests)/[\w./-]*)`", text)
    named += [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    assert named
    missing = [name for name in named if not (ROOT / name).exists() and name != "results/local"]
    assert not missing


def test_the_tables_of_the_readme_are_those_of_the_reference_runs() -> None:
    folders = [ROOT / "results" / name for name in ("reference", "reference-reproduce")]
    reference = "\n".join((folder / "compare.md").read_text() for folder in folders)
    shown = re.findall(r"^### .*?(?=\n\n(?!\|)|\Z)", README, re.DOTALL | re.MULTILINE)
    shown = [table for table in shown if "\n| " in table]
    assert len(shown) >= 2
    assert all(table.strip() in reference for table in shown)
