"""Receiving traps without being the SM: subscriptions at the SA, and their renewal (IBA 13.4.8, 13.4.11, 15.2.5).

OpenSM accepts subscriptions to the traps 256 to 259 only from a requester with its sa_key; those to all traps (0xFFFF)
it accepts from any requester. A subscription is lost when the SM is restarted or another SM takes over, without a
message to the subscriber. So it is renewed regularly, by one MAD for each trap, which changes nothing if the
subscription still exists.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from ibkeys.client.report_port import ReportPort, TrapReport, reports_taken_error
from ibkeys.client.sa import SaClient
from ibkeys.client.smp import Timing
from ibkeys.errors import IbkeysError, MadStatusError, SendRefused, TransportError, Unreachable
from ibkeys.keys.pkey import DEFAULT_FULL
from ibkeys.keys.smkey import NO_SM_KEY, SMKey
from ibkeys.mad.const import SECURITY_TRAPS, SaStatus
from ibkeys.mad.inform import inform_info
from ibkeys.umad.port import UmadPort

RENEW_EVERY: Final = 10.0
"""Seconds between two renewals. For this time Reports may be missed after a restart of the SM."""
RETRY_EVERY: Final = 1.0
"""Seconds between two reads of MasterSMLID, and between two attempts while no SA answers."""
_NO_SUCH: Final = SaStatus.REQUEST_INVALID
"""OpenSM's status for a request to end a subscription that does not exist, because OpenSM was restarted since."""


class Subscriber:
    """Subscribes to *traps* through *umad* and returns the Reports. A context manager; not thread-safe.

    ``port``: the port that other code has to use in place of *umad* at the same time (`ibkeys.open(subscriber.port)`).
    It removes the Reports from the received MADs and answers them. *sm_key*: OpenSM's sa_key. *sm_lid*: returns the LID
    of the SA now; by default MasterSMLID as this host has it. *renew_every*: seconds between two renewals. *timing* and
    *pkey_index*: as for `SaClient`.

    ``trouble``: why there is no subscription now, None while there is one. ``renewals``: how many times the
    subscriptions were made again after trouble or at another LID. ``ask_sm_lid``: returns the LID in place of *sm_lid*
    while there is trouble, because this host may not know a new master yet; None: *sm_lid* is used.
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
        self._last_lid = 0
        self._next_renewal = self._next_lid_check = 0.0

    @property
    def sm_lid(self) -> int:
        """The LID of the SA that was asked last for the subscriptions; 0 before the first time."""
        return self.port.sm_lid

    @property
    def is_full_member(self) -> bool:
        """Whether this port is a full member of the default partition, by the P_Keys that this host shows.

        OpenSM sends a subscriber only Reports about ports that share a P_Key with it, and two limited members share
        none (IBA 13.4.11; opensm osm_inform.c). Raises TransportError, ClosedError.
        """
        return DEFAULT_FULL in self.port.attributes().pkeys

    def subscribe(self) -> None:
        """Register the agent and subscribe to all of ``traps``; after an error there is no subscription.

        Raises AgentRefused if another program on this port receives the Reports; MadStatusError (0x0200: OpenSM
        requires its sa_key), NoReply (OpenSM does not answer a wrong key), Unreachable, SendRefused, MalformedMad,
        TransferFailed, UsageError; EncodeError for a trap number of more than 16 bits; TransportError and ClosedError
        if the local port cannot be used.
        """
        try:
            self._subscribe_all(self._timing)
        except IbkeysError:
            self.close()
            raise
        self._schedule(self._renew_every)

    def poll(self, timeout: float) -> list[TrapReport]:
        """Return the Reports that were received, as soon as there are any; [] if none came in *timeout* seconds.

        It renews subscriptions that are due, and subscribes again after ``trouble``. If no SA answers it may take
        longer than *timeout*: by all attempts of one request (`Timing`) when the trouble begins, and then by one
        attempt. Raises TransportError or ClosedError if the local port can no longer be used.
        """
        deadline = self.port.now() + timeout
        while True:
            self._renew_if_due()
            reports = self.port.take()
            now = self.port.now()
            if reports or now >= deadline:
                return reports
            # Received MADs that are no Reports are late answers, for which no request waits any more.
            self.port.recv(max(0.0, min(deadline, self._next_lid_check, self._next_renewal) - now))

    def close(self) -> IbkeysError | None:
        """End the subscriptions and leave the port open. Returns why the SA did not confirm it; None if it did, or if
        there was no subscription.

        After an error the subscriptions end nevertheless: an SM that ended has none any more, and an SA that did not
        receive the request gives up after some Reports without an answer.
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
        if now < self._next_lid_check and now < self._next_renewal:
            return
        self._next_lid_check = now + RETRY_EVERY
        if now < self._next_renewal and self._current_lid() == self._last_lid:
            return
        before = self.sm_lid if self.trouble is None else 0
        # One attempt if the last subscription failed: a missing SM must not delay the caller of `poll`.
        timing = self._timing if self.trouble is None else Timing(self._timing.timeout, 0)
        try:
            self._subscribe_all(timing)
        except TransportError:
            raise
        except IbkeysError as error:
            self.trouble = error
            self._schedule(RETRY_EVERY)
            return
        self.trouble = None
        self.renewals += before != self.sm_lid
        self._schedule(self._renew_every)

    def _schedule(self, seconds: float) -> None:
        now = self.port.now()
        self._next_renewal, self._next_lid_check = now + seconds, now + min(seconds, RETRY_EVERY)

    def _subscribe_all(self, timing: Timing) -> None:
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
                # libumad2sim cannot refuse the agent, so `ibkeys sim serve` refuses the subscription.
                raise reports_taken_error(self.port, error.errno) from error
            if trap not in self._subscribed:
                self._subscribed.append(trap)

    def _lid_now(self) -> int:
        """Return the LID of the SA: that of the last subscription, unless this host has a new one, or there is trouble
        and ``ask_sm_lid`` is set."""
        before, self._last_lid = self._last_lid, self._current_lid()
        if self.trouble is not None and self.ask_sm_lid is not None:
            return self.ask_sm_lid()
        return self.sm_lid if before == self._last_lid and self.sm_lid else self._last_lid

    def _client(self, timing: Timing) -> SaClient:
        return SaClient(self.port, timing, self._sm_key, self.sm_lid or None, self._pkey_index)
