"""Journal operations that were interrupted or failed: which there are, and closing those that a later one completed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from ibkeys.store.journal import Image, Journal, OperationRecord, OperationState
from ibkeys.store.journal.runs import Runs


def cut_off(journal: Journal, commands: Collection[str]) -> list[OperationRecord]:
    """Return the open and failed operations of *commands*, oldest first. Raises StoreError."""
    return [each for each in journal.list_operations() if each.state in ("open", "failed") and each.command in commands]


def is_any_cut_off(path: Path | None, commands: Collection[str]) -> bool:
    """Whether the journal *path* has an open or failed operation of *commands*; none is made for this. Raises
    StoreError."""
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

    *since*: only those that began then or later, in the journal's form of a time; *but*: that later one; *files*: only
    those that wrote some of these, by host and path, and no others; *ports*: the same for ports, by the GUID of the
    node and the number, and *is_in_force* says of each of its Sets whether its values are. A run of M_Keys ends by
    itself, and is left out. Raises StoreError.
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
