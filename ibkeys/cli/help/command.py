"""The class of every command: its help, and what its parameters complete to."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from ibkeys.cli.completing.table import let_complete
from ibkeys.cli.exits import WRONG_USAGE
from ibkeys.cli.help.common import GENERAL, CommonOption, by_section, named, section_of

_ALL: Final = f"{__name__}.all"
"""In a context's ``meta``: whether the help lists the common options too."""


def _show_all(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class Command(click.Command):
    """A command whose help lists its own options and names the common ones once, at the end."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for param in self.params:
            let_complete(param)
        self._help_all = CommonOption(
            ["--help-all"],
            section=GENERAL,
            is_flag=True,
            expose_value=False,
            is_eager=True,
            hidden=not by_section(self.params),
            callback=_show_all,
            help="Show the common options too, and exit.",
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters; ``--help-all``, like ``--help``, is one of every command."""
        return [*super().get_params(ctx), self._help_all]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. An option without its value is an error that does not know its command; here it does."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options: the command's own, then the common ones by section or only their names."""
        params = self.get_params(ctx)
        _write_section(ctx, formatter, "Options", [each for each in params if section_of(each) in (None, GENERAL)])
        common = by_section(params)
        if ctx.meta.get(_ALL):
            for section, options in common.items():
                _write_section(ctx, formatter, section, options)
        elif common:
            formatter.write_paragraph()
            text = f"Also, listed by --help-all: {named(common)}."
            formatter.write(textwrap.fill(text, formatter.width, break_on_hyphens=False) + "\n")


class CommandGroup(Command, click.Group):
    """A command with commands of its own, as ``sim serve``."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; without any, write the help to standard error and exit with 2, whatever click does."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True, color=ctx.color)
            ctx.exit(WRONG_USAGE)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """Return the decorator that makes a command of a function."""
    return click.command(name, cls=Command)


def _write_section(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, params: Sequence[click.Parameter]
) -> None:
    options = (param for param in params if isinstance(param, click.Option))
    records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)
