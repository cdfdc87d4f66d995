"""Violation counters: show and clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import options
from ibkeys.cli.addresses import given_port
from ibkeys.cli.changing import Missing, change
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, Kind, Listing, Where
from ibkeys.cli.showing import Column, errors_of, finish, read_sheet, show, sweep

if TYPE_CHECKING:
    from ibkeys.change.plan import Plan
    from ibkeys.change.writer import Writer
    from ibkeys.topology.model import Port

COUNTERS: Final = {
    "m_key_violations": "M_KeyViolations",
    "p_key_violations": "P_KeyViolations",
    "q_key_violations": "Q_KeyViolations",
}


@command("counters-show")
@options.every_port
@options.address()
@options.format
@options.listing
@options.reading
def counters_show(
    where: Where, kind: Kind, words: tuple[str, ...], every_port: bool, listing: Listing, format: str
) -> int:
    """Show M_Key, P_Key and Q_Key violation counters.

    Counters stop at 65535 and are cleared only by counters-clear, or by a reset of the port.
    """
    sheet = read_sheet(where, kind, words, every_port, listing, lambda handle: handle.read_port_info(), _values)
    columns = [Column(key, title) for key, title in COUNTERS.items()]
    return show("counters-show", sheet, columns, format, listing, lambda row: True)


def _values(port: Port) -> dict[str, Any]:
    info = port.port_info
    return {key: getattr(info, key) if info is not None else None for key in COUNTERS}


@command("counters-clear")
@options.every_port
@options.address()
@options.changing
@options.format
@options.fabric
def counters_clear(
    where: Where, kind: Kind, words: tuple[str, ...], every_port: bool, consent: Changing, format: str
) -> int:
    """Clear the violation counters.

    Of one port, or with --all of every port that has counted any. The old values are kept in the journal.
    """
    from ibkeys.change.counters import plan_clear

    given = given_port(words, kind, every_port)
    missing = Missing()
    with open_fabric(where, changing=True) as fabric:

        def make_plan(writer: Writer) -> Plan:
            if not every_port:
                return plan_clear(writer, [given.open(fabric)])
            found = sweep(fabric, where)
            missing.errors, missing.unreached = errors_of(found), found.unreached
            # Only ports that could be read, and have something to clear, are worth a further question.
            return plan_clear(writer, [fabric.handle(port) for port in found.ports() if any(_counts(port))])

        code = change(fabric, "counters-clear", consent, format, make_plan, missing if every_port else None)
    return finish(missing.errors, format) or code


def _counts(port: Port) -> list[int]:
    return [value for value in _values(port).values() if value]
