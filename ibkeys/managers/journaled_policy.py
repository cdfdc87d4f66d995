"""Finding the operation of the journal that wrote the policy of an OpenSM. The times of the file alone show only that
it changed since OpenSM started; the journal also shows that OpenSM was told to read it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from ibkeys.errors import StoreError
from ibkeys.mad.const import SMState
from ibkeys.managers.instance import Instance, InstanceFile
from ibkeys.managers.reading import MARGIN, FileReading
from ibkeys.managers.report import HostReport
from ibkeys.store.journal import Journal
from ibkeys.store.journal.records import SPREAD
from ibkeys.topology.subnet_manager import sm_state_name

_DOUBTFUL: Final = frozenset({"may-have-been-read", "not-read", "changed"})
_SECOND: Final = 1.0
"""The journal keeps the end of an operation in whole seconds."""


def with_operations(reports: Iterable[HostReport], path: Path | None) -> list[HostReport]:
    """Return *reports* with the operations that wrote the policies of their OpenSMs, as `with_operation`."""
    return [
        replace(each, instances=tuple(with_operation(instance, path) for instance in each.instances))
        for each in reports
    ]


def with_operation(instance: Instance, path: Path | None) -> Instance:
    """Return *instance* with the operation that wrote its policy, if the journal at *path* (None: in memory) has it.

    The last change of the file has to be of an operation that ended well, and nothing may have touched the file since.
    The journal is only read; one that cannot be read is left out.
    """
    file = instance.files["policy"]
    if path is None or file.reading not in _DOUBTFUL:
        return instance
    with suppress(StoreError), Journal.read(path) as journal:
        found = _operation_of(instance.host, file, journal)
        if found is not None:
            reading, operation = found
            if instance.state == sm_state_name(SMState.STANDBY):
                reading = "at-takeover"
            policy = replace(file, reading=reading, written_by=operation)
            return replace(instance, files={**instance.files, "policy": policy})
    return instance


def _operation_of(host: str, file: InstanceFile, journal: Journal) -> tuple[FileReading, int] | None:
    key = host, str(file.path)
    last = next(journal.replacements(key), None)
    if last is None or file.fact is None or file.fact.written is None or file.fact.changed is None:
        return None
    record = journal.find(last.operation)
    if record.state != "done" or record.is_unfinished or record.finished is None or last.status != "done":
        return None
    ended = datetime.fromisoformat(record.finished).timestamp() + _SECOND + MARGIN
    is_present = last.image.after is not None and sha256(last.image.after).hexdigest() == file.digest
    if not is_present or max(file.fact.written, file.fact.changed) > ended:
        return None
    # An operation writes the master's file last, and tells only the master. A spread tells none.
    is_masters = journal.files(record.id)[-1].image.key == key and record.began != SPREAD
    return "told" if is_masters else "at-takeover", record.id
