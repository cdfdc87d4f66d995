"""The values and sources of the options that a site file may set, for `ibkeys doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from ibkeys.cli.config import Config
from ibkeys.cli.site.defaults import problems_of, site_of
from ibkeys.cli.site.settings import SECRETS, SETTINGS
from ibkeys.errors import FileFormatError
from ibkeys.keys.number import NOT_SHOWN
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.umad.probe import ProbeResult

_DEFAULT: Final = "default"
_SOURCES: Final = {
    ParameterSource.COMMANDLINE: "command line",
    ParameterSource.ENVIRONMENT: "environment",
    ParameterSource.DEFAULT_MAP: "site file",
}
_IN_CONFIG: Final = {"ca": "ca", "port": "port", "timeout": "timeout", "smkey": "sa_key"}
"""The field of `Config` by the name of the setting."""


def settings_in_force(config: Config) -> list[dict[str, Any]]:
    """Return the name, value and source of each setting of the running command, as rows of the document.

    *config*: the ibdiag.conf. Of a key only the name of its file is shown.
    """
    rows = []
    for name in SETTINGS:
        value, source = _value_in_force(click.get_current_context(), name, config)
        rows.append({"name": name, "value": _shown(name, value), "source": source})
    return rows


def lines_of(settings: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each setting whose value is not the default."""
    for each in settings:
        if each["source"] != _DEFAULT:
            value = ", ".join(each["value"]) if isinstance(each["value"], list) else each["value"]
            yield f"{each['name']} = {str(value).lower() if value is True else value} ({each['source']})"


def check_site() -> Iterator[ProbeResult]:
    """Yield checks of all values of the site file, if one is read: also of values that doctor does not use."""
    from ibkeys.umad.probe import ProbeResult

    context = click.get_current_context()
    problems = {str(each): each for each in problems_of(context)}
    site, missing = site_of(context), []
    for name in site.values if site is not None else ():
        try:
            site.typed_form(name)  # type: ignore[union-attr]
        except FileFormatError as error:
            problems[str(error)] = error
        else:
            missing += [f"{name}: {file}: no such file" for file in site.missing_files(name)]  # type: ignore[union-attr]
    for text in problems:
        yield ProbeResult("site file", False, text, "its value is not used: correct it, or give --site none")
    for text in missing:
        yield ProbeResult("site file", False, text, "create it, or correct the site file")
    if site is not None and not problems and not missing:
        subnet = ", ".join(f"0x{guid:016x}" for guid in sorted(site.subnet))
        of = f" of the subnet of {subnet}" if subnet else ""
        yield ProbeResult("site file", True, f"{site.path}: {counted(len(site.values), 'value')}{of}")


def _value_in_force(context: click.Context, name: str, config: Config) -> tuple[Any, str]:
    if name in context.params:
        source = context.get_parameter_source(name)
        if source in _SOURCES:
            return context.params[name], _SOURCES[source]
        of_config = getattr(config, _IN_CONFIG[name]) if name in _IN_CONFIG else None
        return (context.params[name], _DEFAULT) if of_config is None else (of_config, "ibdiag.conf")
    variable = os.environ.get(f"IBKEYS_{name.upper()}") if SETTINGS[name].has_variable else None
    if variable:
        return variable, "environment"
    site = site_of(context)
    return (site.values[name], "site file") if site is not None and name in site.values else (None, _DEFAULT)


def _shown(name: str, value: Any) -> Any:
    """Return *value* in a form that may be shown: without a key, and without a URL that may hold a password."""
    is_secret = name in SECRETS and value is not None and not str(value).startswith("@")
    return NOT_SHOWN if is_secret or (isinstance(value, str) and "://" in value and "@" in value) else value
