"""Violation counters: show and clear."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits, options
from ibkeys.cli.addresses import given_port
from ibkeys.cli.changing import Missing, change
from ibkeys.cli.documents.counters import COUNTERS_CLEAR
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import AskedChange, Kind, ShownPorts
from ibkeys.cli.render import NOTHING, Column, Row
from ibkeys.cli.showing import errors_of, finish, read_sheet, show, sweep, values_of
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.change.plan import Plan
    from ibkeys.change.writer import Writer
    from ibkeys.discovery.port_counters import ConstraintErrors
    from ibkeys.source import Source
    from ibkeys.topology.nodes import Port

COUNTERS: Final = {
    "m_key_violations": "M_KeyViolations",
    "p_key_violations": "P_KeyViolations",
    "q_key_violations": "Q_KeyViolations",
}
SUPPRESSION: Final = "multicast_p_key_trap_suppression_enabled"


@command("counters-show")
@options.shown_ports()
def counters_show(asked: ShownPorts) -> int:
    """Show M_Key, P_Key and Q_Key violation counters.

    Violation counters stop at 65535 and are cleared only by counters-clear, or by a reset of the port. Also shows
    PortXmitConstraintErrors and PortRcvConstraintErrors of switch ports that enforce partitions: packets that were
    dropped there on the way out and in. These counters stop at 255. They come from PortCounters, and counters-clear
    does not clear them. TrapSuppr shows ports with MulticastPKeyTrapSuppressionEnabled: these may count violations
    without sending a trap.
    """
    from ibkeys.discovery.port_counters import enforcing_ports
    from ibkeys.mad.attributes import PortInfo

    dropped: dict[Port, ConstraintErrors] = {}

    def read_dropped(source: Source, ports: Sequence[Port]) -> None:
        dropped.update(source.read_constraint_errors(enforcing_ports(ports)))

    def values(port: Port) -> dict[str, Any]:
        errors = dropped.get(port)
        names = {key: getattr(errors, what) if errors is not None else None for key, (*_, what) in _DROPPED.items()}
        return {**_values(port), **names, SUPPRESSION: _suppression(port)}

    sheet = read_sheet(asked, lambda handle: handle.read_port_info(), values, read_more=read_dropped)
    _say_unread(dropped)
    enforcing = {(port.identity()["node_guid"], port.num) for port in dropped}
    columns = [Column(key, title) for key, title in COUNTERS.items()]
    columns += [Column(key, title, _dropped(key, enforcing), short) for key, (title, short, _) in _DROPPED.items()]
    if asked.format != "table" or any(row[SUPPRESSION] is not None for row in sheet.ports):
        columns.append(Column(SUPPRESSION, PortInfo.rows[SUPPRESSION].name, short="TrapSuppr", empty=NOTHING))
    return show("counters-show", sheet, columns, asked)


_DROPPED: Final = {
    "xmit_constraint_errors": ("PortXmitConstraintErrors", "XmitConstr", "transmitted"),
    "rcv_constraint_errors": ("PortRcvConstraintErrors", "RcvConstr", "received"),
}
"""JSON key → the counter, its title where columns are narrow, the attribute of `ConstraintErrors`."""


def _dropped(key: str, asked: Collection[tuple[str, int]]) -> Callable[[Row], Any]:
    def cell(row: Row) -> Any:
        return row[key] if (row["node_guid"], row["port"]) in asked else NOTHING

    return cell


def _suppression(port: Port) -> int | None:
    """Return which bad P_Key traps an end port holds back for multicast packets, 0 for none; None where it was not
    read, the port has no such setting, or it is no end port's."""
    from ibkeys.mad.const import CapabilityMask

    info = port.port_info if port.is_end_port else None
    if info is None or not info.capability_mask & CapabilityMask.IS_MULTICAST_P_KEY_TRAP_SUPPRESSION_SUPPORTED:
        return None
    return int(getattr(info, SUPPRESSION))


def _say_unread(dropped: Mapping[Port, ConstraintErrors]) -> None:
    """Say whose PortCounters are missing: they are asked by LID and P_Key, so an answer takes more than a link."""
    unread = [(port, errors.error) for port, errors in dropped.items() if errors.error is not None]
    if unread:
        port, error = unread[0]
        exits.note(f"constraint errors of {counted(len(unread), 'switch port')} are not known; {port}: {error}")


def _values(port: Port) -> dict[str, Any]:
    return values_of(port.port_info, COUNTERS)


@command("counters-clear")
@options.every_port
@options.address()
@options.change
def counters_clear(asked: AskedChange, kind: Kind, words: tuple[str, ...], every_port: bool) -> int:
    """Clear the violation counters.

    Clears the counters of one port, or with --all those of every port that has counted a violation. The old values are
    kept in the journal.
    """
    from ibkeys.change.counters import plan_clear

    given = given_port(words, kind, every_port)
    missing = Missing()
    with open_fabric(asked.where, changing=True) as fabric:

        def make_plan(writer: Writer) -> Plan:
            if not every_port:
                return plan_clear(writer, [fabric.find_port(*given)])
            found = sweep(fabric, asked.where)
            missing.errors, missing.unreached = errors_of(found), found.unreached
            # Only ports that could be read, and have something to clear, are worth a further question.
            ports = [port for port in found.ports() if port.port_info is not None]
            clear = [port for port in ports if not _counts(port)]
            return plan_clear(writer, [fabric.handle(port) for port in ports if _counts(port)], clear)

        code = change(fabric, COUNTERS_CLEAR, asked, make_plan, missing if every_port else None)
    return finish(missing.errors, asked.format) or code


def _counts(port: Port) -> list[int]:
    return [value for value in _values(port).values() if value]
