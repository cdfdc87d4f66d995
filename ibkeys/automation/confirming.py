"""Confirming an operation from any process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ibkeys.apply.opensm.guards import confirm_guards
from ibkeys.change import host_locks
from ibkeys.change.confirming import confirmation
from ibkeys.managers.site import KEPT_HOSTS, hosts_in
from ibkeys.store.journal import Journal
from ibkeys.store.lock import holder_of


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The result of a confirmation. ``is_fresh``: whether the operation was not confirmed before. ``problems``: locks
    on hosts that could not be removed.
    """

    operation: int
    is_fresh: bool
    problems: tuple[str, ...] = ()


def confirm_operation(path: Path, operation: int | None, *, is_simulated: bool = False) -> Confirmed:
    """Confirm *operation*, and remove the locks that its command left on the hosts of OpenSMs.

    *operation* None: the only one that waits for its confirmation. *is_simulated*: the subnet is simulated, so no host
    is reached. Neither fabric nor key store is needed. Raises the errors of `confirmation.confirm` and
    `confirmation.find_unconfirmed`.
    """
    with Journal(path, create=False, upgrade=not holder_of(path)) as journal:
        operation = operation or confirmation.find_unconfirmed(journal)
        is_fresh = confirmation.confirm(journal, operation, confirm_guards)
        command, kept = journal.find(operation).command, journal.options_of(operation)
    problems: list[str] = []
    if KEPT_HOSTS in kept and not is_simulated:
        with Journal.read(path) as journal:
            problems = host_locks.remove_left_locks(journal, command, hosts_in(kept))
    return Confirmed(operation, is_fresh, tuple(problems))
