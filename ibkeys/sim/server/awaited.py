"""Pending requests: forwarded to another program and not answered yet.

Under a real program the kernel decides which agent an answer is for, and the fate of a request without an answer (Linux
mad.c: ib_response_mad, ib_find_send_mad, timeout_sends; user_mad.c: ib_umad_write): a MAD with R set or a TrapRepress
is an answer, it is given to the agent that waits for its class and TransactionID, any other is dropped, and a request
that is not answered in time ends with ETIMEDOUT. libumad2sim has none of this.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ibkeys.mad import offsets as at
from ibkeys.mad.const import REPORT, REPORT_RESP, SMP_CLASSES, TRAP, TRAP_REPRESS
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server.clients import Client
from ibkeys.sim.server.heads import Head

TIMEOUT: Final = 0.8
"""Seconds that a program has to answer. libumad2sim does not pass on the requester's timeout; this is OpenSM's: four
times 200 ms (osm_base.h: OSM_DEFAULT_TRANS_TIMEOUT_MILLISEC, OSM_DEFAULT_RETRY_COUNT)."""
REPORT_TIMEOUT: Final = 0.2
REPORT_RETRIES: Final = 3
"""A Report is sent again so often, each time after so many seconds. OpenSM has retries for SMPs too, but they have no
effect here: nothing is lost, and a program that ignores one attempt ignores all."""

SLOT: Final = slice(at.AGENT.start, at.AGENT.start + 2)
"""The slot of the requesting client: the server writes it into the half of the TransactionID that is the kernel's."""
AGENT: Final = slice(SLOT.stop, at.AGENT.stop)
"""The rest of that half: the agent of the client's own umad library."""

_Key = tuple[int, bytes, bytes]


class AwaitedRequest(NamedTuple):
    """A request of *client*: the head of its packet, and the MAD in it."""

    client: Client
    head: Head
    mad: bytes


class PendingRequests:
    """The requests of all programs that wait for an answer of another program.

    They are SMPs, Reports, and MADs that are answered by TrapRepress. Others are not stored, because their requesters
    give programs timeouts of all lengths.
    """

    def __init__(self) -> None:
        self._requests: dict[_Key, AwaitedRequest] = {}

    def add(self, request: AwaitedRequest) -> bool:
        """Add *request* in place of one with its class and TransactionID; return whether it is stored."""
        kept = request.mad[at.MGMT_CLASS] in SMP_CLASSES or request.mad[at.METHOD] in (TRAP, REPORT)
        if kept:
            self._requests[_key(request.mad)] = request
        return kept

    @staticmethod
    def concerns(mad: bytes) -> bool:
        """Return whether *mad* answers a kind of request that is stored here. Such an answer is dropped if no request
        waits for it."""
        method = mad[at.METHOD]
        is_smp_response = method & at.RESPONSE and mad[at.MGMT_CLASS] in SMP_CLASSES
        return method in (TRAP_REPRESS, REPORT_RESP) or bool(is_smp_response)

    def answered_by(self, mad: bytes, port: SimPort) -> AwaitedRequest | None:
        """Return the request from *port* that *mad* answers, and remove it; None if no request waits for it.

        Bits 47 to 32 of a TransactionID are the requester's agent. Those of a TrapRepress are not examined: libumad2sim
        puts the agent of the program that sends it there (umad2sim.c: umad2sim_write), where a kernel leaves them
        unchanged.
        """
        key = _key(mad)
        request = self._requests.get(key)
        if request is None or request.client.port is not port:
            return None
        if mad[at.METHOD] != TRAP_REPRESS and mad[AGENT] != request.mad[AGENT]:
            return None
        return self._requests.pop(key)

    def is_waiting(self, request: AwaitedRequest) -> bool:
        """Return whether *request* still waits for an answer."""
        return self._requests.get(_key(request.mad)) is request

    def give_up(self, request: AwaitedRequest) -> bool:
        """Remove *request*; return whether it still waited for an answer."""
        waits = self.is_waiting(request)
        if waits:
            del self._requests[_key(request.mad)]
        return waits


def _key(mad: bytes) -> _Key:
    """Return MgmtClass, and of the TransactionID the slot of the client and the half that is the program's own."""
    return mad[at.MGMT_CLASS], mad[SLOT], mad[at.TID]
