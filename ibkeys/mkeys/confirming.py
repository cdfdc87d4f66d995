"""Confirming a run through OpenSM, and lowering its protection level when nobody confirms it in time.

The stage is in the key store (`ibkeys.store.keys.runs.RunStage`), where every process sees it. No other run starts
while this one may still be rolled back. An unconfirmed run only has its level lowered: see
`ibkeys.mkeys.opensm.lowering`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ibkeys.change.confirming.waiting import Decision, await_confirmation
from ibkeys.change.interlocks.overtaken import OVERTAKEN
from ibkeys.change.interrupts import ExplainedInterrupt
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, Refused, StoreError
from ibkeys.mkeys.opensm.earlier import record_of_last_run
from ibkeys.mkeys.opensm.lowering import Lowering, plan_lowering
from ibkeys.mkeys.opensm.planned import ViaOpensm
from ibkeys.mkeys.opensm.way_back import is_raised, level_to_fall_to
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import GOES_BACK, Runs


@dataclass(frozen=True, slots=True)
class _AwaitedRun:
    """A run that awaits confirmation: a `Confirmable`."""

    runs: Runs
    run: int

    @property
    def stage(self) -> str | None:
        return self.runs.stage(self.run)

    def move(self, new: Decision) -> bool:
        return self.runs.move_stage(self.run, "unconfirmed", new)


def is_unconfirmed(keystore: Path, run: int) -> bool:
    """Return whether *run* of *keystore* is rolled back unless it is confirmed. An unreadable store counts as
    not confirmed. Needs no passphrase.
    """
    try:
        with KeyStore(keystore, create=False, upgrade=False) as store:
            return Runs(store).stage(run) in GOES_BACK
    except IbkeysError:
        return True


def confirm_run(store: KeyStore, run: int) -> bool:
    """Confirm a run that waits for it; False when it was confirmed already.

    Raises StoreError when there is nothing to confirm, or it is too late, and says why.
    """
    runs = Runs(store)
    if runs.move_stage(run, "unconfirmed", "confirmed"):
        return True
    stage = runs.stage(run)
    if stage in ("going-back", "gone-back"):
        raise StoreError(
            f"run {run} is rolling back or was rolled back: it is too late to confirm; --resume raises its level again"
        )
    if stage == "running":
        raise StoreError(
            f"run {run} is still running: confirm it when it asks; if its process has died, --resume continues it and "
            "keeps its level"
        )
    if stage != "confirmed":
        raise StoreError(f"run {run} is not waiting for a confirmation")
    return False


def lower_unconfirmed(writer: Writer, through: ViaOpensm, run: int) -> Lowering | None:
    """Lower the level of a run that nobody confirmed; None if there was nothing to lower.

    Raises StoreError if it is not to go back, or is not the last one; Refused (``overtaken``) if somebody else has
    changed what it set: then it waits for nobody any more; and what else `plan_lowering` and lowering raise: then it is
    still to be rolled back.
    """
    runs = Runs(writer.keystore)
    stage, last = runs.stage(run), runs.last()
    if stage not in GOES_BACK or last is None or last.id != run:
        why = {"confirmed": "was confirmed", "gone-back": "was rolled back already"}.get(stage or "", "")
        raise StoreError(f"run {run} {why or 'is not waiting for a confirmation, or is not the last one'}").unchanged()
    if not runs.move_stage(run, stage, "going-back"):
        raise StoreError(f"run {run} was confirmed just now").unchanged()
    with _still_to_go_back(writer.command, run):
        try:
            lowering = plan_lowering(writer, through)
        except Refused as error:
            if error.interlock == OVERTAKEN:  # what it set is not there any more: it waits for nobody, and stays
                runs.move_stage(run, "going-back", None)
            raise
        if lowering is None:
            runs.move_stage(run, "going-back", "gone-back")
        else:
            writer.apply(lowering)
    return lowering


@contextmanager
def _still_to_go_back(command: str, run: int) -> Iterator[None]:
    """Let an error or interrupt raised inside this block say which command lowers the level of *run*. The advice of an
    interrupt is --resume, which would raise the level: it is replaced.
    """
    way_on = (
        f"the level of run {run} still has to be lowered: `ibkeys {command} --via opensm --unconfirmed {run}` lowers "
        "it, --resume keeps it"
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


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How a run is confirmed. ``seconds``: how long it waits; ``now``, ``wait``: as `await_confirmation` has them;
    ``say``: tells the user what is going on; ``waiting``: called when the time begins.
    """

    seconds: float
    now: Callable[[], float]
    wait: Callable[[float], bool]
    say: Callable[[str], None]
    waiting: Callable[[], None]


def let_be_confirmed(writer: Writer, run: int, error: BaseException | None, how: Confirmation) -> bool:
    """Wait for the confirmation of a completed run. Return True when it stays, False when it must be rolled back now.

    A run that *error* stopped waits too, because the user may want to resume it. An interrupted run is rolled back at
    once. A run that did not raise the level stays without waiting: there is nothing to roll back. Raises StoreError.
    """
    runs, record = Runs(writer.keystore), record_of_last_run(writer)
    if not is_raised(record):
        runs.move_stage(run, "running", None)
        return True
    if isinstance(error, KeyboardInterrupt):
        how.say(f"{error}: the level is lowered to {level_to_fall_to(record)}")
        return False
    runs.move_stage(run, "running", "unconfirmed")
    how.waiting()
    if error is not None:
        how.say(str(error))
    how.say(
        f"run {run}: the level is lowered to {level_to_fall_to(record)} in {how.seconds:g} s, with the same M_Key, "
        f"unless confirmed: press Enter, or run `ibkeys {writer.command} --confirm {run}` from any shell"
    )
    confirmed = bool(await_confirmation(_AwaitedRun(runs, run), how.seconds, how.now, how.wait))
    how.say(f"run {run} is confirmed" if confirmed else "not confirmed: rolling back")
    return confirmed
