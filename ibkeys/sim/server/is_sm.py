"""The ports that have IsSM set because a program there has declared itself a subnet manager."""

from __future__ import annotations

from collections import defaultdict

from ibkeys.sim.nodes import SimPort
from ibkeys.sim.software import Software


class IsSm:
    """Sets the bit with the first program at a port that is a subnet manager, and clears it with the last one."""

    def __init__(self, software: Software) -> None:
        self._software = software
        self._holders: defaultdict[SimPort, set[object]] = defaultdict(set)

    def set(self, port: SimPort, holder: object, on: bool) -> None:
        """Record that *holder* is a subnet manager at *port*, or no longer."""
        holders = self._holders[port]
        (holders.add if on else holders.discard)(holder)
        own = port.node.sm  # a subnet manager of the subnet itself
        self._software.set_is_sm(port, bool(holders) or (own is not None and own.port is port))
