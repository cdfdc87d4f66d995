"""How an option is declared: one of a command, one that many share, and a group that a command gets as one object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import click

from ibkeys.cli.help.common import CommonOption
from ibkeys.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def group(name: str, kind: type[Any], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds *options* and passes their values as one object of class *kind* named *name*."""
    names = [field.name for field in fields(kind)]

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapper(**values: Any) -> Any:
            own = kind(**{each: values.pop(each) for each in names if each in values})
            return command(**{name: own}, **values)

        wrapped: Any = wrapper
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


def option(*names: str, env: bool = True, **settings: Any) -> Callable[[F], F]:
    """Return click.option, read from ``IBKEYS_<LONG NAME>`` too unless *env* is false."""
    long = next(name for name in names if name.startswith("--"))
    variable = "IBKEYS_" + long.lstrip("-").replace("-", "_").upper() if env else None
    return click.option(*names, envvar=variable, **settings)


def flag(*names: str, help: str) -> Callable[[F], F]:
    """Return an option without a value, which no variable of the environment sets."""
    return option(*names, env=False, is_flag=True, help=help)


def shared(section: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """Return an `option` that many commands share: their help names it, and lists it by *section* with --help-all."""
    return option(*names, cls=CommonOption, section=section, **settings)


def replaced(name: str, by: str, is_flag: bool = False) -> Callable[[F], F]:
    """Return a hidden option whose work the command *by* does now: whoever types it is told so, exit status 2.
    *is_flag*: it took no operation, and the command finds it by itself."""

    def answer(context: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
        if value:
            raise UsageError(f"{name} is gone: use `ibkeys {by}{'' if is_flag else ' ID'}`")

    return click.option(
        *(name, "_" + name.strip("-")),
        is_flag=is_flag,
        hidden=True,
        expose_value=False,
        callback=answer,
        help=f"Replaced by the command `ibkeys {by}`.",
    )
