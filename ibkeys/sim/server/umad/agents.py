"""The agents that programs register on open ports, and the choice of the agent for a MAD (Linux mad.c, user_mad.c)."""

from __future__ import annotations

import errno
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibkeys.mad import offsets as at
from ibkeys.mad.const import DIRECTED_ROUTE, SMP_CLASSES, TRAP_REPRESS, MgmtClass
from ibkeys.mad.sa import RMPP_VERSION
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.rmpp import VENDOR_CLASSES, has_rmpp
from ibkeys.sim.server.umad.wire import Registration

if TYPE_CHECKING:
    from ibkeys.sim.server.umad.open_ports import ProgramPort

MOST_AGENTS: Final = 32
"""The most agents of one open port (user_mad.c: IB_UMAD_MAX_AGENTS)."""
USER_RMPP: Final = 1
"""The flag of an agent whose program does RMPP itself."""
_MOST_CLASS: Final = 80
_MOST_VERSION: Final = 8
_OUI: Final = slice(37, 40)
"""The bytes by which agents of `VENDOR_CLASSES` are distinguished."""
_FIRST_NUMBER: Final = 1
_MOST_NUMBER: Final = 1 << 24

_Owned = tuple[SimPort, int, int, bytes, int]
"""The key for unsolicited MADs: port, class version, class, OUI (of the vendor classes) and method."""


@dataclass(slots=True, eq=False)
class Agent:
    """An agent at the open port ``at``. ``id``: its number there; ``number``: the upper half of the TransactionIDs of
    its requests.

    ``does_rmpp``: the kernel does RMPP for it. ``owns``: the classes and methods of the unsolicited MADs that it gets.
    """

    at: ProgramPort
    id: int
    number: bytes
    does_rmpp: bool
    owns: list[_Owned]


class Agents:
    """The agents of all open ports."""

    def __init__(self) -> None:
        self._by_number: dict[bytes, Agent] = {}
        self._owners: dict[_Owned, Agent] = {}
        self._numbers = itertools.cycle(range(_FIRST_NUMBER, _MOST_NUMBER))

    def register(self, opened: ProgramPort, wanted: Registration) -> tuple[int, Agent | None]:
        """Register an agent; return 0 and the agent, or the errno with which the kernel refuses it.

        Source: user_mad.c, ib_umad_reg_agent; mad.c, ib_register_mad_agent.
        """
        free = next((number for number in range(MOST_AGENTS) if number not in opened.agents), None)
        if free is None:
            return errno.ENOMEM, None
        if not _is_valid(wanted):
            return errno.EINVAL, None
        owns = _owned(opened.port, wanted)
        if any(each in self._owners for each in owns):
            return errno.EINVAL, None
        number = next(raw for each in self._numbers if (raw := each.to_bytes(4)) not in self._by_number)
        does_rmpp = wanted.rmpp_version == RMPP_VERSION and not wanted.flags & USER_RMPP
        agent = Agent(opened, free, number, does_rmpp, owns)
        self._by_number[number] = agent
        self._owners.update(dict.fromkeys(owns, agent))
        return 0, agent

    def unregister(self, agent: Agent) -> None:
        """Remove an agent; its unsolicited MADs have no owner then."""
        del self._by_number[agent.number]
        for each in agent.owns:
            del self._owners[each]

    def for_mad(self, port: SimPort, mad: bytes) -> Agent | None:
        """Return the agent at *port* that gets *mad*, None for none (mad.c: find_mad_agent).

        The TransactionID decides for an answer, class and method for an unsolicited MAD.
        """
        if is_response(mad):
            agent = self._by_number.get(mad[at.AGENT])
            return agent if agent is not None and agent.at.port is port else None
        mgmt_class = mad[at.MGMT_CLASS]
        oui = mad[_OUI] if mgmt_class in VENDOR_CLASSES else b""
        return self._owners.get((port, mad[at.CLASS_VERSION], mgmt_class, oui, mad[at.METHOD] & ~at.RESPONSE))


def is_response(mad: bytes) -> bool:
    """Return whether *mad* is an answer to another MAD (mad.c: ib_response_mad)."""
    method = mad[at.METHOD]
    if method & at.RESPONSE or method == TRAP_REPRESS:
        return True
    return mad[at.MGMT_CLASS] == MgmtClass.BASEBOARD and bool(mad[at.ATTRIBUTE_MODIFIER.stop - 1] & 1)


def _is_valid(wanted: Registration) -> bool:
    mgmt_class = wanted.mgmt_class
    if wanted.rmpp_version not in (0, RMPP_VERSION):
        return False
    if not mgmt_class:  # The agent receives answers only.
        return not wanted.flags & USER_RMPP
    if wanted.class_version >= _MOST_VERSION or (mgmt_class >= _MOST_CLASS and mgmt_class != DIRECTED_ROUTE):
        return False
    if mgmt_class in VENDOR_CLASSES and not wanted.oui:
        return False
    return has_rmpp(mgmt_class) or not wanted.rmpp_version


def _owned(port: SimPort, wanted: Registration) -> list[_Owned]:
    if not wanted.mgmt_class:
        return []
    oui = wanted.oui.to_bytes(4)[1:] if wanted.mgmt_class in VENDOR_CLASSES else b""
    methods = (method for method in range(at.RESPONSE) if wanted.mask >> method & 1)
    return [(port, wanted.class_version, wanted.mgmt_class, oui, method) for method in methods]


def queue_pair(mgmt_class: int) -> int:
    """Return the number of the QP for MADs of a class: 0 for SMPs, 1 for GMPs."""
    return 0 if mgmt_class in SMP_CLASSES else 1
