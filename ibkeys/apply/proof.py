"""The proof at the end of a change: every port that was written is read again, whichever part of the code wrote it."""

from __future__ import annotations

from collections.abc import Mapping

from ibkeys.apply.carrier import WrittenPort
from ibkeys.apply.survey import read_again
from ibkeys.change.wanted import differences
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, NotStored
from ibkeys.mad.attributes import PortInfo
from ibkeys.port_text import at_port
from ibkeys.topology.port_id import PortKey


def find_differences(writer: ChangeWriter, written: Mapping[PortKey, WrittenPort]) -> dict[PortKey, IbkeysError]:
    """Read the ports of *written* afresh; return those that are not as they should be, or do not answer, each with the
    error.

    SMPs: ``ceil(capacity / 32)`` Gets and one for PortInfo for each port.
    """
    wrong = read_again(writer, [each.target for each in written.values()])
    for key, each in written.items():
        if key not in wrong and (problem := _difference(each)):
            wrong[key] = NotStored(at_port(each.target.port, f"when it was read at the end, {problem}"))
    return wrong


def _difference(each: WrittenPort) -> str:
    info, parts = each.target.port.port_info, differences(each.target.table, each.table)
    parts += [
        f"{PortInfo.rows[name].name} is {getattr(info, name)} instead of {value}"
        for name, value in each.bits.items()
        if getattr(info, name) != value
    ]
    return "; ".join(parts[:4])
