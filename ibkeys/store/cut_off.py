"""Journal operations that were interrupted or failed: listing them, and closing those that a later operation
completed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from ibkeys.store.journal import Image, Journal, OperationRecord, OperationState
from ibkeys.store.journal.runs import Runs


def cut_off(journal: Journal, commands: Collection[str]) -> list[OperationRecord]:
    """Return the open and failed operations of *commands*, oldest first. Raises StoreError."""
    return [each for each in journal.list_operations() if each.state in ("open", "failed") and each.command in commands]


def is_any_cut_off(path: Path | None, commands: Collection[str]) -> bool:
    """Return whether the journal *path* has an open or failed operation of *commands*; a missing journal is not
    created. Raises StoreError."""
    with Journal.read(path) as journal:
        return bool(cut_off(journal, commands))


def close_cut_off(
    journal: Journal,
    commands: Collection[str],
    state: OperationState,
    since: str = "",
    but: int | None = None,
    files: Collection[tuple[str, str]] | None = None,
    ports: Collection[tuple[int, int]] | None = None,
    is_in_force: Callable[[Image], bool] = lambda image: True,
) -> list[int]:
    """Set *state* on every open or failed operation of *commands* that a later operation completed, and return them.

    *since*: only operations that began at that time or later, in the journal's form of a time; *but*: the later
    operation itself; *files*: only operations that wrote some of these files, by host and path, and no others; *ports*:
    the same for ports, by the GUID of the node and the number, and *is_in_force* returns whether the values of a Set
    are in force. Runs of M_Keys are left out, because their own code ends them. Raises StoreError.
    """
    closed, runs = [], Runs(journal).operations()
    for record in cut_off(journal, commands):
        if record.id == but or record.id in runs or record.started < since:
            continue
        if files is not None:
            wrote = {entry.image.key for entry in journal.files(record.id)}
            if not wrote or not wrote <= set(files):
                continue
        if ports is not None:
            images = [entry.image for entry in journal.entries(record.id)]
            changed = {(image.node_guid, image.port) for image in images}
            if not changed or not changed <= set(ports) or not all(map(is_in_force, images)):
                continue
        journal.set_state(record.id, state)
        closed.append(record.id)
    return closed
