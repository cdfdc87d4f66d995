"""Each changed rule of the packets of `why` is noticed by the comparison with the walker."""

from __future__ import annotations

from typing import Final

import pytest

from ibkeys.reach import packet
from ibkeys.topology import enforcement, forwarding
from tests.routes.compared import is_noticed
from tests.routes.followed import Followed
from tests.routes.mutants import applied, mutants_of
from tests.sample import sampled

_SIDES = '= ((in_port, "inbound"), (out_port, "outbound"))'
_ENFORCED = "or enforced(port) & _BITS[direction]):"
_INDEX = "index = matching_entry(p_key, port.p_keys or (), direction, inbound_check)"
_TABLE = "port.p_keys or ()"
_BY = 'match_inbound(p_key, table, inbound_check) if direction == "inbound" else match_in_table(p_key, table)'
_STOPS = "if index is None:\n            return PacketPath(route, p_key, tuple(checks), number)"
_ARRIVES = 'if route.end == "arrives":\n        last'
_RECEIVER = "receiver = last.node.port(0) if last.node.is_switch else last.in_port or route.source"
_START = "exit_or_end = exit_to(node, lid) if node.is_switch else source if entered is None else None"
_ITSELF = "if entered is None and lid in lids_of(source):"
_OWN = "is_own = here is not None and lid in lids_of(here)"
_LOOP = "if node.is_switch and node in passed:"
_ABOVE = "is_above = lid > SwitchInfo.linear_fdb_top.decode(info)"
_BLOCK = "block = None if is_above else switch.forwarding.get(lid // LIDS_PER_BLOCK)"
_ENTRY = "entry = NO_PORT if block is None else block[lid % LIDS_PER_BLOCK]"
_LIDS = "return range(base, base + (1 << PortInfo.lmc.decode(info) if info is not None else 1))"
_ACTIVE = "if not port.is_active:"
_ARMED = "if PortInfo.port_state.decode(peer.info) not in (PortState.ARMED, PortState.ACTIVE):"
_CAPABLE = "return bits & (INBOUND * switch.inbound_enforcement_cap | OUTBOUND * switch.outbound_enforcement_cap)"
_CAPACITY = "if not switch.partition_enforcement_cap:"


def _at_switch(table: str) -> str:
    """Return the text of a table that is *table* at a switch port and the right one at the end port."""
    return f'port.p_keys or () if direction == "received" else {table}'


def _at_end(table: str) -> str:
    """Return the text of a table that is *table* at the end port and the right one at a switch port."""
    return f'{table} if direction == "received" else port.p_keys or ()'


MUTANTS: Final = {
    **mutants_of(
        packet,
        ("nothing is checked inbound", _SIDES, '(in_port, "inbound"), ', "*(), "),
        ("nothing is checked outbound", _SIDES, ', (out_port, "outbound")', ","),
        ("the ports are exchanged", _SIDES, _SIDES, '= ((out_port, "inbound"), (in_port, "outbound"))'),
        ("the inbound port is asked twice", _SIDES, "(out_port", "(in_port"),
        ("the outbound check comes first", _SIDES, _SIDES, '= ((out_port, "outbound"), (in_port, "inbound"))'),
        ("the bits are exchanged", _ENFORCED, "_BITS[direction]", "(INBOUND + OUTBOUND - _BITS[direction])"),
        ("the inbound bit for both", _ENFORCED, "[direction]", '["inbound"]'),
        ("any bit counts", _ENFORCED, " & _BITS[direction]", ""),
        ("what is off is checked", _ENFORCED, "enforced", "not enforced"),
        ("the table of port 0 decides", _INDEX, _TABLE, _at_switch("port.node.port(0).p_keys or ()")),
        ("only index 0 is compared", _INDEX, _TABLE, _at_switch("(port.p_keys or ())[:1]")),
        ("only block 0 is compared", _INDEX, _TABLE, _at_switch("(port.p_keys or ())[:32]")),
        ("inbound as outbound", _BY, "match_inbound(p_key, table, inbound_check)", "match_in_table(p_key, table)"),
        ("outbound as inbound", _BY, "else match_in_table(p_key, table)", "else match_inbound(p_key, table)"),
        ("one reading only", _BY, ", inbound_check)", ")"),
        ("a packet that fails goes on", _STOPS, "if index is None", "if False"),
        ("a packet that passes is stopped", _STOPS, "is None", "is not None"),
        ("a lost packet is received", _ARRIVES, 'route.end == "arrives"', "True"),
        ("port 0 has the table of the way in", _RECEIVER, "last.node.port(0) if last.node.is_switch else ", ""),
        ("the sender's table decides", _RECEIVER, "last.in_port or ", ""),
        ("the end port looks at index 0 only", _INDEX, _TABLE, _at_end("(port.p_keys or ())[:1]")),
        ("the end port looks at block 0 only", _INDEX, _TABLE, _at_end("(port.p_keys or ())[:32]")),
        ("the end port takes everything", _INDEX, _TABLE, _at_end("(p_key | 0x8000,)")),
    ),
    **mutants_of(
        forwarding,
        ("a switch sends its own packets anywhere", _START, "if node.is_switch else", "if entered is not None else"),
        ("a packet to its sender goes out", _ITSELF, "entered is None and ", "False and "),
        ("any port has the LID", _OWN, "and lid in lids_of(here)", ""),
        ("no port has the LID", _OWN, "is not None and", "is None and"),
        ("a CA with two ports is a circle", _LOOP, "node.is_switch and ", ""),
        ("LinearFDBTop itself is above", _ABOVE, ">", ">="),
        ("LinearFDBTop does not matter", _ABOVE, "lid > SwitchInfo.linear_fdb_top.decode(info)", "False"),
        ("block 0 for all", _BLOCK, "lid // LIDS_PER_BLOCK", "0"),
        ("the entry of the LID before", _ENTRY, "[lid %", "[(lid - 1) %"),
        ("the entry of the even LID", _ENTRY, "[lid %", "[(lid & ~1) %"),
        ("the entry of the LID in a smaller block", _ENTRY, "LIDS_PER_BLOCK", "32"),
        ("a port has its base LID only", _LIDS, "1 << PortInfo.lmc.decode(info)", "1"),
        ("a port has one LID too many", _LIDS, "if info is not None else 1)", "if info is not None else 1) + 1"),
        ("LMC is a number of LIDs", _LIDS, "1 <<", "1 +"),
        ("a port in any state sends", _ACTIVE, "not port.is_active", "False"),
        ("an Armed port does not receive", _ARMED, "(PortState.ARMED, PortState.ACTIVE)", "(PortState.ACTIVE,)"),
        ("a port in any state receives", _ARMED, "not in", "in ()  and 1 not in"),
        ("an Initialize port receives", _ARMED, "(PortState.ARMED,", "(PortState.INITIALIZE, PortState.ARMED,"),
    ),
    **mutants_of(
        enforcement,
        ("no capability is needed", _CAPABLE, _CAPABLE, "return bits"),
        ("the capabilities are exchanged", _CAPABLE, "INBOUND * switch.inbound", "OUTBOUND * switch.inbound"),
        ("no capacity is needed", _CAPACITY, "not switch.partition_enforcement_cap", "False"),
    ),
}
SAMPLE = ("the bits are exchanged", "the outbound check comes first", "an Armed port does not receive")


@pytest.mark.parametrize("name", sampled(MUTANTS, SAMPLE))
def test_a_changed_rule_is_noticed(name: str) -> None:
    with applied(MUTANTS[name]):
        assert is_noticed(Followed)
