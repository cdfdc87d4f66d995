"""The lines in which libibmad prints an attribute: ``PkeyViolations:..................0``. saquery and smpquery share
them. Source: libibmad's dump.c and fields.c, and output of infiniband-diags 44."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ibkeys.dumps.lines import TextLine, to_number
from ibkeys.dumps.said import MOST_PORTS, NodeSaid, PortFields, PortSaid
from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import NodeType
from ibkeys.mad.fields import NumberRow

_DOTTED: Final = re.compile(r"([A-Za-z][A-Za-z0-9_ ]*):?\.+(.*)", re.DOTALL)
NOT_DISPLAYED: Final = "<not displayed>"
_STATES: Final = {"Down": 1, "Initialize": 2, "Armed": 3, "Active": 4}
_PHYSICAL: Final = {
    "Sleep": 1,
    "Polling": 2,
    "Disabled": 3,
    "PortConfigurationTraining": 4,
    "LinkUp": 5,
    "LinkErrorRecovery": 6,
    "PhyTest": 7,
}
_NO_WORDS: Final[Mapping[str, int]] = {}

PORT_INFO: Final[Mapping[str, tuple[NumberRow, Mapping[str, int]]]] = {
    "Mkey": (PortInfo.m_key, _NO_WORDS),
    "GidPrefix": (PortInfo.gid_prefix, _NO_WORDS),
    "Lid": (PortInfo.lid, _NO_WORDS),
    "SMLid": (PortInfo.master_sm_lid, _NO_WORDS),
    "CapMask": (PortInfo.capability_mask, _NO_WORDS),
    "DiagCode": (PortInfo.diag_code, _NO_WORDS),
    "MkeyLeasePeriod": (PortInfo.m_key_lease_period, _NO_WORDS),
    "LocalPort": (PortInfo.local_port_num, _NO_WORDS),
    "LinkState": (PortInfo.port_state, _STATES),
    "PhysLinkState": (PortInfo.port_physical_state, _PHYSICAL),
    "ProtectBits": (PortInfo.m_key_protect_bits, _NO_WORDS),
    "LMC": (PortInfo.lmc, _NO_WORDS),
    "SMSL": (PortInfo.master_sm_sl, _NO_WORDS),
    "VLHighLimit": (PortInfo.vl_high_limit, _NO_WORDS),
    "PartEnforceInb": (PortInfo.partition_enforcement_inbound, _NO_WORDS),
    "PartEnforceOutb": (PortInfo.partition_enforcement_outbound, _NO_WORDS),
    "FilterRawInb": (PortInfo.filter_raw_inbound, _NO_WORDS),
    "FilterRawOutb": (PortInfo.filter_raw_outbound, _NO_WORDS),
    "MkeyViolations": (PortInfo.m_key_violations, _NO_WORDS),
    "PkeyViolations": (PortInfo.p_key_violations, _NO_WORDS),
    "QkeyViolations": (PortInfo.q_key_violations, _NO_WORDS),
    "GuidCap": (PortInfo.guid_cap, _NO_WORDS),
    "ClientReregister": (PortInfo.client_reregister, _NO_WORDS),
    "McastPkeyTrapSuppressionEnabled": (PortInfo.multicast_p_key_trap_suppression_enabled, _NO_WORDS),
    "SubnetTimeout": (PortInfo.subnet_timeout, _NO_WORDS),
    "MaxCreditHint": (PortInfo.max_credit_hint, _NO_WORDS),
    "CapabilityMask2": (PortInfo.capability_mask2, _NO_WORDS),
}
"""The name before the dots → the field, and what words stand for which number."""
NODE_INFO: Final[Mapping[str, tuple[NumberRow, Mapping[str, int]]]] = {
    "NodeType": (
        NodeInfo.node_type,
        {"Channel Adapter": NodeType.CA, "Switch": NodeType.SWITCH, "Router": NodeType.ROUTER},
    ),
    "NumPorts": (NodeInfo.num_ports, _NO_WORDS),
    "SystemGuid": (NodeInfo.system_image_guid, _NO_WORDS),
    "Guid": (NodeInfo.node_guid, _NO_WORDS),
    "PortGuid": (NodeInfo.port_guid, _NO_WORDS),
    "PartCap": (NodeInfo.partition_cap, _NO_WORDS),
    "DevId": (NodeInfo.device_id, _NO_WORDS),
    "Revision": (NodeInfo.revision, _NO_WORDS),
    "LocalPort": (NodeInfo.local_port_num, _NO_WORDS),
    "VendorId": (NodeInfo.vendor_id, _NO_WORDS),
}
NODE_RECORD: Final[Mapping[str, tuple[NumberRow, Mapping[str, int]]]] = {
    "node_type": NODE_INFO["NodeType"],
    "num_ports": NODE_INFO["NumPorts"],
    "sys_guid": NODE_INFO["SystemGuid"],
    "node_guid": NODE_INFO["Guid"],
    "port_guid": NODE_INFO["PortGuid"],
    "partition_cap": NODE_INFO["PartCap"],
    "device_id": NODE_INFO["DevId"],
    "revision": NODE_INFO["Revision"],
    "port_num": NODE_INFO["LocalPort"],
    "vendor_id": NODE_INFO["VendorId"],
}
"""As saquery names them in a NodeRecord."""
SWITCH_INFO: Final[Mapping[str, tuple[NumberRow, Mapping[str, int]]]] = {
    "PartEnforceCap": (SwitchInfo.partition_enforcement_cap, _NO_WORDS),
    "InboundPartEnf": (SwitchInfo.inbound_enforcement_cap, _NO_WORDS),
    "OutboundPartEnf": (SwitchInfo.outbound_enforcement_cap, _NO_WORDS),
    "FilterRawInbound": (SwitchInfo.filter_raw_inbound_cap, _NO_WORDS),
    "FilterRawOutbound": (SwitchInfo.filter_raw_outbound_cap, _NO_WORDS),
    "EnhancedPort0": (SwitchInfo.enhanced_port0, _NO_WORDS),
}


def split_dotted(text: str) -> tuple[str, str] | None:
    """Return the name and the value of such a line; None for any other line, as the names below a CapMask are."""
    found = _DOTTED.fullmatch(text.strip())
    return (found[1].strip(), found[2].strip()) if found else None


def value_of(line: TextLine, name: str, text: str, row: NumberRow, words: Mapping[str, int]) -> int:
    """Return the value of a field. Raises FileFormatError, which names the field and not the value."""
    value = words.get(text)
    if value is None:
        value = to_number(text)
    if value is None or value > row.max:
        raise line.error(f"{name} has a value that this field cannot have")
    return value


def take_port_info(line: TextLine, name: str, text: str, fields: PortFields) -> None:
    """Take one line of a PortInfo. Names that are not known are left out, and an Mkey that is not displayed."""
    known = PORT_INFO.get(name)
    if known is None or text == NOT_DISPLAYED:
        return
    row, words = known
    fields.put(row, value_of(line, name, text, row, words))


def node_of(heading: TextLine, said: Mapping[str, int], lid: int) -> tuple[NodeSaid, PortSaid | None]:
    """Return the node that fields of NodeInfo describe, by JSON name, and the port that answered; *lid*: its, 0 for
    none.

    Raises FileFormatError at *heading* for a node that there cannot be.
    """
    numbers = dict(said)
    guid, kind, ports = (numbers.pop(row.attr, 0) for row in _WHO)
    port_guid, num = numbers.pop(NodeInfo.port_guid.attr, 0), numbers.pop(NodeInfo.local_port_num.attr, 0)
    if not guid or not 1 <= ports <= MOST_PORTS or kind not in _TYPES or num > ports:
        raise heading.error("no node can have this node GUID, type, number of ports or port number: is it cut off?")
    node = NodeSaid(guid, kind, ports, heading.number, fields=numbers)
    own = 0 if kind == NodeType.SWITCH else num
    if not own and kind != NodeType.SWITCH:
        return node, None
    return node, PortSaid(guid, own, heading.number, guid=port_guid or None, lid=lid or None)


_WHO: Final = (NodeInfo.node_guid, NodeInfo.node_type, NodeInfo.num_ports)
_TYPES: Final = frozenset(map(int, NodeType))
