"""The confirmation of an apply, and its rollback if it is not confirmed in time: see
`ibkeys.change.confirming.confirmation`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
from ibkeys.change.confirming.confirmation import ask_for_confirmation, block_confirmation, is_unconfirmed
from ibkeys.change.confirming.guardian import Guardian, seconds_since_boot
from ibkeys.change.consent import INTERLOCKS
from ibkeys.errors import IbkeysError
from ibkeys.store.journal import Journal, RunningOperation

_ROLLBACK_ARGUMENTS: Final = (
    *("undo", "--unconfirmed", "--yes", "--force", "--at-once", "--allow-break"),
    *(f"--override={name}" for name in INTERLOCKS),
)


def rollback_arguments(wait: float) -> list[str]:
    """Return the arguments of the command that rolls an unconfirmed apply back without a question. The caller appends
    the number of the operation.

    *wait*: seconds without progress after which a subnet manager is signalled once more, and then given up.
    """
    return [*_ROLLBACK_ARGUMENTS, f"--wait={math.ceil(wait)}"]


def start_guardian(journal: Path, command: Sequence[str], seconds: float, closes_files: bool = False) -> Guardian:
    """Start the guardian that rolls an apply back by *command* if this process dies, see `Guardian`."""
    return Guardian(
        command, partial(is_unconfirmed, journal), seconds, partial(block_confirmation, journal), closes_files
    )


def add_confirmation(
    hooks: ApplyHooks,
    seconds: float,
    guardian: Guardian | None,
    wait: Callable[[float], bool],
    say: Callable[[str], None],
    all_written: Callable[[], None] = lambda: None,
    before_question: Callable[[], None] = lambda: None,
) -> None:
    """Set *hooks* so that a run waits for its confirmation, here and, should this process die, in *guardian*.

    *wait*, *say*, *before_question*: as in `confirm_or_go_back`; *all_written*: called before the run waits.
    """

    other_hook = hooks.on_begin

    def on_begin(operation: RunningOperation) -> None:
        other_hook(operation)
        if guardian is not None and operation.id is not None:
            guardian.send_start(operation.id, len(operation.journal.find(operation.id).starts))

    def on_end(finished: FinishedApply) -> None:
        all_written()
        if guardian is not None:
            guardian.send("waiting")
        confirm_or_go_back(finished, seconds, seconds_since_boot, wait, say, before_question)

    hooks.on_begin, hooks.on_end, hooks.confirm_within = on_begin, on_end, seconds


def confirm_or_go_back(
    run: FinishedApply,
    seconds: float,
    now: Callable[[], float],
    wait: Callable[[float], bool],
    say: Callable[[str], None],
    before_question: Callable[[], None] = lambda: None,
) -> None:
    """Wait until a run is confirmed, and undo it after *seconds* without a confirmation; for `ApplyHooks.on_end`.

    A run that stopped early waits too: the user may want to resume it. A run that the user interrupted rolls back at
    once. *say* tells the user the state; *before_question* is called just before it tells how to confirm.
    """
    operation = run.operation
    assert operation.id is not None
    if isinstance(run.error, KeyboardInterrupt):
        say(f"{run.error}: rolling back")
        operation.journal.leave_stage(operation.id, "running", "going-back")
        operation.keeps_state = True
        _go_back(run)
        return
    with operation.journal.in_one_transaction():  # between the two writes the operation would look confirmed
        operation.journal.leave_stage(operation.id, "running", "unconfirmed")
        operation.journal.set_state(operation.id, operation.outcome or "open")
    operation.keeps_state = True
    if run.error is not None:
        say(str(run.error))
    carrier = run.plan.carrier
    for problem in carrier.start_time_limit():
        say(problem)
    if len(operation.journal.find(operation.id).starts) > 1:
        say(f"all of operation {operation.id} is rolled back then, also the part that was confirmed before")
    how = f" {carrier.rollback_effects}," if carrier.rollback_effects else ""
    what = f"rolling back in {seconds:g} s{how}"
    before_question()
    confirmed = ask_for_confirmation(operation.journal, operation.id, what, seconds, now, wait, say)
    if not confirmed:
        _go_back(run)
    elif confirmed == "here":  # `ibkeys confirm` has already told the guards on other hosts
        run.plan.failed += [(None, problem) for problem in carrier.disarm(confirmed=True)]


def _go_back(run: FinishedApply) -> None:
    """Undo a run that is still open. Set ``plan.gone_back``, and ``plan.is_rollback_refused`` if the carrier refused to
    roll back; put the ports that could not be restored into ``plan.failed``."""
    plan, operation = run.plan, run.operation
    assert operation.id is not None
    plan.gone_back = True
    plan.failed.clear()
    try:
        went_back = plan.carrier.go_back(operation)
        plan.failed += went_back.failed
        plan.late_notes += went_back.notes
        if went_back.is_refused:
            plan.is_rollback_refused = True
            note_refused(operation.journal, operation.id)
    except IbkeysError as error:
        plan.failed.append((None, f"{error}; `ibkeys undo {operation.id}` tries again"))
    if not plan.failed:  # else the guard on the other host may still restore the rest
        plan.failed += [(None, problem) for problem in plan.carrier.disarm(confirmed=False)]


def note_refused(journal: Journal, operation: int) -> None:
    """Note in the journal that the rollback of an unconfirmed operation was refused. No process tries it again. Does
    nothing if the operation is not being rolled back."""
    journal.move_stage(operation, "going-back", "refused")
