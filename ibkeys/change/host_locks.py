"""The lock on the host of an OpenSM: of two administrators with two key stores, only one makes a change there at a
time.

It is a file beside the options file of each OpenSM that takes part, so after a failover it is on both hosts. If no file
can be made there, the lock is beside the policy file. If none can be made at all, no file can be replaced either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ibkeys.change.clock import REAL_TIME, Clock, ProgressTimeout
from ibkeys.change.consent import Objection
from ibkeys.change.writer import ChangeWriter, lock_holder_of
from ibkeys.errors import FileError, HostNotReached, Refused
from ibkeys.host.host_lock import FoundLock, lock_file
from ibkeys.host.lock_holder import LockHolder, holder_in_words
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.machines.machine import Machine, TakenLock
from ibkeys.managers.opensm.on_this_host import own_socket
from ibkeys.managers.report import report_on_host
from ibkeys.managers.site import ReachedHost, RunningOpensm, reach
from ibkeys.store.journal import Journal

HELD: Final = "host-lock"
"""``Refused.interlock`` when another ibkeys command holds the lock of an OpenSM; nothing overrides it."""
STALE: Final = "stale-lock"
OWN_SECONDS: Final = 15.0
"""Seconds to wait for the lock of a killed command of the same journal: it is held until the command's connection ends.
"""


def take_host_locks(writer: ChangeWriter, opensms: Iterable[RunningOpensm], clock: Clock = REAL_TIME) -> bool:
    """Take the lock of each of *opensms*, the master's first, until *writer* is closed; a dry run takes none. Return
    whether *writer* got a lock that it did not hold yet. A lock that cannot be removed at the end becomes a warning of
    the writer's fabric.

    A lock that a command of the same journal left is taken over: this command holds the lock of the journal, so the
    other has ended. Raises Refused: ``host-lock`` if another ibkeys command holds a lock, ``stale-lock`` if a command
    that was cut off left one and the user has not overridden that. Raises FileError, StoreError, HostNotReached.
    """
    if writer.dry_run:
        return False
    in_order = sorted(opensms, key=lambda each: each.manager is None or not each.manager.is_master)
    taken = [_take_one(writer, each, clock) for each in in_order]
    return any(taken)


def remove_left_locks(journal: Journal, command: str, hosts: Iterable[SmHost]) -> list[str]:
    """Remove the locks that killed commands with this *journal* left beside the OpenSMs of this host and of *hosts*.
    *command*: the present command, which ends an operation. A lock stays while an operation that began under it is
    open.

    Return, in words, each host where the lock could not be removed or looked for. Raises StoreError.
    """
    own = lock_holder_of(journal, command)
    starts = [start.started for each in journal.list_operations() if each.state == "open" for start in each.starts]
    problems: list[str] = []
    for host in [SmHost(), *hosts]:
        try:
            with ExitStack() as stack:
                [reached] = reach(stack.enter_context, [host])
                problems += _remove_left(reached, own, max(starts, default=""))
        except HostNotReached as error:
            problems.append(_not_removed(error))
    return problems


def _remove_left(reached: ReachedHost, own: LockHolder, last_open: str) -> Iterator[str]:
    """Remove the locks of the journal of *own* on one host, and yield what failed. *last_open*: the latest time at
    which an open operation was begun or resumed. Raises HostNotReached."""
    machine = reached.machine
    report = report_on_host(machine.files, reached.host.entry, own_socket())
    if report.error:
        yield _not_removed(f"{machine.name}: {report.error}")
    places = {path for each in report.instances for path in RunningOpensm(each, machine, None).lock_places()}
    for path in sorted(places):
        try:
            machine.files.stat(lock_file(path))
        except OSError:
            continue  # no lock is there
        try:
            lock = machine.take_lock(path, own.line(), None)
            if isinstance(lock, FoundLock):
                left = LockHolder.read(lock.text)
                if lock.is_held or left is None or left.journal != own.journal or left.since <= last_open:
                    continue
                lock = machine.take_lock(path, own.line(), lock.text)
            if lock is not None and not isinstance(lock, FoundLock):
                lock.release()
        except FileError as error:
            yield _not_removed(error)


def _not_removed(error: object) -> str:
    return (
        f"a lock that a killed command may have left could not be removed ({error}); the next change through OpenSM "
        "with this journal removes it"
    )


def _take_one(writer: ChangeWriter, running: RunningOpensm, clock: Clock) -> bool:
    """Take the lock of one OpenSM beside the first of its files where a lock can be made; return whether the lock is
    new."""
    for path in running.lock_places():
        place = running.machine.name, path
        if place in writer.host_locks:
            return False
        lock = _wait_for_lock(writer, running.machine, path, clock)
        if lock is not None:
            writer.enter(_release_at_end(lock, writer.fabric.warnings, _at(running.machine, path)))
            writer.host_locks.add(place)
            return True
    return False


@contextmanager
def _release_at_end(lock: TakenLock, warnings: list[str], place: str) -> Iterator[None]:
    """Release *lock* at the end. If that fails, the change is not affected, and a warning is added to *warnings*."""
    try:
        yield
    finally:
        try:
            lock.release()
        except (FileError, HostNotReached) as error:
            warnings.append(
                f"{place}: the lock of this command could not be removed ({error}); the next change with this journal "
                "removes it; until then others are told that this one was cut off"
            )


def _wait_for_lock(writer: ChangeWriter, machine: Machine, path: Path, clock: Clock) -> TakenLock | None:
    """Take the lock beside *path*, and wait for a held lock of the same journal; return None if no file can be made
    there. Raises Refused: ``host-lock`` if another ibkeys command holds the lock, ``stale-lock`` if a command that was
    cut off left it and the user has not overridden that."""
    stale: bytes | None = None
    waiting = ProgressTimeout(clock, OWN_SECONDS)
    while True:
        found = machine.take_lock(path, writer.lock_holder.line(), stale)
        if not isinstance(found, FoundLock):
            return found
        holder = LockHolder.read(found.text)
        is_own = holder is not None and holder.journal == writer.lock_holder.journal
        if found.is_held:
            if not (is_own and waiting.pause(0)):
                raise _held_refusal(machine, path, found)
        elif is_own or writer.consent.covers(STALE):
            stale = found.text
        else:
            raise _stale_objection(machine, path, found).refusal()


def _held_refusal(machine: Machine, path: Path, found_lock: FoundLock) -> Refused:
    return Refused(
        f"{_at(machine, path)}: {holder_in_words(found_lock.text)}, is changing something through this OpenSM",
        HELD,
    ).unchanged(
        "wait until that has ended, or ask them",
        "The lock is free as soon as that process ends, or its connection.",
        f"Which process holds it: fuser -v {lock_file(path)}, as root on that host.",
    )


def _stale_objection(machine: Machine, path: Path, found_lock: FoundLock) -> Objection:
    return Objection(
        STALE,
        f"{_at(machine, path)}: {holder_in_words(found_lock.text)}, was cut off while changing something through this "
        "OpenSM, and it may be half done; let them finish it or go back first, from there (`ibkeys resume`, `ibkeys "
        "undo`)",
        "Their journal knows what was there before. Override this where that administrator, or that journal, is gone.",
    )


def _at(machine: Machine, path: Path) -> str:
    file = lock_file(path)
    return f"{machine.name}: {file}" if machine.name else str(file)
