"""Functions that several sim commands share: the socket name of a server, building a subnet from files, shells on
hosts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from ibkeys.cli import options
from ibkeys.cli.types import NumberType
from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK
from ibkeys.own_program import own_program

if TYPE_CHECKING:
    from ibkeys.keys.pkey import InboundCheck
    from ibkeys.sim.server.umad.shells import StartShell
    from ibkeys.sim.subnet import Subnet

socket_option: Final = click.option(
    "--socket",
    "name",
    envvar=["IBKEYS_SOCKET", "IBKEYS_SIM_SOCKET", "IBSIM_SOCKNAME"],
    default="sim",
    metavar="NAME",
    help="Base name of the sockets.  [default: that of this simulated host, else IBSIM_SOCKNAME, else sim]",
)


@dataclass(frozen=True, slots=True)
class SubnetOptions:
    """The options for making the subnet of a file."""

    port_guids: Literal["file", "ibsim"] = options.field(
        "--port-guids",
        type=click.Choice(["file", "ibsim"]),
        default="file",
        help="Port GUIDs: as the file prints them, or node GUID + port number.  [default: file]",
    )
    seed: int = options.field(
        "--seed", type=NumberType(0, 2**64 - 1), default=0, metavar="N", help="Seed of the random faults."
    )
    links: Literal["initialize", "active"] | None = options.field(
        "--links",
        type=click.Choice(["initialize", "active"]),
        help="State of the links: as after power-up, or as a subnet manager left them.  [default: as recorded, else "
        "initialize]",
    )
    inbound_check: InboundCheck = options.field_of(options.inbound_check, DEFAULT_INBOUND_CHECK)


def shell_starter(name: str) -> StartShell:
    """Return the function by which the server *name* starts a shell on one of its hosts: `ibkeys sim run`."""

    def start(host: str, streams: Sequence[int]) -> subprocess.Popen[bytes]:
        words = ["sim", "run", f"--socket={name}", f"--host={host}", "--", "/bin/sh", "-s"]
        return subprocess.Popen(
            [*own_program(), *words],
            env={name: value for name, value in os.environ.items() if not name.startswith("IBKEYS_")},
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
        )

    return start


def make_subnet(sources: Sequence[str], make_options: SubnetOptions) -> Subnet:
    """Return the subnet that the files *sources* describe; without files the demo fabric.

    Raises FileFormatError for a file that cannot be read, UsageError for files that do not go together.
    """
    from ibkeys.replica.sources import read_subnet
    from ibkeys.sim.subnet import Subnet
    from ibkeys.umad.sim_spec import DEMO

    if sources:
        subnet = read_subnet(
            list(map(Path, sources)), make_options.port_guids, make_options.seed, make_options.links, "initialize"
        )
    else:
        subnet = Subnet.from_file(DEMO, make_options.port_guids, make_options.seed, make_options.links or "initialize")
    subnet.inbound_check = make_options.inbound_check
    return subnet
