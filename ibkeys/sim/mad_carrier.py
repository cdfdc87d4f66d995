"""Carrying MADs through a simulated subnet: by LID or directed route to an agent, an SA or a program, and back.

A MAD goes in as 256 bytes at a port, and the replies come out with their times. There is no I/O and no clock here, so
that every run with the same seed is the same.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.classes.gmp import KEY_CLASS_OF
from ibkeys.mad.const import (
    DIRECTED_ROUTE,
    LID_ROUTED,
    MAD_SIZE,
    MAX_HOPS,
    PERF_MGMT,
    PERMISSIVE_LID,
    SET,
    SUBN_ADM,
    TRAP_REPRESS,
    MadStatus,
    Method,
)
from ibkeys.mad.notice import Notice
from ibkeys.mad.replies import directed_route_reply, lid_routed_reply, with_return_path
from ibkeys.mad.smp import DirectedRouteSmp
from ibkeys.sim import routing
from ibkeys.sim.agents import class_keys, pma, sma
from ibkeys.sim.agents.request import SmpAnswer
from ibkeys.sim.deliveries import LATENCY, Delivery, DeliveryOutcome, Drop
from ibkeys.sim.faults import Faults
from ibkeys.sim.history import SimHistory
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.receivers import Receivers
from ibkeys.sim.running_managers import Managers
from ibkeys.sim.traps import Traps

_APPLIED: Final = frozenset({int(MadStatus.OK), int(MadStatus.INVALID_FIELD)})
"""The status codes of Sets that may have changed something: with INVALID_FIELD the valid fields were applied."""
_new_tuple: Final = tuple.__new__
"""Creates a `Delivery` in half the time of its constructor."""
_FIRST_HOP: Final = at.INITIAL_PATH.start + 1
"""The offset of entry 1 of InitialPath; entry 0 is not used."""
_DIRECTED_HEAD: Final = at.reader(
    DirectedRouteSmp.method,
    DirectedRouteSmp.d,
    DirectedRouteSmp.hop_pointer,
    DirectedRouteSmp.hop_count,
    DirectedRouteSmp.dr_slid,
    DirectedRouteSmp.dr_dlid,
)


class MadCarrier:
    """Carries the MADs of one subnet, with its *faults*, *history*, *receivers*, *traps* and subnet *managers*.

    ``sa_data_limit``: the most bytes of an answer of an SA; longer answers are refused for lack of resources. None: no
    limit. ``class_rules``: MgmtClass → the behaviour of ports for MADs of this class, which has keys of its own.
    """

    def __init__(
        self, faults: Faults, history: SimHistory, receivers: Receivers, traps: Traps, managers: Managers
    ) -> None:
        self.sa_data_limit: int | None = None
        self.class_rules = class_keys.default_rules()
        self._faults = faults
        self._history = history
        self._routes = routing.DirectedRoutes(history)
        self._receivers = receivers
        self._traps = traps
        self._managers = managers
        traps.answer_by_sa = self._trap_to_sa

    def send(self, mad: bytes, origin: SimPort, dlid: int = PERMISSIVE_LID) -> DeliveryOutcome:
        """Send *mad* as `ibkeys.sim.subnet.Subnet.send` does."""
        if len(mad) != MAD_SIZE or mad[at.BASE_VERSION] != 1:
            return Drop.MALFORMED
        mgmt_class = mad[at.MGMT_CLASS]
        if mgmt_class == DIRECTED_ROUTE:
            return self._send_directed(mad, origin, dlid)
        if mgmt_class != LID_ROUTED:
            return self.gmp(mad, origin, dlid)
        arrived = routing.by_lid(origin, dlid)
        if arrived is None:
            return Drop.NO_ROUTE
        node, ingress = arrived
        if mad[at.METHOD] & at.RESPONSE:
            return self._hand_over(mad, node, ingress, origin.lid)
        slid = node.arrival_port(ingress).lid
        answer = self.ask(mad, node, ingress, origin.lid)
        if not isinstance(answer, tuple):
            return answer
        back = routing.by_lid(node.arrival_port(ingress), origin.lid)
        if back is None or back[0] is not origin.node or (not back[0].is_switch and back[1] != origin.number):
            return Drop.NO_ROUTE_BACK
        return self._deliver_reply(lid_routed_reply(mad, *answer), mad, node, slid)

    def gmp(self, mad: bytes, origin: SimPort, dlid: int) -> DeliveryOutcome:
        """Send a MAD to QP1 of *dlid* and return the outcome (IBA 13.5).

        The PMA, the SA of a master and agents of classes with keys answer requests of their classes. All other MADs are
        for programs.
        """
        _, end = routing.hops(origin, dlid)
        if end is None:
            return Drop.NO_ROUTE
        node, method = end.node, mad[at.METHOD]
        mgmt_class = mad[at.MGMT_CLASS]
        sa = self._managers.sa_at(end) if mgmt_class == SUBN_ADM else None
        if sa is not None and method == Method.REPORT_RESP and not node.silent:
            sa.subscriptions.acknowledge(mad, origin)
            return []
        is_for_agent = sa is not None or mgmt_class == PERF_MGMT
        key_class = KEY_CLASS_OF.get(mgmt_class)
        if key_class is not None:
            is_for_agent = class_keys.is_answered(end, key_class, self.class_rules[mgmt_class])
        if not is_for_agent or method & at.RESPONSE or method == Method.TRAP_REPRESS:
            return self._hand_over(mad, node, end.number, origin.lid)
        if node.silent:
            return Drop.SILENT
        if self._faults.active and self._faults.loses("request", node, mad):
            return Drop.FAULT
        if routing.hops(end, origin.lid)[1] is not origin:
            return Drop.NO_ROUTE_BACK
        if key_class is not None:
            class_answer = class_keys.answer(end, key_class, self.class_rules[mgmt_class], mad, self._traps)
            return Drop.CLASS_KEY if class_answer is None else self._deliver_reply(class_answer, mad, node, end.lid)
        if sa is None:
            return self._deliver_reply(lid_routed_reply(mad, *pma.answer(node, mad)), mad, node, end.lid)
        answers = sa.take(mad, origin, self.sa_data_limit)
        if answers is None:
            return Drop.SM_KEY
        arriving = [delivery for answer in answers for delivery in self._with_faults(answer, mad, node, end.lid)]
        return arriving if arriving or not answers else Drop.FAULT

    def exchange(self, mad: bytes, origin: SimPort) -> bytes | DeliveryOutcome:
        """Send a directed-route request of 256 bytes, with HopPointer 0 and no LID-routed part, as `send` does.

        Returns the bytes of the reply; if there is no reply, the outcome as `send` does. No faults may be active.
        """
        walked = self._routes.walk(origin.node, origin.number, mad[_FIRST_HOP : _FIRST_HOP + mad[at.HOP_COUNT]])
        if walked is None:
            return Drop.NO_ROUTE
        node, ingress, return_path = walked
        mad = with_return_path(mad, return_path)
        answer = self.ask(mad, node, ingress, PERMISSIVE_LID)
        if not isinstance(answer, tuple):
            return answer
        return directed_route_reply(mad, *answer)

    def _send_directed(self, mad: bytes, origin: SimPort, dlid: int) -> DeliveryOutcome:
        method, d, hop_pointer, hops, dr_slid, dr_dlid = _DIRECTED_HEAD.unpack_from(mad)
        if hops > MAX_HOPS:
            return Drop.MALFORMED
        if d & at.RESPONSE:
            return self._directed_response(mad, origin, dlid)
        if hop_pointer or method & at.RESPONSE:
            return Drop.MALFORMED
        node, ingress = origin.node, origin.number
        if dr_slid != PERMISSIVE_LID:  # First comes a LID-routed part, which ends at a switch.
            arrived = routing.by_lid(origin, dlid)
            if arrived is None or (hops and not arrived[0].is_switch):
                return Drop.NO_ROUTE
            node, ingress = arrived
        walked = self._routes.walk(node, ingress, mad[_FIRST_HOP : _FIRST_HOP + hops])
        if walked is None:
            return Drop.NO_ROUTE
        node, ingress, return_path = walked
        if dr_dlid != PERMISSIVE_LID:  # A LID-routed part follows.
            arrived = routing.by_lid(node.arrival_port(ingress), dr_dlid)
            if arrived is None:
                return Drop.NO_ROUTE
            node, ingress = arrived
        arrived_mad = with_return_path(mad, return_path)
        answer = self.ask(arrived_mad, node, ingress, PERMISSIVE_LID)
        if not isinstance(answer, tuple):
            return answer
        status, data = answer
        return self._deliver_reply(directed_route_reply(arrived_mad, status, data), mad, node, PERMISSIVE_LID)

    def _directed_response(self, mad: bytes, origin: SimPort, dlid: int) -> DeliveryOutcome:
        """Send a response (D = 1) along its ReturnPath, beginning with the last entry, to the program at its end."""
        hops = mad[at.HOP_COUNT]
        entries = mad[at.RETURN_PATH][1 : hops + 1]
        walked = self._routes.walk(origin.node, origin.number, bytes(reversed(entries)))
        if walked is None or not mad[at.METHOD] & at.RESPONSE:
            return Drop.NO_ROUTE
        arriving = mad[: at.HOP_POINTER] + b"\0" + mad[at.HOP_COUNT :]
        return self._hand_over(arriving, walked[0], walked[1], PERMISSIVE_LID)

    def ask(self, mad: bytes, node: SimNode, ingress: int, slid: int) -> SmpAnswer | DeliveryOutcome:
        """Pass an SMP that arrived at *node* by port *ingress* to its SMA, and return the status and attribute of the
        answer.

        If the SMA does not answer, return the outcome for the SMP: it is dropped, or passed to a program there.
        """
        if node.silent:
            return Drop.SILENT
        if self._faults.active and self._faults.loses("request", node, mad):
            return Drop.FAULT
        answer = sma.answer(node, ingress, mad, self._traps)
        if isinstance(answer, tuple):
            if mad[at.METHOD] == SET and (answer[0] & 0xFF) in _APPLIED:
                self._history.changes += 1
            return answer
        if answer is not Drop.M_KEY:
            # The agent processes the MAD first, then the program whose trap it may answer (mad.c).
            if mad[at.METHOD] == TRAP_REPRESS:
                self._traps.repress(node.arrival_port(ingress), mad)
            if self._receivers:
                return self._hand_over(mad, node, ingress, slid)
        return answer

    def _deliver_reply(self, reply: bytes, request: bytes, node: SimNode, slid: int) -> DeliveryOutcome:
        if not self._faults.active:
            return [_new_tuple(Delivery, (LATENCY, reply, slid))]
        return self._with_faults(reply, request, node, slid) or Drop.FAULT

    def _with_faults(self, reply: bytes, request: bytes, node: SimNode, slid: int) -> list[Delivery]:
        """Return the deliveries of *reply* after faults: none if it is lost, two if it is duplicated."""
        faults = self._faults
        if not faults.active:
            return [Delivery(LATENCY, reply, slid)]
        if faults.loses("reply", node, request):
            return []
        return [Delivery(LATENCY + extra, mad, slid) for extra, mad in faults.spoil(reply)]

    def _hand_over(self, mad: bytes, node: SimNode, ingress: int, slid: int) -> DeliveryOutcome:
        is_accepted = self._receivers.deliver(node.arrival_port(ingress), Delivery(LATENCY, mad, slid))
        return [] if is_accepted else Drop.NO_PORT

    def run_sa_timers(self) -> None:
        """Let every SA send the segments and Reports again that were not acknowledged in time."""
        for home, requester, mad in self._managers.resend():
            self._send_by_sa(home, requester, mad)

    def _send_by_sa(self, home: SimPort, requester: SimPort, mad: bytes) -> None:
        if routing.hops(home, requester.lid)[1] is requester:
            for delivery in self._with_faults(mad, mad, home.node, home.lid):
                self._receivers.deliver(requester, delivery)

    def _trap_to_sa(self, end: SimPort, mad: bytes, source: SimPort) -> bool:
        """Let the SA at *end* send Reports of the trap *mad*; return whether an SA processed the trap, and so answered
        it.

        An SA without subscriptions leaves the trap to a program at *end*, which may be the SM.
        """
        sa = self._managers.sa_at(end)
        if sa is None or end.node.silent or not sa.subscriptions:
            return False
        for subscriber, report in sa.subscriptions.make_reports(Notice(mad[at.DATA]), source, self._history.now):
            self._send_by_sa(end, subscriber, report)
        return True
