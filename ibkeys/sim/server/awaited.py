"""Requests that were forwarded to another program and are not answered yet.

For a real program the kernel decides which agent gets an answer, and what happens to a request without an answer (Linux
mad.c: ib_response_mad, ib_find_send_mad, timeout_sends; user_mad.c: ib_umad_write). A MAD with R set, or a TrapRepress,
is an answer. It goes to the agent that waits for its class and TransactionID; if no agent waits, it is dropped. A
request that is not answered in time ends with ETIMEDOUT. libumad2sim does none of this, so the server does it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ibkeys.mad import offsets as at
from ibkeys.mad.const import REPORT, REPORT_RESP, SMP_CLASSES, TRAP, TRAP_REPRESS
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server.clients import Client
from ibkeys.sim.server.heads import Head

TIMEOUT: Final = 0.8
"""Seconds that a program has to answer. libumad2sim does not transmit the requester's timeout, so this is the time of
OpenSM: four times 200 ms (osm_base.h: OSM_DEFAULT_TRANS_TIMEOUT_MILLISEC, OSM_DEFAULT_RETRY_COUNT)."""
REPORT_TIMEOUT: Final = 0.2
REPORT_RETRIES: Final = 3
"""A Report is sent again up to `REPORT_RETRIES` times, each time after `REPORT_TIMEOUT` seconds. OpenSM also repeats
SMPs. That has no effect here: nothing is lost, and a program that ignores one attempt ignores all."""

SLOT: Final = slice(at.AGENT.start, at.AGENT.start + 2)
"""The bytes of a TransactionID with the slot of the requesting client. They are a part of the upper half, which belongs
to the kernel."""
AGENT: Final = slice(SLOT.stop, at.AGENT.stop)
"""The rest of the upper half: the agent in the umad library of the client."""

_Key = tuple[int, bytes, bytes]


class AwaitedRequest(NamedTuple):
    """A request of ``client``. ``head``: the decoded head of its packet; ``mad``: the MAD in it."""

    client: Client
    head: Head
    mad: bytes


class PendingRequests:
    """The requests of all programs that wait for an answer of another program.

    SMPs, traps and Reports are stored. Other requests are not, because their requesters allow timeouts of any length.
    """

    def __init__(self) -> None:
        self._requests: dict[_Key, AwaitedRequest] = {}

    def add(self, request: AwaitedRequest) -> bool:
        """Store *request*, if its kind is stored; it replaces one of the same client with the same class and lower half
        of the TransactionID. Return whether it was stored."""
        kept = request.mad[at.MGMT_CLASS] in SMP_CLASSES or request.mad[at.METHOD] in (TRAP, REPORT)
        if kept:
            self._requests[_key(request.mad)] = request
        return kept

    @staticmethod
    def concerns(mad: bytes) -> bool:
        """Return whether *mad* is an answer to a kind of request that is stored here. Such an answer is dropped if no
        request waits for it."""
        method = mad[at.METHOD]
        is_smp_response = method & at.RESPONSE and mad[at.MGMT_CLASS] in SMP_CLASSES
        return method in (TRAP_REPRESS, REPORT_RESP) or bool(is_smp_response)

    def answered_by(self, mad: bytes, port: SimPort) -> AwaitedRequest | None:
        """Return the request from *port* that *mad* answers, and remove it; None if no request waits for it.

        Bits 47 to 32 of the TransactionID, the requester's agent, must be equal too, but not in a TrapRepress: there
        libumad2sim writes the agent of the sending program (umad2sim.c: umad2sim_write), while a kernel does not change
        these bits.
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
    """Return the class, the slot of the client, and the lower half of the TransactionID, which belongs to the
    program."""
    return mad[at.MGMT_CLASS], mad[SLOT], mad[at.LOWER_TID]
