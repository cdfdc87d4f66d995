"""Declaring options: options of one command, options that many share, and groups that a command gets as one object."""

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
"""Key in the metadata of a dataclass field: the decorator that adds its option."""


def group(name: str, kind: type[Any], *others: Callable[..., Any], without: str = "") -> Callable[[F], F]:
    """Return a decorator that adds the options of class *kind* to a command, and then *others*.

    The command gets one object of *kind*, with the values of these options, as its argument *name*. *others*: further
    decorators. *without*: the name of a field whose option is not added; the field then has its default.
    """
    fields = [each for each in dataclasses.fields(kind) if each.name != without]
    names = [each.name for each in fields]
    options = [each.metadata[_OPTION] for each in fields if _OPTION in each.metadata]

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapper(**values: Any) -> Any:
            options_object = kind(**{each: values.pop(each) for each in names if each in values})
            return command(**{name: options_object}, **values)

        wrapped: Any = wrapper
        for option in reversed([*options, *others]):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


def option(*names: str, env: bool = True, **settings: Any) -> Callable[[F], F]:
    """Return a click.option that is also read from the variable ``IBKEYS_<LONG NAME>``, unless *env* is false."""
    long = next(name for name in names if name.startswith("--"))
    variable = "IBKEYS_" + long.lstrip("-").replace("-", "_").upper() if env else None
    return click.option(*names, envvar=variable, **settings)


def flag(*names: str, help: str) -> Callable[[F], F]:
    """Return an option without a value, which no environment variable sets."""
    return option(*names, env=False, is_flag=True, help=help)


def field(*names: str, env: bool = True, **settings: Any) -> Any:
    """Return a dataclass field for `group` with an `option`. The default of the option is also that of the field."""
    if settings.get("is_flag"):
        default: Any = False
    else:
        default = () if settings.get("multiple") else 0 if settings.get("count") else None
    return field_of(option(*names, env=env, **settings), settings.get("default", default))


def number_field(
    name: str, least: int, most: int, metavar: str, help: str, default: int | None = None, env: bool = True
) -> Any:
    """Return a dataclass field for `group` with a number from *least* to *most*.

    *default*: named at the end of the help text; None: the field is None without the option.
    """
    settings: dict[str, Any] = {"type": NumberType(least, most), "metavar": metavar, "help": help}
    if default is not None:
        settings |= {"default": default, "help": f"{help}  [default: {default}]"}
    return field(name, env=env, **settings)


def flag_field(*names: str, help: str) -> Any:
    """Return a dataclass field for `group` with a `flag`."""
    return field_of(flag(*names, help=help), default=False)


def repeated_field(name: str, metavar: str, help: str, **settings: Any) -> Any:
    """Return a dataclass field for `group` with a repeatable option, which no environment variable sets."""
    return field(name, env=False, multiple=True, metavar=metavar, help=help, **settings)


def shared_field(section: str, *names: str, **settings: Any) -> Any:
    """Return a dataclass field for `group` with an option that many commands share.

    *section*: its heading in --help-all.
    """
    return field(*names, cls=CommonOption, section=section, **settings)


def field_of(option: Callable[..., Any], default: Any = None) -> Any:
    """Return a dataclass field for `group` that *option*, a decorator, sets.

    *default*: its value without the option.
    """
    return dataclasses.field(default=default, metadata={_OPTION: option})


def shared(section: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """Return an `option` that many commands share: --help names it, and --help-all lists it below *section*."""
    return option(*names, cls=CommonOption, section=section, **settings)


def removed_option(name: str, replacement: str, is_flag: bool = False) -> Callable[[F], F]:
    """Return a hidden option *name* that raises UsageError with the command to type instead, *replacement*.

    *is_flag*: whether the option took no value; else its value was the number of an operation, and the error names ID.
    """
    return refused_option(name, f"is gone: use `ibkeys {replacement}{'' if is_flag else ' ID'}`", is_flag)


def refused_option(name: str, why: str, is_flag: bool = False) -> Callable[[F], F]:
    """Return a hidden option *name* that only raises UsageError, because the command does not have it.

    *why*: the words of the error after the option's name. *is_flag*: whether the option takes no value. It is eager, so
    that this error comes before all others.
    """

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
