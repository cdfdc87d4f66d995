"""Operations in the journal that were interrupted or failed: listing them, and closing those whose changes a later
operation completed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from ibkeys.store.journal import Image, Journal, OperationRecord, OperationState
from ibkeys.store.journal.runs import Runs


def unfinished_operations(journal: Journal, commands: Collection[str]) -> list[OperationRecord]:
    """Return the open and failed operations of the commands named *commands*, oldest first. Raises StoreError."""
    return [each for each in journal.list_operations() if each.state in ("open", "failed") and each.command in commands]


def is_any_cut_off(path: Path | None, commands: Collection[str]) -> bool:
    """Return whether the journal in the file *path* has an open or failed operation of *commands*. A missing file is
    not created: the answer is False. Raises StoreError."""
    with Journal.read(path) as journal:
        return bool(unfinished_operations(journal, commands))


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
    """Set *state* on every open or failed operation of *commands* that meets the conditions; return their numbers.

    The caller is a later operation, which has completed the changes of these operations. The conditions, each for one
    operation ("" or None: no such condition):

    - *since*: it began at this time, in the journal's form, or later.
    - *but*: it is not the operation with this number, the caller's own.
    - *files*: it wrote at least one file, and only files of this set of (host, path).
    - *ports*: it changed at least one port, and only ports of this set of (node GUID, port number), and *is_in_force*
      returns true for the image of each of its Sets.

    Runs that set M_Keys are left out, because their own code closes them. Raises StoreError.
    """
    closed, runs = [], Runs(journal).operations()
    for record in unfinished_operations(journal, commands):
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
