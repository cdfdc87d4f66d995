"""Reading ``mgid=`` lines, which make multicast groups beside the broadcast group, with the peculiarities of OpenSM's
parser.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from ibkeys.keys.pkey import FULL_BIT
from ibkeys.partitions.flags import read_group_flag
from ibkeys.partitions.lines import LineWord, NameValue, Remarks, pairs
from ibkeys.partitions.model import (
    DEFAULT_PARTITION,
    DEFAULT_SCOPE,
    IPOIB_Q_KEY,
    Definition,
    GroupFlags,
    MgidGroup,
    broadcast_mgid,
    is_ip_group,
    scope_of,
)
from ibkeys.printable import shortened

_SA_SIGNATURE = 0xA01B


def read_group(
    remarks: Remarks,
    definition: Definition,
    known_mgids: set[int],
    pair: NameValue,
    flags: list[NameValue],
    is_closed: bool,
    comment: str | None,
) -> MgidGroup | None:
    """Return the group of an ``mgid=`` line; None if OpenSM crashes on it. Problems are added to *remarks*.

    *definition*: the one in which the line is. *known_mgids*: the MGIDs of earlier groups, to which those of this group
    are added. *pair*: the ``mgid=GID`` itself, and *flags*: the rest of the line, up to a semicolon or comment.
    *is_closed*: whether a semicolon follows. *comment*: the comment that follows instead, None if there is none.
    """
    value = pair.value
    if value is None:
        remarks.error(pair.name.column, "bad-mgid", "mgid without '=' and a GID: OpenSM crashes on this line")
        return None
    # A group inherits the flags of the header except TClass.
    group_flags = replace(definition.flags, t_class=0)
    all_flags = flags
    if not flags and comment is not None:
        all_flags = list(pairs(comment, 0, len(comment)))
        if any(flag.name.text and flag.value for flag in all_flags):
            remarks.warn(
                value.end,
                "comment-flags",
                "OpenSM reads the comment behind a GID as more flags; put it on a line of its own",
            )
    for flag in all_flags:
        changed = read_group_flag(remarks if all_flags is flags else Remarks(), group_flags, flag)
        if changed is not None:
            group_flags = changed
        elif all_flags is flags:
            remarks.warn(
                flag.name.column,
                "mgid-line",
                f"{shortened(flag.name.text)} is not a flag of a group and is ignored: "
                "no port may follow on an mgid= line",
            )
    group = _group(remarks, definition, known_mgids, value, group_flags)
    if is_closed and bool(flags) != (group.mgid >> 120 == 0xFF):
        # OpenSM finds the end of the line by counting flags, and here it counts a wrong number of them.
        remarks.error(
            value.end,
            "mgid-semicolon",
            "a ';' on the line of this GID: OpenSM loses its place in the line; put it after a port",
        )
    if group.refused is not None:
        remarks.warn(value.column, "group-refused", f"OpenSM leaves this group out: {group.refused}")
    return group


def _group(
    remarks: Remarks, definition: Definition, known_mgids: set[int], value: LineWord, flags: GroupFlags
) -> MgidGroup:
    try:
        mgid = int(
            ipaddress.IPv6Address(value.text.replace("%", " "))
        )  # "%": Python accepts a zone after it, OpenSM's inet_pton does not
    except ValueError:
        return MgidGroup(0, flags, f"{shortened(value.text)} is not a GID")
    refused = None
    if mgid >> 120 != 0xFF:
        refused = "it is not multicast (a multicast GID begins with ff)"
    elif is_ip_group(mgid):
        key, own_key, header = mgid >> 80 & 0xFFFF, definition.base | FULL_BIT, definition.flags
        if key not in (0, own_key) and mgid != broadcast_mgid(DEFAULT_PARTITION):
            refused = f"its P_Key bits 0x{key:04x} are neither those of the partition (0x{own_key:04x}) nor 0"
        elif flags.rate != header.rate:
            refused = f"its rate {flags.rate} is not that of the partition's broadcast group ({header.rate})"
        elif flags.mtu != header.mtu:
            refused = f"its mtu {flags.mtu} is not that of the partition's broadcast group ({header.mtu})"
        mgid = mgid & ~(0xFFFF << 80) | own_key << 80
        flags = replace(flags, q_key=flags.q_key or IPOIB_Q_KEY)
    if refused is None and mgid in known_mgids:
        refused = "it exists already"
    if refused is None and mgid >> 117 & 0b111 and not is_ip_group(mgid):
        refused = "its flags, the first digit after ff, are neither 0 nor 1"
    if refused is None:
        refused = _why_not_made(mgid, flags)
    group = MgidGroup(mgid, flags, refused)
    if refused is None and is_ip_group(mgid):
        group = _with_broadcast_groups(definition.base, known_mgids, group)
    if group.refused is None:
        known_mgids.update(group.mgids())
    return group


def _why_not_made(mgid: int, flags: GroupFlags) -> str | None:
    """Return the reason for which OpenSM refuses to make a group (ERR 1B24, 1B26); None if it makes it."""
    if mgid >> 96 & 0xFFFF == _SA_SIGNATURE and (flags.scopes or {DEFAULT_SCOPE}) == {DEFAULT_SCOPE}:
        return "the bits a01b are for groups that an SA makes, with a scope that is not link-local"
    return flags.obstacle


def _with_broadcast_groups(base: int, known_mgids: set[int], group: MgidGroup) -> MgidGroup:
    """Return an IP group with only the scopes in which its partition has a broadcast group, or is one by it. OpenSM
    leaves out all others (ERR 1B1B)."""
    broadcast = {mgid: broadcast_mgid(base, scope_of(mgid)) for mgid in group.mgids()}
    made = {mgid for mgid, needed in broadcast.items() if needed in known_mgids or needed == mgid}
    if not made:
        missing = ipaddress.IPv6Address(min(broadcast.values()))
        return replace(group, refused=f"no line before it makes the broadcast group {missing} of its partition")
    return replace(group, flags=replace(group.flags, scopes=group.flags.scopes & set(map(scope_of, made))))
