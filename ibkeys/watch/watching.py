"""The main loop of a watch: receive Reports or follow OpenSM's log, sweep periodically, and report new events.

One thread. The sweeps go through the subscriber's port, so a Report that comes in the meantime is answered at once, and
told in the middle of the sweep.
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
from ibkeys.watch.own_messages import LIMITED, Saying
from ibkeys.watch.policy import PartitionNames

TURN: Final = 0.5
"""Seconds that one turn of the loop waits at most: so soon signals, the log and commands are looked after."""
NAMES_AGAIN: Final = 60.0
"""Seconds between two sweeps for names where counters are not read."""
LOOK_AGAIN: Final = 5.0
"""Seconds between two looks whether another command still changes keys."""
AT_ONCE: Final = 1000
"""Reports that are told of before the port is checked again: a few hundredths of a second."""


class EventSink(Protocol):
    """Where a watch tells what it sees."""

    def tell(self, event: Event) -> None:
        """An event, or a count of one that was told before: ``count`` and ``since`` are of all of them."""

    def say(self, text: str) -> None:
        """Something about the watch itself: a sweep that failed, a subscription that was lost or is back."""

    def turn(self) -> None:
        """Called at every turn of the loop, at least twice a second but for sweeps. May raise to end the watch."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """``interval``: seconds between two readings of the counters, 0 for none. ``again``: seconds after which repeats of
    an event are told as a count. ``most_events``, ``seconds``: end after so many, None for never. ``pkey_index``: as in
    `LiveFabric.read_port_counters`."""

    interval: float = 60.0
    again: float = 60.0
    most_events: int | None = None
    seconds: float | None = None
    pkey_index: int | None = None


@dataclass(slots=True)
class Summary:
    """What a watch did. ``told``: events and counts that were told; ``folded``: repeats that were counted only;
    ``lost``: Reports that came faster than they could be taken."""

    told: int = 0
    folded: int = 0
    reports: int = 0
    lost: int = 0
    sweeps: int = 0
    failed_sweeps: int = 0


@dataclass(eq=False, repr=False)
class Watch:
    """Watches *fabric* and tells *outlet* what happens.

    *subscriber*: subscribed already, with its port beneath *fabric*; None hears no Reports. *log*: OpenSM's log, where
    that is followed. *partitions*: names for P_Keys. Not thread-safe.
    """

    fabric: LiveFabric
    outlet: EventSink
    settings: WatchSettings
    subscriber: Subscriber | None = None
    log: FollowedFile | None = None
    partitions: PartitionNames | None = None
    clock: Callable[[], datetime] = utc_now

    def __post_init__(self) -> None:
        self.summary = Summary()
        self.names, self.counters = Names(), CounterReadings()
        self.folder, self._log_reader = Folder(self.settings.again), LogReader()
        self._say = Saying(self.outlet.say).of
        self._swept_at = self._next_sweep = self._started_at = self._now()

    def start(self) -> None:
        """Sweep once: names, and what the counters are now. Raises as `LiveFabric.sweep`."""
        self._started_at = self._now()
        self._take_sweep(self._sweep())

    def run(self) -> None:
        """Watch until the settings say that it is enough, or `EventSink.turn` raises.

        Raises TransportError and ClosedError when the local port can no longer be used.
        """
        while not self._is_over():
            self.outlet.turn()
            self._hear(self._next_wait())
            if self.settings.interval and self._now() >= self._next_sweep:
                self._sweep_again()
            self._tell_all(self.folder.due(self._now()))

    def finish(self) -> Summary:
        """Tell what was counted and not told yet, and return what the watch did."""
        self._tell_all(self.folder.due(self._now(), all_of_it=True))
        self.summary.folded = self.folder.folded
        if self.subscriber is not None:
            self.summary.lost = self.subscriber.port.lost
        return self.summary

    def _now(self) -> float:
        return self.fabric.umad.now()

    def _is_over(self) -> bool:
        seconds = self.settings.seconds
        return self._has_told_enough() or (seconds is not None and self._now() - self._started_at >= seconds)

    def _has_told_enough(self) -> bool:
        most = self.settings.most_events
        return most is not None and self.summary.told >= most

    def _next_wait(self) -> float:
        ends = [TURN]
        if self.settings.interval:
            ends.append(self._next_sweep - self._now())
        if self.settings.seconds is not None:
            ends.append(self._started_at + self.settings.seconds - self._now())
        return max(0.0, min(ends))

    # --- hearing -------------------------------------------------------------------------------------------------

    def _hear(self, seconds: float) -> None:
        """Wait for Reports and for lines of the log, and take what comes."""
        if self.log is not None and self.log.is_behind:
            seconds = 0.0
        if self.subscriber is not None:
            self.take_reports(self.subscriber.poll(seconds))
            trouble = self.subscriber.trouble
            self._say("subscription", f"traps may be missed: {trouble}" if trouble else "", "trouble")
            if self.subscriber.port.lost:
                self._say("lost", "more Reports arrive than can be processed: some were lost, and counts are too low")
            if self.subscriber.port.strangers:
                self._say("strangers", "Reports arrive from a port that is not the SA's: they are ignored")
        else:
            self.fabric.umad.recv(seconds)  # nobody is asked anything now: it only lets the time pass
        if self.log is not None:
            self._follow(self.log)

    def take_reports(self, reports: Sequence[TrapReport], looks: bool = True) -> None:
        """Tell of *reports*; with *looks* after a new sweep where the names of the last one do not suffice."""
        for first in range(0, len(reports), AT_ONCE):
            self._tell_of(reports[first : first + AT_ONCE], looks)
            self.fabric.umad.recv(0)  # what comes in the meantime is answered, or the SA would send it again

    def _tell_of(self, reports: Sequence[TrapReport], looks: bool) -> None:
        self.summary.reports += len(reports)
        self._take_named(lambda: [self._event_of(report) for report in reports], looks)

    def _event_of(self, report: TrapReport) -> Event:
        ago = timedelta(seconds=max(0.0, self._now() - report.at))
        return event_of_report(report, self.names, timestamp(lambda: self.clock() - ago))

    def _follow(self, log: FollowedFile, patience: float = 1.0, looks: bool = True) -> None:
        """Tell of new lines of the log. *patience*: seconds that the first line of a trap may wait for the rest;
        *looks*: as in `take_reports`."""
        now, wall = self._now(), self.clock()
        notices = [notice for line in log.new_lines() for notice in self._log_reader.take(line, now)]
        notices += self._log_reader.overdue(now - patience)
        self._say("log", f"{log.path}: {log.problem}" if log.problem else "")
        self._take_named(lambda: [event_of_log(notice, self.names, wall) for notice in notices], looks)

    def _take_named(self, named: Callable[[], list[Event]], looks: bool) -> None:
        """Tell of what *named* returns, with the names of the last sweep; *looks*: as in `take_reports`."""
        events = named()
        if looks and self._may_look_for_names():
            self._sweep_again()
            events = named()
        self._take(events)

    def _may_look_for_names(self) -> bool:
        """Whether there are names that the last sweep does not have, and it is old enough for another."""
        return self.names.misses > 0 and self._now() - self._swept_at >= (self.settings.interval or NAMES_AGAIN)

    # --- sweeping ------------------------------------------------------------------------------------------------

    def _sweep_again(self) -> None:
        """Sweep; a sweep that fails is reported, and leaves names and counters as they were.

        Keys may have been changed by another command: with the former ones each port would count a violation. While
        one still changes them, nobody is asked.
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
            self._say("sweep", f"the sweep failed; names and counters stay as they were: {error}")
            return
        self._take_sweep(found)

    def _is_being_changed(self) -> bool:
        """Whether a command of this host has the lock of the key store; then the sweep is put off."""
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
            # counted from its beginning, but a sweep that takes long leaves the fabric alone for as long again
            self._swept_at = began
            self._next_sweep = max(began + self.settings.interval, 2 * self._now() - began)
        self.summary.sweeps += 1
        return found

    def _meanwhile(self, _nodes: int, _ports: int) -> None:
        """Go on telling while a sweep runs, with the names of the last one; what comes in is the sweep's to receive."""
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
        # what is told by a trap is not told by its counter too
        if self.subscriber is not None:
            self.take_reports(self.subscriber.port.take(), looks=False)
        if self.log is not None:
            self._follow(self.log, patience=0, looks=False)
        self._take(self.counters.compare(found, errors, timestamp(self.clock)))

    # --- telling -------------------------------------------------------------------------------------------------

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.source != "counters":
                self.counters.told(event)
            named = self.partitions.named(event) if self.partitions is not None else event
            new = self.folder.take(named, self._now())
            if new is not None:
                self._tell_all([new])

    def _tell_all(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._has_told_enough():
                return
            self.summary.told += 1
            self.outlet.tell(event)
