"""Commands that train: a run, a comparison, a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bench.commands.group import Command, cli, option, out_option
from bench.config import CHECKED, FLAGS, PRESETS, RunConfig, blaming, resolve
from bench.given import distinct, gather, whole, words
from bench.progress import Progress
from datasets.errors import UserError

COMPARISON = ("systems", "datasets", "seeds", "repeats", "baseline")  # options of `compare` alone
PER_CELL = ("system", "dataset", "seed")  # options of `run` that a comparison varies
STUDY = ("sizes", "drops", "epoch-counts", "policies", "seeds")  # options of `study` alone
PER_POINT = ("system", "limit-rows", "epochs", "seed")  # options of `run` that a study varies


def run_options(leave_out: Sequence[str] = ()) -> Callable[[Command], Command]:
    """The flags that `run` and `compare` share: one for each field of RunConfig, and where they come from."""

    def add(command: Command) -> Command:
        command = click.option("--dry-run", is_flag=True, help="Show what would be run, and run nothing.")(command)
        command = click.option("--force", is_flag=True, help="Run again what is done already.")(command)
        command = out_option(command)
        command = option("--preset", default=None, metavar="|".join(PRESETS), help="Whose constants.")(command)
        command = option("--config", metavar="FILE.toml", help="File with the same keys; flags win.")(command)
        command = option(
            "--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting of the system; can be repeated."
        )(command)
        for item in reversed(CHECKED):
            if item.key in FLAGS and item.key not in leave_out:
                kind = {int: "N", float: "X", str: "NAME"}[type(item.default)]
                metavar = "|".join(item.choices) or kind
                command = option(f"--{item.key}", default=None, metavar=metavar, help=item.help)(command)
        return command

    return add


@cli.command()
@click.option("--profile", is_flag=True, help="Write a trace of all phases, for a browser's trace viewer.")
@run_options()
def run(out: str, force: bool, dry_run: bool, profile: bool, config: str | None, **flags: Any) -> int:
    """Train one system once and add its row to DIR/runs.csv."""
    given, preset = gather(flags, config)
    options = given.options
    if "system" not in options:
        raise UserError("name a system with --system; `slipbench list systems` shows them.")
    resolved = given.resolved(lambda settings: resolve(options, settings, preset))
    if dry_run:
        click.echo(resolved.to_toml(), nl=False)
        return 0
    from bench.run import TRACE, run_cell, sentence

    row = run_cell(resolved, Path(out), Progress(), force=force or profile, profile=profile)
    if row["status"] == "skipped":  # the system cannot run here, which only the user can change; it has been said
        return 2
    click.echo(f"{row['run_id']}: {sentence(row)}")
    click.echo(f"its row is in {Path(out) / 'runs.csv'}")
    if profile:
        click.echo(f"its trace: {Path(out) / 'runs' / row['run_id'] / TRACE} (ui.perfetto.dev or chrome://tracing)")
    return 0 if row["status"] == "done" else 1


@cli.command()
@option("--systems", metavar="A,B", help="NAME[:KEY=VALUE]... each. Default: all, and Slipstream's controls.")
@option("--datasets", metavar="A,B", help="Data sets. Default: synthetic.")
@option("--seeds", metavar="0,1,2", help="Seeds; intervals need several. Default: 0,1,2.")
@option("--repeats", metavar="N", help="Runs with the same seed, for the time alone. Default: 1.")
@option("--baseline", metavar="NAME", help="What ratios refer to. Default: dlrm.")
@run_options(leave_out=PER_CELL)
def compare(out: str, force: bool, dry_run: bool, config: str | None, **flags: Any) -> int:
    """Run several systems interleaved, and print the table of speed-ups.

    The same command goes on where it was interrupted: what is done is not run again.
    """
    given, preset = gather(flags, config, COMPARISON)
    options = given.options
    from bench import compare as comparison

    with blaming(given.source("systems")):
        entries = comparison.parse_systems(words(options.get("systems", comparison.default_systems())))
    with blaming(given.source("datasets", "dataset")):
        datasets = distinct("datasets", words(options.get("datasets", options.get("dataset", "synthetic"))))
        for dataset in datasets:
            RunConfig(dataset=dataset)
    with blaming(given.source("seeds", "seed")):
        numbers = words(options.get("seeds", options.get("seed", "0,1,2")))
        seeds = distinct("seeds", [whole("seeds", number) for number in numbers])
        for seed in seeds:
            RunConfig(seed=seed)
    with blaming(given.source("repeats")):
        repeats = whole("repeats", options.get("repeats", 1), low=1)
    with blaming(given.source("baseline")):
        label = comparison.check_baseline(entries, options.get("baseline"))
    shared = {key: value for key, value in options.items() if key not in (*COMPARISON, *PER_CELL)}
    cells = given.resolved(
        lambda settings: comparison.plan(
            entries, datasets, seeds, repeats, comparison.Options(shared, settings, preset)
        )
    )
    progress = Progress()
    if dry_run:
        click.echo(comparison.describe_plan(cells, Path(out), progress.say))
        return 0
    text, status = comparison.compare(cells, Path(out), progress, label, force)
    click.echo(text)
    click.echo(f"tables: {Path(out) / 'compare.md'} and compare.csv")
    _draw(Path(out), progress)
    return status


@cli.command()
@option("--sizes", metavar="N,N", help="Training inputs. Default: 100000,1000000.")
@option("--drops", metavar="X,X", help="Shares of hot inputs to drop. Default: 0.1,0.3,0.5.")
@option("--epochs", "epoch_counts", metavar="N,N", help="Passes over the training inputs. Default: 1,3.")
@option("--policies", metavar="A,B", help="Skip policies beside none. Default: stale,random,loss,importance.")
@option("--seeds", metavar="0,1,2", help="Seeds; intervals need three or more. Default: 0,1,2.")
@run_options(leave_out=PER_POINT)
def study(out: str, force: bool, dry_run: bool, config: str | None, **flags: Any) -> int:
    """Run Slipstream's skip policies over training sizes, epochs and drop ratios, and print what each buys.

    The data set is synthetic-kaggle unless --dataset names another. The same command goes on where it was interrupted.
    """
    given, preset = gather(flags, config, STUDY)
    options = given.options
    from bench import study as studies
    from bench.compare import Options

    def several(name: str, default: str, check: Callable[[str], Any], *also: str) -> list[Any]:
        with blaming(given.source(name, *also)):
            found = next((options[key] for key in (name, *also) if key in options), default)
            return distinct(name, [check(word) for word in words(found)])

    grid = studies.Grid(
        sizes=several("sizes", "100000,1000000", lambda word: whole("sizes", word, low=1), "limit-rows"),
        epochs=several("epoch-counts", "1,3", lambda word: whole("epochs", word, low=1), "epochs"),
        drops=several("drops", "0.1,0.3,0.5", studies.check_drop),
        policies=several("policies", ",".join(studies.POLICIES), studies.check_policy),
        seeds=several("seeds", "0,1,2", lambda word: RunConfig(seed=whole("seeds", word)).seed, "seed"),
    )
    dataset = str(options.get("dataset", "synthetic-kaggle"))
    shared = {key: value for key, value in options.items() if key not in (*STUDY, *PER_POINT, "dataset")}
    runs = given.resolved(lambda settings: studies.plan(grid, dataset, Options(shared, settings, preset)))
    progress = Progress()
    if dry_run:
        click.echo(studies.describe_plan(runs, Path(out), progress.say))
        return 0
    text, status = studies.study(runs, Path(out), progress, force)
    click.echo(text)
    click.echo(f"tables: {Path(out) / 'study.md'} and study.csv")
    _draw(Path(out), progress)
    return status


def _draw(out: Path, progress: Progress) -> None:
    from bench.plot import plot

    for path in plot(out):
        progress.say(f"figure: {path}")
