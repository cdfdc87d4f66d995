"""Receiving traps without being the SM: subscriptions at the SA, and their renewal (IBA 13.4.8, 13.4.11, 15.2.5).

OpenSM accepts the numbers 256 to 259 only from a requester with its sa_key; 0xFFFF it accepts from any. A subscription
is lost when the SM is restarted or another SM takes over, without a message to the subscriber. So it is renewed again
and again, which is one MAD for each trap and changes nothing if the subscription still exists.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from ibkeys.client.report_port import ReportPort, TrapReport, reports_taken
from ibkeys.client.sa import SaClient
from ibkeys.client.smp import Timing
from ibkeys.errors import IbkeysError, MadStatusError, SendRefused, TransportError, Unreachable
from ibkeys.keys.pkey import DEFAULT_FULL
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.mad.const import SECURITY_TRAPS, SaStatus
from ibkeys.mad.inform import inform_info
from ibkeys.umad.port import UmadPort

RENEW_EVERY: Final = 10.0
"""Seconds between two renewals: so long Reports may be missed after the SM was restarted."""
RETRY_EVERY: Final = 1.0
"""Seconds between two reads of MasterSMLID, and between two attempts while no SA answers."""
_NO_SUCH: Final = SaStatus.REQUEST_INVALID
"""OpenSM's status for the end of a subscription that it does not have, because it was restarted since."""


class Subscriber:
    """Subscribes to *traps* through *umad* and returns the Reports. A context manager; not thread-safe.

    ``port``: to be used in place of *umad* by other code at the same time (`ibkeys.open(subscriber.port)`): it removes
    the Reports from the received MADs and answers them. *sm_key*: OpenSM's sa_key. *sm_lid*: returns the LID of the SA
    now, by default MasterSMLID as this host has it.

    ``trouble``: why there is no subscription now, None while there is one. ``renewals``: how often it was made again
    after trouble or at another LID. ``ask_sm_lid``: returns the LID in place of *sm_lid* while there is trouble,
    because this host may not know a new master yet; None: not used.
    """

    def __init__(
        self,
        umad: UmadPort,
        traps: Sequence[int] = SECURITY_TRAPS,
        sm_key: SMKey = NO_SM_KEY,
        *,
        timing: Timing | None = None,
        sm_lid: Callable[[], int] | None = None,
        pkey_index: int | None = None,
        renew_every: float = RENEW_EVERY,
    ) -> None:
        self.port = ReportPort(umad, pkey_index)
        self.traps = tuple(dict.fromkeys(traps))
        self.trouble: IbkeysError | None = None
        self.renewals = 0
        self.ask_sm_lid: Callable[[], int] | None = None
        self._sm_key = sm_key
        self._timing = timing or Timing()
        self._current_lid = sm_lid or (lambda: self.port.attributes().sm_lid)
        self._pkey_index = pkey_index
        self._renew_every = renew_every
        self._subscribed: list[int] = []
        self._said = 0
        self._due = self._look_at = 0.0

    @property
    def sm_lid(self) -> int:
        """The LID of the SA that has the subscription, or was queried last; 0 before the first time."""
        return self.port.sm_lid

    @property
    def is_full_member(self) -> bool:
        """Whether this port is a full member of the default partition, as this host has its P_Keys.

        OpenSM sends a subscriber only Reports about ports that share a P_Key with it, and two limited members share
        none (IBA 13.4.11; opensm osm_inform.c). Raises TransportError.
        """
        return DEFAULT_FULL in self.port.attributes().pkeys

    def subscribe(self) -> None:
        """Register the agent and subscribe to all traps, or to none.

        Raises AgentRefused: another program on this port receives the Reports. MadStatusError (0x0200: OpenSM requires
        its sa_key), NoReply (OpenSM does not answer a wrong key), Unreachable, SendRefused, MalformedMad, UsageError.
        """
        try:
            self._ask_for_all(self._timing)
        except IbkeysError:
            self.close()
            raise
        self._plan(self._renew_every)

    def poll(self, timeout: float) -> list[TrapReport]:
        """Return the Reports that came, as soon as there are any; [] when none came in *timeout* seconds.

        Renews subscriptions that are due, and tries again after ``trouble``; while no SA answers it may take longer
        than *timeout* by one attempt (`Timing.timeout`). Raises TransportError and ClosedError: the local port can no
        longer be used.
        """
        deadline = self.port.now() + timeout
        while True:
            self._renew_if_due()
            reports = self.port.take()
            now = self.port.now()
            if reports or now >= deadline:
                return reports
            # MADs that are no Reports are answers for which no request waits any more
            self.port.recv(max(0.0, min(deadline, self._look_at, self._due) - now))

    def close(self) -> IbkeysError | None:
        """End the subscriptions, and leave the port open. Returns why the SA did not confirm it, None when it did.

        An SA that is gone has no subscriptions; an SA that did not receive this gives up after some Reports without an
        answer.
        """
        problem: IbkeysError | None = None
        client = self._client(Timing(self._timing.timeout, 0))
        while self._subscribed and problem is None:
            try:
                client.set_inform_info(inform_info(self._subscribed[-1], subscribe=False))
            except IbkeysError as error:
                if not isinstance(error, MadStatusError) or error.status != _NO_SUCH:
                    problem = error
            self._subscribed.pop()
        self._subscribed.clear()
        return problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.trouble = self.close() or self.trouble

    # --- renewal ------------------------------------------------------------------------------------------------------

    def _renew_if_due(self) -> None:
        now = self.port.now()
        if now < self._look_at and now < self._due:
            return
        self._look_at = now + RETRY_EVERY
        if now < self._due and self._current_lid() == self._said:
            return
        before = self.sm_lid if self.trouble is None else 0
        # one attempt if the last one failed: a missing SM must not delay the caller, which polls
        timing = self._timing if self.trouble is None else Timing(self._timing.timeout, 0)
        try:
            self._ask_for_all(timing)
        except TransportError:
            raise
        except IbkeysError as error:
            self.trouble = error
            self._plan(RETRY_EVERY)
            return
        self.trouble = None
        self.renewals += before != self.sm_lid
        self._plan(self._renew_every)

    def _plan(self, seconds: float) -> None:
        now = self.port.now()
        self._due, self._look_at = now + seconds, now + min(seconds, RETRY_EVERY)

    def _ask_for_all(self, timing: Timing) -> None:
        lid = self._lid_now()
        if not lid:
            where = f"{self.port.ca_name} port {self.port.port}"
            raise Unreachable(f"{where} knows no subnet manager (its MasterSMLID is 0), so there is no SA to query")
        self.port.expect(lid)
        client = self._client(timing)
        for trap in self.traps:
            try:
                client.set_inform_info(inform_info(trap, subscribe=True))
            except SendRefused as error:
                if error.errno != errno.EPERM:
                    raise
                # libumad2sim cannot refuse the agent, so `sim serve` refuses the subscription
                raise reports_taken(self.port, error.errno) from error
            if trap not in self._subscribed:
                self._subscribed.append(trap)

    def _lid_now(self) -> int:
        """Return the LID of the SA: the last that answered, unless this host has a new one or it no longer answers."""
        before, self._said = self._said, self._current_lid()
        if self.trouble is not None and self.ask_sm_lid is not None:
            return self.ask_sm_lid()
        return self.sm_lid if before == self._said and self.sm_lid else self._said

    def _client(self, timing: Timing) -> SaClient:
        return SaClient(self.port, timing, self._sm_key, self.sm_lid or None, self._pkey_index)
