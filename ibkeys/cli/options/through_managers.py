"""The options for subnet managers: their hosts, and changes through one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from ibkeys.cli.options.declaring import F, field, field_of, flag_field, group, option
from ibkeys.cli.types import NumberType, ViaType

SM_WAIT: Final = 60
"""The default of --wait, in seconds. It equals ``SM_WAIT`` of `ibkeys.change.runner`, which is slow to import."""
wait_for_sm: Final = option(
    "--wait",
    "sm_wait",
    type=NumberType(1, 86_400),
    default=SM_WAIT,
    metavar="S",
    help="Seconds without progress until OpenSM is signalled again; after the same time again ibkeys gives "
    f"up.  [default: {SM_WAIT}]",
)


def opensm_conf(help: str) -> Callable[[F], F]:
    """Return the option ``--opensm-conf`` for an OpenSM's options file; *help*: its help text."""
    return option("--opensm-conf", env=False, metavar="FILE", type=click.Path(path_type=Path), help=help)


@dataclass(frozen=True, slots=True)
class ViaOptions:
    """The options for the method of a change, and for the time to wait for the subnet manager."""

    via: str | None = field(
        "--via",
        env=False,
        type=ViaType(),
        metavar="auto|direct|opensm|ufm:URL",
        help="direct: ibkeys sends the Sets; opensm: through the policy file; ufm:URL: through UFM; auto: through "
        "OpenSM where it is master, direct where no SM runs.  [default: auto]",
    )
    sm_wait: int = field_of(wait_for_sm, SM_WAIT)


@dataclass(frozen=True, slots=True)
class SmHosts:
    """The options for the other hosts with a subnet manager, and how to reach them."""

    sm_host: tuple[str, ...] = field(
        "--sm-host", multiple=True, metavar="HOST", help="Another host with an OpenSM, reached by ssh; repeatable."
    )
    sudo: bool = flag_field("--sudo", help="Work on all other hosts through sudo -n.")
    ssh_config: str | None = field("--ssh-config", metavar="FILE", help="ssh_config to use instead of the user's own.")
    sm_config: str | None = field(
        "--sm-config", metavar="FILE", help="Hosts, files and units.  [default: /etc/ibkeys/sm.toml, if there]"
    )


sm_hosts: Final = group("sm_hosts", SmHosts)
"""The decorator for commands that examine subnet managers on other hosts."""


def via_opensm_only(how: str) -> Callable[[F], F]:
    """Return the option ``--via`` of a command that has only one method. *how*: the method in words, for the help.

    Users can type this option as in other commands; the command does not get its value.
    """
    return option(
        "--via",
        env=False,
        type=click.Choice(["opensm"]),
        default="opensm",
        expose_value=False,
        help=f"{how}, the only method.  [default: opensm]",
    )


opensm: Final = group("through", ViaOptions)
"""The decorator for commands that can change partitions through OpenSM or UFM."""
