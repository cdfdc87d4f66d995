"""Making a plan from a policy and a fabric: the wanted table of each end port and leaf port, and the problems with
them.

Nothing is sent. A port whose table could not be read is reported and left out. `ibkeys.partitions.opensm_tables` makes
the tables that OpenSM would make from the policy; `ibkeys.plan.tables.layout` explains the differences from these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from ibkeys.arguments import given
from ibkeys.change.consent import Objection
from ibkeys.change.wanted import TableChange
from ibkeys.errors import UsageError
from ibkeys.fabric.subnet_manager import BESIDE_SM
from ibkeys.keys.pkey import DEFAULT_FULL, PKey
from ibkeys.managers.ufm.access import via_option
from ibkeys.partitions.membership import Resolution, end_ports_of, resolve
from ibkeys.partitions.model import DEFAULT_PARTITION, Policy, table_order
from ibkeys.plan.breaks import find_breaks
from ibkeys.plan.digest import state_digest
from ibkeys.plan.model import (
    FabricState,
    IndexMove,
    PartitionChanges,
    PartitionPlan,
    PlanOptions,
    PolicySource,
    SmOptions,
)
from ibkeys.plan.outcome import reach_of_plan
from ibkeys.plan.tables.layout import PlacedTable, place
from ibkeys.plan.tables.leaf_ports import LeafPorts
from ibkeys.plan.tables.plan_builder import PlanBuilder, Table, key_of
from ibkeys.printable import counted
from ibkeys.topology.find import ALIAS_MEANS, find_aliases
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port
from ibkeys.topology.shared_guids import others_that_show_it, shared_port_guids
from ibkeys.topology.subnet_manager import SubnetManager, shown_subnet_manager

_KINDS: Final = ("ca", "switch", "router")


def make_plan(
    policy: Policy,
    fabric: Topology,
    options: PlanOptions | None = None,
    manager: SubnetManager | None = None,
    *,
    full: bool = False,
    force: bool = False,
) -> PartitionPlan:
    """Return the plan of the changes that *policy* makes on *fabric*, which was swept with its P_Key tables.

    *manager*: by default the master SM in the sweep. *full*: put tables that stay into the plan too. *force*: allow to
    disconnect unconfigured ports although a subnet manager may be master.

    Raises FileFormatError for a policy that OpenSM would refuse. Raises UsageError if the policy depends on the SM's
    port or *options* disconnect ports, but the SM's port is not known or is not an end port of the fabric; also if
    *options* disconnect ports, but the policy does not state the members of the default partition. Raises Refused
    (``active-sm``) if *options* disconnect ports while an SM may be master, unless *force*.
    """
    policy.require_accepted()
    options, manager = options or PlanOptions(), manager or shown_subnet_manager(fabric)
    if options.disconnect_unconfigured and policy.leaves_open(DEFAULT_PARTITION):
        raise UsageError(
            f"{policy.path} does not say which ports are in the default partition, so none can be removed "
            f"from it: omit {given('--disconnect-unconfigured')}"
        )
    if options.disconnect_unconfigured and manager.presence != "none" and not force:
        raise Objection(
            "active-sm",
            f"{manager.evidence or 'a subnet manager may be master'}, and OpenSM would restore the "
            "default P_Key of each disconnected port when it next writes that block; stop it first",
        ).refusal()
    builder = PlanBuilder(fabric)
    return _Planner(policy, fabric, options, manager, builder, LeafPorts(builder, options.enforce)).plan(full)


@dataclass(slots=True)
class _Planner:
    policy: Policy
    fabric: Topology
    options: PlanOptions
    manager: SubnetManager
    builder: PlanBuilder
    leaves: LeafPorts
    moves: list[IndexMove] = field(default_factory=list)
    layouts: dict[tuple[object, ...], PlacedTable] = field(default_factory=dict)
    shared_guids: set[int] = field(default_factory=set)

    def plan(self, full: bool) -> PartitionPlan:
        ends = self.end_ports()
        resolution = self.resolve(ends)
        disconnected = self.ports_to_disconnect(ends, resolution)
        for port in ends:
            keys = () if port.guid in disconnected else self.wanted_keys(port, resolution)
            table = self.plan_end_port(port, keys, resolution.index0.get(port.guid))
            if table is not None and port.peer is not None and port.peer.is_external:
                self.leaves.plan(port.peer, port, table)
            elif port.peer is None and port.is_linked and port.num:
                self.builder.report(port, "unreadable", "its links are not known, so a leaf port there stays as it is")
        self.leaves.clear_between_switches()
        self.leaves.report_incapable()
        self.report_unmatched(resolution)
        self.report_manager(ends, resolution)
        end_tables = [table for table in self.builder.tables if not table.port.is_external]
        changed = [table for table in self.builder.tables if table.differs]
        return PartitionPlan(
            FabricState(
                state_digest(changed, self.builder.enforcement), self.manager.port_guid, self.manager.evidence or None
            ),
            PolicySource(self.policy.path, self.policy.digest, self.policy.data),
            tuple(self.builder.tables if full else changed),
            tuple(self.builder.enforcement),
            tuple(self.builder.problems),
            _new_and_removed(end_tables),
            reach_of_plan(self.fabric, changed, self.builder.enforcement),
            self.options,
            tuple(self.moves),
            find_breaks(self.builder.tables, self.builder.enforcement),
            SmOptions.of(self.options),
        )

    # --- ports and members -------------------------------------------------------------------------------------------

    def end_ports(self) -> list[Port]:
        """Return the end ports whose tables can be planned, and report the others as problems."""
        candidates = list(self.fabric.end_ports())
        places = Counter((port.node.guid, port.num) for port in candidates)
        self.builder.twins = frozenset(place for place, count in places.items() if count > 1)
        shared = shared_port_guids(candidates)
        ends = []
        for port in candidates:
            if (port.node.guid, port.num) in self.builder.twins:
                self.shared_guids.add(port.guid)
                self.builder.report(
                    port, "duplicate-guid", "several nodes have this NodeGUID, so none of them is in the plan"
                )
            elif port.guid in shared:
                self.shared_guids.add(port.guid)
                self.builder.report(
                    port,
                    "duplicate-guid",
                    f"its port GUID 0x{port.guid:016x} is also reported by "
                    f"{others_that_show_it(port, shared) or 'others'}; which of them is false is not known, so their "
                    "tables and those of their leaf ports stay as they are",
                )
            elif port.node.type_name not in _KINDS:
                self.builder.report(port, "unknown-node-type", f"a node of {port.node.type_name} is not planned")
            elif not port.guid:
                self.builder.report(
                    port, "unreadable", "its port GUID could not be read, so its membership is not known"
                )
            else:
                ends.append(port)
        return ends

    def resolve(self, ends: list[Port]) -> Resolution:
        guid = self.manager.port_guid
        also = "the subnet manager's port must not be disconnected" if self.options.disconnect_unconfigured else None
        require_sm_port(self.policy, guid, {port.guid for port in ends}, self.shared_guids, also)
        return resolve(self.policy, end_ports_of(ends), guid, self.options.allow_both_pkeys)

    def wanted_keys(self, port: Port, resolution: Resolution) -> tuple[PKey, ...]:
        """Return the P_Keys that a port should have, in the order of `Resolution.by_port`: those that the policy gives
        it, and its present ones in partitions whose members the policy does not state.
        """
        by_policy = resolution.by_port.get(port.guid, ())
        stays = {key for _, key in port.occupied or () if self.policy.leaves_open(key)}
        if not stays:
            return by_policy
        return tuple(sorted({*by_policy, *stays}, key=lambda key: (table_order(key.partition), key)))

    def ports_to_disconnect(self, ends: list[Port], resolution: Resolution) -> frozenset[int]:
        """Return the GUIDs of the CA ports that lose even the P_Key of the default partition; none without the option
        ``disconnect_unconfigured``.

        These are the ports that are in no other partition and that the default partition does not name. The SM's port,
        a port where another SM runs or may run, port 0 of a switch, and a router are never among them.
        """
        if not self.options.disconnect_unconfigured:
            return frozenset()
        configured = {self.manager.port_guid}
        for membership in resolution.memberships:
            if membership.base != DEFAULT_PARTITION:
                configured |= membership.full | membership.limited
        default = self.policy.partition(DEFAULT_PARTITION)
        if default is not None:
            configured |= {rule.guid for rule in default.rules if rule.who == "GUID"}
        configured |= {port.guid for port in ends if port.is_sm or port.sm_info is not None}
        return frozenset(port.guid for port in ends if port.node.type_name == "ca" and port.guid not in configured)

    # --- tables ------------------------------------------------------------------------------------------------------

    def plan_end_port(self, port: Port, keys: tuple[PKey, ...], index0: PKey | None) -> Table | None:
        """Plan the table of an end port, report its problems, and return its planned entries; None if its present table
        is not known.

        *keys*: the P_Keys that the port should have; *index0*: the P_Key that ``indx0`` pins at index 0.
        """
        before, capacity = self.builder.read(port)
        if before is None or capacity is None:
            return None
        inputs = (port.p_key_raw, keys, capacity, index0)
        placed = self.layouts.get(inputs)
        if placed is None:
            placed = self.layouts[inputs] = place(before, keys, capacity, index0, self.options.allow_index_moves)
        if placed.dropped:
            listed = ", ".join(map(str, placed.dropped))
            cut = (
                "; WITHOUT A DEFAULT P_Key IT CANNOT REACH THE SA" if any(k.is_default for k in placed.dropped) else ""
            )
            self.builder.report(
                port,
                "table-full",
                f"no room for {listed}: {len(placed.entries)} of {capacity} entries are in use{cut}",
            )
        if placed.misplaced is not None:
            index = next((str(i) for i, key in sorted(placed.entries.items()) if key == placed.misplaced), "no index")
            at_0 = placed.entries.get(0)
            self.builder.report(
                port,
                "index-0",
                f"{placed.misplaced} belongs to index 0 and stays at {index}, because a P_Key in use keeps its index "
                f"(at 0: {at_0 or 'nothing'}); OpenSM would move it; {given('--allow-index-moves')} does",
            )
        self.moves += [IndexMove(port.id, *move) for move in placed.moves]
        peer = port.peer
        self.builder.tables.append(
            TableChange(port.id, before, placed.entries, capacity, key_of(peer) if peer is not None else None)
        )
        return placed.entries

    # --- objections --------------------------------------------------------------------------------------------------

    def report_unmatched(self, resolution: Resolution) -> None:
        nodes: dict[int, Node] = {node.guid: node for node in self.fabric.nodes}
        aliases = find_aliases(self.fabric, (rule.guid for rule in resolution.unmatched))
        for rule in resolution.unmatched:
            if rule.guid in self.shared_guids:
                continue  # `end_ports` has reported it
            node, alias, kind = nodes.get(rule.guid), aliases.get(rule.guid), "guid-not-found"
            if alias is not None:
                what = f" is alias GUID {alias[1]} of {alias[0]}: {ALIAS_MEANS}"
            elif node is None:
                what = ": no port that a link reaches has this GUID"
            else:
                guids = [f"0x{port.guid:016x}" for port in self.fabric.find_guid(rule.guid) if port.guid]
                hint = f"; its port GUIDs are {', '.join(guids)}" if guids else ""
                kind, what = "guid-no-end-port", f" is the GUID of node {node.description!r}, not of a port{hint}"
            where = f"{self.policy.path}:{rule.line}:{rule.column}: 0x{rule.guid:016x}"
            self.builder.report(None, kind, where + what)

    def report_manager(self, ends: list[Port], resolution: Resolution) -> None:
        guid = self.manager.port_guid
        keys = [resolution.by_port.get(port.guid, ()) for port in ends]
        limited = sum(bool(each) and DEFAULT_FULL not in each for each in keys)
        port = next((port for port in ends if port.guid == guid), None)
        is_limited = port is not None and DEFAULT_FULL not in resolution.by_port.get(port.guid, ())
        if is_limited and limited and not self.policy.leaves_open(DEFAULT_PARTITION):
            self.builder.report(
                port,
                "sm-limited",
                "THE SUBNET MANAGER'S PORT IS NOT A FULL MEMBER OF THE DEFAULT PARTITION: "
                f"{counted(limited, 'limited member')} will not reach the SA; put SELF=full after ALL=limited",
            )
        changes = any(table.differs for table in self.builder.tables) or bool(self.builder.enforcement)
        if self.manager.presence != "none" and changes:
            undo = (
                "; it restores the default P_Key of disconnected ports" if self.options.disconnect_unconfigured else ""
            )
            self.builder.report(
                port,
                "active-sm",
                f"{self.manager.evidence or 'a subnet manager is master'}; {BESIDE_SM}: `ibkeys apply PLAN "
                f"{via_option(self.policy.path)}` puts it there{undo}",
            )


def require_sm_port(
    policy: Policy, guid: int | None, ends: Collection[int], left_out: Collection[int] = (), also: str | None = None
) -> None:
    """Raise UsageError if the meaning of *policy* depends on the subnet manager's port, but *guid* is not among *ends*.

    *guid*: the port GUID of that port, None if not known. *ends*: the GUIDs of the end ports of the fabric. *left_out*:
    port GUIDs that several nodes report. *also*: another reason why the port has to be known; it then counts for any
    policy.
    """
    depends = (
        "this policy depends on the subnet manager's port (SELF, or the rule that OpenSM adds for the default "
        "partition)"
        if policy.names_the_sm
        else also
    )
    if depends is None or guid in ends:
        return
    what = "it is not known"
    if guid is not None:
        who = "several nodes show" if guid in left_out else "no end port of this fabric has"
        what = f"{who} its GUID 0x{guid:016x}"
    name_it = given("name it with --sm-guid", "name it with `ibkeys plan --sm-guid GUID`")
    raise UsageError(f"{policy.path}: {depends}, and {what}; {name_it}")


def _new_and_removed(tables: list[TableChange]) -> PartitionChanges:
    """Return the partitions that had no member before, and those that have no member afterwards."""
    before = {key.partition for table in tables for key in table.before.values()}
    after = {key.partition for table in tables for key in table.after.values()}
    return PartitionChanges(tuple(sorted(after - before)), tuple(sorted(before - after)))
