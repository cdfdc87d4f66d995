"""The one way to the OpenSM that a change goes through: apply, undo, the M_Keys, the SM_Keys and harden.

Here is the gate for an SM that is not the one that ibkeys was made with, the interlock ``unknown-sm``; and here the
locks on the hosts are taken, before anything is written there. What was seen before a lock was taken may be older than
what its last holder wrote, so all is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ibkeys.change.consent import Objection
from ibkeys.change.host_locks import take_host_locks
from ibkeys.change.writer import Writer
from ibkeys.printable import named
from ibkeys.sm.instance import Instance
from ibkeys.sm.managers import Manager
from ibkeys.sm.report import Report
from ibkeys.sm.site import Reached, Seen, find_master, look_around, taking_part


def master_for(writer: Writer, managers: Sequence[Manager], reached: Sequence[Reached]) -> Seen:
    """Return what `find_master` finds, with the lock on every host of an SM that takes part.

    Raises what that raises; Refused (``unknown-sm``) where an SM that takes part is of an unknown kind, and the user
    has not overridden that; and what `take_host_locks` raises.
    """
    while True:
        seen = find_master(managers, reached, writer.fabric.own_guid)
        if not _took_locks(writer, seen.report, reached):
            return seen


def all_sms_for(writer: Writer, managers: Sequence[Manager], reached: Sequence[Reached]) -> Report:
    """Return what `look_around` finds, where there may be several masters. Locks and raises as `master_for`."""
    while True:
        report = look_around(managers, reached, writer.fabric.own_guid)
        if not _took_locks(writer, report, reached):
            return report


def _took_locks(writer: Writer, report: Report, reached: Sequence[Reached]) -> bool:
    _refuse_unknown(writer, report, reached)
    return take_host_locks(writer, [each for _, each in taking_part(report, reached) if each is not None])


def _refuse_unknown(writer: Writer, report: Report, reached: Sequence[Reached]) -> None:
    running = [each.instance for _, each in taking_part(report, reached) if each is not None]
    objections = [each for each in _objections(running) if not writer.consent.covers(each.interlock)]
    if objections:
        raise objections[0].refusal()


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
