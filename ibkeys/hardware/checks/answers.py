"""Checks of the answers of agents to queries for attributes and blocks that they do not have."""

from __future__ import annotations

from collections.abc import Iterator

from ibkeys.errors import IbkeysError, MadStatusError, NoReply
from ibkeys.fabric.handle import PortHandle
from ibkeys.hardware.check import CheckAnswer, as_assumed, check
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.attributes import Attribute, PKeyTable
from ibkeys.mad.const import P_KEYS_PER_BLOCK, MadStatus


class _Reserved(Attribute):
    """An attribute that the standard has reserved."""

    name = "reserved attribute 0x00FE"
    attribute_id = 0x00FE


def _queried_ports(reading: FabricReading) -> Iterator[tuple[str, PortHandle]]:
    """Yield the local port and, if its cable leads to a switch, the management port of the switch."""
    yield "local port", reading.handle
    peer = reading.neighbour
    if peer is not None and peer.node.is_switch and peer.end_port.info is not None:
        yield "next switch", reading.fabric.handle(peer.end_port)


def _get_status(handle: PortHandle, attribute: type[Attribute], modifier: int) -> str:
    """Send one Get, without retries, and return its result: ``ok``, a status like ``0x000c``, ``silence``, or the name
    of an exception."""
    try:
        handle.fabric.get(attribute, modifier, handle.route, handle.m_key, retries=0)
    except MadStatusError as error:
        return f"0x{error.status:04x}"
    except NoReply:
        return "silence"
    except IbkeysError as error:
        return type(error).__name__
    return "ok"


@check("answers.unknown-attribute", "simulator", "Get of an attribute that an agent does not have: status 0x000c")
def unknown_attribute(reading: FabricReading) -> CheckAnswer:
    """Query a reserved attribute."""
    statuses = {name: _get_status(handle, _Reserved, 0) for name, handle in _queried_ports(reading)}
    return _compare(statuses, f"0x{MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED:04x}")


@check("answers.block-past-end", "simulator", "Get of a P_KeyTable block past the end: status 0x001c")
def block_past_end(reading: FabricReading) -> CheckAnswer:
    """Query the first block that the table does not have."""
    statuses = {}
    for name, handle in _queried_ports(reading):
        capacity = handle.read_capacity()
        statuses[name] = _get_status(handle, PKeyTable, -(-capacity // P_KEYS_PER_BLOCK))
    return _compare(statuses, f"0x{MadStatus.INVALID_FIELD:04x}")


def _compare(statuses: dict[str, str], expected: str) -> CheckAnswer:
    text = ", ".join(f"{name}: {status}" for name, status in statuses.items())
    return as_assumed(all(status == expected for status in statuses.values()), text, answers=statuses)
