"""How an option is declared: one of a command, one that many share, and a group that a command gets as one object."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from ibkeys.cli.help.common import CommonOption
from ibkeys.cli.types import NumberType
from ibkeys.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_OPTION: Final = "option"
"""In the metadata of a field of a class of options: the decorator that adds its option."""


def group(name: str, kind: type[Any], *others: Callable[..., Any], without: str = "") -> Callable[[F], F]:
    """Return a decorator that adds the options of the fields of class *kind*, then *others*, and passes the values of
    its fields as one object of that class, named *name*. *without*: a field whose option the command does not have."""
    fields = [each for each in dataclasses.fields(kind) if each.name != without]
    names = [each.name for each in fields]
    options = [each.metadata[_OPTION] for each in fields if _OPTION in each.metadata]

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapper(**values: Any) -> Any:
            own = kind(**{each: values.pop(each) for each in names if each in values})
            return command(**{name: own}, **values)

        wrapped: Any = wrapper
        for option in reversed([*options, *others]):
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


def field(*names: str, env: bool = True, **settings: Any) -> Any:
    """Return a field of a class of options, for `group`: an `option`, whose default is the field's."""
    if settings.get("is_flag"):
        default: Any = False
    else:
        default = () if settings.get("multiple") else 0 if settings.get("count") else None
    return taken(option(*names, env=env, **settings), settings.get("default", default))


def number_field(
    name: str, least: int, most: int, metavar: str, help: str, default: int | None = None, env: bool = True
) -> Any:
    """Return a field of a class of options: a number from *least* to *most*. The help says what its *default* is."""
    settings: dict[str, Any] = {"type": NumberType(least, most), "metavar": metavar, "help": help}
    if default is not None:
        settings |= {"default": default, "help": f"{help}  [default: {default}]"}
    return field(name, env=env, **settings)


def flag_field(*names: str, help: str) -> Any:
    """Return a field of a class of options: a `flag`."""
    return taken(flag(*names, help=help), default=False)


def repeated_field(name: str, metavar: str, help: str, **settings: Any) -> Any:
    """Return a field of a class of options: an option that may be given once for each of several values, and that no
    variable of the environment sets."""
    return field(name, env=False, multiple=True, metavar=metavar, help=help, **settings)


def shared_field(section: str, *names: str, **settings: Any) -> Any:
    """Return a field of a class of options: an option that many commands share."""
    return field(*names, cls=CommonOption, section=section, **settings)


def taken(option: Callable[..., Any], default: Any = None) -> Any:
    """Return a field of a class of options that *option*, a decorator, sets; *default*: what it is without it."""
    return dataclasses.field(default=default, metadata={_OPTION: option})


def shared(section: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """Return an `option` that many commands share: their help names it, and lists it by *section* with --help-all."""
    return option(*names, cls=CommonOption, section=section, **settings)


def replaced(name: str, by: str, is_flag: bool = False) -> Callable[[F], F]:
    """Return a hidden option whose work the command *by* does now: whoever types it is told so, exit status 2.
    *is_flag*: it took no operation, and the command finds it by itself."""
    return absent(name, f"is gone: use `ibkeys {by}{'' if is_flag else ' ID'}`", is_flag)


def absent(name: str, why: str, is_flag: bool = False) -> Callable[[F], F]:
    """Return a hidden option that the command does not have, with or without a value: whoever types it is told *why*,
    words after its name, before anything else that is wrong, exit status 2."""

    def answer(context: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
        if value is not None and value is not False:
            raise UsageError(f"{name} {why}")

    return click.option(
        *(name, name.replace("-", "_")[1:]),
        is_flag=is_flag,
        flag_value=is_flag or "ID",
        hidden=True,
        expose_value=False,
        is_eager=True,
        callback=answer,
        help=why,
    )
