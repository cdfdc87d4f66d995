"""Recovering ports whose M_Key is lost (IBA 14.2.4): with a stored key if one fits, else by waiting for the lease.

1. The survey reads all readable ports and finds those that are silent or hide a key. It sends one Get to each silent
   port.
2. The interlock ``mkey-under-sm`` is checked: an SM that knows the keys stops the lease timers with every SMP it sends.
3. Keys that may fit are tried: further keys of the key store, those of key files, and those that the user gave.
4. The leases of all other ports are started and waited for (`ibkeys.mkeys.recovery.search`). When a lease has run out,
   the ProtectBits of the port are 0, and the port shows its key to everybody.
5. A key that was found goes into the key store before it is used. Then, if the user wants it, a new key, ProtectBits or
   lease are set by `ibkeys.mkeys.set`.

A port whose lease is 0 never opens by itself. The results name the ports that stay closed, and the ports that are
reached only through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from ibkeys.arguments import require
from ibkeys.change.consent import Objection
from ibkeys.change.images import image_of
from ibkeys.change.interlocks.m_keys import objections_to_leases_under_sm
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.bounds import limit_notes
from ibkeys.mkeys.recovery.found_keys import FoundKeys
from ibkeys.mkeys.recovery.outlook import Outlook, outlook_of
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.mkeys.recovery.result import OnResult, OnStatus, RecoveryResult, RecoverySummary, Status
from ibkeys.mkeys.recovery.routes import LinkMap
from ibkeys.mkeys.recovery.search import Search
from ibkeys.mkeys.recovery.still_closed import StillClosed
from ibkeys.store.cut_off_operations import close_cut_off, is_any_cut_off
from ibkeys.store.journal import Journal, JournalEntry, RunningOperation
from ibkeys.store.private_files import is_there
from ibkeys.topology.nodes import Port

_LEAST_PAUSE: Final = 0.05
"""Minimum time between two rounds of Gets, in seconds."""
_TICK: Final = 1.0
"""Seconds between two updates of the progress bar."""


class Recovery:
    """One recovery. `plan_recovery` makes it, and calls `survey`."""

    def __init__(self, writer: ChangeWriter, links: LinkMap, options: RecoveryOptions) -> None:
        fabric = writer.fabric
        self.writer = writer
        self.options = options
        self.search = Search(fabric.client, fabric.ring, links, fabric.node_names, options.wait)
        self.summary = RecoverySummary()
        self._started = self.search.now
        self._spares = fabric.ring.spares
        self._keys = FoundKeys(writer, self.search.waiting, options)

    # --- before ------------------------------------------------------------------------------------------------------

    def survey(self) -> None:
        """Read the ports that can be read, and find the ports that are silent or hide their key. Raises TransportError,
        StoreError."""
        ring = self.writer.fabric.ring
        ring.spares = {}  # further keys are tried after the user has seen the cost
        try:
            self.search.survey()
        finally:
            ring.spares = self._spares
        self.search.waiting.leases |= self._stored_leases()
        self.search.waiting.add_routes()
        self._keys.collect()

    def _stored_leases(self) -> set[int]:
        """Return the leases in the key store, in seconds, without 0: ibkeys has set these on ports."""
        path = self.writer.fabric.stores.keystore
        if path is None or not is_there(path, "key store"):
            return set()
        return {row.m_key_lease_period for row in self.writer.keystore.rows() if row.m_key_lease_period}

    def limits_reached(self) -> list[str]:
        """Return a note for each limit that was reached so far, with the part of the fabric that was not examined."""
        return limit_notes(self.search.found, self.writer.fabric.client.limits)

    def outlook(self) -> Outlook:
        """Return the ports that `run` would work on, and its maximum cost."""
        spares = max(map(len, self._spares.values()), default=0)
        return outlook_of(self.search, self.options, self._keys.count_new(), spares)

    def objections(self) -> list[Objection]:
        """Return the objections to the recovery; an empty list if no port has to be waited for, and no value is to be
        set on a port. Looks for the master SM."""
        waiting, writer = self.search.waiting, self.writer
        if not (waiting.silent or waiting.hiding or (self.options.sets_something and not self.outlook().is_empty)):
            return []
        writer.fabric.swept = waiting.found  # the SM is looked for there, and not by another sweep with all keys
        for port in waiting.found.end_ports():
            writer.note_master_sm_lid(writer.fabric.handle(port))
        # At most two attempts: leases run in the meantime.
        writer.ask_subnet_manager(own_answers=not self.search.own_is_silent, retries=1)
        managers = [port for port in waiting.found.end_ports() if port.is_sm]
        return objections_to_leases_under_sm(writer, managers)

    # --- doing it ----------------------------------------------------------------------------------------------------

    def run(self, on_result: OnResult, on_status: OnStatus | None = None) -> RecoverySummary:
        """Recover the keys that can be recovered, and return the summary.

        *on_result*: called for each port as it is finished; *on_status*: called about once a second while ports are
        waited for. Ctrl-C ends the recovery early: the keys found so far are in the key store, leases that were started
        continue, and the summary says that it was interrupted. Raises Refused, TransportError, StoreError.
        """
        self.writer.check(Plan(self.writer.command, objections=self.objections()))
        summary, ring = self.summary, self.writer.fabric.ring
        ring.spares = {guid: keys[: self.options.tries] for guid, keys in self._spares.items()}
        try:
            with self.writer.journaled() as operation:
                journal_block = partial(_journal_block, operation)
                self._count(self._keys.store_new(), on_result)
                self.search.user_keys = self.options.try_keys[: self.options.tries]
                self.search.try_keys()
                self._count(self._keys.store_new(), on_result)
                self.search.start_leases(journal_block)
                self._count(self._keys.store_new(), on_result)
                while not self.search.is_over:
                    self.pause(on_status)
                    self.search.ask_due(journal_block)
                    self._count(self._keys.store_new(), on_result)
                self._keys.store_links()
                self._count(self._keys.change(operation), on_result)
        except KeyboardInterrupt:
            summary.interrupted = True
        finally:
            ring.spares = self._spares
            self._keys.store_links()
        self._count(self._keys.results_of_unchanged(), on_result)
        self._count(StillClosed(self.search.waiting, self.options, summary.interrupted).results(), on_result)
        summary.smps = self.search.smps
        summary.violations = self.search.violations
        summary.seconds = self.search.now - self._started
        if not (summary.interrupted or summary.failed):
            self.close_cut_off()
        return summary

    def close_cut_off(self) -> None:
        """Set earlier recoveries that were interrupted to done in the journal, if every port that they changed shows
        its key now, or has none. Raises StoreError."""
        command, path = self.writer.command, self.writer.fabric.stores.journal
        ports = [port for port in self.search.waiting.found.end_ports() if port.m_key_state in ("set", "zero")]
        if is_any_cut_off(path, [command]):
            with Journal(path) as journal:
                close_cut_off(journal, [command], "done", ports=[(port.node.guid, port.num) for port in ports])

    def pause(self, on_status: OnStatus | None) -> None:
        """Wait until a port is to be read again; *on_status* is called in the meantime."""
        search = self.search
        until = max(search.next_time(), search.now + _LEAST_PAUSE)
        while (left := until - search.now) > 0:
            if on_status is not None:
                opening = search.next_opening()
                on_status(
                    Status(
                        self.summary.done + len(self._keys.to_change),
                        len(search.waiting.silent) + len(search.waiting.hiding),
                        search.now - self._started,
                        None if opening is None else opening - search.now,
                    )
                )
            search.client.wait(min(left, _TICK) if on_status is not None else left)

    def _count(self, results: Iterable[RecoveryResult], on_result: OnResult) -> None:
        for result in results:
            name = result.result
            setattr(self.summary, name, getattr(self.summary, name) + 1)
            on_result(result)


def _journal_block(operation: RunningOperation, port: Port, block: bytes) -> JournalEntry:
    """Put into the journal, on disk, that the first block of P_Keys is about to be written back unchanged, and return
    the entry."""
    return operation.record_all([image_of(port, "P_KeyTable", 0, block, block)])[0]


def plan_recovery(
    writer: ChangeWriter, links: LinkMap | None = None, options: RecoveryOptions | None = None
) -> Recovery:
    """Survey the subnet for ports whose M_Key is not known, and return the recovery of their keys.

    *links*: the known links, as in `ibkeys.mkeys.recovery.routes`; None: those of the key ring. Sends only Gets, to a
    silent port only one. Raises TransportError, StoreError; UsageError for an argument of a wrong type.
    """
    require("writer", writer, ChangeWriter, "the writer of a ChangeRun")
    require("links", links, (Mapping, type(None)), "links by port")
    require("options", options, (RecoveryOptions, type(None)), "an ibkeys.mkeys.RecoveryOptions")
    recovery = Recovery(writer, writer.fabric.ring.neighbors if links is None else links, options or RecoveryOptions())
    recovery.survey()
    return recovery
