"""The options of every command: the version, and colours."""

from __future__ import annotations

from typing import Final

import click

from ibkeys.cli.help.common import GENERAL, MESSAGES, CommonOption
from ibkeys.cli.options.declaring import F, shared
from ibkeys.cli.screen import colour
from ibkeys.version import __version__

_version: Final = click.version_option(
    __version__,
    "-V",
    "--version",
    prog_name="ibkeys",
    message="%(prog)s %(version)s",
    cls=CommonOption,
    section=GENERAL,
    help="Print the version.",
)


_color: Final = shared(
    MESSAGES,
    "--color",
    type=click.Choice(colour.WISHES),
    default="auto",
    expose_value=False,
    callback=colour.set_colours,
    help="Colour of severities, changes and verdicts.  [default: auto, on a terminal]",
)


def common(command: F) -> F:
    """Add the options of every command. The groups for a fabric and for the key store include them."""
    return _color(_version(command))
