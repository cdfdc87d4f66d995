"""Removing the locks that killed commands left on the hosts of OpenSMs, at the end of what they had begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.opening import journal_of
from ibkeys.cli.options import Where

if TYPE_CHECKING:
    from ibkeys.managers.hosts import SmHost


def remove_left_locks(where: Where, command: str, hosts: Sequence[SmHost]) -> None:
    """Remove those of the own journal on this host and *hosts*, and say on standard error what failed. A simulated
    subnet has none."""
    from ibkeys.change import host_locks
    from ibkeys.store.journal import Journal

    if where.backend != "umad":
        return
    with Journal.read(journal_of(where)) as journal:
        exits.warn_each(host_locks.remove_left_locks(journal, command, hosts), "note")
