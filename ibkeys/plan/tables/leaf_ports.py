"""Planning switch ports: the tables and enforcement of leaf ports, and the enforcement on links between switches."""

from __future__ import annotations

from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.mad.attributes import SwitchInfo
from ibkeys.partitions.opensm_tables import packed
from ibkeys.plan.model import Enforce
from ibkeys.plan.tables.plan_builder import PlanBuilder, Table, key_of
from ibkeys.printable import counted
from ibkeys.topology.enforcement import Enforcement, leaf_of
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port


def enforcement_as_is(fabric: Topology) -> Enforce | None:
    """Return the present enforcement of the leaf ports of *fabric*; None if it differs among those that were read, or
    if none was read."""
    words: dict[tuple[bool, bool], Enforce] = {
        (True, True): "both",
        (True, False): "in",
        (False, True): "out",
        (False, False): "off",
    }
    leaves = (leaf_of(port) for port in fabric.end_ports())
    infos = [leaf.port_info for leaf in leaves if leaf is not None]
    present = {Enforcement.of(info).bits for info in infos if info is not None}
    return words[present.pop()] if len(present) == 1 else None


class LeafPorts:
    """Adds switch ports to the plan of *builder*. *enforce*: the wanted enforcement of leaf ports."""

    def __init__(self, builder: PlanBuilder, enforce: Enforce) -> None:
        self._builder = builder
        self._enforce = enforce
        self._incapable: dict[Node, list[int]] = {}

    def plan(self, leaf: Port, end: Port, end_table: Table) -> None:
        """Plan the table and the enforcement of *leaf*, the switch port that *end* is linked to. *end_table*: the
        planned table of *end*.

        Nothing is planned if another node has the same NodeGUID. If no enforcement is wanted, the table stays as it is.
        If it is wanted, nothing is planned for a switch without tables for its external ports, nor for a table that
        could not be read.
        """
        if key_of(leaf) in self._builder.twins or (leaf.node.guid, 0) in self._builder.twins:
            return
        wanted = packed(end_table)
        fits = True
        if self._enforce != "off":
            if leaf.capacity == 0:
                self._incapable.setdefault(leaf.node, []).append(leaf.num)
                return
            before, capacity = self._builder.read(leaf)
            if before is None or capacity is None:
                return
            fits = len(wanted) <= capacity
            if not fits:
                self._builder.report(
                    leaf,
                    "leaf-table-full",
                    f"{len(wanted)} P_Keys of {end} do not fit its {capacity} entries; with some of them missing "
                    "enforcement would cut it off, so it is switched off here",
                )
            after = dict(enumerate(wanted[:capacity]))
            self._builder.tables.append(TableChange(leaf.id, before, after, capacity, key_of(end)))
        self._plan_enforcement(leaf, end, fits)

    def clear_between_switches(self) -> None:
        """Plan to switch enforcement off on links between switches, as OpenSM does, and report each such port. No end
        port determines the tables of these ports."""
        for port in self._builder.fabric.ports():
            peer, info = port.peer, port.port_info
            if (
                not port.is_external
                or peer is None
                or not peer.is_external
                or info is None
                or key_of(port) in self._builder.twins
            ):
                continue
            before = Enforcement.of(info)
            if before.inbound or before.outbound:
                self._builder.report(
                    port, "between-switches", f"enforces partitions on the link to {peer}; it is switched off"
                )
                self._builder.enforcement.append(
                    EnforcementChange(port.id, before, Enforcement(False, False), key_of(peer))
                )

    def report_incapable(self) -> None:
        """Report each switch that does not support the wanted enforcement, with the number of its leaf ports. Call this
        last."""
        for node, numbers in self._incapable.items():
            switch = node.switch_info
            listed = counted(len(numbers), "leaf port")
            if switch is not None and not switch.partition_enforcement_cap:
                why = "PartitionEnforcementCap is 0: it has no tables for them"
            else:
                needed = (SwitchInfo.inbound_enforcement_cap, SwitchInfo.outbound_enforcement_cap)
                missing = [row.name for row in needed if switch is None or not row.decode(switch.raw)]
                why = f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} 0"
            self._builder.report(
                node.port(0),
                "enforcement-not-supported",
                f"enforcement ({self._enforce}) is not supported on {listed} of this switch: {why}",
            )

    def _plan_enforcement(self, leaf: Port, end: Port, fits: bool) -> None:
        info, switch = leaf.port_info, leaf.node.switch_info
        if info is None or switch is None:
            self._builder.report(
                leaf, "unreadable", "whether it enforces partitions could not be read, so it is left as it is"
            )
            return
        before = Enforcement.of(info)
        inbound = fits and self._enforce in ("both", "in")
        outbound = fits and self._enforce in ("both", "out")
        if (inbound and not switch.inbound_enforcement_cap) or (outbound and not switch.outbound_enforcement_cap):
            self._incapable.setdefault(leaf.node, []).append(leaf.num)
        after = Enforcement(
            inbound and (bool(switch.inbound_enforcement_cap) or before.inbound),
            outbound and (bool(switch.outbound_enforcement_cap) or before.outbound),
        )
        if before != after:
            self._builder.enforcement.append(EnforcementChange(leaf.id, before, after, key_of(end)))
