"""The options that a command was given: for the journal without secrets, and refusing options that do not apply."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click
from click.core import ParameterSource

from ibkeys.cli.types import NumberType, ViaType
from ibkeys.errors import UsageError

_NOT_RECORDED: Final = frozenset({"yes", "force", "override", "format", "verbose", "debug", "pcap"})
"""Options that `given_options` leaves out: the journal has them elsewhere, or they do not describe the change."""
_NEVER_SECRET: Final = frozenset({"ca", "at", "keystore", "security_keys", "site"})
"""Options whose value is a text that is never a secret.

Of other options with a text only the name is recorded: the value may be a key, or a backend with an SA_Key in it.
Numbers, choices and methods are recorded too.
"""


def is_typed(name: str) -> bool:
    """Return whether the option that click calls *name* is on the command line.

    The environment does not count: an option there may be meant for other commands too.
    """
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def is_given(name: str) -> bool:
    """Return whether the option that click calls *name* is on the command line or in the environment.

    The site file does not count: an option there is meant for every command.
    """
    return is_typed(name) or is_from_environment(name)


def is_from_environment(name: str) -> bool:
    """Return whether the value of the option that click calls *name* is from the environment."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.ENVIRONMENT


def is_from_site(name: str) -> bool:
    """Return whether the value of the option that click calls *name* is from the site file."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.DEFAULT_MAP


def given_options() -> tuple[str, ...]:
    """Return the options of the running command for the journal: ``--first 3``, ``--same``, ``--m_key``.

    Options of the command line and of the environment are included. Values that may be secret are left out. Outside a
    command the tuple is empty.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return ()
    given = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return tuple(
        _in_words(param, context.params.get(param.name))
        for param in context.command.params
        if isinstance(param, click.Option)
        and param.name in context.params
        and param.name not in _NOT_RECORDED
        and context.get_parameter_source(param.name) in given
    )


def _in_words(param: click.Option, value: Any) -> str:
    name = next((each for each in param.opts if each.startswith("--")), param.opts[0])
    shows = isinstance(param.type, NumberType | ViaType | click.Choice) or param.name in _NEVER_SECRET
    return name if param.is_flag or not shows else f"{name} {value}"


def refuse_given(options: Iterable[str], why: str) -> None:
    """Raise UsageError if the command line has one of *options*, spelled as they are typed (``--first``).

    *why*: the message; ``{}`` in it stands for the options of *options* that are on the command line.
    """
    names = {option: param.name for param in click.get_current_context().command.params for option in param.opts}
    given = [option for option in options if is_typed(names.get(option) or "")]
    if given:
        raise UsageError(why.format(", ".join(given)))
