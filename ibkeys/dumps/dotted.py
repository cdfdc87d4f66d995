"""The lines in which libibmad prints an attribute: ``PkeyViolations:..................0``. saquery and smpquery share
them. Source: libibmad's dump.c and fields.c, and output of infiniband-diags 44."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ibkeys.dumps.facts import NodeFacts, PortFacts, PortFields
from ibkeys.dumps.lines import TextLine, to_number
from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import MAX_PORT, NODE_TYPE_NAMES, NodeType
from ibkeys.mad.fields import NumberRow

_DOTTED: Final = re.compile(r"([A-Za-z][A-Za-z0-9_ ]*):?\.+(.*)", re.DOTALL)
NOT_DISPLAYED: Final = "<not displayed>"
_WORDS: Final[Mapping[NumberRow, Mapping[str, int]]] = {
    PortInfo.port_state: {"Down": 1, "Initialize": 2, "Armed": 3, "Active": 4},
    PortInfo.port_physical_state: {
        "Sleep": 1,
        "Polling": 2,
        "Disabled": 3,
        "PortConfigurationTraining": 4,
        "LinkUp": 5,
        "LinkErrorRecovery": 6,
        "PhyTest": 7,
    },
    NodeInfo.node_type: {"Channel Adapter": NodeType.CA, "Switch": NodeType.SWITCH, "Router": NodeType.ROUTER},
}
"""Fields that are printed as words, with the numbers of the words."""

PORT_INFO: Final[Mapping[str, NumberRow]] = {
    "Mkey": PortInfo.m_key,
    "GidPrefix": PortInfo.gid_prefix,
    "Lid": PortInfo.lid,
    "SMLid": PortInfo.master_sm_lid,
    "CapMask": PortInfo.capability_mask,
    "DiagCode": PortInfo.diag_code,
    "MkeyLeasePeriod": PortInfo.m_key_lease_period,
    "LocalPort": PortInfo.local_port_num,
    "LinkState": PortInfo.port_state,
    "PhysLinkState": PortInfo.port_physical_state,
    "ProtectBits": PortInfo.m_key_protect_bits,
    "LMC": PortInfo.lmc,
    "SMSL": PortInfo.master_sm_sl,
    "VLHighLimit": PortInfo.vl_high_limit,
    "PartEnforceInb": PortInfo.partition_enforcement_inbound,
    "PartEnforceOutb": PortInfo.partition_enforcement_outbound,
    "FilterRawInb": PortInfo.filter_raw_inbound,
    "FilterRawOutb": PortInfo.filter_raw_outbound,
    "MkeyViolations": PortInfo.m_key_violations,
    "PkeyViolations": PortInfo.p_key_violations,
    "QkeyViolations": PortInfo.q_key_violations,
    "GuidCap": PortInfo.guid_cap,
    "ClientReregister": PortInfo.client_reregister,
    "McastPkeyTrapSuppressionEnabled": PortInfo.multicast_p_key_trap_suppression_enabled,
    "SubnetTimeout": PortInfo.subnet_timeout,
    "MaxCreditHint": PortInfo.max_credit_hint,
    "CapabilityMask2": PortInfo.capability_mask2,
}
"""The name before the dots → the field."""
NODE_INFO: Final[Mapping[str, NumberRow]] = {
    "NodeType": NodeInfo.node_type,
    "NumPorts": NodeInfo.num_ports,
    "SystemGuid": NodeInfo.system_image_guid,
    "Guid": NodeInfo.node_guid,
    "PortGuid": NodeInfo.port_guid,
    "PartCap": NodeInfo.partition_cap,
    "DevId": NodeInfo.device_id,
    "Revision": NodeInfo.revision,
    "LocalPort": NodeInfo.local_port_num,
    "VendorId": NodeInfo.vendor_id,
}
NODE_RECORD: Final[Mapping[str, NumberRow]] = {
    **{row.attr: row for row in NODE_INFO.values()},
    "sys_guid": NodeInfo.system_image_guid,
    "port_num": NodeInfo.local_port_num,
}
"""As saquery names them in a NodeRecord: two of them have other names than ours."""
SWITCH_INFO: Final[Mapping[str, NumberRow]] = {
    "PartEnforceCap": SwitchInfo.partition_enforcement_cap,
    "InboundPartEnf": SwitchInfo.inbound_enforcement_cap,
    "OutboundPartEnf": SwitchInfo.outbound_enforcement_cap,
    "FilterRawInbound": SwitchInfo.filter_raw_inbound_cap,
    "FilterRawOutbound": SwitchInfo.filter_raw_outbound_cap,
    "EnhancedPort0": SwitchInfo.enhanced_port0,
}


def split_dotted(text: str) -> tuple[str, str] | None:
    """Return the name and the value of such a line; None for any other line, such as the names below a CapMask."""
    found = _DOTTED.fullmatch(text.strip())
    return (found[1].strip(), found[2].strip()) if found else None


def value_of(line: TextLine, name: str, text: str, row: NumberRow) -> int:
    """Return the value of a field. Raises FileFormatError, which names the field and not the value."""
    value = _WORDS.get(row, {}).get(text)
    if value is None:
        value = to_number(text)
    if value is None or value > row.max:
        raise line.error(f"{name} has a value that this field cannot have")
    return value


def take_port_info(line: TextLine, name: str, text: str, fields: PortFields) -> None:
    """Add the value in one line of a PortInfo to *fields*. Unknown names are left out, and so is an Mkey that is not
    displayed.
    """
    row = PORT_INFO.get(name)
    if row is not None and text != NOT_DISPLAYED:
        fields.put(row, value_of(line, name, text, row))


def node_of(heading: TextLine, values: Mapping[str, int], lid: int) -> tuple[NodeFacts, list[PortFacts]]:
    """Return the node in fields of NodeInfo, by JSON name, and the port that answered, if its number is known.

    *lid*: the LID of that port, 0 for none. Raises FileFormatError at *heading* for an impossible node.
    """
    numbers = dict(values)
    guid, kind, ports = (numbers.pop(row.attr, 0) for row in _WHO)
    port_guid, num = numbers.pop(NodeInfo.port_guid.attr, 0), numbers.pop(NodeInfo.local_port_num.attr, 0)
    if not guid or not 1 <= ports <= MAX_PORT or kind not in NODE_TYPE_NAMES or num > ports:
        raise heading.error("no node can have this node GUID, type, number of ports or port number: is it cut off?")
    node = NodeFacts(guid, kind, ports, heading.number, fields=numbers)
    is_switch = kind == NodeType.SWITCH
    if not num and not is_switch:
        return node, []
    return node, [PortFacts(guid, 0 if is_switch else num, heading.number, guid=port_guid or None, lid=lid or None)]


_WHO: Final = (NodeInfo.node_guid, NodeInfo.node_type, NodeInfo.num_ports)
