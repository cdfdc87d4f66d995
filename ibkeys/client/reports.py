"""Being told of traps without being the SM: subscriptions at the SA, kept alive (IBA 13.4.8, 13.4.11, 15.2.5).

OpenSM takes the numbers 256 to 259 from an asker with its sa_key only; 0xFFFF it takes from everybody. A subscription
is lost when the SM is restarted or another one takes over, and nothing tells the subscriber: so it is renewed again
and again, which is one MAD for each trap and changes nothing where it is still there.
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
"""Seconds between two renewals: for so long Reports may be missed after the SM was restarted."""
RETRY_EVERY: Final = 1.0
"""Seconds between two looks at MasterSMLID, and between two attempts while no SA answers."""
_NO_SUCH: Final = SaStatus.REQUEST_INVALID
"""What OpenSM says to the end of a subscription that it does not have: it was restarted since."""


class Subscriber:
    """Subscribes to *traps* through *umad* and hands out the Reports. A context manager; not thread-safe.

    ``port``: to be used in place of *umad* by whatever runs beside it (`ibkeys.open(subscriber.port)`): it takes
    the Reports out of what comes in and answers them. *sm_key*: OpenSM's sa_key. *sm_lid*: returns the LID of the SA
    now, by default MasterSMLID as this host has it.

    ``trouble``: why there is no subscription now, None while there is one. ``renewals``: how often it was made again
    after trouble or at another LID. ``ask_sm_lid``: asked for the LID in place of *sm_lid* while there is trouble,
    for this host may not have heard of a new master; None: nobody is.
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
        """The LID of the SA that has the subscription, or was asked last; 0 before the first time."""
        return self.port.sm_lid

    @property
    def is_full_member(self) -> bool:
        """Whether this port is a full member of the default partition, as this host has its P_Keys.

        OpenSM tells a subscriber only of ports that share a P_Key with it, and two limited members share none (IBA
        13.4.11; opensm osm_inform.c). Raises TransportError.
        """
        return DEFAULT_FULL in self.port.attributes().pkeys

    def subscribe(self) -> None:
        """Register the agent and subscribe to all traps, or to none.

        Raises AgentRefused: another program on this port takes the Reports. MadStatusError (0x0200: OpenSM wants its
        sa_key), NoReply (OpenSM is silent to a wrong one), Unreachable, SendRefused, MalformedMad, UsageError.
        """
        try:
            self._ask_for_all(self._timing)
        except IbkeysError:
            self.close()
            raise
        self._plan(self._renew_every)

    def poll(self, timeout: float) -> list[TrapReport]:
        """Return the Reports that came, as soon as there are any; [] when none came in *timeout* seconds.

        Renews what is due, and tries again where ``trouble`` is; while no SA answers it may take longer than *timeout*
        by one attempt (`Timing.timeout`). Raises TransportError and ClosedError: the local port is of no use any more.
        """
        deadline = self.port.now() + timeout
        while True:
            self._renew_if_due()
            reports = self.port.take()
            now = self.port.now()
            if reports or now >= deadline:
                return reports
            # what is not a Report was asked for by nobody who still waits
            self.port.recv(max(0.0, min(deadline, self._look_at, self._due) - now))

    def close(self) -> IbkeysError | None:
        """End the subscriptions, and leave the port open. Returns why the SA did not confirm it, None when it did.

        An SA that is gone has no subscriptions; one that did not hear gives up after some Reports without an answer.
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

    # --- keeping it alive ------------------------------------------------------------------------------------------

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
                # libumad2sim cannot refuse the agent, so `sim serve` refuses what the agent is for
                raise reports_taken(self.port, error.errno) from error
            if trap not in self._subscribed:
                self._subscribed.append(trap)

    def _lid_now(self) -> int:
        """Return where to ask: where it went well, until this host says something new or it no longer does."""
        before, self._said = self._said, self._current_lid()
        if self.trouble is not None and self.ask_sm_lid is not None:
            return self.ask_sm_lid()
        return self.sm_lid if before == self._said and self.sm_lid else self._said

    def _client(self, timing: Timing) -> SaClient:
        return SaClient(self.port, timing, self._sm_key, self.sm_lid or None, self._pkey_index)
