"""Commands on data sets: prepare, describe, generate, verify."""

from __future__ import annotations

from pathlib import Path

import click

from bench.commands.group import Group, cli, option
from bench.config import parse_settings
from bench.progress import Progress
from datasets.errors import UserError


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
