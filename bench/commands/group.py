"""`slipbench` itself, and what its commands are put together from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from datasets.errors import unknown

OUT = "results/local"
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


def out_option(command: Command) -> Command:
    """The folder of results."""
    return option("--out", default=OUT, metavar="DIR", show_default=True, help="Folder of results.")(command)


@click.group(cls=Group, context_settings=CONTEXT, no_args_is_help=True)
@click.version_option(package_name="slipbench")
def cli() -> None:
    """Compare training systems for recommendation models: one model, one clock, seven systems."""
