"""Moving the run of M_Keys that an earlier version kept in the key store to the journal.

The journal is written first, then the run is removed from the key store. If the command is killed in between, the next
command does the second part. The keys stay in the key store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ibkeys import jsonfile
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.store.cut_off import close_cut_off
from ibkeys.store.journal import KEY_COMMANDS, Journal, OperationRecord, OperationState
from ibkeys.store.journal.runs import RunOptions, RunPort, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.lock import exclusive
from ibkeys.store.sqlite import guid_number

IS_TO_BE_MOVED: Final = (
    "the last run of M_Keys is still in the key store, where an earlier version kept it; when a change is made, the "
    "journal takes it over first"
)
_STATES: Final[Mapping[str, OperationState]] = {"open": "open", "ended": "done", "undone": "undone"}
_SETTINGS: Final = ("former", "wanted")


def move_run_between(keystore: Path | None, journal: Path | None, dry_run: bool) -> None:
    """Move a run as `move_run` does, if there is one to move; else no file is created or changed. Raises StoreError,
    StoreLocked, and UsageError if there is one and nothing may be written (*dry_run*)."""
    with KeyStore(keystore, create=False, upgrade=False) as store:
        if not has_run_to_move(store):
            return
    if dry_run:
        raise UsageError(IS_TO_BE_MOVED)
    with exclusive(journal, keystore, command="resume"), KeyStore(keystore) as store, Journal(journal) as to:
        move_run(store, to)


def has_run_to_move(store: KeyStore) -> bool:
    """Return whether *store* has the last run of an earlier version. Raises StoreError."""
    return bool(store.database.query("SELECT 1 FROM run_to_move"))


def move_run(store: KeyStore, journal: Journal) -> None:
    """Move the last run of an earlier version from *store* to *journal*; do nothing if there is none. Raises
    StoreError."""
    for (text,) in store.database.query("SELECT document FROM run_to_move", of="run_to_move"):
        try:
            kept = jsonfile.loads(text.encode("utf-8", "surrogatepass"))
            options = RunOptions(
                bool(kept["same"]),
                *(kept[name] for name in ("protect", "lease", "at_once", "first", "max_failures")),
            )
            ports = [
                RunPort(sequence, guid_number(node), guid_number(guid), *rest)
                for sequence, node, guid, *rest in kept["ports"]
            ]
            via = None if kept["via"] is None else _with_names(store, jsonfile.loads(kept["via"].encode()))
        except (FileFormatError, LookupError, TypeError, ValueError):
            raise store.database.damage("the run of an earlier version cannot be read") from None
        runs = Runs(journal)
        with journal.in_one_transaction():
            if not any(runs.ports(number) == ports for number in runs.operations()):  # else a kill came in between
                number = _operation_of(journal, kept)
                runs.put(number, options, ports, via)
                if via is not None and via.get("goes_back") and kept["state"] == "open":
                    journal.undo_of(number)  # it goes on as the undo that it is
    store.database.execute("DELETE FROM run_to_move")


def _operation_of(journal: Journal, kept: Mapping[str, Any]) -> int:
    """Return the operation of the run, a new one if this journal does not have it."""
    moved = Runs(journal).operations()
    found = [
        each
        for each in journal.list_operations()
        if each.command in KEY_COMMANDS and each.started >= kept["started"] and each.id not in moved
    ]
    known, state = _known(found, kept, journal.identity()), _STATES[kept["state"]]
    if known is None:
        return journal.add_earlier(kept["command"], kept["started"], state)
    # An earlier version made each start of a run an operation: those before the last one have ended with it.
    close_cut_off(journal, (known.command,), "done", kept["started"], but=known.id)
    if state != "done" and known.state != state and not known.is_half_undone:
        journal.set_state(known.id, state)
    return known.id


def _known(found: list[OperationRecord], kept: Mapping[str, Any], identity: str) -> OperationRecord | None:
    """Return the operation of a run among *found*. If the run does not name it, it is the newest one, provided that the
    command is the same. None if there is none."""
    if kept["operation"] is None:
        return found[-1] if found and found[-1].command == kept["command"] else None
    is_here = kept["journal"] == identity
    return next((each for each in found if is_here and each.id == kept["operation"]), None)


def _with_names(store: KeyStore, via: dict[str, Any]) -> dict[str, Any]:
    """Return *via* with the names of keys of the whole subnet in place of their numbers."""

    def named(setting: Mapping[str, Any]) -> dict[str, Any]:
        ref = setting["key_ref"]
        rest = {name: setting[name] for name in ("protect", "lease")}
        return {"key_name": None if ref is None else store.subnet_key_name(int(ref)), **rest}

    return {
        **via,
        **{name: named(via[name]) for name in _SETTINGS},
        "earlier": [named(each) for each in via.get("earlier", ())],
    }
