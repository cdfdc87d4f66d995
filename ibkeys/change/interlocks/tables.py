"""The interlocks of changes to P_Key tables and enforcement. For one port each is named in full; for many ports there
is one sentence for each interlock, with the first few ports by name.

Which packets an enforcing switch port lets through is in `ibkeys.change.interlocks.passing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

from ibkeys.change.consent import Objection
from ibkeys.change.interlocks.passing import (
    INTERLOCK_OF,
    MEANING,
    Cut,
    SaReachability,
    far_end,
    far_end_by_sweep,
    new_cuts,
    port_in_sweep,
    switches_on_enforcement,
)
from ibkeys.change.target import PortTarget
from ibkeys.change.wanted import EnforcementChange, Entries, TableChange, moves
from ibkeys.change.writer import ChangeWriter
from ibkeys.client.address import DirectedAddress
from ibkeys.errors import IbkeysError
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.pkey import DEFAULT_FULL
from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import NodeType, PortPhysicalState
from ibkeys.printable import counted, named
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import PortId, PortKey

# --- one port ---------------------------------------------------------------------------------------------------------


def objections_to_table(writer: ChangeWriter, port: Port, before: Entries, after: Entries) -> list[Objection]:
    """Return the objections to a change of one P_Key table. For a switch port that enforces partitions the fabric may
    be swept. Raises the errors of a sweep."""
    found = []
    if 0 in before and before[0] != after.get(0):
        found.append(
            Objection(
                "index-0",
                f"{port}: index 0 changes from {before[0]} to {after.get(0, 'empty')}; IPoIB and "
                "many tools use index 0",
            )
        )
    found += [
        Objection(
            "index-move",
            f"{port}: {key} moves from index {source} to {target}; running QPs hold the old index and break",
        )
        for source, target, key in moves(before, after)
    ]
    of_default = _default_pkey if port.is_end_port else _no_longer_passed
    return found + of_default(writer, port, before, after)


def _default_pkey(writer: ChangeWriter, port: Port, before: Entries, after: Entries) -> list[Objection]:
    loss = _loss_of_default(before, after, writer.holds_sm(port))
    if loss == "last":
        text = f"{port} loses its last default P_Key (0x7fff or 0xffff): it can no longer reach the SA"
    elif loss == "full at the SM":
        text = (
            f"{port} is the SM's port and loses its full default P_Key 0xffff: limited members can no longer reach the "
            "SA"
        )
    return [Objection("default-pkey", text)] if loss else []


def _no_longer_passed(writer: ChangeWriter, port: Port, before: Entries, after: Entries) -> list[Objection]:
    """Return the objections if an enforcing switch port would no longer let packets to the SA through."""
    info = port.port_info
    if info is None:
        return []
    bits = Enforcement.of(info)
    was, will_be = SaReachability.of(bits, before.values()), SaReachability.of(bits, after.values())
    return [_about_cut(cut, port) for cut in new_cuts(was, will_be, lambda: far_end_by_sweep(writer, port))]


def _about_cut(cut: Cut, port: Port | PortHandle) -> Objection:
    return Objection(INTERLOCK_OF[cut], f"{port}: {MEANING[cut]}")


def objections_to_enforcement(
    writer: ChangeWriter, port: PortHandle, shown: PortInfo, switch: SwitchInfo | None, changes: dict[str, int]
) -> list[Objection]:
    """Return the objections to switching enforcement on at one port. Reads the port's P_Key table.

    *shown*: the port's PortInfo; *changes*: name of a field → its new value; *switch*: None for a router port, which is
    always linked to a switch and has one table. Raises the errors of reading the port and of a sweep.
    """
    table = port.read_p_keys() if switch is None or switch.partition_enforcement_cap else ()
    blind = []
    if not any(key.is_valid for key in table):
        blind.append(
            f"the P_Key table of {port} is empty: enforcement would drop all packets of the attached node except SMPs"
        )
    elif not any(key.is_default for key in table):
        blind.append(
            f"the P_Key table of {port} lacks the default partition: enforcement cuts the attached node off from the SA"
        )
    limited: list[Objection] = []
    if switch is not None and shown.port_physical_state == PortPhysicalState.LINK_UP:
        at_peer = _blind_at_peer(writer, port)
        if at_peer:
            blind.append(at_peer)
        else:
            was, now = (SaReachability.of(Enforcement.of(each), table) for each in (shown, shown.replace(**changes)))
            found = new_cuts(was, now, lambda: far_end_by_sweep(writer, port.port))
            limited = [_about_cut(cut, port) for cut in found if cut != "SA"]
    return [*(Objection("enforce-blind", text) for text in blind), *limited]


def _blind_at_peer(writer: ChangeWriter, port: PortHandle) -> str:
    """Return, in words, the harm that enforcement does at this link; "" if the far end is an end port. If the far end
    does not answer, it may be a switch."""
    ring = port.fabric.ring
    if not isinstance(port.route, DirectedAddress) or ring.by_guid:
        # A sweep proves the link, so that the far end is asked with its own M_Key. No peer is found if the far end does
        # not answer, or another switch has the same GUID.
        found = port_in_sweep(writer, port.port)
        peer = found.peer.node.type if found is not None and found.peer is not None else None
    else:
        try:
            far_end = DirectedAddress((*port.route.path, port.port.num))
            peer = NodeInfo(port.fabric.get(NodeInfo, 0, far_end, ring.for_unknown_port, 0)).node_type
        except IbkeysError:
            peer = None
    if peer is None:
        return (
            f"the node at the far end of {port} does not answer; if it is a switch, enforcement cuts off the nodes "
            "behind it"
        )
    if peer == NodeType.SWITCH:
        return (
            f"{port} is a link between switches: enforcement there drops packets of every partition that its table "
            "lacks"
        )
    return ""


# --- many ports -------------------------------------------------------------------------------------------------------


def objections_to_tables(
    writer: ChangeWriter,
    tables: Sequence[TableChange],
    enforcement: Sequence[EnforcementChange],
    targets: Mapping[PortKey, PortTarget],
    disconnecting: bool = False,
) -> list[Objection]:
    """Return the objections to a change of many ports. *disconnecting*: the user wants ports to end with an empty
    table."""
    ends = [table for table in tables if not table.port.is_external]
    return [
        *_index_0(ends),
        *_index_moves(ends),
        *_default_pkeys(writer, ends, targets, disconnecting),
        *_enforcing(writer, tables, enforcement, targets),
    ]


def _about(interlock: str, ports: Sequence[PortId | str], says: str) -> list[Objection]:
    return [Objection(interlock, f"{says} on {counted(len(ports), 'port')}: {named(ports)}")] if ports else []


def _index_0(ends: Iterable[TableChange]) -> list[Objection]:
    ports = [
        table.port
        for table in ends
        if 0 in table.before and (0 not in table.after or table.after[0].partition != table.before[0].partition)
    ]
    return _about("index-0", ports, "the P_Key at index 0, which IPoIB and many tools use, is emptied or replaced")


def _index_moves(ends: Iterable[TableChange]) -> list[Objection]:
    found = [
        f"{table.port} ({key} from index {source} to {target})"
        for table in ends
        for source, target, key in moves(table.before, table.after)
    ]
    if not found:
        return []
    message = f"{counted(len(found), 'P_Key')} to be moved to another index; running QPs hold the old one and break"
    return [Objection("index-move", f"{message}: {named(found)}")]


def _default_pkeys(
    writer: ChangeWriter, ends: Iterable[TableChange], targets: Mapping[PortKey, PortTarget], disconnecting: bool
) -> list[Objection]:
    lost, sm = [], []
    for table in ends:
        target = targets.get(table.port.key)
        is_sm = target is not None and writer.holds_sm(target.port)
        loss = _loss_of_default(table.before, table.after, is_sm)
        # Ports may be disconnected on purpose, but never the SM's port. The SM may have moved since the plan was made.
        if loss == "last" and (is_sm or not disconnecting or table.after):
            lost.append(table.port)
        elif loss == "full at the SM":
            sm.append(table.port)
    return [
        *_about("default-pkey", lost, "the last default P_Key (0x7fff or 0xffff) is lost, and with it the SA,"),
        *_about("default-pkey", sm, "0xffff of the SM is lost, so limited members can no longer reach the SA,"),
    ]


def _loss_of_default(before: Entries, after: Entries, is_sm: bool) -> Literal["last", "full at the SM"] | None:
    """Return the membership in the default partition that an end port loses: its last P_Key, or, at the SM's port, the
    full one; None if neither."""
    had, has = ([key for key in table.values() if key.is_default] for table in (before, after))
    if had and not has:
        return "last"
    return "full at the SM" if is_sm and DEFAULT_FULL in had and DEFAULT_FULL not in has else None


def _enforcing(
    writer: ChangeWriter,
    tables: Sequence[TableChange],
    enforcement: Sequence[EnforcementChange],
    targets: Mapping[PortKey, PortTarget],
) -> list[Objection]:
    """Return the objections if switch ports no longer let packets to the SA through, and if enforcement is switched on
    between switches."""
    planned = {table.port.key: table for table in tables}
    changing = {change.port.key: change for change in enforcement}
    found: dict[Cut, list[PortId | str]] = {cut: [] for cut in MEANING}
    between: list[PortId | str] = []
    for key, target in targets.items():
        if not target.port.is_external:
            continue
        table, change = planned.get(key), changing.get(key)
        bits = change.after if change is not None else target.enforcement
        entries = (table.before, table.after) if table is not None else (target.table, target.table)
        before = SaReachability.of(target.enforcement, entries[0].values())
        after = SaReachability.of(bits, entries[1].values())
        for cut in new_cuts(before, after, partial(far_end, writer, target.port)):
            found[cut].append(target.id)
        if (
            change is not None
            and switches_on_enforcement(change.before, change.after)
            and far_end(writer, target.port) == "switch"
        ):
            between.append(target.id)
    return [
        *(each for cut, ports in found.items() for each in _about(INTERLOCK_OF[cut], ports, f"{MEANING[cut]},")),
        *_about("enforce-blind", between, "enforcement on a link between switches"),
    ]
