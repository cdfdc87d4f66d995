"""Whether the policy of the master is older than the last change of the journal: another SM, which had kept its former
policy, took over since, or the file came from a backup. To spread such a policy would lose the change everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ibkeys.apply.former_values import KEPT_FILES
from ibkeys.apply.opensm.policy_files import digest_of
from ibkeys.change.former_managers import known_managers, managers_of_subnet
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.journal.records import SPREAD


@dataclass(frozen=True, slots=True)
class LastChange:
    """The last operation that changed the policy in force of a subnet. ``digest``: the SHA-256 of the policy that it
    left at the master; ``earlier``: those of the policies before it."""

    operation: OperationRecord
    digest: str
    earlier: frozenset[str]

    def why_older(self, file: OpensmFile) -> str:
        """Return, in words, why the master's *file* is older than this change; "" if it is not: it has the policy of
        the change, or was written later."""
        digest = digest_of(file.seen.data)
        if digest == self.digest:
            return ""
        name = f"operation {self.operation.id} ({self.operation.command}, {self.operation.started})"
        if digest in self.earlier:
            return f"{file.name} has a policy from before {name}"
        found = file.seen.found
        began = datetime.fromisoformat(self.operation.started)
        written = None if found is None else datetime.fromtimestamp(found.modified_ns / 1e9, UTC)
        if written is None or written >= began:
            return ""
        return f"{file.name} was written at {written:%Y-%m-%d %H:%M:%S} UTC, before {name}"


def last_change(journal: Journal, present: Collection[str]) -> LastChange | None:
    """Return the last operation of the journal that changed the policy in force of this subnet; None if there is none.
    *present*: the port GUIDs of the SMs of the subnet, as the journal keeps them.

    An operation belongs to the subnet if it found an SM of it (`managers_of_subnet`). The policy that it left is that
    of the file that it wrote last, which is the master's; an undo of it writes the same file. An operation that only
    brought the files of standbys to the master's policy changed none in force.

    An operation and its undo together changed nothing: the last change is the one before them. The undo itself counts
    only if the policy that it restored is that of this change, or if nothing else is left. Else both began at a master
    that had an older policy already, and the undo has not made that the newest. Raises StoreError.
    """
    records = {each.id: each for each in journal.list_operations()}
    managers = known_managers(journal)
    subnet = managers_of_subnet(managers.values(), present)
    last: tuple[OperationRecord, str] | None = None
    latest: tuple[OperationRecord, str] | None = None
    earlier = set[str]()
    for record in records.values():
        first = _first_of(record, records)
        if subnet.isdisjoint(managers.get(first.id, {})) or first.command == SPREAD:
            continue
        kept = journal.options_of(first.id)
        images = [each.image for each in journal.files(record.id) if each.status != "failed"]
        masters = [image for image in images if image.key == _master_file(journal, first)]
        found = kept.get(KEPT_FILES)
        earlier |= {digest_of(each) for image in images for each in (image.before, image.after)}
        earlier |= {str(each) for each in found} if isinstance(found, list) else set()
        if masters:
            latest = record, digest_of(masters[-1].after)
            if record.is_unfinished or (record.state != "undone" and not _is_odd_undo(record, records)):
                last = latest
    if latest is None:
        return None
    if last is None or last[1] == latest[1]:
        last = latest
    return LastChange(*last, frozenset(earlier - {last[1]}))


def _is_odd_undo(record: OperationRecord, records: Mapping[int, OperationRecord]) -> bool:
    """Return whether *record* took a change back. The undo of an undo makes the change again."""
    return record.undoes is not None and not _is_odd_undo(records[record.undoes], records)


def _first_of(record: OperationRecord, records: Mapping[int, OperationRecord]) -> OperationRecord:
    """Return the first operation in the chain of undos of *record*."""
    while record.undoes is not None:
        record = records[record.undoes]
    return record


def _master_file(journal: Journal, first: OperationRecord) -> tuple[str, str] | None:
    """Return the key of the master's file in an operation: the file that it wrote last. None if it had the wanted
    contents already, or if nothing was written."""
    images = [each.image for each in journal.files(first.id)]
    found = journal.options_of(first.id).get(KEPT_FILES)
    if not images or (isinstance(found, list) and found and found[-1] == digest_of(images[-1].after)):
        return None
    return images[-1].key
