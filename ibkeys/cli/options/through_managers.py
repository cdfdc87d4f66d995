"""Subnet managers: on which hosts they run, and changes that go through one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from ibkeys.cli.options.declaring import F, field, flag_field, group, option, taken
from ibkeys.cli.types import NumberType, ViaType

SM_WAIT: Final = 60
"""Seconds of --wait, as `ibkeys.change.runner` has them, which need not be imported for that."""
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
    """Return the option ``--opensm-conf``, which names an OpenSM's file of options; *help* says what for."""
    return option("--opensm-conf", env=False, metavar="FILE", type=click.Path(path_type=Path), help=help)


@dataclass(frozen=True, slots=True)
class ViaOptions:
    """How a change gets to the fabric, and how long the subnet manager is waited for."""

    via: str | None = field(
        "--via",
        env=False,
        type=ViaType(),
        metavar="auto|direct|opensm|ufm:URL",
        help="direct: ibkeys sends the Sets; opensm: through the policy file; ufm:URL: through UFM; auto: through "
        "OpenSM where it is master, direct where no SM runs.  [default: auto]",
    )
    sm_wait: int = taken(wait_for_sm, SM_WAIT)


@dataclass(frozen=True, slots=True)
class SmHosts:
    """Which hosts with a subnet manager to look at besides this one, and how they are reached."""

    sm_host: tuple[str, ...] = field(
        "--sm-host", multiple=True, metavar="HOST", help="Another host with an OpenSM, reached by ssh; repeatable."
    )
    sudo: bool = flag_field("--sudo", help="Work on all other hosts through sudo -n.")
    ssh_config: str | None = field("--ssh-config", metavar="FILE", help="ssh_config to use instead of the user's own.")
    sm_config: str | None = field(
        "--sm-config", metavar="FILE", help="Hosts, files and units.  [default: /etc/ibkeys/sm.toml, if there]"
    )


sm_hosts: Final = group("sm_hosts", SmHosts)
"""For commands that look at subnet managers on other hosts."""


def via_opensm_only(how: str) -> Callable[[F], F]:
    """Return the option ``--via`` of a command that has one way only: *how*, in words.

    It is there so that the way can be written as in other commands; the command gets no value.
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
"""For commands that may go through OpenSM or UFM."""
