"""Finding the OpenSM that a change goes through: apply, undo, the M_Keys, the SM_Keys and harden all begin here.

An SM of another kind than the one that ibkeys was made with is refused, by the interlock ``unknown-sm``. The locks on
the hosts are taken before anything is written there. The last holder of a lock may have written after this command
read. So after each new lock everything is read again, until no lock is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ibkeys.change.consent import Objection
from ibkeys.change.host_locks import take_host_locks
from ibkeys.change.writer import Writer
from ibkeys.printable import named
from ibkeys.sm.instance import Instance
from ibkeys.sm.managers import Manager
from ibkeys.sm.report import SmReport
from ibkeys.sm.site import FoundMaster, Reached, find_master, look_around, taking_part


def master_for(writer: Writer, managers: Sequence[Manager], reached: Sequence[Reached]) -> FoundMaster:
    """Return what `find_master` finds, once the lock on every host of an SM that takes part is held.

    Raises what `find_master` raises; Refused (``unknown-sm``) where an SM that takes part is of an unknown kind, and
    the user has not overridden that; and what `take_host_locks` raises.
    """
    while True:
        seen = find_master(managers, reached, writer.fabric.own_guid)
        if not _refuse_unknown_and_lock(writer, seen.report, reached):
            return seen


def all_sms_for(writer: Writer, managers: Sequence[Manager], reached: Sequence[Reached]) -> SmReport:
    """Return what `look_around` finds, where there may be several masters. Locks and raises as `master_for`."""
    while True:
        report = look_around(managers, reached, writer.fabric.own_guid)
        if not _refuse_unknown_and_lock(writer, report, reached):
            return report


def _refuse_unknown_and_lock(writer: Writer, report: SmReport, reached: Sequence[Reached]) -> bool:
    """Refuse an SM of an unknown kind, and lock the hosts. Return whether a lock is new: *report* may be older then."""
    running = [each for _, each in taking_part(report, reached) if each is not None]
    for objection in _objections([each.instance for each in running]):
        if not writer.consent.covers(objection.interlock):
            raise objection.refusal()
    return take_host_locks(writer, running)


def _objections(instances: Sequence[Instance]) -> Iterator[Objection]:
    """``unknown-sm``: an options file with options that OpenSM 3.3 does not have, as that of another vendor's has."""
    for instance in instances:
        file = instance.options.file
        if file is not None and file.unknown:
            yield Objection(
                "unknown-sm",
                f"{instance.files['options'].path}, the options file of {instance.name}, has options that OpenSM 3.3 "
                f"does not have ({named(file.unknown)}): it may be another vendor's SM, with which ibkeys was never "
                "tried; if it is OpenSM 3.3, remove the lines, which it ignores",
                "How another SM reads its files, writes the tables and sets the keys is not known.",
            )
