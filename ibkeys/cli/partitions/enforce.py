"""Partition enforcement of switch ports: show and set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import options
from ibkeys.cli.addresses import given_port
from ibkeys.cli.changing import change_port
from ibkeys.cli.documents.switch_port import ENFORCE_SET
from ibkeys.cli.help.command import command
from ibkeys.cli.options import AskedChange, Kind, ShownPorts
from ibkeys.cli.render import NOTHING, Column, Row
from ibkeys.cli.showing import PEER_COLUMNS, peer_document, read_sheet, show
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.topology.nodes import Port


@command("enforce-show")
@options.shown_ports()
def enforce_show(asked: ShownPorts) -> int:
    """Show partition enforcement of switch ports.

    Inbound applies to packets that enter the switch, outbound to packets that leave it. Only external ports of switches
    enforce partitions, and sometimes ports of routers; with --all the table omits all other ports. Peer is the far end
    of the port's link; in a row of many ports it is the type of the node at the far end.
    """
    sheet = read_sheet(asked, lambda handle: handle.read_port_info(), _values)
    columns = [
        _column("partition_enforcement_inbound", "Inbound"),
        _column("partition_enforcement_outbound", "Outbound"),
    ]
    if not sheet.is_sweep:  # one port by itself does not say what it is linked to
        for row in sheet.ports:
            row["peer"] = None
    if asked.format == "csv":
        columns += [Column(part, part) for part in PEER_COLUMNS]
    elif sheet.is_sweep:
        columns.append(Column("peer", "Peer", _peer, folded=_kind_of_peer))
    return show("enforce-show", sheet, columns, asked, _has_enforcement)


def _has_enforcement(row: Row) -> bool:
    """Whether a row is of a port that enforces or could: an external port of a switch, or a router port that does."""
    is_external = row["node_type"] == "switch" and row["port"] != 0
    return is_external or row["partition_enforcement_inbound"] is not None


def _values(port: Port) -> dict[str, Any]:
    from ibkeys.topology.enforcement import ENFORCEMENT_BITS, may_enforce

    info = port.port_info if may_enforce(port) else None
    bits = {name: bool(getattr(info, name)) if info is not None else None for name in ENFORCEMENT_BITS}
    return {**bits, "peer": peer_document(port)}


def _peer(row: Row) -> str:
    peer = row["peer"]
    return f"{peer['node_desc'] or peer['node_guid']} port {peer['port']}" if peer is not None else NOTHING


def _kind_of_peer(row: Row) -> str:
    """Return what is at the far end: a row of many ports has one word for all of them."""
    return row["peer"]["node_type"] if row["peer"] is not None else NOTHING


def _column(name: str, title: str) -> Column:
    # What only external ports of switches have is another thing than one of theirs that could not be read.
    def word(row: Row) -> str | None:
        return _WORDS[row[name]] if _has_enforcement(row) else NOTHING

    return Column(name, title, word)


_WORDS: Final = {True: "on", False: "off", None: None}


_SWITCH = click.Choice(["on", "off"])


@command("enforce-set")
@options.address("ADDR PORTNUM", required=True)
@click.option("--inbound", type=_SWITCH, help="Packets that enter the switch from the attached node.")
@click.option("--outbound", type=_SWITCH, help="Packets that leave the switch to the attached node.")
@options.change
def enforce_set(
    asked: AskedChange, kind: Kind, words: tuple[str, ...], inbound: str | None, outbound: str | None
) -> int:
    """Switch enforcement of a switch port on or off.

    ADDR names the switch, PORTNUM one of its external ports. A direction that is not given stays as it is. A router
    port is changed only if it already enforces, because no field says whether a router can enforce.
    """
    from ibkeys.change.enforce import plan_enforce

    if inbound is None and outbound is None:
        raise UsageError("nothing to set: give --inbound on|off or --outbound on|off")
    given = given_port(words, kind)
    if given.portnum is None:
        raise UsageError("PORTNUM is missing: enforcement belongs to one external port of a switch")
    bits = _bit(inbound), _bit(outbound)
    return change_port(ENFORCE_SET, asked, given, lambda writer, port: plan_enforce(writer, port, *bits))


def _bit(word: str | None) -> bool | None:
    return None if word is None else word == "on"
