"""The commands and their options, for tests of all of them."""

from __future__ import annotations

import click

from ibkeys.cli import main


def command_named(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


def long_name(option: click.Option) -> str:
    return next(each for each in option.opts if each.startswith("--"))


def options_of(name: str) -> list[click.Option]:
    """Return the options of a command that its help has."""
    return [param for param in command_named(name).params if isinstance(param, click.Option) and not param.hidden]


def options_within(name: str) -> list[click.Option]:
    """Return those of a command, and of the commands within it."""
    command = command_named(name)
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    params = [param for each in inner for param in each.params]
    return options_of(name) + [param for param in params if isinstance(param, click.Option) and not param.hidden]
