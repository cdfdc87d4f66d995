"""Partition enforcement of switch ports: show and set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ibkeys.cli import options
from ibkeys.cli.addresses import given_port
from ibkeys.cli.changing import change
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, Kind, Listing, Where
from ibkeys.cli.showing import Column, read_sheet, show
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.topology.model import Port


@command("enforce-show")
@options.every_port
@options.address()
@options.format
@options.listing
@options.reading
def enforce_show(
    where: Where, kind: Kind, words: tuple[str, ...], every_port: bool, listing: Listing, format: str
) -> int:
    """Show partition enforcement of switch ports.

    Inbound concerns what comes into the switch, outbound what leaves it. Only external ports of switches enforce, so
    the table of --all leaves all others out.
    """
    sheet = read_sheet(where, kind, words, every_port, listing, lambda handle: handle.read_port_info(), _values)
    columns = [
        Column("partition_enforcement_inbound", "Inbound", lambda row: _word(row["partition_enforcement_inbound"])),
        Column("partition_enforcement_outbound", "Outbound", lambda row: _word(row["partition_enforcement_outbound"])),
    ]
    return show(
        "enforce-show", sheet, columns, format, listing, lambda row: row["node_type"] == "switch" and row["port"] != 0
    )


def _values(port: Port) -> dict[str, Any]:
    info = port.port_info
    return {
        "partition_enforcement_inbound": info.partition_enforcement_inbound if info is not None else None,
        "partition_enforcement_outbound": info.partition_enforcement_outbound if info is not None else None,
    }


def _word(bit: int | None) -> str | None:
    return None if bit is None else "on" if bit else "off"


_SWITCH = click.Choice(["on", "off"])


@command("enforce-set")
@options.address("ADDR PORTNUM", required=True)
@click.option("--inbound", type=_SWITCH, help="What comes into the switch from the attached node.")
@click.option("--outbound", type=_SWITCH, help="What leaves the switch towards the attached node.")
@options.changing
@options.format
@options.fabric
def enforce_set(
    where: Where,
    kind: Kind,
    words: tuple[str, ...],
    inbound: str | None,
    outbound: str | None,
    consent: Changing,
    format: str,
) -> int:
    """Switch partition enforcement of a switch port on or off.

    ADDR names the switch, PORTNUM one of its external ports. A direction that is not given stays as it is.
    """
    from ibkeys.change.enforce import plan_enforce

    if inbound is None and outbound is None:
        raise UsageError("nothing to set: give --inbound on|off or --outbound on|off")
    given = given_port(words, kind)
    if given.portnum is None:
        raise UsageError("PORTNUM is missing: enforcement belongs to one external port of a switch")
    with open_fabric(where, changing=True) as fabric:
        return change(
            fabric,
            "enforce-set",
            consent,
            format,
            lambda writer: plan_enforce(writer, given.open(fabric), _bit(inbound), _bit(outbound)),
        )


def _bit(word: str | None) -> bool | None:
    return None if word is None else word == "on"
