"""The interface of a fabric in which a port is searched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ibkeys.topology.nodes import Node, Port
from ibkeys.topology.troubles import Trouble, UnqueriedPlace


class SearchableFabric(Protocol):
    """The methods of a fabric that a search uses: see `ibkeys.topology.model.Topology`."""

    nodes: list[Node]
    troubles: list[Trouble]
    unasked: list[UnqueriedPlace]

    def end_ports(self) -> Iterator[Port]:
        """Yield the ports that own an M_Key and a LID."""

    def find_lid(self, lid: int) -> Port | None:
        """Return the end port with *lid*, or None."""

    def find_guid(self, guid: int) -> list[Port]:
        """Return the end ports with the port GUID *guid*, else those of nodes with this node GUID."""

    def find_name(self, name: str) -> list[Node]:
        """Return the nodes with that NodeDescription."""
