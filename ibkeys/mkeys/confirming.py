"""The confirmation of a run through OpenSM, and lowering its protection level if it is not confirmed in time.

No other run starts while this run may still be rolled back. If a run is not confirmed, its level is lowered, and its
keys stay: see `ibkeys.mkeys.opensm.lowering`, and `ibkeys.change.confirming.confirmation` for the confirmation itself.
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
from ibkeys.mkeys.opensm.last_run_record import record_of_last_run
from ibkeys.mkeys.opensm.lowering import Lowering, plan_lowering
from ibkeys.mkeys.opensm.rollback import fallback_level, is_raised
from ibkeys.mkeys.planning_options import ViaOpensm
from ibkeys.mkeys.rollout.earlier_run import last_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.store.journal import Journal


def lower_unconfirmed(writer: ChangeWriter, through: ViaOpensm, operation: int) -> Lowering | None:
    """Lower the level of a run that was not confirmed in time, and return the change that did it; None if no port and
    no options file is above the target level. *operation*: the number of the run in the journal.

    Raises StoreError if the run did not have to be confirmed, or was confirmed or rolled back already; UsageError if
    the operation is no run of M_Keys; Refused (``overtaken``) if another program or administrator has changed values
    that the run set: the run then no longer waits for a confirmation. After any other error of `plan_lowering`, or of
    the change itself, the level still has to be lowered.
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
        with _advise_on_errors(operation):
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
def _advise_on_errors(operation: int) -> Iterator[None]:
    """In this context, add to each error the commands that lower or keep the level that *operation* raised. The advice
    of an interrupt is replaced, because it is to resume the run, which would raise the level.
    """
    advice = (
        f"the level that operation {operation} raised still has to be lowered: restore the former state with "
        f"`ibkeys undo {operation}`, or keep the raised level with `ibkeys resume {operation}`"
    )
    try:
        yield
    except KeyboardInterrupt:
        raise ExplainedInterrupt("while the level was lowered", advice) from None
    except IbkeysError as error:
        if isinstance(error, Refused) and error.interlock == OVERTAKEN:
            raise
        error.going_on(advice)
        raise


def rollback_arguments(wait: float, standby_wait: float) -> list[str]:
    """Return the arguments of the command that lowers the level of an unconfirmed run; the caller appends the number of
    its operation. *wait*, *standby_wait*: as in `ViaOpensm`. The interlock ``unknown-sm`` is overridden, because the
    run has used this SM already."""
    waits = [f"--wait={math.ceil(wait)}", f"--standby-wait={math.ceil(standby_wait)}"]
    return ["undo", "--unconfirmed", *waits, "--override=unknown-sm"]


def start_guardian(journal: Path, command: Sequence[str], seconds: float, closes_files: bool = False) -> Guardian:
    """Start the guardian that runs *command*, which lowers the level, if this process dies, and return it.
    *journal*, *seconds*, *closes_files*: as in `Guardian`."""
    return Guardian(command, partial(is_unconfirmed, journal), seconds, closes_files=closes_files)


@dataclass(slots=True)
class AwaitedRun:
    """A run that is to be confirmed within ``seconds``, and the child process that lowers its level if this process
    dies.

    ``through``: returns the options for lowering the level; ``wait``: called with the interrupts of the run,
    returns a function that waits for the confirmation as in `await_confirmation`; ``say``: called with each change of
    the state, in words; ``lowered``: called with the change that lowered the level, None if there was
    nothing to lower; ``operation``: the number of the run's operation, None until it begins.
    """

    guardian: Guardian
    seconds: float
    through: Callable[[], ViaOpensm]
    wait: Callable[[Interrupts], Callable[[float], bool]]
    say: Callable[[str], None]
    lowered: Callable[[Lowering | None], object]
    operation: int | None = None

    def began(self, operation: int, start: int) -> None:
        """Note the number of the run's *operation*, and send it, and the number of its *start*, to the guard
        process."""
        self.operation = operation
        self.guardian.send_start(operation, start)

    def make(self, writer: ChangeWriter, run: PlannedRun, make: Callable[[], None]) -> None:
        """Call *make* to make the run, and wait for its confirmation; lower its level if none comes.

        Raises the error of *make* after that, and the errors of `lower_unconfirmed`; Incomplete instead of Refused
        (``overtaken``).
        """
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
        """Wait for the confirmation of the completed run, and return whether the run stays. False: its level must be
        lowered now.

        If *error* stopped the run, it is waited for too, because the user may want to resume the run. After an
        interrupt the level is lowered at once. A run that did not raise the level stays without a confirmation, because
        there is nothing to lower. *wait*, *now*: as in `ask_for_confirmation`. Raises StoreError.
        """
        assert self.operation is not None
        record = record_of_last_run(writer)
        with Journal(writer.fabric.stores.journal) as journal:
            if not is_raised(record):
                journal.move_stage(self.operation, "running", "ended")
                return True
            level = fallback_level(record)
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
    """Return the error for a run that was not confirmed in time, and whose level was not lowered because another
    program or administrator has changed values that the run set. *refusal* says that nothing was written. That is not
    true of the whole command, which made the run."""
    error = Incomplete(f"the run was not confirmed, and its level was not lowered: {refusal.message}")
    return error.going_on(*refusal.way_on).explained(refusal.more)
