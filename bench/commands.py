"""The commands. What is heavy to import is imported inside them, so that `--help` is instant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bench.config import CHECKED, FLAGS, PRESETS, RunConfig, blaming, parse_settings, resolve
from bench.given import distinct, gather, whole, words
from bench.progress import Progress
from datasets.errors import UserError, unknown

OUT = "results/local"
COMPARISON = ("systems", "datasets", "seeds", "repeats", "baseline")  # options of `compare` alone
PER_CELL = ("system", "dataset", "seed")  # options of `run` that a comparison varies
STUDY = ("sizes", "drops", "epoch-counts", "policies", "seeds")  # options of `study` alone
PER_POINT = ("system", "limit-rows", "epochs", "seed")  # options of `run` that a study varies
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
Command = Callable[..., Any]


class Filled(click.ParamType):
    """A value that is not empty, as a script gives for a variable that it forgot to set."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value itself."""
        if not str(value).strip():
            self.fail("it is empty; give a value or leave the option out.", param, ctx)
        return value


def option(*names: str, **how: Any) -> Callable[[Command], Command]:
    """A click option with a value, which may not be empty."""
    return click.option(*names, type=Filled(), **how)


class Group(click.Group):
    """A group that shows its commands' sentences in full, and answers an unknown command with the nearest one."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their first sentences, wrapped and not cut."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        with formatter.section("Commands"):
            formatter.write_dl([(name, found.get_short_help_str(1000)) for name, found in commands.items() if found])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; UsageError with the nearest name where there is none."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(str(unknown("command", args[0], self.list_commands(ctx))), ctx)
        return super().resolve_command(ctx, args)


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


def out_option(command: Command) -> Command:
    """The folder of results."""
    return option("--out", default=OUT, metavar="DIR", show_default=True, help="Folder of results.")(command)


@click.group(cls=Group, context_settings=CONTEXT, no_args_is_help=True)
@click.version_option(package_name="slipbench")
def cli() -> None:
    """Compare training systems for recommendation models: one model, one clock, seven systems."""


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
        entries = comparison.parse_systems(words(options.get("systems", comparison.DEFAULT_SYSTEMS)))
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
    from bench.plot import plot as draw

    for path in draw(Path(out)):
        progress.say(f"figure: {path}")
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
    from bench.plot import plot as draw

    for path in draw(Path(out)):
        progress.say(f"figure: {path}")
    return status


@cli.command()
@out_option
def plot(out: str) -> int:
    """Draw the figures of a folder of results from its CSVs."""
    from bench.plot import plot as draw

    paths = draw(Path(out))
    if not paths:
        raise UserError(f"there is nothing to draw in {out}: no run in it is done.")
    for path in paths:
        click.echo(path)
    return 0


@cli.command()
@option("--hardware", metavar="NAME|FILE.toml", help="Hardware profile; `slipbench list hardware` names them.")
@option("--devices", metavar="N", help="Devices, such as 1,2,4. Default: the profile's.")
@click.option("--calibrate", is_flag=True, help="Measure this machine first, at the shapes of the folder's runs.")
@click.option("--fit", is_flag=True, help="Fit the papers' servers to their 1-GPU figures, and predict the others.")
@out_option
def replay(out: str, hardware: str | None, devices: str | None, calibrate: bool, fit: bool) -> int:
    """Say what the finished runs of a folder would cost on other hardware, from the work that they recorded."""
    from bench.replay.command import replay as work

    numbers = [whole("devices", number, low=1) for number in words(devices)] if devices else []
    for line in work(Path(out), hardware, numbers, calibrate, fit, Progress().say):
        click.echo(line)
    return 0


@cli.command()
@out_option
def report(out: str) -> int:
    """Write DIR/report.html, one page on the folder's last comparison, from its CSVs alone."""
    from bench.report.page import report as write

    click.echo(write(Path(out)))
    return 0


@cli.command()
@click.option("--quick", is_flag=True, help="Fewer inputs and seeds: within a quarter of an hour on two cores.")
@option("--rows", metavar="N", help="Training inputs of a run of the comparison. Default: 200000, quick 40000.")
@option("--seeds", metavar="0,1,2", help="Seeds of the comparison. Default: 0 to 4, quick 0 to 2.")
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
        scope = replace(scope, rows=whole("rows", rows, low=1000))
    if seeds is not None:
        numbers = [RunConfig(seed=whole("seeds", number)).seed for number in words(seeds)]
        scope = replace(scope, seeds=distinct("seeds", numbers))
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

    chosen = words(parts) if parts is not None else ["targets"] if quick else list(PARTS)
    for part in chosen:
        if part not in PARTS:
            raise unknown("part", part, PARTS)
    lines, status = measure(Path(out), quick, chosen, Progress())
    for line in lines:
        click.echo(line.text)
    click.echo(f"its CSVs and env.json are in {out}")
    return status


@cli.group(cls=Group)
def data() -> None:
    """Prepare a data set, or describe a prepared one."""


@data.command()
@click.argument("name")
@option("--source", "sources", multiple=True, metavar="PATH", help="A raw file or folder; can be repeated.")
@option("--option", "--set", "options", multiple=True, metavar="KEY=VALUE", help="An option; can be repeated.")
@click.option("--restart", is_flag=True, help="Discard what a stopped preparation with other options has finished.")
@option("--on-bad-row", metavar="refuse|skip", help="The same as --option on_bad_row=...: skip and count bad lines.")
@click.argument("more", nargs=-1, metavar="[PATH]...")
def prepare(
    name: str,
    sources: tuple[str, ...],
    options: tuple[str, ...],
    on_bad_row: str | None,
    restart: bool,
    more: tuple[str, ...],
) -> int:
    """Turn raw files into a prepared set: slipbench data prepare NAME --source PATH...

    The same command goes on where it was stopped. `slipbench list datasets` shows the options.
    """
    if more and not sources:
        raise UserError(f"raw files are named with --source, such as --source {more[0]}.")
    from bench import interrupts
    from datasets.store import prepare as make
    from datasets.warm import warm

    with interrupts.held():
        warm()
    paths = [Path(path) for path in (*sources, *more)]
    chosen = parse_settings(options) | ({} if on_bad_row is None else {"on_bad_row": on_bad_row})
    done = make(name, paths, chosen, report=Progress().say, restart=restart)
    click.echo(f"{done.name}: {len(done.train):,} training, {len(done.validation):,} validation and {len(done.test):,} "
               f"test inputs in {done.path}")  # fmt: skip
    return 0


@data.command()
@click.argument("name")
def info(name: str) -> int:
    """Describe a prepared set."""
    from baselines.model import MODELS
    from datasets.describe import describe
    from datasets.registry import load_dataset
    from datasets.store import open_set

    prepared = open_set(name, report=Progress().say)
    click.echo(describe(prepared, MODELS[load_dataset(name).DEFAULTS["model"]].dim))
    return 0


@data.command()
@click.argument("name")
@option("--out", required=True, metavar="DIR", help="Folder for the files.")
@option("--rows", default="1000000", metavar="N", show_default=True, help="Lines, in all files together.")
@option("--seed", default="0", metavar="N", show_default=True, help="Of everything that is drawn.")
@option("--scale", default="1", metavar="X", show_default=True, help="Of the large tables.")
@click.option("--gz", is_flag=True, help="Compress the files.")
def generate(name: str, out: str, rows: str, seed: str, scale: str, gz: bool) -> int:
    """Write a generated set as raw text, in the format of the real one, to try a reader on."""
    from datasets.generate import generate as write

    for path in write(name, Path(out), {"rows": rows, "seed": seed, "scale": scale}, gz, Progress().say):
        click.echo(path)
    return 0


@data.command()
@click.argument("name")
@option("--rows", default="0", metavar="N", help="Training inputs; 0: scale times the published number.")
@option("--seed", default="0", metavar="N", show_default=True, help="Of everything that is drawn.")
@option("--scale", default="0.02", metavar="X", show_default=True, help="Of the large tables; 1 takes minutes.")
def skew(name: str, rows: str, seed: str, scale: str) -> int:
    """Count the hot rows and hot inputs of a generated set, beside those that FAE published."""
    from datasets.generate import skew as count

    click.echo(count(name, {"rows": rows, "seed": seed, "scale": scale}, Progress().say))
    return 0


@data.command()
@click.argument("name")
def verify(name: str) -> int:
    """Check a prepared set: sizes, values and checksums of its files."""
    from datasets.verify import verify as check

    click.echo(check(name, Progress().say))
    return 0


@cli.command(name="list")
@click.argument("what", metavar="systems|datasets|models|hardware")
def list_(what: str) -> int:
    """Name what can be chosen, with a sentence each."""
    if what not in LISTS:
        raise unknown("list", what, LISTS)
    summaries = LISTS[what]()
    width = max(map(len, summaries))
    for name, summary in summaries.items():
        click.echo(f"{name:{width}}  {summary}")
        for line in SETTINGS_OF[what](name) if what in SETTINGS_OF else ():
            click.echo(f"{'':{width}}    {line}")
    return 0


def _settings_of_system(name: str) -> list[str]:
    from baselines.registry import load_system

    return _declared("--set", lambda: load_system(name).SETTINGS)


def _options_of_dataset(name: str) -> list[str]:
    from datasets.registry import load_dataset

    return _declared("--option", lambda: load_dataset(name).OPTIONS)


def _declared(flag: str, load: Callable[[], Sequence[Any]]) -> list[str]:
    """Settings as they are given to a flag, with their defaults; of what cannot be imported, none."""
    try:
        declared = load()
    except ImportError:
        return []
    return [f"{flag} {item.key}={_default(item.default)}  {item.help}{_choices(item.choices)}" for item in declared]


SETTINGS_OF: dict[str, Callable[[str], list[str]]] = {"systems": _settings_of_system, "datasets": _options_of_dataset}


def _choices(choices: Sequence[str]) -> str:
    return f" ({' | '.join(choices)})" if choices else ""


def _default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _summaries(names: Sequence[str], load: Callable[[str], Any]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = str(load(name).SUMMARY)
        except ImportError as error:  # one broken plug-in leaves the others in the list
            found[name] = f"cannot be used here: {error}"
    return found


def _systems() -> dict[str, str]:
    from baselines.registry import load_system, system_names

    return _summaries(list(system_names()), load_system)


def _datasets() -> dict[str, str]:
    from datasets.registry import dataset_names, load_dataset

    return _summaries(list(dataset_names()), load_dataset)


def _models() -> dict[str, str]:
    from baselines.model import MODELS

    return {name: model.summary for name, model in MODELS.items()}


def _hardware() -> dict[str, str]:
    from bench.replay import profile

    measured = {"this-machine": "this machine, as `slipbench replay --calibrate` measured it"}
    return measured | {name: profile.load(name).summary for name in profile.names()}


LISTS: dict[str, Callable[[], dict[str, str]]] = {
    "systems": _systems,
    "datasets": _datasets,
    "models": _models,
    "hardware": _hardware,
}


@cli.command()
def env() -> int:
    """Versions, processor, memory and GPU, for a bug report."""
    from bench.env import text

    click.echo(text())
    return 0
