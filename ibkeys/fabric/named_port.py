"""The identity of a handle's port: names, GUIDs and LID as already read. Nothing is sent."""

from __future__ import annotations

from typing import Any

from ibkeys.topology.nodes import Node, Port


class NamedPort:
    """Who a port is, whose ``port`` holds what was read of it."""

    __slots__ = ()
    port: Port

    @property
    def node(self) -> Node:
        """The node that the port belongs to."""
        return self.port.node

    @property
    def num(self) -> int:
        """The port's number; 0 is the port of a switch that owns LID and M_Key."""
        return self.port.num

    @property
    def name(self) -> str:
        """NodeDescription, or the name of the node name map; "" if it could not be read."""
        return self.port.node.description or ""

    @property
    def guid(self) -> int:
        """The port GUID; of an external port of a switch that of port 0. 0 when not known."""
        return self.port.port_guid

    @property
    def lid(self) -> int | None:
        """The base LID, as it was last read; of an external port that of port 0. None when not read."""
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
        """Return the keys that every port carries in every JSON document."""
        return self.port.identity()
