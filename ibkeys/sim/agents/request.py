"""An SMP at its destination, as the handlers of attributes get it, and their answers (IBA 14.2.5)."""

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
    """An agent refuses an SMP. ``outcome``: an answer without data, or the reason why no answer is sent."""

    def __init__(self, why: int | Drop) -> None:
        """*why*: the status of the answer, or the reason why no answer is sent."""
        self.outcome: SmpAnswer | Drop = why if isinstance(why, Drop) else (why, EMPTY_BLOCK)


@dataclass(slots=True)
class AgentRequest:
    """One SMP at its destination.

    ``ingress``: the port at which it arrived; 0 on a switch that queries itself. ``modifier``: its AttributeModifier.
    ``key_hidden``: the answer must not show the M_Key and SM_Key. ``traps``: sends traps, about a wrong M_Key or a link
    that changes.
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
        """The port for attributes whose modifier names no port: the ingress port, or port 0 of a switch."""
        return self.node.arrival_port(self.ingress)

    def named_port(self) -> SimPort:
        """Return the port in the modifier; on a CA or router 0 is the ingress port. Raises SmpRefused if there is no
        such port."""
        number = self.modifier & 0x7FFF_FFFF  # Bit 31 means that the sender understands extended speeds.
        if number > self.node.num_ports:
            raise SmpRefused(INVALID)
        return self.node.ports[number if number or self.node.is_switch else self.ingress]

    def switch_info(self) -> bytearray:
        """Return the SwitchInfo of the node. Raises SmpRefused if the node is not a switch."""
        if self.node.switch_info is None:
            raise SmpRefused(BAD_ATTRIBUTE)
        return self.node.switch_info


Handler = Callable[[AgentRequest], SmpAnswer]
"""A function that executes an SMP and returns the status and the attribute of the answer. Raises SmpRefused."""
