"""One SMP at its destination, and the answer of an attribute's handler to it (IBA 14.2.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.const import MadStatus
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.nodes import EMPTY_BLOCK, SimNode, SimPort
from ibkeys.sim.traps import Traps

OK: Final = int(MadStatus.OK)
BAD_VERSION: Final = int(MadStatus.BAD_VERSION)
BAD_METHOD: Final = int(MadStatus.METHOD_NOT_SUPPORTED)
BAD_ATTRIBUTE: Final = int(MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED)
INVALID: Final = int(MadStatus.INVALID_FIELD)
SmpAnswer = tuple[int, bytes]


class SmpRefused(Exception):
    """An agent refuses an SMP. ``outcome``: the answer, which has no data, or the reason why none is sent."""

    def __init__(self, why: int | Drop) -> None:
        """*why*: the status of the answer, or the reason for which nothing is answered."""
        self.outcome: SmpAnswer | Drop = why if isinstance(why, Drop) else (why, EMPTY_BLOCK)


@dataclass(slots=True)
class AgentRequest:
    """One SMP at its destination.

    ``ingress`` is the port it came in by, 0 on a switch queried from itself. ``traps`` sends the resulting traps: for a
    wrong M_Key, for a link that changes.
    """

    node: SimNode
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
    def port(self) -> SimPort:
        """The port of a request that cannot name one: the ingress port; port 0 of a switch."""
        return self.node.arrival_port(self.ingress)

    def named_port(self) -> SimPort:
        """Return the port in the modifier: 0 on a CA is the ingress port. Raises Refused if it does not exist."""
        number = self.modifier & 0x7FFF_FFFF  # bit 31: the sender understands extended speeds
        if number > self.node.num_ports:
            raise SmpRefused(INVALID)
        return self.node.ports[number if number or self.node.is_switch else self.ingress]

    def switch_info(self) -> bytearray:
        """Return the SwitchInfo of the node. Raises Refused if it is no switch."""
        if self.node.switch_info is None:
            raise SmpRefused(BAD_ATTRIBUTE)
        return self.node.switch_info


Handler = Callable[[AgentRequest], SmpAnswer]
"""A function that executes an SMP and returns status and attribute. Raises Refused."""
