"""One SMP at its destination, and what a handler of an attribute answers to it (IBA 14.2.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.const import MadStatus
from ibkeys.sim.nodes import Node, Port
from ibkeys.sim.traps import Traps

OK: Final = int(MadStatus.OK)
BAD_VERSION: Final = int(MadStatus.BAD_VERSION)
BAD_METHOD: Final = int(MadStatus.METHOD_NOT_SUPPORTED)
BAD_ATTRIBUTE: Final = int(MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED)
INVALID: Final = int(MadStatus.INVALID_FIELD)


@dataclass(slots=True)
class Request:
    """One SMP at its destination. ``ingress`` is the port it came in by, 0 on a switch asked from itself. ``traps``
    sends the traps that follow: of a wrong M_Key, of a link that changes."""

    node: Node
    ingress: int
    mad: bytes
    modifier: int
    key_hidden: bool
    traps: Traps

    @property
    def data(self) -> bytes:
        """The attribute of a Set."""
        return self.mad[at.DATA]

    @property
    def port(self) -> Port:
        """The port that a request means which cannot name one: the ingress port; port 0 of a switch."""
        return self.node.arrival_port(self.ingress)

    def named_port(self) -> Port | None:
        """Return the port that the modifier names: 0 on a CA is the ingress port. None where there is no such port."""
        number = self.modifier & 0x7FFF_FFFF  # bit 31: the sender understands extended speeds
        if number > self.node.num_ports:
            return None
        return self.node.ports[number if number or self.node.is_switch else self.ingress]


Answer = tuple[int, bytes]
Handler = Callable[[Request], Answer | None]
