"""Removing the locks that killed commands left on this host and on the hosts of OpenSMs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.opening import is_simulated, journal_of
from ibkeys.cli.options import Where

if TYPE_CHECKING:
    from ibkeys.managers.hosts import SmHost


def remove_left_locks(where: Where, command: str, hosts: Sequence[SmHost]) -> None:
    """Remove the locks that operations of this host's journal have left, on this host and on *hosts*.

    *command*: the name of the command that removes them. Locks that cannot be removed are notes on standard error. A
    simulated subnet has no locks.
    """
    from ibkeys.change import host_locks
    from ibkeys.store.journal import Journal

    if is_simulated(where):
        return
    with Journal.read(journal_of(where)) as journal:
        exits.warn_each(host_locks.remove_left_locks(journal, command, hosts), "note")
