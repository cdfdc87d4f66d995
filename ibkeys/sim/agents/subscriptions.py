"""Subscriptions to traps, and Reports to the subscribers, by the rules of OpenSM's SA (IBA 13.4.8 to 13.4.11).

Source: osm_sa_informinfo.c, osm_inform.c. OpenSM requires an SM_Key for a subscription to one of the traps 256 to 259
by its number. It accepts a subscription to all traps (a wildcard) from an untrusted requester, and then sends these
traps too; with ``refuses_wildcards`` the SA refuses that. A Report is sent again until a ReportResp comes, as the
kernel under OpenSM does with OpenSM's default options.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.const import GSI_QP, SECURITY_TRAPS, AttributeID, MadStatus, Method, SaStatus
from ibkeys.mad.inform import ALL_LIDS, ALL_PRODUCERS, ALL_TRAPS, ALL_TYPES, InformInfo, ReportNotice
from ibkeys.mad.notice import Notice
from ibkeys.mad.sa import build_sa
from ibkeys.sim.agents.sa_records import RecordSource, shares_p_key
from ibkeys.sim.nodes import SimPort

REPORT_AGAIN_AFTER: Final = 0.2
REPORT_RETRIES: Final = 3
"""The defaults of OpenSM's options transaction_timeout, in seconds, and transaction_retries."""
_FIRST_ID: Final = 0x0000_0002_02DA_B001
"""The first TransactionID of OpenSM; its upper half is the number of the agent in its kernel."""


@dataclass(slots=True)
class _OpenReport:
    """A Report that waits for the response of ``subscriber``. ``due``: the time at which it is sent again;
    ``retries_left``: how often it may be sent again."""

    subscriber: SimPort
    mad: bytes
    due: float
    retries_left: int = REPORT_RETRIES


class Subscriptions:
    """The subscriptions of the SA at the port *home*. *source*: shows the ports of the subnet."""

    def __init__(self, home: SimPort, source: RecordSource) -> None:
        self.refuses_wildcards = False
        self._home = home
        self._source = source
        self._subscriptions: list[tuple[SimPort, InformInfo]] = []
        self._open_reports: dict[int, _OpenReport] = {}
        self._next_id = _FIRST_ID

    def __len__(self) -> int:
        return len(self._subscriptions)

    def set(self, info: InformInfo, requester: SimPort, trusted: bool) -> int:
        """Execute a Set(InformInfo) of *requester*, and return the status. *trusted*: it has the SM_Key."""
        if info.subscribe > 1:
            return SaStatus.REQUEST_INVALID
        subscription = requester, info.replace(subscribe=1, resp_time_value=0)
        if not info.subscribe:  # It ends only with the QPN of the subscription.
            if subscription not in self._subscriptions:
                return SaStatus.REQUEST_INVALID
            self._subscriptions.remove(subscription)
            return MadStatus.OK
        needs_trust = info.trap_number in SECURITY_TRAPS or (self.refuses_wildcards and info.trap_number == ALL_TRAPS)
        if (needs_trust and not trusted) or not self._may_subscribe_to(requester, info):
            return SaStatus.REQUEST_INVALID
        subscription = (
            requester,
            subscription[1].replace(qpn=GSI_QP),
        )  # The QP of the MAD counts, not that in the InformInfo.
        if subscription not in self._subscriptions:
            self._subscriptions.append(subscription)
        return MadStatus.OK

    def _may_subscribe_to(self, requester: SimPort, info: InformInfo) -> bool:
        """Return whether *requester* shares a P_Key with each port that *info* names. A GID that no port has is
        refused."""
        if info.gid:
            named = [port for port in self._source.end_ports(None) if port.gid == info.gid]
            return bool(named) and all(shares_p_key(requester, port) for port in named)
        if info.lid_range_begin == ALL_LIDS:
            return True
        lids = range(info.lid_range_begin, info.lid_range_end + 1)
        return all(shares_p_key(requester, port) for port in self._source.end_ports(None) if port.lid in lids)

    def make_reports(self, notice: Notice, issuer: SimPort, now: float) -> list[tuple[SimPort, bytes]]:
        """Return the Reports of a trap from *issuer*, each as (port of the subscriber, MAD).

        A subscription is deleted if its subscriber no longer shares a P_Key with the issuer, unless its LIDRangeBegin
        is 0xFFFF.
        """
        reports = []
        for entry in list(self._subscriptions):
            subscriber, info = entry
            if not _matches(info, notice, issuer):
                continue
            if shares_p_key(subscriber, issuer):
                reports.append((subscriber, self._report(notice, issuer, subscriber, now)))
            elif info.lid_range_begin != ALL_LIDS:
                self._subscriptions.remove(entry)
                self._home.record("subscription-deleted", subscriber=str(subscriber))
        return reports

    def _report(self, notice: Notice, issuer: SimPort, subscriber: SimPort, now: float) -> bytes:
        reported = ReportNotice(notice.raw + bytes(16)).replace(issuer_gid=issuer.gid)
        mad = build_sa(Method.REPORT, AttributeID.NOTICE, data=reported.raw, transaction_id=self._next_id)
        self._open_reports[self._next_id] = _OpenReport(subscriber, mad, now + REPORT_AGAIN_AFTER)
        self._next_id += 1
        self._home.record("report", number=notice.trap_number, to=str(subscriber))
        return mad

    def acknowledge(self, mad: bytes, sender: SimPort) -> None:
        """Process the ReportResp *mad*. It must have the whole TransactionID of a Report to *sender*; others are
        ignored."""
        number = int.from_bytes(mad[at.TRANSACTION_ID])
        report = self._open_reports.get(number)
        if report is not None and report.subscriber is sender:
            del self._open_reports[number]
            self._home.record("report-acknowledged", by=str(sender))

    def next_timer(self) -> float | None:
        """Return the time at which `resend` is due; None if every Report is acknowledged."""
        return min((report.due for report in self._open_reports.values()), default=None)

    def resend(self, now: float) -> Iterator[tuple[SimPort, bytes]]:
        """Yield the Reports to send again at *now*, as (port of the subscriber, MAD). A Report without retries left is
        given up."""
        for number, report in list(self._open_reports.items()):
            if report.due > now:
                continue
            if not report.retries_left:
                del self._open_reports[number]
                self._home.record("report-given-up", to=str(report.subscriber))
                continue
            report.retries_left, report.due = report.retries_left - 1, now + REPORT_AGAIN_AFTER
            self._home.record("report-repeated", to=str(report.subscriber))
            yield report.subscriber, report.mad


def _matches(info: InformInfo, notice: Notice, issuer: SimPort) -> bool:
    """Return whether the subscription *info* matches a trap from *issuer*, without regard to P_Keys (osm_inform.c:
    match_notice_to_inf_rec)."""
    if info.gid:
        if info.gid != issuer.gid:
            return False
    elif info.lid_range_begin != ALL_LIDS and not info.lid_range_begin <= notice.issuer_lid <= info.lid_range_end:
        return False
    return (
        info.is_generic == notice.is_generic
        and info.type in (ALL_TYPES, notice.type)
        and info.trap_number in (ALL_TRAPS, notice.trap_number)
        and info.producer_type in (ALL_PRODUCERS, notice.producer_type)
    )
