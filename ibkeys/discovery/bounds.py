"""Checking the limits of one sweep, and the notes about limits that it reached."""

from __future__ import annotations

from collections.abc import Sequence

from ibkeys.client.limits import Limits
from ibkeys.grouping import gathered
from ibkeys.printable import counted, named
from ibkeys.topology.model import Topology, Trouble


class Bounds:
    """Compares the numbers of nodes and ports that one sweep found with their limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._ports = 0
        self._texts: dict[tuple[str, str], str] = {}

    def refuses_node(self, nodes: int, twins: int) -> str:
        """Return the name of the limit that another node would exceed, "" for none.

        *nodes*: how many nodes were found so far. *twins*: how many of them have the NodeGUID of the new node.
        """
        if nodes >= self.limits.nodes:
            return "nodes"
        return "same_guid" if twins >= self.limits.same_guid else ""

    def refuses_port(self) -> str:
        """Count one more switch port to be read; return the name of the limit that it exceeds, "" for none."""
        self._ports += 1
        return "ports" if self._ports > self.limits.ports else ""

    def describe_left_out(self, what: str, limit: str) -> str:
        """Return the message *what* (that something was not read) with the reason, that *limit* was reached.

        Calls with equal arguments return the same string object, because very many ports may hold it.
        """
        key = what, limit
        if key not in self._texts:
            self._texts[key] = f"{what}: {self.limits.describe_reached(limit)}"
        return self._texts[key]


def limit_notes(fabric: Topology, limits: Limits) -> list[str]:
    """Return a note for each limit that a sweep reached: how much was not read because of it, and at which nodes."""
    by_limit = gathered((trouble.limit, trouble) for trouble in fabric.troubles if trouble.limit)
    return [
        f"a limit was reached, {_left_out(them)}: {limits.describe_reached(name)}" for name, them in by_limit.items()
    ]


def _left_out(troubles: Sequence[Trouble]) -> str:
    nodes = list(dict.fromkeys(trouble.port.node for trouble in troubles))
    names = named([repr(node.description) if node.description else f"0x{node.guid:016x}" for node in nodes])
    return f"{counted(len(troubles), 'thing')} at {names} {'was' if len(troubles) == 1 else 'were'} not read"
