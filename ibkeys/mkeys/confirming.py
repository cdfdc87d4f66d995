"""The confirmation of a run through OpenSM, and lowering its protection level if it is not confirmed in time.

No other run starts while this one may still be rolled back. An unconfirmed run only has its level lowered: see
`ibkeys.mkeys.opensm.lowering`, and `ibkeys.change.confirming.confirmation` for the confirmation itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ibkeys.change.confirming.confirmation import ask_for_confirmation, is_unconfirmed
from ibkeys.change.confirming.guardian import Guardian, seconds_since_boot
from ibkeys.change.interlocks.overtaken import OVERTAKEN
from ibkeys.change.interrupts import ExplainedInterrupt, Interrupts
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, Incomplete, Refused, StoreError
from ibkeys.mkeys.opensm.earlier import record_of_last_run
from ibkeys.mkeys.opensm.lowering import Lowering, plan_lowering
from ibkeys.mkeys.opensm.through import ViaOpensm
from ibkeys.mkeys.opensm.way_back import is_raised, level_to_fall_to
from ibkeys.mkeys.rollout.beginning import PlannedRun
from ibkeys.mkeys.rollout.earlier_run import last_run
from ibkeys.store.journal import Journal


def lower_unconfirmed(writer: ChangeWriter, through: ViaOpensm, operation: int) -> Lowering | None:
    """Lower the level of the run of an *operation* that was not confirmed in time; None if there was nothing to lower.

    Raises StoreError if it is not to be rolled back, UsageError if it is no run; Refused (``overtaken``) if another
    program or administrator has changed values that it set: then it no longer awaits a confirmation. After any other
    error of `plan_lowering` and of lowering it still has to be rolled back.
    """
    writer.continued = operation
    awaited = last_run(writer)[0].operation
    with Journal(writer.fabric.stores.journal) as journal:
        if not awaited.goes_back:
            ended = {"confirmed": "was confirmed", "gone-back": "was rolled back already"}
            why = ended.get(awaited.stage or "", "is not waiting for a confirmation")
            raise StoreError(f"operation {operation} {why}").unchanged()
        assert awaited.stage is not None
        if not journal.move_stage(operation, awaited.stage, "going-back"):
            raise StoreError(f"operation {operation} was confirmed just now").unchanged()
        with _still_to_go_back(operation):
            try:
                lowering = plan_lowering(writer, through)
            except Refused as error:
                if error.interlock == OVERTAKEN:
                    # the values that the run set were replaced: nothing is left to confirm or roll back
                    journal.move_stage(operation, "going-back", "confirmed")
                raise
            if lowering is not None:
                writer.apply(lowering)
            journal.move_stage(operation, "going-back", "gone-back")
    return lowering


@contextmanager
def _still_to_go_back(operation: int) -> Iterator[None]:
    """A context that adds to an error the commands for the level that *operation* raised and that must be lowered. The
    advice of an interrupt is replaced: it is to resume, which would raise the level.
    """
    way_on = (
        f"the level that operation {operation} raised still has to be lowered: `ibkeys undo {operation}` restores the "
        f"former state, `ibkeys resume {operation}` keeps it"
    )
    try:
        yield
    except KeyboardInterrupt:
        raise ExplainedInterrupt("while the level was lowered", way_on) from None
    except IbkeysError as error:
        if isinstance(error, Refused) and error.interlock == OVERTAKEN:
            raise
        error.going_on(way_on)
        raise


def rollback_arguments(wait: float, standby_wait: float) -> list[str]:
    """Return the arguments of the command that lowers the level of an unconfirmed run; the operation is appended.
    *wait*, *standby_wait*: as in `ViaOpensm`. The interlock ``unknown-sm`` is overridden, because the run has used this
    SM already."""
    waits = [f"--wait={math.ceil(wait)}", f"--standby-wait={math.ceil(standby_wait)}"]
    return ["undo", "--unconfirmed", *waits, "--override=unknown-sm"]


def start_guardian(journal: Path, command: Sequence[str], seconds: float, closes_files: bool = False) -> Guardian:
    """Start the guard process that lowers the level by *command* if this process dies, see `Guardian`."""
    return Guardian(command, partial(is_unconfirmed, journal), seconds, closes_files=closes_files)


@dataclass(slots=True)
class Awaiting:
    """A run that is to be confirmed within ``seconds``, and the child that lowers its level when this process dies.

    ``through``: returns the options of the lowering; ``wait``: returns a function that waits as in `await_confirmation`
    and heeds these signals; ``say``: tells the user the state; ``lowered``: called with the lowering; ``operation``:
    the operation of the run, once it has begun.
    """

    guardian: Guardian
    seconds: float
    through: Callable[[], ViaOpensm]
    wait: Callable[[Interrupts], Callable[[float], bool]]
    say: Callable[[str], None]
    lowered: Callable[[Lowering | None], object]
    operation: int | None = None

    def began(self, operation: int, start: int) -> None:
        """Note the operation of the run and its start, and tell the guard."""
        self.operation = operation
        self.guardian.send_start(operation, start)

    def make(self, writer: ChangeWriter, run: PlannedRun, make: Callable[[], None]) -> None:
        """Call *make* to make the run, wait for its confirmation, or lower its level. Raises the errors of *make* and
        of lowering."""
        error: IbkeysError | KeyboardInterrupt | None = None
        with Interrupts(survive_hangup=True) as interrupts:
            try:
                make()
            except (IbkeysError, KeyboardInterrupt) as caught:
                error = caught
            if self.operation is not None and not self.is_kept(writer, error, self.wait(interrupts)):
                try:
                    self.lowered(lower_unconfirmed(writer, self.through(), self.operation))
                except Refused as refusal:
                    raise _not_lowered(refusal) if refusal.interlock == OVERTAKEN else refusal from None
                run.account.gone_back = True
        if error is not None:
            raise error

    def is_kept(
        self,
        writer: ChangeWriter,
        error: BaseException | None,
        wait: Callable[[float], bool],
        now: Callable[[], float] = seconds_since_boot,
    ) -> bool:
        """Wait for the confirmation of the completed run. Return True when it stays, False when it must be rolled back
        now.

        A run that *error* stopped waits too, because the user may want to resume it. An interrupted run is rolled back
        at once. A run that did not raise the level stays without waiting: there is nothing to roll back. *wait*, *now*:
        as in `await_confirmation`. Raises StoreError.
        """
        assert self.operation is not None
        record = record_of_last_run(writer)
        with Journal(writer.fabric.stores.journal) as journal:
            if not is_raised(record):
                journal.move_stage(self.operation, "running", "ended")
                return True
            level = level_to_fall_to(record)
            if isinstance(error, KeyboardInterrupt):
                self.say(f"{error}: the level is lowered to {level}")
                return False
            journal.move_stage(self.operation, "running", "unconfirmed")
            self.guardian.send("waiting")
            if error is not None:
                self.say(str(error))
            what = f"the level is lowered to {level} in {self.seconds:g} s, with the same M_Key,"
            what = f"operation {self.operation}: {what}"
            return bool(ask_for_confirmation(journal, self.operation, what, self.seconds, now, wait, self.say))


def _not_lowered(refusal: Refused) -> Incomplete:
    """Return the error for a run of this process that was not confirmed in time, and whose level was not lowered
    because another program or administrator has changed values that it set. The refusal says that nothing was written,
    which is not true of the whole command."""
    error = Incomplete(f"the run was not confirmed, and its level was not lowered: {refusal.message}")
    return error.going_on(*refusal.way_on).explained(refusal.more)
