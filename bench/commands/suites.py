"""Commands that run a suite: the papers' comparison, the benchmark of speed."""

from __future__ import annotations

from pathlib import Path

import click

from bench.commands.group import cli, option
from bench.config import RunConfig
from bench.given import distinct, whole, words
from bench.progress import Progress
from datasets.errors import unknown


@cli.command()
@click.option("--quick", is_flag=True, help="Fewer inputs and seeds: within a quarter of an hour on two cores.")
@option(
    "--rows",
    metavar="N",
    help="Training inputs of a run (full: not of the study). Default: 200000, quick 40000.",
)
@option(
    "--seeds",
    metavar="0,1,2",
    help="Seeds. Default: 0 to 4, quick and large studies 0 to 2.",
)
@click.option("--dry-run", is_flag=True, help="Show what is left to run and about how long it takes.")
@option("--out", default="results/reproduce", metavar="DIR", show_default=True, help="Folder of results.")
def reproduce(quick: bool, rows: str | None, seeds: str | None, dry_run: bool, out: str) -> int:
    """Make the papers' comparison from nothing: data, runs, study, replay, figures and report.

    The same command goes on where it was interrupted.
    """
    from dataclasses import replace

    from bench import reproduce as steps

    scope = steps.QUICK if quick else steps.FULL
    if rows is not None:
        inputs = whole("rows", rows, low=1000)
        scope = replace(scope, rows=inputs)
        if quick:  # whose study is of as many inputs; the full one's is over sizes
            scope = replace(scope, grids=[replace(grid, sizes=(inputs,)) for grid in scope.grids])
    if seeds is not None:
        numbers = distinct("seeds", [RunConfig(seed=whole("seeds", number)).seed for number in words(seeds)])
        scope = replace(scope, seeds=numbers, grids=[replace(grid, seeds=numbers) for grid in scope.grids])
    progress = Progress()
    if dry_run:
        click.echo(steps.describe_plan(scope, Path(out), progress))
        return 0
    text, status = steps.reproduce(scope, Path(out), progress)
    click.echo(text)
    return status


@cli.command()
@click.option("--quick", is_flag=True, help="Fewer inputs and rounds: within eight minutes on two cores.")
@option("--parts", metavar="A,B", help="Of targets, matrix and growth. Default: all three; quick: targets.")
@option("--out", default="results/bench", metavar="DIR", show_default=True, help="Folder of results.")
def bench(quick: bool, parts: str | None, out: str) -> int:
    """Measure the systems against a plain TorchRec loop and against the machine; 1 if a target is missed.

    targets: each ratio that is wanted. matrix: every system over sizes of tables, batch sizes and precisions.
    growth: how rate and memory grow with rows, batch size, threads and lookups.
    """
    from bench.speed.suite import PARTS
    from bench.speed.suite import bench as measure

    chosen = distinct("parts", words(parts)) if parts is not None else ["targets"] if quick else list(PARTS)
    for part in chosen:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
    lines, status = measure(Path(out), quick, chosen, Progress())
    for line in lines:
        click.echo(line.text)
    click.echo(f"its CSVs and env.json are in {out}")
    return status
