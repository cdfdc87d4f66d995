"""Setting IsSM of ports at which a program is a subnet manager."""

from __future__ import annotations

from collections import defaultdict

from ibkeys.sim.nodes import SimPort
from ibkeys.sim.software import Software


class IsSm:
    """Sets IsSM of a port for the first program at it that is a subnet manager, and clears it after the last one,
    unless the simulation itself runs a subnet manager there."""

    def __init__(self, software: Software) -> None:
        self._software = software
        self._holders: defaultdict[SimPort, set[object]] = defaultdict(set)

    def set(self, port: SimPort, holder: object, on: bool) -> None:
        """Record whether *holder* is a subnet manager at *port* now, and set or clear IsSM."""
        holders = self._holders[port]
        (holders.add if on else holders.discard)(holder)
        own = port.node.sm  # a subnet manager that the simulation itself runs
        self._software.set_is_sm(port, bool(holders) or (own is not None and own.port is port))
