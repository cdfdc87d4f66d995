"""Numbers of the InfiniBand management protocol, under the names that the standard gives them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from typing import Final

MAD_SIZE: Final = 256
"""Every MAD has this many bytes (IBA 13.4.2)."""
SMP_DATA_SIZE: Final = 64
"""The number of attribute bytes in one SMP (IBA 14.2.1)."""
MAX_PORT: Final = 254
"""The highest possible port number (IBA 14.2.5.3, NumPorts)."""
MAX_HOPS: Final = 63
"""The most hops of a directed route, which has 64 path entries, the first of them unused (IBA 14.2.1.2)."""
PERMISSIVE_LID: Final = 0xFFFF
MAX_UNICAST_LID: Final = 0xBFFF
P_KEYS_PER_BLOCK: Final = 32
GUIDS_PER_BLOCK: Final = 8
GSI_QP: Final = 1
QP1_Q_KEY: Final = 0x8001_0000
"""The well-known Q_Key of QP1, the queue pair of general management packets (IBA 10.2.4)."""


def _standard_name(member: IntEnum) -> str:
    """Return the name of *member* as the standard spells it: ``TrapRepress`` for ``TRAP_REPRESS``."""
    return member.name.title().replace("_", "")


def _state_names(states: type[IntEnum]) -> Mapping[int, str]:
    """Return the standard's name of each value of a state. The name of 0, a value only for Sets, is "No change"."""
    return {state: _standard_name(state) for state in states} | {0: "No change"}


def in_words(member: IntEnum) -> str:
    """Return the name of *member* in words: ``not active`` for ``NOT_ACTIVE``."""
    return member.name.lower().replace("_", " ")


class MgmtClass(IntEnum):
    """MgmtClass of a MAD (IBA 13.4.4). The two vendor classes are those of NVIDIA that have keys."""

    SUBN_LID_ROUTED = 0x01
    SUBN_ADM = 0x03
    PERF_MGMT = 0x04
    BASEBOARD = 0x05
    VENDOR_VS = 0x0A
    VENDOR_N2N = 0x0C
    CONGESTION = 0x21
    SUBN_DIRECTED_ROUTE = 0x81


SMP_CLASSES: Final = frozenset({MgmtClass.SUBN_LID_ROUTED, MgmtClass.SUBN_DIRECTED_ROUTE})


class Method(IntEnum):
    """Method of a MAD (IBA 13.4.5, SA: 15.2.2). Bit 0x80 marks a response."""

    GET = 0x01
    SET = 0x02
    SEND = 0x03
    TRAP = 0x05
    REPORT = 0x06
    TRAP_REPRESS = 0x07
    GET_TABLE = 0x12
    GET_TRACE_TABLE = 0x13
    GET_MULTI = 0x14
    DELETE = 0x15
    GET_RESP = 0x81
    REPORT_RESP = 0x86
    GET_TABLE_RESP = 0x92
    GET_MULTI_RESP = 0x94
    DELETE_RESP = 0x95


METHOD_NAMES: Final[Mapping[int, str]] = {method: _standard_name(method) for method in Method}

# Classes and methods as plain numbers, for code that handles every MAD: comparing with a member of an enum is slower.
LID_ROUTED: Final = int(MgmtClass.SUBN_LID_ROUTED)
DIRECTED_ROUTE: Final = int(MgmtClass.SUBN_DIRECTED_ROUTE)
SUBN_ADM: Final = int(MgmtClass.SUBN_ADM)
PERF_MGMT: Final = int(MgmtClass.PERF_MGMT)
GET: Final = int(Method.GET)
SET: Final = int(Method.SET)
GET_RESP: Final = int(Method.GET_RESP)
TRAP: Final = int(Method.TRAP)
REPORT: Final = int(Method.REPORT)
REPORT_RESP: Final = int(Method.REPORT_RESP)
TRAP_REPRESS: Final = int(Method.TRAP_REPRESS)


class AttributeID(IntEnum):
    """AttributeID in the two subnet management classes (IBA 14.2.5). In other classes the numbers have other
    meanings."""

    CLASS_PORT_INFO = 0x0001
    NOTICE = 0x0002
    NODE_DESCRIPTION = 0x0010
    NODE_INFO = 0x0011
    SWITCH_INFO = 0x0012
    GUID_INFO = 0x0014
    PORT_INFO = 0x0015
    P_KEY_TABLE = 0x0016
    SL_TO_VL_MAPPING_TABLE = 0x0017
    VL_ARBITRATION_TABLE = 0x0018
    LINEAR_FORWARDING_TABLE = 0x0019
    MULTICAST_FORWARDING_TABLE = 0x001B
    SM_INFO = 0x0020
    LED_INFO = 0x0031
    VIRTUALIZATION_INFO = 0xFFB0
    V_PORT_INFO = 0xFFB1
    V_NODE_INFO = 0xFFB2
    V_PORT_STATE = 0xFFB3


class NodeType(IntEnum):
    """NodeInfo.NodeType (IBA 14.2.5.3)."""

    CA = 1
    SWITCH = 2
    ROUTER = 3


NODE_TYPE_NAMES: Final[Mapping[int, str]] = {kind: kind.name.lower() for kind in NodeType}


class PortState(IntEnum):
    """PortInfo.PortState (IBA 14.2.5.6)."""

    NO_CHANGE = 0
    DOWN = 1
    INITIALIZE = 2
    ARMED = 3
    ACTIVE = 4
    ACTIVE_DEFER = 5


class PortPhysicalState(IntEnum):
    """PortInfo.PortPhysicalState (IBA 14.2.5.6). Only 0 to 3 may be written."""

    NO_CHANGE = 0
    SLEEP = 1
    POLLING = 2
    DISABLED = 3
    TRAINING = 4
    LINK_UP = 5
    LINK_ERROR_RECOVERY = 6
    PHY_TEST = 7


PORT_STATE_NAMES: Final = _state_names(PortState)
PORT_PHYSICAL_STATE_NAMES: Final = _state_names(PortPhysicalState)


class SMState(IntEnum):
    """SMInfo.SMState (IBA 14.2.5.13)."""

    NOT_ACTIVE = 0
    DISCOVERING = 1
    STANDBY = 2
    MASTER = 3


SM_STATE_NAMES: Final[Mapping[int, str]] = {state: in_words(state) for state in SMState}


class CapabilityMask(IntFlag):
    """The bits of PortInfo.CapabilityMask that ibkeys uses (IBA 14.2.5.6)."""

    IS_SM = 1 << 1
    IS_NOTICE_SUPPORTED = 1 << 2
    IS_TRAP_SUPPORTED = 1 << 3
    IS_M_KEY_NVRAM = 1 << 7
    IS_P_KEY_NVRAM = 1 << 8
    IS_SM_DISABLED = 1 << 10
    IS_P_KEY_SWITCH_EXTERNAL_PORT_TRAP_SUPPORTED = 1 << 12
    IS_EXTENDED_SPEEDS_SUPPORTED = 1 << 14
    IS_CAPABILITY_MASK2_SUPPORTED = 1 << 15
    IS_CAPABILITY_MASK_NOTICE_SUPPORTED = 1 << 22
    IS_OTHER_LOCAL_CHANGES_NOTICE_SUPPORTED = 1 << 26
    IS_MULTICAST_P_KEY_TRAP_SUPPRESSION_SUPPORTED = 1 << 29
    IS_MULTICAST_FDB_TOP_SUPPORTED = 1 << 30


class CapabilityMask2(IntFlag):
    """The bits of PortInfo.CapabilityMask2 that ibkeys uses. They are valid only with IS_CAPABILITY_MASK2_SUPPORTED."""

    IS_VIRTUALIZATION_SUPPORTED = 1 << 2
    IS_LINK_SPEED_NDR_SUPPORTED = 1 << 10


class TrapNumber(IntEnum):
    """TrapNumber of a generic Notice (IBA 14.2.5.1). The SM itself issues 64 to 67."""

    GID_IN_SERVICE = 64
    GID_OUT_OF_SERVICE = 65
    MULTICAST_GROUP_CREATED = 66
    MULTICAST_GROUP_DELETED = 67
    LINK_STATE_CHANGE = 128
    LOCAL_LINK_INTEGRITY = 129
    EXCESSIVE_BUFFER_OVERRUN = 130
    FLOW_CONTROL_WATCHDOG = 131
    CAPABILITY_CHANGE = 144
    SYSTEM_IMAGE_GUID_CHANGE = 145
    BAD_M_KEY = 256
    BAD_P_KEY = 257
    BAD_Q_KEY = 258
    BAD_P_KEY_SWITCH_PORT = 259


SECURITY_TRAPS: Final = (
    TrapNumber.BAD_M_KEY,
    TrapNumber.BAD_P_KEY,
    TrapNumber.BAD_Q_KEY,
    TrapNumber.BAD_P_KEY_SWITCH_PORT,
)
"""The traps about refused keys, which are of Type 2 (security). OpenSM wants an SM_Key from their subscribers."""


class NoticeType(IntEnum):
    """Notice.Type (IBA 13.4.8.2)."""

    FATAL = 0
    URGENT = 1
    SECURITY = 2
    SUBNET_MANAGEMENT = 3
    INFORMATIONAL = 4
    EMPTY = 0x7F


class MadStatus(IntEnum):
    """The low byte of Status in a response (IBA 13.4.7). Bits 4..2 are one code, not flags: compare the whole byte."""

    OK = 0x0000
    BUSY = 0x0001
    REDIRECT = 0x0002
    BAD_VERSION = 0x0004
    METHOD_NOT_SUPPORTED = 0x0008
    METHOD_ATTRIBUTE_NOT_SUPPORTED = 0x000C
    INVALID_FIELD = 0x001C


class SaStatus(IntEnum):
    """The high byte of Status in a response of the SA, which belongs to the class (IBA 15.2.3)."""

    NO_RESOURCES = 0x0100
    REQUEST_INVALID = 0x0200
    NO_RECORDS = 0x0300
    TOO_MANY_RECORDS = 0x0400
    INVALID_GID = 0x0500
    INSUFFICIENT_COMPONENTS = 0x0600
    REQUEST_DENIED = 0x0700
    PRIORITY_SUGGESTED = 0x0800


_COMMON_STATUS = {
    0x00: "ok",
    0x01: "agent busy",
    0x02: "redirect required",
    0x04: "bad base or class version",
    0x08: "method not supported",
    0x0C: "method and attribute combination not supported",
    0x1C: "invalid value in attribute or modifier",
}
_SA_STATUS: Final[Mapping[int, str]] = {
    **{status: in_words(status) for status in SaStatus},
    SaStatus.INVALID_GID: "invalid GID",
}


def describe_status(status: int, mgmt_class: int = MgmtClass.SUBN_LID_ROUTED) -> str:
    """Return *status* in words, with its number, as ``0x001c (invalid value in attribute or modifier)``.

    For class 0x81 the D bit (0x8000) is not part of the status and is left out. Source: IBA 13.4.7, SA codes 15.2.3.
    """
    if mgmt_class == MgmtClass.SUBN_DIRECTED_ROUTE:
        status &= 0x7FFF
    low, high = status & 0x00FF, status & 0xFF00
    words = []
    if high:
        sa_text = _SA_STATUS.get(high) if mgmt_class == MgmtClass.SUBN_ADM else None
        words.append(sa_text or f"class specific code 0x{high >> 8:02x}")
    if low or not high:
        words.append(_COMMON_STATUS.get(low, "reserved code"))
    return f"0x{status:04x} ({', '.join(words)})"


def method_name(method: int) -> str:
    """Return the standard's name of *method*; for an unknown one its number, as ``method 0x1f``."""
    return METHOD_NAMES.get(method, f"method 0x{method:02x}")
