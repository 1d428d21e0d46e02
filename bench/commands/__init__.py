"""The commands, a file for each kind. What is heavy to import is imported inside them, so that `--help` is instant."""

from __future__ import annotations

from bench.commands import data, lists, results, runs, suites
from bench.commands.group import cli

__all__ = ["cli", "data", "lists", "results", "runs", "suites"]
