"""A handle on one port of one node. A read sends SMPs, so a script sees the port's current values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ibkeys.client.smp import Route, SmpOutcome
from ibkeys.discovery.tables import NOT_VIRTUALIZED
from ibkeys.errors import IbkeysError, ImpossibleValue, MadStatusError, Unreachable
from ibkeys.fabric.open_port import OpenPort
from ibkeys.fabric.readable_port import ReadablePort
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import Attribute, NodeInfo, PKeyTable, PortInfo, SwitchInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.topology.impossible_values import NO_ENTRIES
from ibkeys.topology.nodes import Port


@dataclass(slots=True)
class PortHandle(ReadablePort):
    """One port of one node, and the route to its agent. A read sends SMPs; properties send none.

    ``port`` collects the values that were read, in the form of a sweep; ``route`` leads to the port's agent. A read
    that fails raises NoReply, MadStatusError or SendRefused, unless its name ends in ``_or_none``. `read_p_keys` raises
    further errors.
    """

    fabric: OpenPort
    port: Port
    route: Route

    @property
    def m_key(self) -> MKey:
        """The key in SMPs to the port: its own, or that of port 0 for an external port of a switch."""
        return self.fabric.ring.for_found(self.port, self.fabric.swept)

    def get(self, attribute: type[Attribute], modifier: int = 0) -> bytes:
        """Send one SubnGet to this port's agent with its key. Raises NoReply, MadStatusError, SendRefused."""
        return self.fabric.get(attribute, modifier, self.route, self.m_key)

    def set(self, attribute: type[Attribute], modifier: int, data: bytes) -> bytes:
        """Send one SubnSet to this port's agent with its key, once. Raises the errors of `Fabric.set`."""
        return self.fabric.set(attribute, modifier, self.route, data, self.m_key)

    def read_port_info(self) -> PortInfo:
        """Get PortInfo. For an external port of a switch, also get that of port 0, which holds the LID and M_Key."""
        own = self.port.end_port
        if own is not self.port:
            own.info = self.get(PortInfo, 0)
        self.port.info = self.get(PortInfo, self.port.num)
        if own.m_key_state == "hidden":
            self._uncover(own)
        return PortInfo(self.port.info)

    def _uncover(self, own: Port) -> None:
        """Try the other keys that a port may have at level 1, where it hides its key and a wrong key costs nothing."""
        for other in self.fabric.ring.others_for(own.guid, own.m_key):
            info = self.fabric.get(PortInfo, own.num, self.route, other)
            if PortInfo(info).m_key:
                own.info, own.m_key = info, other
                return

    def read_port_info_or_none(self) -> PortInfo | None:
        """Get PortInfo, or return None when it cannot be read."""
        try:
            return self.read_port_info()
        except IbkeysError:
            return None

    def read_switch_info(self) -> SwitchInfo | None:
        """Get SwitchInfo; None when the node is not a switch."""
        node = self.port.node
        if node.is_switch:
            node.switch_info_raw = self.get(SwitchInfo)
        return node.switch_info

    def read_capacity(self) -> int:
        """Return how many entries the P_Key table has; 0 when a switch has no tables for its external ports.

        The number is in NodeInfo, which is known already. For an external port of a switch it is in SwitchInfo, which
        is read once. Raises NoReply, MadStatusError, SendRefused.
        """
        if self.port.is_external and self.port.node.switch_info_raw is None:
            self.port.node.switch_info_raw = self.get(SwitchInfo)
        capacity = self.port.capacity
        assert capacity is not None
        return capacity

    def read_virtualization(self) -> None:
        """Get VirtualizationInfo of a port that may have virtual ports; for others send nothing.

        PortInfo has to be read before. Raises NoReply, MadStatusError, SendRefused.
        """
        port = self.port
        if not port.can_have_virtual_ports:
            return
        try:
            port.virtualization_raw = self.get(VirtualizationInfo)
        except MadStatusError as error:
            if error.status not in NOT_VIRTUALIZED:
                raise
            port.virtualization_raw = b""

    def read_p_key_block(self, block: int) -> PKeyTable:
        """Get one block of 32 P_Keys. Raises NoReply, MadStatusError, SendRefused."""
        return PKeyTable(self.get(PKeyTable, self.port.p_key_modifier(block)))

    def read_p_keys(self) -> tuple[PKey, ...]:
        """Get the whole P_Key table: ceil(capacity / 32) Gets, after those of `read_capacity`.

        Of a CA or router, NodeInfo is read first: its agent answers P_KeyTable only for the port at which the SMP
        arrives. Entries past the capacity are left out; () for an external port of a switch without tables. Raises
        NoReply, MadStatusError, SendRefused; Unreachable as `judge_arrival` does; ImpossibleValue for an end port with
        PartitionCap 0.
        """
        if not self.port.node.is_switch:
            self.judge_arrival(NodeInfo(self.get(NodeInfo)))
        capacity = self.read_capacity()
        if not capacity and self.port.is_end_port:
            raise ImpossibleValue(f"{self}: {NO_ENTRIES}")
        client, first = self.fabric.client, self.port.p_key_modifier(0)
        modifiers = range(first, first - (-capacity // P_KEYS_PER_BLOCK))
        gets = client.gets_to(self.route, self.port.node, self.m_key)
        blocks: Sequence[SmpOutcome] = client.ask(gets.ask_each(PKeyTable, modifiers)) if modifiers else ()
        for outcome in blocks:
            if isinstance(outcome, IbkeysError):
                raise outcome
        self.port.p_key_raw = b"".join(blocks)[: 2 * capacity]  # type: ignore[arg-type]
        return self.port.p_keys or ()

    def judge_arrival(self, arrival: NodeInfo) -> None:
        """Raise Unreachable if *arrival*, just read on this route, is of another node, or of another port of a CA or
        router."""
        node = self.port.node
        if arrival.node_guid != node.guid or (not node.is_switch and arrival.local_port_num != self.port.num):
            raise Unreachable(
                f"{self.port}: {self.route} now leads to port {arrival.local_port_num} of node "
                f"0x{arrival.node_guid:016x}; cabling or routing changed in the meantime: run discover and try again"
            )

    def __str__(self) -> str:
        return f"{self.port} ({self.route})"
