"""The command `confirm`: keep a change that is rolled back without confirmation."""

from __future__ import annotations

from ibkeys.cli import exits, options
from ibkeys.cli.help.command import command
from ibkeys.cli.opening import is_simulated, journal_of
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
    from ibkeys.automation.confirming import confirm_operation

    done = confirm_operation(journal_of(where), operation, is_simulated=is_simulated(where))
    fresh, again = ("is", "") if done.is_fresh else ("was", " already")
    exits.write(f"operation {done.operation} {fresh} confirmed{again}")
    exits.warn_each(done.problems, "note")
    return exits.DONE
