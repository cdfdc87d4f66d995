"""Which options a command was given: for the journal their names, and such values as can be no secret; and refusing
those that mean nothing in what it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click
from click.core import ParameterSource

from ibkeys.cli.types import NumberType, ViaType
from ibkeys.errors import UsageError

_ELSEWHERE: Final = frozenset({"yes", "force", "override", "format", "verbose", "debug", "pcap"})
"""What the journal has in another place, or what says nothing about the change."""
_PLAIN: Final = frozenset({"ca", "at", "keystore", "security_keys", "site"})
"""Options whose value is any text, and no secret. Of every other one only the name is kept: it may be a key, or a
backend with an SA_Key in it."""


def is_typed(name: str) -> bool:
    """Whether the option that click calls *name* stands on the command line; in the environment it may stand for other
    commands too."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def is_given(name: str) -> bool:
    """Whether the option that click calls *name* stands on the command line or in the environment. Elsewhere, in the
    site file, it stands for every command."""
    return is_typed(name) or is_from_environment(name)


def is_from_environment(name: str) -> bool:
    """Whether the value of the option that click calls *name* is from the environment."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.ENVIRONMENT


def is_from_site(name: str) -> bool:
    """Whether the value of the option that click calls *name* is from the site file."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.DEFAULT_MAP


def given_options() -> tuple[str, ...]:
    """Return the options of the command that runs, from the command line and the environment: ``--first 3``,
    ``--same``, ``--m_key`` without its value."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ()
    given = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return tuple(
        _in_words(param, context.params.get(param.name))
        for param in context.command.params
        if isinstance(param, click.Option)
        and param.name in context.params
        and param.name not in _ELSEWHERE
        and context.get_parameter_source(param.name) in given
    )


def _in_words(param: click.Option, value: Any) -> str:
    name = next((each for each in param.opts if each.startswith("--")), param.opts[0])
    shows = isinstance(param.type, NumberType | ViaType | click.Choice) or param.name in _PLAIN
    return name if param.is_flag or not shows else f"{name} {value}"


def refuse_given(options: Iterable[str], why: str) -> None:
    """Raise UsageError, with the options put into *why* at ``{}``, where the command line has one of *options*: as they
    are typed, ``--first``."""
    names = {option: param.name for param in click.get_current_context().command.params for option in param.opts}
    given = [option for option in options if is_typed(names.get(option) or "")]
    if given:
        raise UsageError(why.format(", ".join(given)))
