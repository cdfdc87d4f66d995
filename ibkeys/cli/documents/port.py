"""The documents about enforcement, capacities and violation counters of ports: port-show, enforce-set,
counters-clear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ibkeys.cli.documents.fabric import STATE
from ibkeys.cli.documents.field import (
    FLAG,
    NOTHING,
    NUMBER,
    CsvRows,
    Document,
    Field,
    JsonRow,
    list_of,
    object_of,
    or_null,
    parts_of,
)
from ibkeys.cli.documents.shared import ERRORS, FAR_END, PORT, UNREACHED, changed_ports


def is_external(row: JsonRow) -> bool:
    """Return whether a port is an external port of a switch."""
    return bool(row["node_type"] == "switch" and row["port"] != 0)


def has_enforcement(row: JsonRow) -> bool:
    """Return whether a port can check P_Keys.

    That is an external port of a switch, or a router port that reports enforcement.
    """
    return is_external(row) or row[INBOUND] is not None


# The functions below return NOTHING for a value that a port or node cannot have, and None for a value that could not be
# read.


def _on(name: str) -> Callable[[JsonRow], str | None]:
    words = {True: "on", False: "off", None: None}
    return lambda row: words[row[name]] if has_enforcement(row) else NOTHING


def _of_switch(name: str) -> Callable[[JsonRow], Any]:
    return lambda row: row[name] if row["node_type"] == "switch" else NOTHING


def _peer(row: JsonRow) -> str:
    peer = row["peer"]
    return f"{peer['node_desc'] or peer['node_guid']} port {peer['port']}" if peer is not None else NOTHING


def _kind_of_peer(row: JsonRow) -> str:
    return row["peer"]["node_type"] if row["peer"] is not None else NOTHING


INBOUND: Final = "partition_enforcement_inbound"
_OUTBOUND: Final = "partition_enforcement_outbound"
_ENFORCEMENT_CAP: Final = "partition_enforcement_cap"
_INBOUND_CAP: Final = "inbound_enforcement_cap"
_OUTBOUND_CAP: Final = "outbound_enforcement_cap"
_NO_SWITCH: Final = "Null: not a switch, or not read."

ENFORCEMENT: Final = (
    Field(
        INBOUND,
        or_null(FLAG),
        "PartitionEnforcementInbound: whether packets that enter the switch are checked. Null: not read, or no port "
        "that enforces partitions.",
        title="Inbound",
        text=_on(INBOUND),
    ),
    Field(
        _OUTBOUND,
        or_null(FLAG),
        "PartitionEnforcementOutbound: whether packets that leave the switch are checked. Null: not read, or no port "
        "that enforces partitions.",
        title="Outbound",
        text=_on(_OUTBOUND),
    ),
    Field(
        "peer",
        FAR_END,
        "The port at the other end of the link. Null: no link, or a single port was read, which does not report it.",
        title="Peer",
        text=_peer,
        folded=_kind_of_peer,
    ),
)
CAPS: Final = (
    Field(
        "partition_cap",
        or_null(NUMBER),
        "PartitionCap of the node: how many entries the P_Key table of a CA or router port, or of port 0 of a switch, "
        "can have. Null: not read.",
        title="PartitionCap",
        short="Partitions",
        brief=lambda row: NOTHING if is_external(row) else row["partition_cap"],
    ),
    Field(
        _ENFORCEMENT_CAP,
        or_null(NUMBER),
        f"PartitionEnforcementCap: how many entries the P_Key table of an external port can have. {_NO_SWITCH}",
        title="PartitionEnforcementCap",
        text=_of_switch(_ENFORCEMENT_CAP),
        short="EnforceCap",
    ),
    Field(
        _INBOUND_CAP,
        or_null(FLAG),
        f"InboundEnforcementCap: whether the switch can check packets that enter it. {_NO_SWITCH}",
        title="InboundEnforcementCap",
        text=_of_switch(_INBOUND_CAP),
        short="InboundCap",
    ),
    Field(
        _OUTBOUND_CAP,
        or_null(FLAG),
        f"OutboundEnforcementCap: whether the switch can check packets that leave it. {_NO_SWITCH}",
        title="OutboundEnforcementCap",
        text=_of_switch(_OUTBOUND_CAP),
        short="OutboundCap",
    ),
    Field(
        "is_m_key_nvram",
        or_null(FLAG),
        "IsM_KeyNVRAM: whether the M_Key survives a reset. Null: not read.",
        title="IsM_KeyNVRAM",
        short="M_Key NVRAM",
    ),
    Field(
        "is_p_key_nvram",
        or_null(FLAG),
        "IsP_KeyNVRAM: whether the P_Key table survives a reset. Null: not read.",
        title="IsP_KeyNVRAM",
        short="P_Key NVRAM",
    ),
)
SUPPRESSION: Final = "multicast_p_key_trap_suppression_enabled"
COUNTERS: Final = (
    Field(
        "m_key_violations",
        or_null(NUMBER),
        "M_KeyViolations: how many SMPs with a wrong M_Key the port has counted, up to 65535. Null: not read.",
        title="M_KeyViolations",
        short="M_KeyViol",
    ),
    Field(
        "p_key_violations",
        or_null(NUMBER),
        "P_KeyViolations: how many packets with a wrong P_Key the port has counted, up to 65535. Null: not read.",
        title="P_KeyViolations",
        short="P_KeyViol",
    ),
    Field(
        "q_key_violations",
        or_null(NUMBER),
        "Q_KeyViolations: how many packets with a wrong Q_Key the port has counted, up to 65535. Null: not read.",
        title="Q_KeyViolations",
        short="Q_KeyViol",
    ),
    Field(
        "xmit_constraint_errors",
        or_null(NUMBER),
        "PortXmitConstraintErrors: how many outgoing packets the port has dropped, most by partition enforcement, up "
        "to 255. Null: no switch port that enforces, or not read.",
        title="PortXmitConstraintErrors",
        short="XmitConstr",
    ),
    Field(
        "rcv_constraint_errors",
        or_null(NUMBER),
        "PortRcvConstraintErrors: the same of incoming packets.",
        title="PortRcvConstraintErrors",
        short="RcvConstr",
    ),
    Field(
        SUPPRESSION,
        or_null(NUMBER),
        "MulticastPKeyTrapSuppressionEnabled: which traps about a bad P_Key of multicast packets the port holds back; "
        "0: none. Null: the port has no such setting, it is an external port of a switch, or it was not read.",
        title="MulticastPKeyTrapSuppressionEnabled",
        short="TrapSuppr",
        empty=NOTHING,
    ),
)

_VALUES: Final = (STATE, *ENFORCEMENT, *CAPS, *COUNTERS)
PORT_SHOW: Final = Document(
    "port-show",
    1,
    (
        Field(
            "ports",
            list_of(object_of(*PORT, *(each._replace(optional=True) for each in _VALUES))),
            "The ports that were asked for. With --enforcement, --caps or --counters only these values are there.",
        ),
        ERRORS,
        UNREACHED,
    ),
    CsvRows("port", (*PORT, *(column for each in _VALUES for column in parts_of(each) or (each,)))),
)

ENFORCE_SET: Final = changed_ports("enforce-set", 2)
COUNTERS_CLEAR: Final = changed_ports(
    "counters-clear", 2, ERRORS._replace(optional=True), UNREACHED._replace(optional=True)
)
