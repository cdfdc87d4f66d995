"""The way of each MAD through a simulated subnet: by LID or directed route to an agent, an SA or a program, and back.

256 bytes in at a port, what comes back out and when. No I/O and no clock, so that everything repeats exactly.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad.const import MAD_SIZE, PERMISSIVE_LID, Method, MgmtClass
from ibkeys.sim import routing
from ibkeys.sim.agents import pma, sma
from ibkeys.sim.faults import Faults
from ibkeys.sim.history import History
from ibkeys.sim.managers import Managers
from ibkeys.sim.nodes import Node, Port
from ibkeys.sim.receivers import LATENCY, Delivery, Receivers
from ibkeys.sim.traps import Traps

_LID_ROUTED: Final = int(MgmtClass.SUBN_LID_ROUTED)
_DIRECTED: Final = int(MgmtClass.SUBN_DIRECTED_ROUTE)
_PERFORMANCE: Final = int(MgmtClass.PERF_MGMT)
_ADMINISTRATION: Final = int(MgmtClass.SUBN_ADM)
_PERMISSIVE: Final = b"\xff\xff"


class MadCarrier:
    """Carries the MADs of one subnet, with its *faults*, *history*, *receivers*, *traps* and subnet *managers*.

    ``last_drop``: why the last MAD got no answer; ``sa_data_limit``: the longest answer of an SA in bytes, longer ones
    are refused for want of resources.
    """

    def __init__(
        self, faults: Faults, history: History, receivers: Receivers, traps: Traps, managers: Managers
    ) -> None:
        self.last_drop = ""
        self.sa_data_limit: int | None = None
        self._faults = faults
        self._history = history
        self._receivers = receivers
        self._traps = traps
        self._managers = managers
        traps.to_sm = self._trap_to_sa

    def send(self, mad: bytes, origin: Port, dlid: int = PERMISSIVE_LID) -> list[Delivery]:
        """Send *mad* from *origin* and return what comes back to it: nothing, one reply, or with faults more.

        *dlid* is the LID it is addressed to, 0xFFFF for a directed route. Total: any bytes are answered or dropped.
        What is forwarded to a program attached elsewhere goes to its receiver and is not in the list.
        """
        self.last_drop = ""
        if len(mad) != MAD_SIZE or mad[0] != 1:
            self.last_drop = "malformed"
            return []
        mgmt_class = mad[1]
        if mgmt_class == _DIRECTED:
            return self._directed(mad, origin, dlid)
        if mgmt_class != _LID_ROUTED:
            return self._gmp(mad, origin, dlid)
        arrived = routing.by_lid(origin, dlid)
        if arrived is None:
            self.last_drop = "no route"
            return []
        node, ingress = arrived
        if mad[3] & 0x80:
            return self._hand_over(mad, node, ingress, origin.lid)
        slid = node.arrival_port(ingress).lid
        answer = self._ask(mad, node, ingress, origin.lid)
        if answer is None:
            return []
        back = routing.by_lid(node.arrival_port(ingress), origin.lid)
        if back is None or back[0] is not origin.node or (not back[0].is_switch and back[1] != origin.number):
            self.last_drop = "no route back"
            return []
        status, data = answer
        head = mad[:3] + b"\x81" + status.to_bytes(2) + mad[6:64]
        return self._reply(head + data + mad[128:], mad, node, slid)

    def _gmp(self, mad: bytes, origin: Port, dlid: int) -> list[Delivery]:
        """A MAD to QP1: the PMA and the SA of a master answer theirs, all else goes to programs there (IBA 13.5)."""
        _, end = routing.hops(origin, dlid)
        if end is None:
            self.last_drop = "no route"
            return []
        node = end.node
        sa = self._managers.sa_at(end) if mad[1] == _ADMINISTRATION else None
        if sa is not None and mad[3] == Method.REPORT_RESP and not node.silent:
            sa.subscriptions.acknowledge(mad, origin)
            return []
        if (mad[1] != _PERFORMANCE and sa is None) or mad[3] & 0x80 or mad[3] == Method.TRAP_REPRESS:
            return self._hand_over(mad, node, end.number, origin.lid)
        if node.silent:
            self.last_drop = "silent"
            return []
        if self._faults.active and self._faults.loses("request", node, mad):
            self.last_drop = "fault"
            return []
        if routing.hops(end, origin.lid)[1] is not origin:
            self.last_drop = "no route back"
            return []
        if sa is not None:
            answers = sa.take(mad, origin, self.sa_data_limit)
            if answers is None:
                self.last_drop = "sm_key"
                return []
            return [delivery for answer in answers for delivery in self._reply(answer, mad, node, end.lid)]
        status, data = pma.answer(node, mad)
        return self._reply(mad[:3] + b"\x81" + status.to_bytes(2) + mad[6:64] + data, mad, node, end.lid)

    def _directed(self, mad: bytes, origin: Port, dlid: int) -> list[Delivery]:
        hops = mad[7]
        if hops > 63:
            self.last_drop = "malformed"
            return []
        if mad[4] & 0x80:
            return self._directed_response(mad, origin, dlid)
        if mad[6] or mad[3] & 0x80:
            self.last_drop = "malformed"
            return []
        node, ingress = origin.node, origin.number
        if mad[32:34] != _PERMISSIVE:  # a LID-routed part comes first and ends at a switch
            arrived = routing.by_lid(origin, dlid)
            if arrived is None or (hops and not arrived[0].is_switch):
                self.last_drop = "no route"
                return []
            node, ingress = arrived
        walked = routing.directed(node, ingress, mad[128:192], hops)
        if walked is None:
            self.last_drop = "no route"
            return []
        node, ingress, back = walked
        if mad[34:36] != _PERMISSIVE:  # a LID-routed part follows
            turning = node.arrival_port(ingress)
            arrived = routing.by_lid(turning, mad[34] << 8 | mad[35])
            if arrived is None:
                self.last_drop = "no route"
                return []
            node, ingress = arrived
        request = mad[:192] + back + mad[193 + hops :]
        answer = self._ask(request, node, ingress, PERMISSIVE_LID)
        if answer is None:
            return []
        status, data = answer
        head = mad[:3] + b"\x81" + (status | 0x8000).to_bytes(2) + b"\0" + mad[7:64]
        reply = head + data + mad[128:192] + back + mad[193 + hops :]
        return self._reply(reply, mad, node, PERMISSIVE_LID)

    def _directed_response(self, mad: bytes, origin: Port, dlid: int) -> list[Delivery]:
        """A response (D = 1) goes back along ReturnPath, last entry first."""
        hops = mad[7]
        path = b"\0" + bytes(reversed(mad[193 : 193 + hops]))
        walked = routing.directed(origin.node, origin.number, path, hops)
        if walked is None or not mad[3] & 0x80:
            self.last_drop = "no route"
            return []
        return self._hand_over(mad[:6] + b"\0" + mad[7:], walked[0], walked[1], PERMISSIVE_LID)

    def _ask(self, mad: bytes, node: Node, ingress: int, slid: int) -> tuple[int, bytes] | None:
        """Return status and attribute that a node answers; None when it gives no answer or somebody else will."""
        if node.silent:
            self.last_drop = "silent"
            return None
        if self._faults.active and self._faults.loses("request", node, mad):
            self.last_drop = "fault"
            return None
        method = mad[3]
        answer = sma.answer(node, ingress, mad, self._traps)
        if isinstance(answer, str):
            self.last_drop = answer
            if answer != "m_key":
                if method == 7:  # the agent looks first, then the program whose trap it may answer (mad.c)
                    self._traps.repress(node.arrival_port(ingress), mad)
                if self._receivers:
                    self._hand_over(mad, node, ingress, slid)
            return None
        if method == 2 and (answer[0] & 0xFF) in (0, 0x1C):
            self._history.changes += 1
        return answer

    def _reply(self, reply: bytes, request: bytes, node: Node, slid: int) -> list[Delivery]:
        faults = self._faults
        if not faults.active:
            return [Delivery(LATENCY, reply, slid)]
        if faults.loses("reply", node, request):
            self.last_drop = "fault"
            return []
        return [Delivery(LATENCY + extra, mad, slid) for extra, mad in faults.spoil(reply)]

    def _hand_over(self, mad: bytes, node: Node, ingress: int, slid: int) -> list[Delivery]:
        taken = self._receivers.deliver(node.arrival_port(ingress), Delivery(LATENCY, mad, slid))
        self.last_drop = "" if taken else "nobody there"
        return []

    def next_sa_timer(self) -> float | None:
        """Return the time at which an SA sends a segment again."""
        return self._managers.next_timer()

    def run_sa_timers(self) -> None:
        """Let every SA send again what its asker did not acknowledge in time."""
        for home, asker, mad in self._managers.resend():
            self._send_by_sa(home, asker, mad)

    def _send_by_sa(self, home: Port, asker: Port, mad: bytes) -> None:
        if routing.hops(home, asker.lid)[1] is asker:
            for delivery in self._reply(mad, mad, home.node, home.lid):
                self._receivers.deliver(asker, delivery)

    def _trap_to_sa(self, end: Port, mad: bytes, source: Port) -> bool:
        """Let the SA at *end* tell its subscribers of a trap; returns whether it has any, and so answered the trap.

        Without any the trap is left to a program there, which may play the SM itself.
        """
        sa = self._managers.sa_at(end)
        if sa is None or end.node.silent or not sa.subscriptions:
            return False
        for subscriber, report in sa.take_trap(mad, source):
            self._send_by_sa(end, subscriber, report)
        return True
