"""Fixtures of the bench's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import main
from bench.figures import FIGURES
from tests.bench import fakes

Slipbench = Callable[..., int]


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands draw the speed-ups alone: all figures take seconds."""
    monkeypatch.setattr("bench.plot.FIGURES", {"speedup": FIGURES["speedup"]})


@pytest.fixture
def slipbench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Slipbench:
    """The command line on the fakes, with results in `tmp_path / "out"`."""
    fakes.install(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> int:
        return main([word for word in line.split(" ") if word])

    return run
