"""Confirm a change that is rolled back otherwise."""

from __future__ import annotations

from ibkeys.cli import exits, options
from ibkeys.cli.help.command import command
from ibkeys.cli.left_locks import remove_left_locks
from ibkeys.cli.opening import journal_of
from ibkeys.cli.options import Where


@command("confirm")
@options.operation
@options.fabric
def confirm(where: Where, operation: int | None) -> int:
    """Confirm a change that was begun with --confirm-within.

    Without a confirmation in time, apply rolls its change back, and mkey-deploy and mkey-rotate lower the level that
    they raised. ID is the number of the operation, which the command names while it waits; without it, the one that
    waits is confirmed. It needs the journal only: neither the fabric nor the key store is opened.
    """
    from ibkeys.apply.opensm.guards import confirm_guards
    from ibkeys.change.confirming import confirmation
    from ibkeys.sm.site import KEPT_HOSTS, hosts_in
    from ibkeys.store.journal import Journal
    from ibkeys.store.lock import holder_of

    path = journal_of(where)
    with Journal(path, create=False, upgrade=not holder_of(path)) as journal:
        operation = operation or confirmation.waiting_for_confirmation(journal)
        is_fresh = confirmation.confirm(journal, operation, confirm_guards)
        command, kept = journal.find(operation).command, journal.options_of(operation)
    exits.write(f"operation {operation} {'is' if is_fresh else 'was'} confirmed{'' if is_fresh else ' already'}")
    if KEPT_HOSTS in kept:
        remove_left_locks(where, command, hosts_in(kept))
    return exits.DONE
