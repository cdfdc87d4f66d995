"""The writer, which wraps every change: lock, interlocks, a second check of the links, and the journal operation.

A writer belongs to one changing command. It holds the lock on journal and key store, the user's consent, and the master
SM once it was looked for. The plan has the changes; the engine reads, sets and verifies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar

from ibkeys.change.consent import Consent, Objection
from ibkeys.change.interrupts import ExplainedInterrupt
from ibkeys.change.next_commands import commands_of_open
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import IbkeysError, NoReply, Refused
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.live import LiveFabric
from ibkeys.fabric.subnet_manager import find_subnet_manager
from ibkeys.host.lock_holder import LockHolder
from ibkeys.printable import counted
from ibkeys.store.journal import Journal, RunningOperation
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.lock import exclusive
from ibkeys.store.moving_runs import has_run_to_move, move_run
from ibkeys.store.origin import Origin, this_process
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.subnet_manager import SubnetManager

Entered = TypeVar("Entered")
Failed = TypeVar("Failed", bound=IbkeysError)


class Planned(Protocol):
    """The interface of a change to the writer; see `ibkeys.change.plan.Plan`."""

    @property
    def objections(self) -> list[Objection]:
        """The interlocks that it triggers."""

    @property
    def pending(self) -> bool:
        """Whether anything would change."""

    @property
    def rechecks_links(self) -> bool:
        """Whether it leaves out ports whose links cannot be examined again, instead of being refused."""

    def ports(self) -> list[Port]:
        """Return the ports whose links are examined before the first Set."""

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation | None:
        """Return the operation of *journal* that the change reopens or begins itself; None: the writer begins a new
        one."""

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Make the change; called once, after all checks, while *operation* is open."""


class ChangeWriter:
    """One changing command on one open fabric; use it as a context manager.

    With *dry_run* nothing is locked or created, and only Gets are sent. ``sends_keys``: the change puts an M_Key on a
    port, so its links are checked again although no key is known yet. ``subnet_manager``: the facts about the master
    SM, None until it is looked for. ``host_locks``: the files of OpenSMs beside which the writer holds a lock, each
    with its host. ``managers``: the SMs of the subnet, port GUID → port, once OpenSMs were looked for; the journal
    keeps them. *options*: the options of the command, for the journal, without any key. ``continued``: the operation
    that is resumed or undone, None for a new one. Raises StoreLocked when another command is changing.
    """

    def __init__(
        self,
        fabric: LiveFabric,
        command: str,
        consent: Consent | None = None,
        dry_run: bool = False,
        options: Sequence[str] = (),
        continued: int | None = None,
    ) -> None:
        self.fabric = fabric
        self.command = command
        self.consent = consent or Consent()
        self.dry_run = dry_run
        self.options = tuple(options)
        self.continued = continued
        self.master_sm_lids: list[int] = []
        self.sends_keys = False
        self.subnet_manager: SubnetManager | None = None
        self.host_locks: set[tuple[str, Path]] = set()
        self.managers: dict[str, str] = {}
        self._sweep_for_choice: Topology | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        stores = self.fabric.stores
        if not self.dry_run:
            self._stack.enter_context(exclusive(stores.journal, stores.keystore, command=self.command))
            self.fabric.reload_keys()  # The command that held the lock before may have changed keys.
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def enter(self, context: AbstractContextManager[Entered]) -> Entered:
        """Enter *context*, return its value, and keep it open until this writer is closed."""
        return self._stack.enter_context(context)

    @property
    def origin(self) -> Origin:
        """The user and host that make this change, the overridden interlocks, the options, and the SMs that were found,
        for the journal."""
        return this_process(self.consent.overridden, self.options, self.managers)

    @cached_property
    def lock_holder(self) -> LockHolder:
        """The text of this command's locks on OpenSM hosts. Raises StoreError."""
        with Journal(self.fabric.stores.journal) as journal:
            return lock_holder_of(journal, self.command)

    def sweep_for_choice(self, wanted: Wanted, progress: OnFound | None = None) -> Topology:
        """Sweep to choose the method of a change; the next call of `sweep` returns the same result. Raises as
        `LiveFabric.sweep`."""
        self._sweep_for_choice = self.fabric.sweep(wanted=wanted, progress=progress)
        return self._sweep_for_choice

    def sweep(self, wanted: Wanted | None = None, progress: OnFound | None = None) -> Topology:
        """Return the result of `sweep_for_choice` at the first call after it, else that of a new sweep. Raises as
        `Fabric.sweep`."""
        found, self._sweep_for_choice = self._sweep_for_choice, None
        return found or self.fabric.sweep(wanted=wanted, progress=progress)

    def ask_subnet_manager(self, own_answers: bool = True, retries: int | None = None) -> SubnetManager:
        """Return the facts about the master SM, as the local port and the ports that are to be changed name it. It is
        looked for once in a command. *own_answers*, *retries*: see `find_subnet_manager`, whose errors it raises."""
        if self.subnet_manager is None:
            self.subnet_manager = find_subnet_manager(self.fabric, self.master_sm_lids, own_answers, retries)
        return self.subnet_manager

    def holds_sm(self, port: Port) -> bool:
        """Return whether the master SM's LID is one of the LIDs of *port*, by its PortInfo. Looks for the master SM if
        that was not done before.
        """
        info, lid = port.end_port.port_info, self.ask_subnet_manager().lid
        return info is not None and bool(lid) and info.lid <= lid < info.lid + (1 << info.lmc)

    def note_master_sm_lid(self, port: PortHandle) -> None:
        """Note the MasterSMLID in the PortInfo of *port*: the master SM is looked for there too, because the local port
        may not know its LID."""
        self.note_master_sm_lids([port.port], ())

    def note_master_sm_lids(self, ports: Iterable[Port], managers: Iterable[Port]) -> None:
        """Note the MasterSMLIDs of many ports that a sweep read, and the LIDs of *managers*, the ports whose IsSM is
        set."""
        self.master_sm_lids += [info.master_sm_lid for port in ports if (info := port.end_port.port_info) is not None]
        self.master_sm_lids += [port.lid for port in managers if port.lid]

    @cached_property
    def keystore(self) -> KeyStore:
        """The key store, made when it is first needed; for a dry run it is neither made nor brought up to date. Raises
        StoreError."""
        stores, writes = self.fabric.stores, not self.dry_run
        store = KeyStore(stores.keystore, create=writes, upgrade=writes, passphrase=stores.passphrase)
        self._stack.enter_context(store)
        if writes and has_run_to_move(store):
            with Journal(stores.journal) as journal:
                move_run(store, journal)
        return store

    # --- checking and applying -----------------------------------------------------------------------------------

    def objection_to_active_sm(self, consequence: str) -> list[Objection]:
        """Return the objection ``active-sm`` if an SM is or may be master, as a list of none or one. *consequence*: the
        harm that the SM does to this change, in words."""
        manager = self.ask_subnet_manager()
        if not manager.may_be_master:
            return []
        return [Objection("active-sm", f"{manager.evidence}; {consequence}")]

    def check(self, plan: Planned) -> None:
        """Raise Refused for the first interlock that *plan* triggers and the user has not overridden."""
        not_overridden = self.not_overridden(plan)
        if not_overridden:
            raise not_overridden[0].refusal(not_overridden[1:])

    def not_overridden(self, plan: Planned) -> list[Objection]:
        """Return the objections that the user has not overridden."""
        return [objection for objection in plan.objections if not self.consent.covers(objection.interlock)]

    def apply(self, plan: Planned) -> None:
        """Make the change, as an operation of the journal: journal, Set, verify. Raises Refused if an interlock is
        triggered or a link changed, NoReply if a link cannot be examined, StoreError, ExplainedInterrupt, and the
        errors of ``plan.perform``.

        The bytes that a Set overwrites are in the journal before it is sent, whatever happens afterwards.
        """
        self.check(plan)
        if not plan.pending:
            return
        self._look_at_links(plan)
        with self.journaled(plan) as operation:
            try:
                plan.perform(self, operation)
            except ExplainedInterrupt:
                raise
            except KeyboardInterrupt as error:
                if operation.id is None:  # nothing was recorded, so nothing was set
                    raise ExplainedInterrupt.of(error, "before the first Set", "no port was changed") from None
                left = f"what was set may have taken effect; {describe_open(operation)}"
                raise ExplainedInterrupt.of(error, "in the middle of a change", left) from None

    def apply_within(self, plan: Planned, operation: RunningOperation) -> None:
        """Make the change as `apply` does, but as a part of *operation*, which is open."""
        self.check(plan)
        if plan.pending:
            self._look_at_links(plan)
            plan.perform(self, operation)

    def _look_at_links(self, plan: Planned) -> None:
        """Check the links to the ports of *plan* again. Raises Refused (``stale``) if a link changed since it was read,
        NoReply if a link cannot be examined and *plan* does not leave out such ports itself."""
        wrong = self.changed_links(plan.ports())
        changed = {port: why for port, why in wrong.items() if self.fabric.has_changed(port)}
        if wrong and not changed and not plan.rechecks_links:
            port, why = next(iter(wrong.items()))
            raise NoReply(f"the route to {port} could not be checked again ({why})").unchanged()
        if changed:
            port, why = next(iter(changed.items()))
            more = f" and {counted(len(changed) - 1, 'more port')}" if len(changed) > 1 else ""
            text = f"the route to {port}{more} changed since it was read ({why}): an M_Key could go to another port"
            raise Refused(text, "stale").unchanged().going_on("run the command again")

    @property
    def checks_links(self) -> bool:
        """Whether links are checked again before an M_Key goes over them: only if any M_Key is known or is to be
        set."""
        return self.fabric.ring.has_keys or self.sends_keys

    def changed_links(self, ports: Iterable[Port], max_age: float = 0.0) -> dict[Port, str]:
        """Look at the links to *ports* again before an M_Key goes over them: time has passed since they were proven.
        Return the ports to which a link changed or could not be examined, each with the reason. A check stays valid for
        *max_age* seconds. Without known keys nothing is examined.
        """
        return self.fabric.find_changed_links(ports, max_age) if self.checks_links else {}

    @contextmanager
    def journaled(self, plan: Planned | None = None) -> Iterator[RunningOperation]:
        """Open the operation of the journal that a change belongs to: the one that *plan* reopens or begins itself,
        else a new one, which is recorded with its first entry."""
        with Journal(self.fabric.stores.journal) as journal:
            new = plan.begin(journal, self.origin) if plan is not None else None
            with new or journal.operation(self.command, self.origin) as operation:
                yield operation


def lock_holder_of(journal: Journal, command: str) -> LockHolder:
    """Return the holder to name in a lock on an OpenSM's host: this process with its *command*. Raises StoreError."""
    origin = this_process()
    return LockHolder(origin.user, origin.host, command, journal.now(), os.getpid(), journal.identity())


def name_open_operation(error: Failed, operation: RunningOperation) -> Failed:
    """Add to *error* the operation that it leaves open, and the commands that finish it or roll it back; return
    *error*."""
    return error.going_on(describe_open(operation), operation=operation.id)


def describe_open(operation: RunningOperation) -> str:
    """Return a sentence that says that *operation* is open, and with which commands it is finished or rolled back."""
    assert operation.id is not None
    commands = commands_of_open(operation.journal.find(operation.id))
    return f"operation {operation.id} of the journal is open: {commands}"
