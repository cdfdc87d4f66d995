"""The values that click takes from the site file for options that are neither typed nor in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from ibkeys.cli.site.settings import BY_PARAMETER, NO_FILE, REHEARSAL, SETTINGS
from ibkeys.errors import FileFormatError, Refused, UsageError
from ibkeys.simulated_host import own_simulated_host

if TYPE_CHECKING:
    from ibkeys.cli.site.file import SiteFile

_SITE: Final = "ibkeys.site"
_PROBLEMS: Final = "ibkeys.site.problems"
"""Keys in the ``meta`` of click's context.

`_SITE`: the site file. `_PROBLEMS`: its mistakes, by their text, for a command that reports them.
"""
SUBNET_INTERLOCK: Final = "site-subnet"


@dataclass(eq=False)
class SiteDefaults(Mapping[str, Any]):
    """The ``default_map`` of a command's context: it gives click the values of the site file.

    The file is read when click first looks for a value. The options that choose the file (``--site``, ``--backend``,
    ``--from``) are eager, so that their values are known by then. Help and completion do not read it.
    ``keeps_mistakes``: whether a mistake in the file is kept for `problems_of`, and not raised.
    """

    context: click.Context
    keeps_mistakes: bool = False

    def __getitem__(self, parameter: str) -> Any:
        name = BY_PARAMETER.get(parameter)
        if name is None or self.context.resilient_parsing:
            raise KeyError(parameter)
        try:
            site = site_of(self.context)
            if site is None or name not in site.values:
                raise KeyError(parameter)
            return self._value(site, parameter, name)
        except FileFormatError as error:
            if not self.keeps_mistakes:
                raise
            self.context.meta.setdefault(_PROBLEMS, {})[str(error)] = error
            raise KeyError(parameter) from None

    def _value(self, site: SiteFile, parameter: str, name: str) -> Any:
        option = next((each for each in self.context.command.params if each.name == parameter), None)
        if not isinstance(option, click.Option):
            raise KeyError(parameter)
        value = site.typed_form(name)
        if isinstance(option.type, click.Choice) and value not in option.type.choices:
            raise KeyError(parameter)  # the value is a choice that this command does not have
        try:
            option.type_cast_value(self.context, value)
        except click.BadParameter as error:
            raise site.error(f"{name}: {error.message}") from None
        return value

    def __iter__(self) -> Iterator[str]:
        return (parameter for parameter in BY_PARAMETER if parameter in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def site_of(context: click.Context) -> SiteFile | None:
    """Return the site file of a command; None if no site file is read. It is read only once. Raises FileFormatError."""
    if _SITE not in context.meta:
        context.meta[_SITE] = None  # a file with a mistake is not read again for the next option
        context.meta[_SITE] = _read(context)
    site: SiteFile | None = context.meta[_SITE]
    return site


def fixed_method() -> str | None:
    """Return the method of changes (``via``) in the site file; None if it names none, or ``auto``."""
    site = site_of(click.get_current_context())
    via = site.values.get("via") if site is not None else None
    return via if via != "auto" else None


def most_unrehearsed() -> int | None:
    """Return the most ports that a plan may change without a rehearsal (``require_rehearsal_above``); None: any."""
    site = site_of(click.get_current_context())
    most: int | None = site.values.get(REHEARSAL) if site is not None else None
    return most


def problems_of(context: click.Context) -> list[FileFormatError]:
    """Return the mistakes in the site file, for a command that reports them. The values with mistakes are not used."""
    return list(context.meta.get(_PROBLEMS, {}).values())


def refuse_other_subnet(port_guid: int) -> None:
    """Raise Refused if the site file is for another subnet, and a value from it that is used depends on the subnet.

    *port_guid*: the GUID of the local port, by which the subnet is recognised.
    """
    context = click.get_current_context(silent=True)
    site = site_of(context) if context is not None else None
    if context is None or site is None or not site.subnet or port_guid in site.subnet:
        return
    used = {
        name
        for parameter, name in BY_PARAMETER.items()
        if (SETTINGS[name].is_of_subnet or name == "smkey")  # the key would be sent to the other subnet's SA
        and context.get_parameter_source(parameter) is ParameterSource.DEFAULT_MAP
    }
    if used:
        raise Refused(
            f"{site.path} names another subnet for {', '.join(sorted(used))}: the local port GUID 0x{port_guid:016x} "
            "is not in its list subnet",
            SUBNET_INTERLOCK,
        ).unchanged("choose a port of that subnet (-C, -P), name another file (--site), or add the GUID to the list")


def _read(context: click.Context) -> SiteFile | None:
    """Return the site file; None if the command reads none. Raises UsageError if one is typed nevertheless."""
    # While click parses, it marks a missing value by an object of its own, which is no text.
    given = {each: value for each, value in context.params.items() if isinstance(value, str)}
    name = given.get("site")
    if "site" not in context.params or name == NO_FILE:
        return None
    why_not = ""
    if "snapshot" in given:
        why_not = "--from reads a file, and no site file"
    elif given.get("backend", "").startswith("sim:"):
        why_not = "no site file is read for a simulated subnet"
    if why_not and name is not None and context.get_parameter_source("site") is ParameterSource.COMMANDLINE:
        raise UsageError(f"{why_not}: omit --site")
    if why_not:
        return None
    from ibkeys.cli.site import file

    if name is None and (own_simulated_host() is not None or not os.path.lexists(file.DEFAULT_SITE)):
        return None
    return file.read_site(file.DEFAULT_SITE if name is None else Path(name))
