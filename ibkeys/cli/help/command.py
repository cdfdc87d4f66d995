"""The class of every command: its help, its usage, the completion of its parameters, and values of the site file."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final, cast

import click

from ibkeys.cli.completing.sources import set_completion
from ibkeys.cli.exits import WRONG_USAGE
from ibkeys.cli.help.common import GENERAL, CommonOption, by_section, named, section_of
from ibkeys.cli.help.examples import examples_of
from ibkeys.cli.site import SiteDefaults

SHOWS_ALL: Final = f"{__name__}.all"
"""Key in the ``meta`` of click's context: whether the help lists the common options too."""


def _show_all(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[SHOWS_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class Command(click.Command):
    """A command whose help describes its own options, and only names the common options, at the end.

    *reports_site*: whether the command itself reports mistakes in the site file; they then do not end it.
    """

    def __init__(self, *args: Any, reports_site: bool = False, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.reports_site = reports_site
        for param in self.params:
            set_completion(param)
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
        """Return all parameters, with ``--help-all``, which every command has."""
        return [*super().get_params(ctx), self._help_all]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; an option that is not given gets its value from the site file.

        An option without its value is a UsageError of click, but click sets no context in it. It is set here, so that
        the message names the command.
        """
        ctx.default_map = cast("MutableMapping[str, Any]", SiteDefaults(ctx, self.reports_site))  # click only reads it
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text, then the examples as they are typed: their lines are never broken."""
        super().format_help_text(ctx, formatter)
        lines = examples_of(ctx.command_path.partition(" ")[2])
        if lines:
            with formatter.section("Examples" if len(lines) > 1 else "Example"):
                formatter.write("".join(f"{'':{formatter.current_indent}}{line}\n" for line in lines))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the common options.

        With --help-all the common options are described in their sections. Otherwise only their names are written.
        """
        params = self.get_params(ctx)
        _write_section(ctx, formatter, "Options", [each for each in params if section_of(each) in (None, GENERAL)])
        common = by_section(params)
        if ctx.meta.get(SHOWS_ALL):
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
        """Parse the arguments. If there are none, write the help to standard error and exit with 2.

        Versions of click differ in what they do without arguments, so this does not leave it to click.
        """
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True, color=ctx.color)
            ctx.exit(WRONG_USAGE)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def usage_of(command: click.Command, ctx: click.Context) -> str:
    """Return the shortest command line: name, arguments (optional ones in brackets) and required options.

    *ctx*: click's context of *command*.
    """
    arguments = [word for word in command.collect_usage_pieces(ctx) if word != command.options_metavar]
    required = [param for param in command.params if isinstance(param, click.Option) and param.required]
    options = [f"{max(option.opts, key=len)} {option.metavar}" for option in required]
    return " ".join([command.name or "", *arguments, *options])


def command(name: str, reports_site: bool = False, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return the decorator that makes a command of a function. *reports_site*: see `Command`; *settings*: click's."""
    return click.command(name, cls=Command, reports_site=reports_site, **settings)


def _write_section(
    ctx: click.Context, formatter: click.HelpFormatter, title: str, params: Sequence[click.Parameter]
) -> None:
    options = (param for param in params if isinstance(param, click.Option))
    records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
    if records:
        with formatter.section(title):
            formatter.write_dl(records)
