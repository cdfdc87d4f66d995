"""The journal of a rehearsal, copied from the journal of the real fabric.

With it interlocks know which changes were made before, and an undo finds the operation that it takes back.
"""

from __future__ import annotations

import json
from pathlib import Path

from ibkeys.errors import UsageError
from ibkeys.managers.site import KEPT_HOSTS
from ibkeys.store.journal import Journal
from ibkeys.store.journal.records import KEY_COMMANDS


def copy_journal(source: Path, target: Path, operation: int | None, policy: Path, copy: Path) -> None:
    """Copy the journal *source* to *target*, and change the paths of its files to those of the rehearsal. *source* is
    only read. *operation*: the operation that is to be undone, or None. *policy*: the policy file of the site's OpenSM;
    *copy*: the path of its copy in the rehearsal.

    Raises StoreError for a journal without the operation; UsageError for an operation that changed M_Keys, because only
    the key store has its former keys, for another one that follows no plan, and for one that did not change *policy*.
    """
    with Journal.read(source) as journal:
        if operation is not None:
            _refuse(journal, operation, policy)
        image = journal.database.image()
    target.touch(0o600)
    target.write_bytes(image)
    with Journal(target) as journal, journal.in_one_transaction():
        database = journal.database
        database.execute("DELETE FROM files WHERE path != ?", (str(policy.resolve()),))
        database.execute("UPDATE files SET path = ?, host = ''", (str(copy),))
        for each in journal.list_operations():
            plan = journal.plan_of(each.id)
            if plan is not None and KEPT_HOSTS in plan.kept:
                options = {**plan.kept, KEPT_HOSTS: []}
                database.execute("UPDATE plans SET options = ? WHERE operation = ?", (json.dumps(options), each.id))


def _refuse(journal: Journal, operation: int, policy: Path) -> None:
    """Raise the errors of `copy_journal`."""
    record = journal.find(operation)
    name, steps = f"operation {operation} ({record.command})", f"`ibkeys undo {operation} --dry-run` shows the steps"
    if record.began in KEY_COMMANDS:
        raise UsageError(
            f"{name} changed M_Keys: its former keys are in the key store, which a rehearsal does not read; {steps}"
        )
    if not record.is_of_plan:
        raise UsageError(f"{name} is no change of partitions through OpenSM, so it cannot be rehearsed; {steps}")
    replaced = {entry.image.path for entry in journal.files(operation)}
    if policy.resolve() not in map(Path, replaced):
        written = ", ".join(sorted(replaced)) or "no file of OpenSM"
        raise UsageError(
            f"{name} changed {written}, and the OpenSM of the rehearsal reads "
            f"{policy}: it cannot be rehearsed with this OpenSM"
        )
