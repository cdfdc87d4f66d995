"""M_Key runs with --confirm-within: waiting for the confirmation, and lowering the level without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.guarding import command_for_child, discard_typed, wait_for_enter
from ibkeys.cli.mkeys.rollout_options import OpensmOptions
from ibkeys.cli.opening import stores_of
from ibkeys.cli.sm.files_request import ChangeWithHostsOptions
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.mkeys.confirming import AwaitedRun
    from ibkeys.mkeys.opensm.lowering import Lowering
    from ibkeys.mkeys.planning_options import ViaOpensm


@contextmanager
def awaiting_confirmation(
    command_options: ChangeWithHostsOptions,
    opensm: OpensmOptions,
    seconds: int | None,
    through: Callable[[], ViaOpensm],
) -> Iterator[AwaitedRun | None]:
    """Start a child process that lowers the level if this process dies. This comes before the fabric is opened.

    *seconds*: how long to wait for the confirmation; None: the run needs none. *through*: makes the connection to the
    OpenSMs. Yields the wait for the confirmation; None if none is needed, and in a dry run. Raises UsageError on a
    simulated subnet, and if the child could not open the fabric.
    """
    from ibkeys.mkeys.confirming import AwaitedRun, rollback_arguments, start_guardian

    if seconds is None or command_options.consent.dry_run:
        yield None
        return
    where = command_options.where
    stores = stores_of(where)
    if stores.keystore is None or stores.journal is None:
        raise UsageError("--confirm-within requires --via opensm, and a simulated subnet has no OpenSM on any host")
    child = command_for_child(
        rollback_arguments(opensm.sm_wait, opensm.standby_wait), where, stores, command_options.sm_hosts
    )
    guardian = start_guardian(stores.journal, child, seconds)
    try:
        yield AwaitedRun(guardian, seconds, through, _wait, exits.note, say_unproven)
    finally:
        if guardian.close():
            exits.note("the level is not lowered yet: a background process tries again for about an hour")


def _wait(interrupts: Interrupts) -> Callable[[float], bool]:
    discard_typed()
    return wait_for_enter(interrupts)


def say_unproven(lowering: Lowering | None) -> bool:
    """Warn of each port that did not show the lower level, with the reason; return whether there are any.

    *lowering*: None if no level was lowered.
    """
    unproven = lowering.unproven if lowering is not None else {}
    for guid, why in unproven.items():
        exits.warn(f"port GUID 0x{guid:016x}: {why}; OpenSM lowers its level when the port is back", "not proven")
    return bool(unproven)
