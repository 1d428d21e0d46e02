"""Commands that read a folder of results: figures, replay, report."""

from __future__ import annotations

from pathlib import Path

import click

from bench.commands.group import cli, option, out_option
from bench.given import distinct, whole, words
from bench.progress import Progress
from datasets.errors import UserError


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
    from bench.replay.profile import MOST_DEVICES

    given = [whole("devices", word, 1, MOST_DEVICES) for word in words(devices or "")]
    numbers = distinct("devices", given) if devices else []
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
