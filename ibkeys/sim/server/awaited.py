"""Pending requests: forwarded to another program and not answered yet.

Whose an answer is, and what happens to a request without one, the kernel decides under a real program (Linux mad.c:
ib_response_mad, ib_find_send_mad, timeout_sends; user_mad.c: ib_umad_write): R set or TrapRepress makes an answer, it
goes to the agent that waits for its class and TransactionID, any other is dropped, and one that does not come in time
is given up with ETIMEDOUT. libumad2sim has none of this.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ibkeys.mad import offsets as at
from ibkeys.mad.const import REPORT, REPORT_RESP, SMP_CLASSES, TRAP, TRAP_REPRESS
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server.clients import Client
from ibkeys.sim.server.heads import Head

TIMEOUT: Final = 0.8
"""Seconds that a program has to answer. libumad2sim does not say what the requester told the kernel; this is what
OpenSM does: four times 200 ms (osm_base.h: OSM_DEFAULT_TRANS_TIMEOUT_MILLISEC, OSM_DEFAULT_RETRY_COUNT).
"""
REPORT_TIMEOUT: Final = 0.2
REPORT_RETRIES: Final = 3
"""A Report goes out again after so many seconds, so often. For an SMP OpenSM says so to the kernel as well, but there
one attempt is as good as four: nothing is lost on the way, and a program that ignores it ignores all of them."""

SLOT: Final = slice(at.AGENT.start, at.AGENT.start + 2)
"""The slot of the client that asks: the server writes it into the half of the TransactionID that is the kernel's."""
AGENT: Final = slice(SLOT.stop, at.AGENT.stop)
"""What is left of that half: the agent of the client's own umad library."""

_Key = tuple[int, bytes, bytes]


class AwaitedRequest(NamedTuple):
    """A request of *client*: how its packet began, and the MAD in it."""

    client: Client
    head: Head
    mad: bytes


class PendingRequests:
    """The requests of all programs that wait for an answer of another program.

    SMPs, Reports, and what is answered by TrapRepress: others are not kept, for their requesters give programs times of
    all lengths.
    """

    def __init__(self) -> None:
        self._requests: dict[_Key, AwaitedRequest] = {}

    def add(self, request: AwaitedRequest) -> bool:
        """Let *request* wait, in place of one with its class and TransactionID; returns whether it is kept."""
        kept = request.mad[at.MGMT_CLASS] in SMP_CLASSES or request.mad[at.METHOD] in (TRAP, REPORT)
        if kept:
            self._requests[_key(request.mad)] = request
        return kept

    @staticmethod
    def concerns(mad: bytes) -> bool:
        """Whether *mad* is an answer to such a request as is kept here: it is for who waits for it, else for nobody."""
        method = mad[at.METHOD]
        is_smp_response = method & at.RESPONSE and mad[at.MGMT_CLASS] in SMP_CLASSES
        return method in (TRAP_REPRESS, REPORT_RESP) or bool(is_smp_response)

    def answered_by(self, mad: bytes, port: SimPort) -> AwaitedRequest | None:
        """Return the request from *port* that *mad* answers, and let it wait no longer; None when nobody waits for it.

        Bits 47 to 32 of a TransactionID are the requester's agent. Those of a TrapRepress are not examined:
        libumad2sim puts the agent of the program that sends it there (umad2sim.c: umad2sim_write), where a kernel
        leaves them.
        """
        key = _key(mad)
        request = self._requests.get(key)
        if request is None or request.client.port is not port:
            return None
        if mad[at.METHOD] != TRAP_REPRESS and mad[AGENT] != request.mad[AGENT]:
            return None
        return self._requests.pop(key)

    def is_waiting(self, request: AwaitedRequest) -> bool:
        """Whether *request* still waits for an answer."""
        return self._requests.get(_key(request.mad)) is request

    def give_up(self, request: AwaitedRequest) -> bool:
        """Let *request* wait no longer; returns whether it still waited for an answer."""
        waits = self.is_waiting(request)
        if waits:
            del self._requests[_key(request.mad)]
        return waits


def _key(mad: bytes) -> _Key:
    """MgmtClass, and of the TransactionID the slot of the client and the half that is the program's own."""
    return mad[at.MGMT_CLASS], mad[SLOT], mad[at.TID]
