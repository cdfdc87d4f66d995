"""The survey: routes, M_Keys, P_Key tables and enforcement bits of the ports that a plan names, as they are now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ibkeys.change.target import PortTarget, key_for_set
from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.change.writer import ChangeWriter
from ibkeys.client.smp import Task
from ibkeys.discovery.tables import gets_to, read_p_key_table
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import IbkeysError, MKeyNeeded
from ibkeys.mad.attributes import PortInfo
from ibkeys.plan.port_kinds import memberships_of
from ibkeys.plan.stages import enforces_all_along
from ibkeys.printable import counted
from ibkeys.topology.enforcement import INBOUND, OUTBOUND, Enforcement, enforced, leaf_of
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import PortKey
from ibkeys.topology.shared_guids import others_that_show_it, shared_port_guids


@dataclass(slots=True)
class Survey:
    """The result of reading ports. ``targets``: the ports that were found and read; ``missing``: the others, with the
    reason; ``topology``: the result of the sweep; ``end_ports``: all end ports in it."""

    topology: Topology
    end_ports: list[Port]
    notes: list[str]
    targets: dict[PortKey, PortTarget] = field(default_factory=dict)
    missing: dict[PortKey, str] = field(default_factory=dict)


def survey_ports(writer: ChangeWriter, ports: Collection[PortKey], *, by_port_guid: bool = False) -> Survey:
    """Sweep the fabric and read the P_Key tables of *ports*.

    SMPs: those of a sweep, and ``ceil(capacity / 32)`` Gets for each port. A port that is absent, cannot be told from
    another, or does not answer is in ``missing``. *by_port_guid*: the change names ports by their port GUIDs, so a port
    whose port GUID another node reports too is in ``missing`` as well, and so is its leaf port. Raises the errors of
    `Fabric.sweep`.
    """
    return _read_ports(writer, writer.sweep(), ports, by_port_guid)


def survey_all_ports(writer: ChangeWriter, ports: Collection[PortKey], *, by_port_guid: bool = False) -> Survey:
    """Sweep and read *ports* as `survey_ports` does, and the tables of all other end ports and their leaf ports too;
    the sweep also reads SMInfo."""
    fabric = writer.sweep(Wanted(sm_info=True))
    chosen = dict.fromkeys(ports)
    for port in fabric.end_ports():
        chosen[port.node.guid, port.num] = None
        leaf = leaf_of(port)
        if leaf is not None:
            chosen[leaf.node.guid, leaf.num] = None
    return _read_ports(writer, fabric, list(chosen), by_port_guid)


def _read_ports(writer: ChangeWriter, fabric: Topology, ports: Collection[PortKey], by_port_guid: bool) -> Survey:
    survey = Survey(fabric, list(fabric.end_ports()), list(fabric.notes))
    found: dict[PortKey, list[Port]] = {}
    wanted = set(ports)
    shared = shared_port_guids(fabric.end_ports()) if by_port_guid else {}
    for port in fabric.ports():
        if (port.node.guid, port.num) in wanted:
            found.setdefault((port.node.guid, port.num), []).append(port)
    reads = []
    for key in ports:
        same = [port for port in found.get(key, []) if port.end_port not in fabric.doubtful] or found.get(key, [])
        if len(same) != 1:
            survey.missing[key] = f"{len(same)} nodes have its GUID" if same else "not found on the fabric"
        elif same[0].info is None or same[0].end_port.info is None:
            survey.missing[key] = "its PortInfo cannot be read"
        elif (others := _others_like(same[0], shared)) is not None:
            survey.missing[key] = others
        else:
            target = PortTarget(writer.fabric.handle(same[0]))
            survey.targets[key] = target
            writer.note_master_sm_lid(target.handle)
            reads.append(_read(writer, target, survey))
    writer.fabric.client.run(reads)
    return survey


def _others_like(port: Port, shared: Mapping[int, list[Port]]) -> str | None:
    """Return the reason why P_Keys that *port* gets by a port GUID may be meant for another port, because that GUID,
    its own or that of the end port behind it, is not unique; None if it is unique."""
    if not port.is_external:
        others = others_that_show_it(port, shared)
        return None if others is None else f"its port GUID 0x{port.guid:016x} is also reported by {others}"
    end = port.peer
    others = others_that_show_it(end, shared) if end is not None and end.is_end_port else None
    return None if end is None or others is None else f"the port GUID of {end} is also reported by {others}"


def _read(writer: ChangeWriter, target: PortTarget, survey: Survey) -> Task:
    port = target.port
    problem = yield from read_p_key_table(port, gets_to(writer.fabric.client, port))
    if problem is not None:
        key = (port.node.guid, port.num)
        survey.missing[key] = str(problem)
        del survey.targets[key]


def read_others(writer: ChangeWriter, survey: Survey, besides: Collection[PortKey]) -> list[TableChange]:
    """Return the tables of the end ports other than *besides*, as tables that stay. A table that cannot be read is left
    out, with a note.

    SMPs: ``ceil(capacity / 32)`` Gets for each of them that was not read yet.
    """
    others = [port for port in survey.end_ports if (port.node.guid, port.num) not in besides]
    client = writer.fabric.client
    answered = [port for port in others if port.p_key_raw is None and port.info is not None]
    client.run(read_p_key_table(port, gets_to(client, port)) for port in answered)
    unread = sum(port.occupied is None for port in others)
    if unread:
        survey.notes.append(
            f"the P_Key tables of {counted(unread, 'end port')} could not be read: it is not known whether they "
            "temporarily lose connectivity"
        )
    return [replace(table, peer=None) for table in map(_unchanged_table, others) if table is not None]


def read_partners(
    writer: ChangeWriter, survey: Survey, tables: Sequence[TableChange], enforcement: Sequence[EnforcementChange]
) -> tuple[list[TableChange], list[EnforcementChange]]:
    """Return the tables that stay at the far ends of the links of *tables* and *enforcement*, and the enforcement of
    their leaf ports if that stays. Tables are read if the leaf port enforces before or after the change, and only if
    they may matter: a partition is both gained and lost, see `_may_matter`. A table that cannot be read is left out.

    SMPs: ``ceil(capacity / 32)`` Gets for each such table that was not read yet.
    """
    tables_by_port = {table.port.key: table for table in tables}
    changing = {change.port.key: change for change in enforcement}
    links = list(filter(None, (_link(survey, key) for key in dict.fromkeys([*tables_by_port, *changing]))))
    unchanged = {leaf.id.key: _unchanged_enforcement(leaf) for _, leaf in links if leaf.id.key not in changing}
    leaves = {
        key: (changing.get(key) or unchanged[key], tables_by_port.get(key) or _unchanged_table(leaf))
        for _, leaf in links
        for key in [leaf.id.key]
    }
    wanted: dict[PortKey, Port] = {}
    if _may_matter(tables, leaves.values()):
        for end, leaf in links:
            if any(_enforces(leaves[leaf.id.key][0])):
                wanted |= {port.id.key: port for port in (end, leaf) if port.id.key not in tables_by_port}
    client = writer.fabric.client
    unread = [port for port in wanted.values() if port.p_key_raw is None and port.end_port.info is not None]
    client.run(read_p_key_table(port, gets_to(client, port)) for port in unread)
    return list(filter(None, map(_unchanged_table, wanted.values()))), list(unchanged.values())


def _link(survey: Survey, key: PortKey) -> tuple[Port, Port] | None:
    """Return the end port and the leaf port of a port's link; None if it has no such link."""
    target = survey.targets.get(key)
    if target is None:
        return None
    end = target.port.peer if target.port.is_external else target.port
    leaf = leaf_of(end) if end is not None else None
    return None if end is None or leaf is None else (end, leaf)


def _unchanged_enforcement(leaf: Port) -> EnforcementChange:
    bits = enforced(leaf)
    both = Enforcement(bool(bits & INBOUND), bool(bits & OUTBOUND))
    return EnforcementChange(leaf.id, both, both)


def _unchanged_table(port: Port) -> TableChange | None:
    if port.occupied is None:
        return None
    table = dict(port.occupied)
    return TableChange(port.id, table, table, port.capacity or 0, port.peer.id.key if port.peer is not None else None)


def _may_matter(tables: Iterable[TableChange], leaves: Iterable[tuple[EnforcementChange, TableChange | None]]) -> bool:
    """Return whether one port may gain a partition that another port loses: in *tables*, or because enforcement is
    switched on or off at one of *leaves*, whose table lacks the partition."""
    gained, lost = set[int](), set[int]()
    for table in tables:
        before, after = memberships_of(table.before.values()), memberships_of(table.after.values())
        gained |= {base for base, level in after.items() if before.get(base, 0) < level}
        lost |= {base for base, level in before.items() if after.get(base, 0) < level}
    found, comes, goes = bool(gained & lost), False, False
    for change, leaf in leaves:
        entries = (leaf.before, leaf.after) if leaf is not None else ({}, {})
        had, has = ({key.partition for key in table.values()} for table in entries)
        before_and_after = _enforces(change)
        if before_and_after == (True, True):
            found |= not enforces_all_along(change)
        elif before_and_after == (False, True):
            comes, found = True, found or bool(gained - has)
        elif before_and_after == (True, False):
            goes, found = True, found or bool(lost - had)
    return found or (comes and goes)


def _enforces(change: EnforcementChange) -> tuple[bool, bool]:
    return any(change.before.bits), any(change.after.bits)


def read_again(writer: ChangeWriter, targets: Iterable[PortTarget]) -> dict[PortKey, IbkeysError]:
    """Read P_Key tables and PortInfo of *targets* afresh; return the errors by port.

    SMPs: ``ceil(capacity / 32)`` Gets and one for PortInfo for each port.
    """
    failed: dict[PortKey, IbkeysError] = {}
    writer.fabric.client.run([_read_again(writer, target, failed) for target in targets])
    return failed


def _read_again(writer: ChangeWriter, target: PortTarget, failed: dict[PortKey, IbkeysError]) -> Task:
    port = target.port
    gets = gets_to(writer.fabric.client, port)
    try:
        port.info = yield gets.ask(PortInfo, port.num)
    except IbkeysError as error:
        failed[port.node.guid, port.num] = error
        return
    problem = yield from read_p_key_table(port, gets)
    if problem is not None:
        failed[port.node.guid, port.num] = problem


def choose_m_keys(targets: Iterable[PortTarget]) -> None:
    """Note at each target the M_Key that Sets to it carry. Raises one MKeyNeeded for all ports that hide their
    M_Key."""
    hidden: list[MKeyNeeded] = []
    for target in targets:
        try:
            target.m_key = key_for_set(target.handle)
        except MKeyNeeded as error:
            hidden.append(error)
    if hidden:
        more = f" (and {counted(len(hidden) - 1, 'more port')})" if len(hidden) > 1 else ""
        raise MKeyNeeded(f"{hidden[0]}{more}").unchanged().explained(*map(str, hidden[1:]))
