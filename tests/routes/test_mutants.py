"""Each changed rule of the simulator's packets is noticed by the comparison with the walker."""

from __future__ import annotations

from typing import Final

import pytest

from ibkeys.keys import pkey
from ibkeys.sim import nodes, notices, packets, routing
from tests.routes.compared import is_noticed
from tests.routes.mutants import Mutant, applied, mutants_of
from tests.routes.simulated import Simulator
from tests.sample import sampled

_MATCH = "return (a ^ b) & PARTITION_MASK == 0 and a & PARTITION_MASK != 0 and (a | b) & FULL_BIT != 0"
_INVALID = "if not key & PARTITION_MASK:\n        return None"
_IN_TABLE = "return next((index for index, entry in enumerate(table) if may_talk(key, entry)), None)"
_ANY_ENTRY = "return next((index for index, entry in enumerate(table) if (entry ^ key) & PARTITION_MASK == 0), None)"
_IN = "if enforces(ingress, INBOUND) and match_inbound(packet.p_key, ingress.p_keys, inbound_check) is None:"
_OUT = "if enforces(egress, OUTBOUND) and not allows(egress, packet.p_key):"
_AS_IN = "match_inbound(packet.p_key, egress.p_keys) is None"
_IN_BITS = "INBOUND: Final = PortInfo.partition_enforcement_inbound, SwitchInfo.inbound_enforcement_cap"
_OUT_BITS = "OUTBOUND: Final = PortInfo.partition_enforcement_outbound, SwitchInfo.outbound_enforcement_cap"
_BIT = "if node.switch_info is None or not bit.decode(port.info):"
_CAPABLE = "return node.enforcement_capacity > 0 and bool(capability.decode(node.switch_info))"
_DROPPED_IN = 'return PacketOutcome(f"{what}: dropped by inbound'
_DROPPED_OUT = 'return PacketOutcome(f"{what}: dropped by outbound'
_LOOP = "    for egress, ingress in links:\n"
_END_FIRST = "\n        if ingress is None:\n            break\n"
_AT_END = "index = match_in_table(packet.p_key, end.p_keys)"
_COUNTS = "end.p_key_violations = min(end.p_key_violations + 1, 0xFFFF)"
_LINK = "if peer is None or egress.state < PortState.ACTIVE or peer.state < PortState.ARMED:"
_ENTRY = "egress = table[lid] if lid < len(table) and lid <= _linear_fdb_top(switch) else NO_ROUTE"
_NEXT = "egress = _egress(node, lid) if node.is_switch else None\n    return links"
_COVERED = "return base != 0 and base <= lid < base + (1 << (self.info[_LMC_BYTE] & _LMC_BITS))"
_ARRIVAL = "return self.ports[0 if self.is_switch else ingress]"

MUTANTS: Final = {
    **mutants_of(
        pkey,
        ("any two partitions match", _MATCH, "(a ^ b) & PARTITION_MASK == 0 and ", ""),
        ("14 bits are compared", _MATCH, "(a ^ b) & PARTITION_MASK", "(a ^ b) & 0x3FFF"),
        ("partition 0 matches itself", _MATCH, "a & PARTITION_MASK != 0 and ", ""),
        ("two limited members match", _MATCH, " and (a | b) & FULL_BIT != 0", ""),
        ("only two full members match", _MATCH, "(a | b)", "(a & b)"),
        ("the packet has to be full", _MATCH, "(a | b)", "a"),
        ("the entry has to be full", _MATCH, "(a | b)", "b"),
        ("the last entry that matches is it", _IN_TABLE, "enumerate(table)", "[*enumerate(table)][::-1]"),
        ("only index 0 is compared", _IN_TABLE, "enumerate(table)", "[*enumerate(table)][:1]"),
        ("only block 0 is compared", _IN_TABLE, "enumerate(table)", "[*enumerate(table)][:32]"),
        ("the last entry is left out", _IN_TABLE, "enumerate(table)", "[*enumerate(table)][:-1]"),
        ("the readings are exchanged", 'if check == "membership":', "==", "!="),
        ("partition 0 is let in", _INVALID, "not key & PARTITION_MASK", "False"),
        ("an equal entry lets in", _ANY_ENTRY, " & PARTITION_MASK", ""),
        ("any table lets in", _ANY_ENTRY, _ANY_ENTRY, "return 0"),
        ("only block 0 lets in", _ANY_ENTRY, "enumerate(table)", "[*enumerate(table)][:32]"),
    ),
    **mutants_of(
        packets,
        ("nothing is checked inbound", _IN, "if ", "if False and "),
        ("inbound is always checked", _IN, "enforces(ingress, INBOUND) and ", ""),
        ("inbound by the sending port's table", _IN, "ingress.p_keys", "egress.p_keys"),
        ("inbound by one reading", _IN, ", inbound_check)", ")"),
        ("inbound by the other reading", _IN, "inbound_check)", "'membership')"),
        ("inbound lets pass what it drops", _IN, "is None", "is not None"),
        ("no inbound check for the switch itself", _IN, "if ", "if end is not ingress.node.ports[0] and "),
        ("no inbound check at the sender's leaf", _IN, "if ", "if egress is not source and "),
        ("an inbound check at the sender's leaf only", _IN, "if ", "if egress is source and "),
        ("nothing is checked outbound", _OUT, "if ", "if False and "),
        ("outbound is always checked", _OUT, "enforces(egress, OUTBOUND) and ", ""),
        ("outbound by the table of the far end", _OUT, "allows(egress", "allows(egress.peer or egress"),
        ("outbound lets pass what it drops", _OUT, "not allows", "allows"),
        ("outbound by the rule of inbound", _OUT, "not allows(egress, packet.p_key)", _AS_IN),
        ("no outbound check of a switch's own packets", _OUT, "if ", "if egress.node is not source.node and "),
        ("no outbound check at the receiver's leaf", _OUT, "if ", "if ingress is not destination and "),
        ("an outbound check at the receiver's leaf only", _OUT, "if ", "if ingress is destination and "),
        ("no outbound check before a link that is down", _LOOP, "\n", _END_FIRST),
        ("the inbound bit for outbound", _OUT_BITS, "partition_enforcement_outbound", "partition_enforcement_inbound"),
        ("the outbound bit for inbound", _IN_BITS, "partition_enforcement_inbound", "partition_enforcement_outbound"),
        ("the inbound capability for outbound", _OUT_BITS, "outbound_enforcement_cap", "inbound_enforcement_cap"),
        ("the outbound capability for inbound", _IN_BITS, "inbound_enforcement_cap", "outbound_enforcement_cap"),
        ("no capability is needed", _CAPABLE, " and bool(capability.decode(node.switch_info))", ""),
        ("no capacity is needed", _CAPABLE, "node.enforcement_capacity > 0 and ", ""),
        ("no bit is needed", _BIT, " or not bit.decode(port.info)", ""),
        ("an inbound drop counts as outbound", '"port_rcv_constraint_errors"', "rcv", "xmit"),
        ("an inbound drop is counted, and passes", _DROPPED_IN, "return ", ""),
        ("an outbound drop is counted, and passes", _DROPPED_OUT, "return ", ""),
        ("the end port is not checked", _AT_END, "match_in_table(packet.p_key, end.p_keys)", "0"),
        ("port 0 is not checked", _AT_END, "end.p_keys)", "end.p_keys) if end.number else 0"),
        ("the end port lets in as a switch does", _AT_END, "match_in_table", "match_inbound"),
        ("the end port looks at index 0 only", _AT_END, "end.p_keys", "end.p_keys[:1]"),
        ("the sender's table decides", _AT_END, "end.p_keys", "source.p_keys"),
        ("the sender counts", _COUNTS, "end.", "source."),
    ),
    **mutants_of(notices, ("the base LID decides", "else self.destination_lid", "_lid", ".lid")),
    **mutants_of(
        nodes,
        ("a port has its base LID only", _COVERED, "(1 <<", "1 + 0 * (1 <<"),
        ("a port has one LID too many", _COVERED, "lid < base", "lid <= base"),
        ("LMC is a number of LIDs", _COVERED, "1 << ", "1 + "),
        ("an external port receives", _ARRIVAL, "0 if self.is_switch else ", ""),
    ),
    **mutants_of(
        routing,
        ("nothing for LinearFDBTop itself", _ENTRY, "<= _linear", "< _linear"),
        ("LinearFDBTop does not matter", _ENTRY, " and lid <= _linear_fdb_top(switch)", ""),
        ("the entry of the LID before", _ENTRY, "table[lid]", "table[lid - 1]"),
        ("the entry of the even LID", _ENTRY, "table[lid]", "table[lid & ~1]"),
        ("an Armed port sends", _LINK, "ACTIVE", "ARMED"),
        ("an Armed port does not receive", _LINK, "ARMED", "ACTIVE"),
        ("an Initialize port receives", _LINK, "ARMED", "INITIALIZE"),
        ("the far end may have any state", _LINK, " or peer.state < PortState.ARMED", ""),
        ("a CA forwards", _NEXT, "None", "node.ports[-1]"),
        ("a packet to its sender goes out", "if port.covers(lid):\n        return links", "port.covers(lid)", "False"),
        ("four links are too many", "if node in passed:", "node in passed", "len(links) > 3"),
    ),
}
SAMPLE = ("two limited members match", "no inbound check at the sender's leaf", "the base LID decides")


@pytest.mark.parametrize("name", sampled(MUTANTS, SAMPLE))
def test_a_changed_rule_is_noticed(name: str) -> None:
    with applied(MUTANTS[name]):
        assert is_noticed(Simulator)


def test_a_mutant_changes_the_module_for_all_who_use_it_and_ends() -> None:
    table = vars(packets)["match_in_table"]  # packets imports it by name
    with applied(MUTANTS["two limited members match"]):
        assert pkey.may_talk(0x0001, 0x0001)
        assert table(0x0001, [0x0001]) == 0
    assert not pkey.may_talk(0x0001, 0x0001)
    with applied(Mutant("", packets, "PACKET_WORDS: Final = 72", "PACKET_WORDS: Final = 1")):
        assert vars(packets)["PACKET_WORDS"] == 1
    assert vars(packets)["PACKET_WORDS"] == 72


@pytest.mark.parametrize(
    ("text", "changed", "why"),
    [
        ("table: Iterable[int]", "table: list[int]", "has 2 times"),
        ("no such text", "", "has 0 times"),
        ("FULL_BIT: Final = 0x8000", "FULL_BIT: Final = 32768", "nothing of ibkeys.keys.pkey is changed"),
    ],
)
def test_a_mutant_that_changes_no_rule_is_refused(text: str, changed: str, why: str) -> None:
    with pytest.raises(ValueError, match=why), applied(Mutant("", pkey, text, changed)):
        pass
