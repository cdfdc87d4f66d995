"""Waiting for somebody to say that all is well after a change, and rolling back when nobody does.

As network devices do it: the change is made, a time runs, and only a confirmation keeps it. Who may confirm: Enter at
the terminal, or any process through the journal (``apply --confirm ID``). Of confirmation and rolling back exactly one
happens: both move the operation's stage, and the journal lets one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ibkeys.apply.apply_plan import FinishedApply
from ibkeys.apply.carriers import options_of
from ibkeys.apply.opensm.guards import confirm_guards
from ibkeys.change.confirming.waiting import Decision, await_confirmation
from ibkeys.change.next_commands import next_commands_of
from ibkeys.errors import IbkeysError, StoreError
from ibkeys.store.journal import Journal


@dataclass(frozen=True, slots=True)
class _AwaitedOperation:
    """An operation of the journal that is to be confirmed: an `Awaited`."""

    journal: Journal
    operation: int

    @property
    def stage(self) -> str | None:
        plan = self.journal.plan_of(self.operation)
        return plan.stage if plan is not None else None

    def move(self, new: Decision) -> bool:
        return self.journal.move_stage(self.operation, "unconfirmed", new)


def is_unconfirmed(journal: Path, operation: int) -> bool:
    """Return whether an operation of the *journal* is rolled back unless somebody confirms it. What cannot be read was
    not confirmed."""
    try:
        with Journal.read(journal) as stored:
            record = stored.find(operation)
    except IbkeysError:
        return True
    is_cut_off = record.state == "open" and record.stage == "running"
    return record.awaits_confirmation or record.is_going_back or is_cut_off


def may_go_back(journal: Path, operation: int) -> bool:
    """Return whether an operation of the *journal* is rolled back now. Then nobody can confirm it any more: of this and
    a confirmation the journal lets one happen."""
    if not is_unconfirmed(journal, operation):
        return False
    # where the journal cannot be written, undo says so
    with suppress(IbkeysError), Journal(journal, create=False) as stored:
        cut_off = stored.find(operation).stage == "running"
        stored.move_stage(operation, "running" if cut_off else "unconfirmed", "going-back")
    return is_unconfirmed(journal, operation)


def confirm_or_go_back(
    run: FinishedApply,
    seconds: float,
    now: Callable[[], float],
    wait: Callable[[float], bool],
    say: Callable[[str], None],
) -> None:
    """Let a run be confirmed within *seconds*, or undo it; for `ApplyHooks.ended`.

    Also a run that stopped early waits: whoever looks after it may want to resume it. One that was interrupted by the
    user rolls back at once. *say* tells the user what is going on.
    """
    operation = run.operation
    assert operation.id is not None
    if isinstance(run.error, KeyboardInterrupt):
        say(f"{run.error}: rolling back")
        operation.journal.set_stage(operation.id, "going-back")
        operation.has_ended = True
        _go_back(run)
        return
    with operation.journal.in_one_transaction():  # between the two it would look confirmed
        operation.journal.set_stage(operation.id, "unconfirmed")
        operation.journal.set_state(operation.id, operation.outcome or "open")
    operation.has_ended = True
    if run.error is not None:
        say(str(run.error))
    carrier = run.plan.carrier
    for problem in carrier.let_time_run():
        say(problem)
    how = carrier.way_back
    how = f" {how}," if how else ""
    say(
        f"rolling back in {seconds:g} s{how} unless confirmed: press Enter, or run `ibkeys apply --confirm "
        f"{operation.id}` from any shell"
    )
    confirmed = await_confirmation(_AwaitedOperation(operation.journal, operation.id), seconds, now, wait)
    if confirmed:
        # A confirmation from elsewhere has already reached the guards on other hosts.
        for problem in carrier.disarm(confirmed=True) if confirmed == "here" else ():
            run.plan.failed.append((None, problem))
        say(f"operation {operation.id} is confirmed")
        return
    say("not confirmed: rolling back")
    _go_back(run)


def _go_back(run: FinishedApply) -> None:
    """Undo a run that is still open. ``plan.gone_back`` says that it was tried; what could not be restored is in
    ``plan.failed``."""
    plan, operation = run.plan, run.operation
    assert operation.id is not None
    plan.gone_back = True
    plan.failed.clear()
    try:
        went_back = plan.carrier.go_back(operation)
        plan.failed += went_back.failed
        if went_back.is_refused:
            plan.not_gone_back = True
            note_refused(operation.journal, operation.id)
    except IbkeysError as error:
        plan.failed.append((None, f"{error}; `ibkeys undo {operation.id}` tries again"))
    if not plan.failed:  # otherwise the guard on another host may do better
        plan.failed += [(None, problem) for problem in plan.carrier.disarm(confirmed=False)]


def note_refused(journal: Journal, operation: int) -> None:
    """Note in the journal that the rollback of an unconfirmed operation was refused, because somebody else has changed
    what it wrote. No process tries it again. No-op where the operation is not being rolled back."""
    journal.move_stage(operation, "going-back", "refused")


def confirm(journal: Journal, operation: int) -> bool:
    """Confirm an operation that waits for it; False when it was confirmed already. Those who wait on other hosts are
    told first: they do not ask the journal.

    Raises StoreError when there is nothing to confirm, or it is too late, and says why; HostNotReached, HostRefused.
    """
    record = journal.find(operation)
    if record.awaits_confirmation:
        confirm_guards(options_of(journal.plan_of(operation)))
    if journal.move_stage(operation, "unconfirmed", "confirmed"):
        return True
    plan = journal.plan_of(operation)
    if plan is not None and plan.stage == "confirmed" and record.state != "undone":
        return False
    if record.is_refused:
        raise StoreError(
            f"operation {operation} ({record.command}) was not confirmed in time, and its rollback was refused: "
            f"{next_commands_of(record)}"
        )
    if record.state == "undone" or (plan is not None and plan.stage == "going-back"):
        raise StoreError(
            f"operation {operation} ({record.command}) is rolling back or was rolled back: it is too late to confirm"
        )
    if plan is not None and record.state == "open":
        raise StoreError(f"operation {operation} ({record.command}) is still running: confirm it when it asks")
    raise StoreError(f"operation {operation} ({record.command}) is not waiting for a confirmation")
