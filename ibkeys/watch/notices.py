"""Making an event from the Notice of a Report. Source of the details: IBA 14.2.5.1, and `ibkeys.mad.notice`."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address
from typing import Final

from ibkeys.client.report_port import TrapReport
from ibkeys.mad.const import MgmtClass, TrapNumber, method_name
from ibkeys.mad.decode import attribute_name
from ibkeys.mad.notice import (
    BadMKeyDetails,
    BadPKeyDetails,
    BadPKeySwitchPortDetails,
    BadQKeyDetails,
    CapabilityChangeDetails,
    GidDetails,
    LinkStateDetails,
    Notice,
)
from ibkeys.topology.nodes import Port
from ibkeys.watch.event import Event, EventEnd, EventKind
from ibkeys.watch.names import Names

_PERMISSIVE: Final = (0, 0xFFFF)
FOLLOWED_BACK: Final = "the sender was found by following the trap's return path, which devices fill in differently"
NOT_NAMED: Final = "the trap does not say who sent it"

_OF_GIDS: Final[dict[int, EventKind]] = {
    TrapNumber.GID_IN_SERVICE: "port-in-service",
    TrapNumber.GID_OUT_OF_SERVICE: "port-out-of-service",
    TrapNumber.MULTICAST_GROUP_CREATED: "group-created",
    TrapNumber.MULTICAST_GROUP_DELETED: "group-deleted",
}
_GROUPS: Final = (TrapNumber.MULTICAST_GROUP_CREATED, TrapNumber.MULTICAST_GROUP_DELETED)


def event_of_report(report: TrapReport, names: Names, time: str) -> Event:
    """Return the event of a Report. *names* finds the ports of its ends. *time*: when the Report arrived."""
    notice = report.notice
    number, details = notice.trap_number, notice.details
    issuer = names.end(notice.issuer_lid, report.issuer_gid)
    if isinstance(details, BadMKeyDetails):
        return _bad_m_key(details, notice.issuer_lid, issuer, names, time)
    if isinstance(details, BadQKeyDetails | BadPKeySwitchPortDetails):
        return _bad_key(details, notice, issuer, names, time)
    if isinstance(details, GidDetails):
        return _of_gid(details.gid_addr, number, issuer, names, time)
    if isinstance(details, LinkStateDetails):
        at = names.end(details.lid_addr) if details.lid_addr else issuer
        text = "the state of a link of this switch changed"
        if at.node_type in ("ca", "router"):
            names.misses += 1
            text = "only a switch reports that a link changed, and this is none: LIDs changed, or the report is forged"
        return Event(time, "report", "link-state", number, at, detail=text)
    if isinstance(details, CapabilityChangeDetails):
        at = names.end(details.lid_addr) if details.lid_addr else issuer
        return Event(time, "report", "port-changed", number, at, detail=_what_changed(details))
    what = f"trap {number}" if notice.is_generic else f"device {number} of vendor 0x{notice.producer_type:06x}"
    return Event(time, "report", "other-trap", number, issuer, detail=what)


def _bad_key(
    details: BadQKeyDetails | BadPKeySwitchPortDetails, notice: Notice, issuer: EventEnd, names: Names, time: str
) -> Event:
    sender = names.end(details.lid_addr1, details.gid_addr1)
    receiver = names.end(details.lid_addr2, details.gid_addr2)
    number = notice.trap_number
    if isinstance(details, BadPKeySwitchPortDetails):
        at = names.switch_port(details.sw_lid_addr or notice.issuer_lid, details.port_no)
        return Event(time, "report", "bad-p_key-at-switch", number, at, sender, receiver, p_key=details.p_key)
    if isinstance(details, BadPKeyDetails):
        return Event(time, "report", "bad-p_key", number, issuer, sender, receiver, p_key=details.p_key)
    return Event(time, "report", "bad-q_key", number, issuer, sender, receiver, q_key=details.key)


def _bad_m_key(details: BadMKeyDetails, issuer_lid: int, issuer: EventEnd, names: Names, time: str) -> Event:
    sender, doubt = _sender_of_smp(details, issuer_lid, names)
    return Event(
        time,
        "report",
        "bad-m_key",
        TrapNumber.BAD_M_KEY,
        issuer,
        sender,
        issuer,
        method=method_name(details.method),
        attribute=name_of_attribute(details.attribute_id),
        modifier=details.attribute_modifier,
        doubtful=(doubt,) if doubt else (),
    )


def _sender_of_smp(details: BadMKeyDetails, issuer_lid: int, names: Names) -> tuple[EventEnd | None, str]:
    """Return the sender of the SMP that was refused, and the doubt about it in words.

    By the specification LIDADDR is the LID of the sender. The Linux SMAs write their own LID there, which is no
    evidence.
    """
    if not details.dr_notice:
        if details.lid_addr not in (*_PERMISSIVE, issuer_lid):
            return names.end(details.lid_addr), ""
        return None, NOT_NAMED
    if details.dr_slid not in _PERMISSIVE:
        return names.end(details.dr_slid), ""
    refused_by = names.by_lid(issuer_lid)
    if refused_by is None or details.dr_path_truncated:
        return None, NOT_NAMED
    sender = _followed_back(refused_by, details.dr_notice_return_path[: details.dr_hop_count])
    return (EventEnd.of(sender), FOLLOWED_BACK) if sender is not None else (None, NOT_NAMED)


def _followed_back(refused_by: Port, path: Sequence[int]) -> Port | None:
    """Return the end port at the end of the return path *path*, which begins at *refused_by*; None if the links of the
    path are not known.

    Each entry is the port by which the SMP came into a node, the last one at *refused_by*. The Linux SMAs begin with
    the unused entry 0 instead, and have no room for the last one: of a CA that is the port itself.
    """
    if path and path[0] == 0:
        path = (*path[1:], refused_by.num)
    reached = refused_by
    for num in reversed(path):
        port = reached.node.ports.get(num)
        if port is None or port.peer is None or (reached is not refused_by and not reached.node.is_switch):
            return None
        reached = port.peer
    return reached.end_port


def _of_gid(gid: int, number: int, issuer: EventEnd, names: Names, time: str) -> Event:
    shown = str(IPv6Address(gid))
    if number in _GROUPS:
        return Event(time, "report", _OF_GIDS[number], number, issuer, detail=f"MGID {shown}")
    port = names.by_gid(gid)
    at = EventEnd.of(port) if port is not None else names.end(0, gid)
    return Event(time, "report", _OF_GIDS[number], number, at, detail=f"GID {shown}")


def _what_changed(details: CapabilityChangeDetails) -> str:
    if not details.other_local_changes:
        return f"CapabilityMask is now 0x{details.capability_mask:08x}"
    flags = {
        "NodeDescription": details.node_description_change,
        "LinkWidthEnabled": details.link_width_enabled_change,
        "LinkSpeedEnabled": details.link_speed_enabled_change,
        "SM priority": details.sm_priority_change,
    }
    named = [name for name, is_set in flags.items() if is_set]
    return f"changed: {', '.join(named) or f'flags 0x{details.change_flags:04x}'}"


def name_of_attribute(number: int) -> str:
    """Return the name of an attribute of subnet management, its number where it has none."""
    return attribute_name(number, MgmtClass.SUBN_LID_ROUTED) or f"0x{number:04x}"
