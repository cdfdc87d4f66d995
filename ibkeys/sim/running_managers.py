"""The nodes of a simulated subnet that run a subnet manager, and the subnet administration of each master."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ibkeys.errors import UsageError
from ibkeys.mad.const import SMState
from ibkeys.sim.agents.sa import SubnetAdministration
from ibkeys.sim.history import earliest
from ibkeys.sim.nodes import SimNode, SimPort, SimSubnetManager


class Managers:
    """The subnet managers of *nodes*."""

    def __init__(self, nodes: Sequence[SimNode]) -> None:
        self._nodes = nodes
        self._sas: dict[SimNode, SubnetAdministration] = {}

    def place(self, node: SimNode, manager: SimSubnetManager | None) -> None:
        """Make *manager* the subnet manager of *node*, None for none, with an SA if it is a master. Change nothing
        else.

        A master that replaces a master at the same port takes over its SA, with keys and groups.
        """
        node.sm = manager
        before = self._sas.pop(node, None)
        if manager is not None and manager.state == SMState.MASTER:
            if before is None or before.home is not manager.port:
                before = SubnetAdministration(self._nodes, manager.port)
            self._sas[node] = before

    def sa_of(self, node: SimNode) -> SubnetAdministration:
        """Return the SA of *node*. Raises UsageError if no master subnet manager was placed there."""
        sa = self._sas.get(node)
        if sa is None:
            raise UsageError(f"{node.description} has no SA: no master subnet manager runs there")
        return sa

    def sa_at(self, port: SimPort) -> SubnetAdministration | None:
        """Return the SA that answers at *port*; None if there is none."""
        sa = self._sas.get(port.node)
        return sa if sa is not None and sa.home is port else None

    def next_timer(self) -> float | None:
        """Return the time of the next `resend` of an SA; None if no segment or Report waits."""
        return earliest(sa.next_timer() for sa in self._sas.values()) if self._sas else None

    def resend(self) -> Iterator[tuple[SimPort, SimPort, bytes]]:
        """Yield the MADs that an SA has to send again now, as (port of the SA, port of the receiver, MAD)."""
        for sa in self._sas.values():
            for requester, mad in sa.resend():
                yield sa.home, requester, mad
