"""Moving the last run that set M_Keys from the key store, where an earlier version stored it, to the journal.

The run is written to the journal first, then removed from the key store. If the command is killed in between, the next
command removes it. The M_Keys stay in the key store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ibkeys import jsonfile
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.store.cut_off_operations import close_cut_off
from ibkeys.store.journal import KEY_COMMANDS, Journal, OperationRecord, OperationState
from ibkeys.store.journal.runs import RunOptions, RunPort, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.lock import exclusive
from ibkeys.store.sqlite import guid_number

IS_TO_BE_MOVED: Final = (
    "the last run that set M_Keys is still in the key store, where an earlier version of ibkeys stored it; the next "
    "command that changes anything moves it to the journal first"
)
_STATES: Final[Mapping[str, OperationState]] = {"open": "open", "ended": "done", "undone": "undone"}
_SETTINGS: Final = ("former", "wanted")


def move_run_between(keystore: Path | None, journal: Path | None, dry_run: bool) -> None:
    """Move the run of an earlier version from the file *keystore* to the file *journal*, under the locks of both.

    Without such a run no file is created or changed. Raises StoreError, StoreLocked, and UsageError if there is such a
    run but *dry_run* forbids to write.
    """
    with KeyStore(keystore, create=False, upgrade=False) as store:
        if not has_run_to_move(store):
            return
    if dry_run:
        raise UsageError(IS_TO_BE_MOVED)
    with exclusive(journal, keystore, command="resume"), KeyStore(keystore) as store, Journal(journal) as target:
        move_run(store, target)


def has_run_to_move(store: KeyStore) -> bool:
    """Return whether *store* still has a run that an earlier version stored there. Raises StoreError."""
    return bool(store.database.query("SELECT 1 FROM run_to_move"))


def move_run(store: KeyStore, journal: Journal) -> None:
    """Move the run of an earlier version from *store* to *journal*; do nothing if there is none.

    The run becomes an operation of the journal, or is added to the operation that it belongs to. Raises StoreError,
    also for a run that cannot be read.
    """
    for (text,) in store.database.query("SELECT document FROM run_to_move", of="run_to_move"):
        try:
            run = jsonfile.loads(text.encode("utf-8", "surrogatepass"))
            options = RunOptions(
                bool(run["same"]),
                *(run[name] for name in ("protect", "lease", "at_once", "first", "max_failures")),
            )
            ports = [
                RunPort(sequence, guid_number(node), guid_number(guid), *rest)
                for sequence, node, guid, *rest in run["ports"]
            ]
            via = None if run["via"] is None else _with_names(store, jsonfile.loads(run["via"].encode()))
        except (FileFormatError, LookupError, TypeError, ValueError):
            raise store.database.damage("the run of an earlier version cannot be read") from None
        runs = Runs(journal)
        with journal.in_one_transaction():
            if not any(
                runs.ports(number) == ports for number in runs.operations()
            ):  # a run with these ports is there if the last command was killed before the DELETE
                number = _operation_of(journal, run)
                runs.put(number, options, ports, via)
                if via is not None and via.get("goes_back") and run["state"] == "open":
                    journal.undo_of(number)  # the run is an undo, and its operation continues as one
    store.database.execute("DELETE FROM run_to_move")


def _operation_of(journal: Journal, run: Mapping[str, Any]) -> int:
    """Return the number of the operation of a run. A run that this journal does not know becomes a new operation."""
    moved = Runs(journal).operations()
    candidates = [
        each
        for each in journal.list_operations()
        if each.command in KEY_COMMANDS and each.started >= run["started"] and each.id not in moved
    ]
    operation, state = _operation_among(candidates, run, journal.identity()), _STATES[run["state"]]
    if operation is None:
        return journal.add_earlier(run["command"], run["started"], state)
    # In earlier versions each start of a run was an operation of its own: the last one completed the ones before.
    close_cut_off(journal, (operation.command,), "done", run["started"], but=operation.id)
    if state != "done" and operation.state != state and not operation.is_half_undone:
        journal.set_state(operation.id, state)
    return operation.id


def _operation_among(
    candidates: list[OperationRecord], run: Mapping[str, Any], identity: str
) -> OperationRecord | None:
    """Return the operation of a run among *candidates*, sorted by age; None if it is not among them.

    A run that does not name its operation has the newest one, provided that this is of the same command. *identity*:
    that of the journal of *candidates*; a run that names another journal has no operation here.
    """
    if run["operation"] is None:
        return candidates[-1] if candidates and candidates[-1].command == run["command"] else None
    is_here = run["journal"] == identity
    return next((each for each in candidates if is_here and each.id == run["operation"]), None)


def _with_names(store: KeyStore, via: dict[str, Any]) -> dict[str, Any]:
    """Return *via*, how the run reached the ports, with keys of the whole subnet by their names instead of their
    numbers."""

    def with_name(setting: Mapping[str, Any]) -> dict[str, Any]:
        ref = setting["key_ref"]
        rest = {name: setting[name] for name in ("protect", "lease")}
        return {"key_name": None if ref is None else store.subnet_key_name(int(ref)), **rest}

    return {
        **via,
        **{name: with_name(via[name]) for name in _SETTINGS},
        "earlier": [with_name(each) for each in via.get("earlier", ())],
    }
