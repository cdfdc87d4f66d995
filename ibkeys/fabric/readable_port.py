"""The interface of one port to read, of an open fabric or of a snapshot: its identity, earlier readings, and reads."""

from __future__ import annotations

from typing import Any, Protocol

from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.topology.nodes import Node, Port


class ReadablePort(Protocol):
    """One port to read: a `PortHandle` or a `RecordedPort`. A property sends nothing.

    ``port`` holds the values that were read of it so far, in the form of a sweep.
    """

    __slots__ = ()
    port: Port

    @property
    def node(self) -> Node:
        """The node that the port belongs to."""
        return self.port.node

    @property
    def num(self) -> int:
        """The port's number. Port 0 of a switch is the port that owns its LID and M_Key."""
        return self.port.num

    @property
    def name(self) -> str:
        """NodeDescription, or the name of the node name map; "" if it could not be read."""
        return self.port.node.description or ""

    @property
    def guid(self) -> int:
        """The port GUID; an external port of a switch has that of port 0. 0 if it is not known."""
        return self.port.port_guid

    @property
    def lid(self) -> int | None:
        """The base LID as it was last read; an external port has that of port 0. None if it was not read."""
        return self.port.lid

    @property
    def is_external(self) -> bool:
        """Whether this is an external port of a switch."""
        return self.port.is_external

    @property
    def is_end_port(self) -> bool:
        """Whether this is a port that owns an M_Key and a LID: a CA or router port, or port 0 of a switch."""
        return self.port.is_end_port

    def identity(self) -> dict[str, Any]:
        """Return the identity of the port as every JSON document has it: GUIDs, name, type, number and LID."""
        return self.port.identity()

    def read_port_info(self) -> PortInfo:
        """Return PortInfo."""

    def read_switch_info(self) -> SwitchInfo | None:
        """Return SwitchInfo; None when the node is not a switch."""

    def read_capacity(self) -> int:
        """Return how many entries the P_Key table has; 0 where there is none."""

    def read_p_keys(self) -> tuple[PKey, ...]:
        """Return the whole P_Key table, empty entries included."""

    def read_virtualization(self) -> None:
        """Read whether the port has virtual ports; its PortInfo was read before."""
