"""M_Key runs with --confirm-within: waiting for the confirmation, and lowering the level without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.guarding import command_for_child, wait_for_enter
from ibkeys.cli.opening import stores_of
from ibkeys.cli.options import Where
from ibkeys.cli.sm.asked import AskedOfHosts
from ibkeys.errors import IbkeysError, Incomplete, Refused, UsageError

if TYPE_CHECKING:
    from ibkeys.change.confirming.guardian import Guardian
    from ibkeys.change.writer import Writer
    from ibkeys.fabric.live import Fabric
    from ibkeys.mkeys.opensm.lowering import Lowering
    from ibkeys.mkeys.opensm.through import ViaOpensm
    from ibkeys.mkeys.rollout.beginning import PlannedRun


@dataclass(slots=True)
class Awaiting:
    """A run with --confirm-within, and the child that lowers its level when this process dies. ``operation``: that of
    the run, once it has begun; ``through``: how its level is lowered."""

    guardian: Guardian
    seconds: int
    through: Callable[[], ViaOpensm]
    operation: int | None = None

    def began(self, operation: int, start: int) -> None:
        """Take the operation of the run, and which start of it this is."""
        self.operation = operation
        self.guardian.began(operation, start)

    def keep_key(self, where: Where, fabric: Fabric) -> None:
        """Let the child have the M_Key that was typed."""
        if where.m_key and not where.m_key.startswith("@"):
            self.guardian.keep_key(fabric.ring.for_all)

    def make(self, writer: Writer, run: PlannedRun, make: Callable[[], None]) -> None:
        """Let *make* make the run, and let it be confirmed, or lower its level. Raises what *make* and lowering
        raise."""
        from ibkeys.change.interlocks.overtaken import OVERTAKEN
        from ibkeys.change.interrupts import Interrupts
        from ibkeys.mkeys.confirming import Confirmation, let_be_confirmed, lower_unconfirmed

        error: IbkeysError | KeyboardInterrupt | None = None
        with Interrupts(survive_hangup=True) as interrupts:
            try:
                make()
            except (IbkeysError, KeyboardInterrupt) as caught:
                error = caught
            waiting = partial(self.guardian.send, "waiting")
            how = Confirmation(self.seconds, time.monotonic, wait_for_enter(interrupts), exits.note, waiting)
            if self.operation is not None and not let_be_confirmed(writer, self.operation, error, how):
                try:
                    say_unproven(lower_unconfirmed(writer, self.through(), self.operation))
                except Refused as refusal:
                    raise _not_lowered(refusal) if refusal.interlock == OVERTAKEN else refusal from None
                run.account.gone_back = True
        if error is not None:
            raise error


def _not_lowered(refusal: Refused) -> Incomplete:
    """Return the error of a run that this process made, nobody confirmed, and somebody else changed: of the whole
    command it is not true that nothing was written."""
    error = Incomplete(f"nobody confirmed the run, and its level was not lowered: {refusal.message}")
    return error.going_on(*refusal.way_on).explained(refusal.more)


@contextmanager
def awaiting(
    asked: AskedOfHosts, sm_wait: int, seconds: int | None, through: Callable[[], ViaOpensm]
) -> Iterator[Awaiting | None]:
    """Leave a child that lowers the level should this process die, before the fabric is opened; yield None where no run
    is to be confirmed. Raises UsageError if it could not open the key store.
    """
    from ibkeys.change.confirming.confirmation import is_unconfirmed
    from ibkeys.change.confirming.guardian import Guardian

    if seconds is None or asked.consent.dry_run:
        yield None
        return
    where = asked.where
    stores = stores_of(where)
    if stores.keystore is not None:
        _refuse_closed_store(where, stores.keystore)
    if stores.keystore is None or stores.journal is None:
        raise UsageError("--confirm-within requires --via opensm, and a simulated subnet has no OpenSM on any host")
    # Who began the run went through this SM already.
    words = ["undo", "--unconfirmed", f"--wait={sm_wait}", "--override=unknown-sm"]
    child = command_for_child(words, where, stores, asked.sm_hosts)
    guardian = Guardian(child, partial(is_unconfirmed, stores.journal), seconds)
    try:
        yield Awaiting(guardian, seconds, through)
    finally:
        if guardian.leave():
            exits.note("the level is not lowered yet: a background process tries again for about an hour")


def _refuse_closed_store(where: Where, path: Path) -> None:
    from ibkeys.store.keys.keystore import KeyStore

    with KeyStore(path, create=False, upgrade=False) as store:
        is_encrypted = store.is_encrypted
    if is_encrypted and not (where.keystore_passphrase or "").startswith("@"):
        raise UsageError(
            "the key store is encrypted, and with --confirm-within it cannot ask for the passphrase later: give "
            "--keystore-passphrase @FILE"
        ).explained("If this process dies, a background process lowers the level, and it has no terminal for a prompt.")


def say_unproven(lowering: Lowering | None) -> bool:
    """Say which ports did not show the lower level, and why. Return whether there are any."""
    unproven = lowering.unproven if lowering is not None else {}
    for guid, why in unproven.items():
        exits.warn(f"port GUID 0x{guid:016x}: {why}; OpenSM lowers its level when the port is back", "not proven")
    return bool(unproven)
