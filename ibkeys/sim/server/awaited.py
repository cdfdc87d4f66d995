"""What programs wait for: requests that another program was handed and has not answered yet.

Whose an answer is, and what becomes of a request without one, the kernel decides under a real program (Linux mad.c:
ib_find_send_mad, timeout_sends): an answer goes to the agent that waits for its class and TransactionID, any other is
dropped, and a request without one in time is given up with ETIMEDOUT. libumad2sim has none of this.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ibkeys.mad.const import SMP_CLASSES
from ibkeys.sim.nodes import Port
from ibkeys.sim.server.clients import Client

TIMEOUT: Final = 0.8
"""Seconds that a program has to answer. libumad2sim does not say what the asker told the kernel; this is what OpenSM
does: four times 200 ms (osm_base.h: OSM_DEFAULT_TRANS_TIMEOUT_MILLISEC, OSM_DEFAULT_RETRY_COUNT)."""

_Key = tuple[int, bytes]


class Request(NamedTuple):
    """A request of *client*, and the packet by which it is given up."""

    client: Client
    mad: bytes
    timed_out: bytes


class Awaited:
    """The requests of all programs that wait for an answer of another program.

    SMPs: others are not kept, for their askers give programs times of all lengths.
    """

    def __init__(self) -> None:
        self._requests: dict[_Key, Request] = {}

    def add(self, request: Request) -> bool:
        """Let *request* wait, in the place of one with its class and TransactionID; returns whether it is kept."""
        kept = request.mad[1] in SMP_CLASSES
        if kept:
            self._requests[_key(request.mad)] = request
        return kept

    @staticmethod
    def concerns(mad: bytes) -> bool:
        """Whether *mad* is an answer to such a request as is kept here: it is for who waits for it, else for nobody."""
        return mad[3] >= 0x80 and mad[1] in SMP_CLASSES

    def answered_by(self, mad: bytes, port: Port) -> Request | None:
        """Return the request from *port* that *mad* answers, and let it wait no longer; None when nobody waits."""
        key = _key(mad)
        request = self._requests.get(key)
        if request is None or request.client.gone or request.client.port is not port:
            return None
        return self._requests.pop(key)

    def give_up(self, request: Request) -> bool:
        """Let *request* wait no longer; returns whether its program still waited for an answer."""
        key = _key(request.mad)
        if self._requests.get(key) is not request:
            return False
        del self._requests[key]
        return not request.client.gone


def _key(mad: bytes) -> _Key:
    return mad[1], mad[8:16]
