"""The main loop of a watch: receive Reports or follow OpenSM's log, sweep periodically, and report new events.

One thread. The sweeps use the subscriber's port, so a Report that comes in the meantime is answered at once, and
reported during the sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from ibkeys.client.report_port import TrapReport
from ibkeys.client.reports import Subscriber
from ibkeys.errors import ClosedError, IbkeysError, TransportError
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.probes import read_constraint_errors
from ibkeys.printable import counted
from ibkeys.store.lock import holder_of
from ibkeys.store.sqlite import timestamp, utc_now
from ibkeys.topology.model import Topology
from ibkeys.watch.counters import CounterReadings
from ibkeys.watch.event import Event
from ibkeys.watch.folding import Folder
from ibkeys.watch.following import FollowedFile
from ibkeys.watch.log_events import event_of_log
from ibkeys.watch.names import Names
from ibkeys.watch.notices import event_of_report
from ibkeys.watch.opensm_log import LogReader
from ibkeys.watch.own_messages import LIMITED, ConditionMessages
from ibkeys.watch.policy import PartitionNames

TURN: Final = 0.5
"""The longest time in seconds that one turn of the loop waits: so soon signals, the log and commands are processed."""
NAMES_AGAIN: Final = 60.0
"""Seconds between two sweeps for names where counters are not read."""
LOOK_AGAIN: Final = 5.0
"""Seconds between two checks whether another command still changes keys."""
AT_ONCE: Final = 1000
"""Reports that are processed before the port is checked again: a few hundredths of a second."""


class EventSink(Protocol):
    """The receiver of a watch's events and messages."""

    def tell(self, event: Event) -> None:
        """Report an event, or the count of an event that was reported before. ``count`` and ``since`` cover all its
        occurrences.
        """

    def say(self, text: str) -> None:
        """Report a condition of the watch itself: a sweep that failed, a subscription that was lost or is back."""

    def turn(self) -> None:
        """Do the sink's regular work. It is called at every turn of the loop, at least twice a second except during
        sweeps. It may raise to end the watch.
        """


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """The settings of a watch.

    ``interval``: seconds between two readings of the counters, 0 for none. ``again``: seconds after which repeats of an
    event are reported as a count. ``most_events``, ``seconds``: the watch ends after so many events or seconds; None
    for no limit. ``pkey_index``: as in `LiveFabric.read_port_counters`.
    """

    interval: float = 60.0
    again: float = 60.0
    most_events: int | None = None
    seconds: float | None = None
    pkey_index: int | None = None


@dataclass(slots=True)
class Summary:
    """The totals of a watch. ``told``: how many events and counts were reported. ``folded``: how many repeats were only
    counted. ``lost``: how many Reports were lost because they came faster than they could be processed.
    """

    told: int = 0
    folded: int = 0
    reports: int = 0
    lost: int = 0
    sweeps: int = 0
    failed_sweeps: int = 0


@dataclass(eq=False, repr=False)
class Watch:
    """Watches *fabric* and reports events to *outlet*.

    *subscriber*: must be subscribed already, and *fabric* must use its port. With None no Reports are received. *log*:
    OpenSM's log, if that is followed. *partitions*: names for P_Keys. *pause*: lets as many seconds of real time pass
    as a turn waited; for a simulated subnet, whose time passes at once. Not thread-safe.
    """

    fabric: LiveFabric
    outlet: EventSink
    settings: WatchSettings
    subscriber: Subscriber | None = None
    log: FollowedFile | None = None
    partitions: PartitionNames | None = None
    clock: Callable[[], datetime] = utc_now
    pause: Callable[[float], None] = lambda seconds: None

    def __post_init__(self) -> None:
        self.summary = Summary()
        self.names, self.counters = Names(), CounterReadings()
        self.folder, self._log_reader = Folder(self.settings.again), LogReader()
        self._say = ConditionMessages(self.outlet.say).of
        self._swept_at = self._next_sweep = self._started_at = self._now()

    def start(self) -> None:
        """Sweep once, for names and the current counters. Raises the errors of `LiveFabric.sweep`."""
        self._started_at = self._now()
        self._take_sweep(self._sweep())

    def run(self) -> None:
        """Watch until a limit of the settings is reached, or `EventSink.turn` raises.

        Raises TransportError and ClosedError when the local port can no longer be used.
        """
        while not self._is_over():
            self.outlet.turn()
            self._hear(self._next_wait())
            if self.settings.interval and self._now() >= self._next_sweep:
                self._sweep_again()
            self._tell_all(self.folder.due(self._now()))

    def finish(self) -> Summary:
        """Report the events that were only counted, and return the totals of the watch."""
        self._tell_all(self.folder.due(self._now(), all_of_it=True))
        self.summary.folded = self.folder.folded
        if self.subscriber is not None:
            self.summary.lost = self.subscriber.port.lost
        return self.summary

    def _now(self) -> float:
        return self.fabric.umad.now()

    def _is_over(self) -> bool:
        seconds = self.settings.seconds
        return self._has_reported_enough() or (seconds is not None and self._now() - self._started_at >= seconds)

    def _has_reported_enough(self) -> bool:
        most = self.settings.most_events
        return most is not None and self.summary.told >= most

    def _next_wait(self) -> float:
        ends = [TURN]
        if self.settings.interval:
            ends.append(self._next_sweep - self._now())
        if self.settings.seconds is not None:
            ends.append(self._started_at + self.settings.seconds - self._now())
        return max(0.0, min(ends))

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _hear(self, seconds: float) -> None:
        """Wait for Reports and for lines of the log, and process them."""
        if self.log is not None and self.log.is_behind:
            seconds = 0.0
        self.pause(seconds)
        if self.subscriber is not None:
            self.take_reports(self.subscriber.poll(seconds))
            trouble = self.subscriber.trouble
            self._say("subscription", f"traps may be missed: {trouble}" if trouble else "", "trouble")
            if self.subscriber.port.lost:
                self._say("lost", "more Reports arrive than can be processed: some were lost, and counts are too low")
            if self.subscriber.port.strangers:
                self._say("strangers", "Reports arrive from a port that is not the SA's: they are ignored")
        else:
            self.fabric.umad.recv(seconds)  # no query is open now: this only lets the time pass
        if self.log is not None:
            self._follow(self.log)

    def take_reports(self, reports: Sequence[TrapReport], looks: bool = True) -> None:
        """Report the events of *reports*. With *looks*, sweep first if the names of the last sweep do not suffice."""
        for first in range(0, len(reports), AT_ONCE):
            self._tell_of(reports[first : first + AT_ONCE], looks)
            self.fabric.umad.recv(0)  # Reports in the meantime are answered, otherwise the SA would send them again

    def _tell_of(self, reports: Sequence[TrapReport], looks: bool) -> None:
        self.summary.reports += len(reports)
        self._take_named(lambda: [self._event_of(report) for report in reports], looks)

    def _event_of(self, report: TrapReport) -> Event:
        ago = timedelta(seconds=max(0.0, self._now() - report.at))
        return event_of_report(report, self.names, timestamp(lambda: self.clock() - ago))

    def _follow(self, log: FollowedFile, patience: float = 1.0, looks: bool = True) -> None:
        """Report events of new lines of the log. *patience*: seconds that the first line of a trap may wait for the
        others; *looks*: as in `take_reports`."""
        now, wall = self._now(), self.clock()
        notices = [notice for line in log.new_lines() for notice in self._log_reader.take(line, now)]
        notices += self._log_reader.overdue(now - patience)
        self._say("log", f"{log.path}: {log.problem}" if log.problem else "")
        self._take_named(lambda: [event_of_log(notice, self.names, wall) for notice in notices], looks)

    def _take_named(self, named: Callable[[], list[Event]], looks: bool) -> None:
        """Report the events from *named*, with the names of the last sweep; *looks*: as in `take_reports`."""
        events = named()
        if looks and self._may_look_for_names():
            self._sweep_again()
            events = named()
        self._take(events)

    def _may_look_for_names(self) -> bool:
        """Return whether names are missing in the last sweep, and it is old enough for another.

        Anyone can send packets that make traps with unknown LIDs, so they cause no more sweeps than `_sweep` allows.
        """
        due = max(self._next_sweep, self._swept_at + (self.settings.interval or NAMES_AGAIN))
        return self.names.misses > 0 and self._now() >= due

    # --- sweeping ------------------------------------------------------------------------------------------------

    def _sweep_again(self) -> None:
        """Sweep for names and counters. If the sweep fails, this is reported, and the former names and counters stay.

        Keys may have been changed by another command: with the former keys each port would count a violation. While a
        command still changes them, no query is sent.
        """
        try:
            if self._is_being_changed():
                return
            self.fabric.reload_keys()
            found = self._sweep()
        except (TransportError, ClosedError):
            raise
        except IbkeysError as error:
            self.summary.failed_sweeps += 1
            # After an error before the sweep, such as an unreadable key store, the next sweep has no new time yet.
            self._next_sweep = max(self._next_sweep, self._now() + (self.settings.interval or NAMES_AGAIN))
            self._say("sweep", f"the sweep failed; names and counters stay as they were: {error}")
            return
        self._take_sweep(found)

    def _is_being_changed(self) -> bool:
        """Return whether a command of this host has the lock of the key store; then the sweep is put off."""
        stores = self.fabric.stores
        holder = holder_of(stores.journal, stores.keystore)
        doing = f"no names and no counters are read while another command may change keys ({holder})"
        self._say("change", doing if holder else "")
        if holder:
            self._swept_at = self._now()
            self._next_sweep = self._swept_at + min(self.settings.interval or NAMES_AGAIN, LOOK_AGAIN)
        return bool(holder)

    def _sweep(self) -> Topology:
        began = self._now()
        try:
            found = self.fabric.sweep(progress=self._meanwhile)
        finally:
            # The interval counts from the beginning of a sweep. But after a long sweep, the fabric is left alone for at
            # least the time that the sweep took.
            self._swept_at = began
            self._next_sweep = max(began + self.settings.interval, 2 * self._now() - began)
        self.summary.sweeps += 1
        return found

    def _meanwhile(self, _nodes: int, _ports: int) -> None:
        """Report events while a sweep runs, with the names of the last one; the sweep itself receives the MADs."""
        self.outlet.turn()
        if self.subscriber is not None and self.summary.sweeps:
            self._tell_of(self.subscriber.port.take(), looks=False)

    def _take_sweep(self, found: Topology) -> None:
        self.names.learn(found)
        unread = ""
        if found.troubles:
            first = found.troubles[0]
            what = counted(len(found.troubles), "thing")
            unread = (
                f"the last sweep could not read {what}, so names and counters have gaps; {first.port}: {first.error}"
            )
        self._say("sweep", unread, len(found.troubles))
        if self.partitions is not None:
            self._say("policy", self.partitions.read_again(), "")
        if self.subscriber is not None:
            self._say("membership", "" if self.subscriber.is_full_member else LIMITED)
        if self.settings.interval:
            self._read_counters(found)

    def _read_counters(self, found: Topology) -> None:
        errors = read_constraint_errors(self.fabric, found, self.settings.pkey_index)
        # an event that a trap reported is not reported by its counter too
        if self.subscriber is not None:
            self.take_reports(self.subscriber.port.take(), looks=False)
        if self.log is not None:
            self._follow(self.log, patience=0, looks=False)
        self._take(self.counters.compare(found, errors, timestamp(self.clock)))

    # --- reporting ----------------------------------------------------------------------------------------------------

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.source != "counters":
                self.counters.record_trap(event)
            named = self.partitions.named(event) if self.partitions is not None else event
            new = self.folder.take(named, self._now())
            if new is not None:
                self._tell_all([new])

    def _tell_all(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._has_reported_enough():
                return
            self.summary.told += 1
            self.outlet.tell(event)
