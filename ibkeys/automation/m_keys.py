"""M_Keys of a whole fabric by a script: a new run, and an earlier run that is resumed or undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from ibkeys.automation.making import ChangeArguments, NewKeys, PreparedChange, make_change
from ibkeys.automation.methods import METHODS, ChangeMethod, ThroughOpenSM, key_method, via_opensm
from ibkeys.automation.result import ChangeResult, PortOutcome
from ibkeys.change.method import MethodChoice
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import UsageError
from ibkeys.mkeys.confirming import AwaitedRun, rollback_arguments, start_guardian
from ibkeys.mkeys.methods import KeyMethod
from ibkeys.mkeys.opensm.lowering import Lowering
from ibkeys.mkeys.opensm.planned import choose_for_keys
from ibkeys.mkeys.planning_options import PlanningOptions, RunListener, ViaOpensm
from ibkeys.mkeys.rollout.new_keys import KeyCommand
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.store.journal.runs import REMOVAL, RunOptions
from ibkeys.topology.port_id import PortId


@dataclass
class _Run(PreparedChange):
    """A prepared run. ``results``: of each port that is finished."""

    run: PlannedRun
    asked: ChangeArguments
    awaits: AwaitedRun | None
    results: list[PortResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan = self.run.plan

    @property
    def method(self) -> str:
        """``opensm`` or ``direct``."""
        return self.run.method_name

    @property
    def is_pending(self) -> bool:
        """Whether ports change, or only the key store is updated."""
        return self.run.pending

    @property
    def choice(self) -> MethodChoice | None:
        """The reason for the method, if ibkeys chose it."""
        return self.run.choice

    def make(self, writer: ChangeWriter) -> None:
        """Make the run, and wait for its confirmation if it needs one."""
        whole = len(self.run.jobs) + len(self.run.already_set) + len(self.run.skipped)

        def report(result: PortResult) -> None:
            self.results.append(result)
            self.asked.begun = self.run.account.operation or self.asked.begun
            self.asked.tell("ports", len(self.results), whole)

        if self.awaits is None:
            carry_out(writer, self.run, report)
        else:
            self.awaits.make(writer, self.run, lambda: carry_out(writer, self.run, report))

    def result(self, is_made: bool) -> ChangeResult:
        """Return the result of the run, port by port."""
        run, account = self.run, self.run.account
        results = self.results if is_made else run.skipped
        named = {kind: [each for each in results if each.result == kind] for kind in ("done", "failed", "skipped")}
        done, failed, left = (
            [PortOutcome(PortId.of_json(each.port), each.reason or "") for each in each_kind]
            for each_kind in named.values()
        )
        finished = {each.port.key for each in (*done, *failed) if each.port is not None}
        why = "waits for Operation.resume" if is_made else "not changed"
        left += [PortOutcome(job.port.id, why) for job in run.jobs if job.port.id.key not in finished]
        left += [PortOutcome(None, f"{run.later} ports after the first wait for Operation.resume")] if run.later else []
        is_whole = account.is_complete and not any(each.unread or each.overtaken for each in results)
        return ChangeResult(
            run.plan.command,
            account.operation or None,
            changed=is_made and run.acts,
            proven=is_whole and (not run.acts or is_made) and not run.later and not account.waiting,
            done=tuple(done),
            failed=tuple(failed),
            left=tuple(left),
            gone_back=account.gone_back,
            notes=(account.stopped,) if account.stopped else (),
        )


def give_keys(command: KeyCommand, asked: ChangeArguments, keys: NewKeys) -> ChangeResult:
    """Give ports their first M_Keys, or new ones. Raises UsageError if ``same`` and ``per_port`` are both given, or
    neither of them without ``via=ThroughOpenSM()``, and for an argument that the method does not have; and the errors
    of `plan_run` and `plan_keys`."""
    per_port, key = keys.get("per_port", False), keys.get("new_key")
    if per_port is (keys.get("same", False) or not key_method(asked.via).sends_sets):
        raise UsageError("give either same=True, which OpenSM needs, or per_port=True, which stock OpenSM cannot keep")
    options = RunOptions(not per_port, keys.get("protect"), keys.get("lease"), first=keys.get("first"))
    return _change(
        command,
        asked,
        {"first=": options.first, "per_port=": per_port or None},
        lambda method, writer, planning: method.plan_keys(writer, command, options, key, planning),
    )


def remove_keys(asked: ChangeArguments, first: int | None, *, leaves_open: bool) -> ChangeResult:
    """Remove the M_Key of every port. Raises UsageError for *first* through OpenSM, and the errors of `plan_removal` of
    either method."""
    options = RunOptions(False, 0, 0, first=first)
    return _change(
        REMOVAL,
        asked,
        {"first=": first},
        lambda method, writer, planning: method.plan_removal(writer, options, planning),
        leaves_open=leaves_open,
    )


def resume_keys(command: str, asked: ChangeArguments, first: int | None) -> ChangeResult:
    """Finish the last run. If it changed only its first ports so far, finish these and change *first* more ports (None:
    all others). Raises UsageError for *first* through OpenSM, and the errors of `plan_rest` of either method.
    """
    return _change(
        command,
        asked,
        {"first=": first},
        lambda method, writer, planning: method.plan_rest(writer, replace(planning, first=first)),
    )


def undo_keys(command: str, asked: ChangeArguments, *, leaves_open: bool = False) -> ChangeResult:
    """Restore the keys and levels that the last run found at its ports. Raises the errors of `plan_return` of either
    method."""
    return _change(
        command,
        asked,
        {},
        lambda method, writer, planning: method.plan_return(writer, planning),
        leaves_open=leaves_open,
    )


def _change(
    command: str,
    asked: ChangeArguments,
    of_direct: Mapping[str, object],
    plan: Callable[[KeyMethod, ChangeWriter, PlanningOptions], PlannedRun],
    *,
    leaves_open: bool = False,
) -> ChangeResult:
    """Make the run that *plan* plans. *of_direct*: arguments that only a method has that sends Sets, by name."""
    _method(asked.via, of_direct)  # invalid arguments are refused before anything is sent
    with _awaiting(asked, asked.seconds) if asked.seconds is not None else nullcontext() as awaits:

        def prepare(writer: ChangeWriter) -> _Run:
            choice = None
            if asked.via is None and asked.goes_on is None and not asked.fabric.is_simulated:
                choice = choose_for_keys(writer, ThroughOpenSM().sm_hosts())
            via = asked.via if choice is None else METHODS[choice.require()]()
            asked.refuse_unseen(choice)
            planning = PlanningOptions(lambda: _through(asked, via, awaits), leaves_open=leaves_open)
            run = plan(_method(via, of_direct), writer, planning)
            run.choice = choice
            return _Run(run, asked, awaits)

        return make_change(command, asked, prepare)


def _method(via: ChangeMethod | None, of_direct: Mapping[str, object]) -> KeyMethod:
    """Return the method of the run. Raises UsageError for arguments that it does not support."""
    method = key_method(via)
    given = [name for name, value in of_direct.items() if value is not None]
    if given and not method.sends_sets:
        raise UsageError(f"OpenSM sets all ports in one sweep, to one key: omit {', '.join(given)}")
    return method


def _through(asked: ChangeArguments, via: ChangeMethod | None, awaits: AwaitedRun | None) -> ViaOpensm:
    """Return the options of a run through OpenSM."""

    def began(operation: int, start: int) -> None:
        asked.begun = operation
        if awaits is not None:
            awaits.began(operation, start)

    return via_opensm(via, RunListener(asked.tell, asked.tell, began), asked.confirm_within is not None)


@contextmanager
def _awaiting(asked: ChangeArguments, seconds: float) -> Iterator[AwaitedRun]:
    """Start the process that lowers the level when this one dies. Raises UsageError for the direct method, a journal in
    memory, and a simulated subnet."""
    journal = asked.fabric.stores.journal
    if key_method(asked.via).sends_sets or journal is None or asked.fabric.is_simulated:
        raise UsageError("confirm_within= of M_Keys needs via=ThroughOpenSM(), and a simulated subnet has no OpenSM")

    def lowered(lowering: Lowering | None) -> None:
        for guid, why in lowering.unproven.items() if lowering is not None else ():
            asked.tell(f"port GUID 0x{guid:016x}: {why}; OpenSM lowers its level when the port is back")

    through = _through(asked, asked.via, None)
    command = asked.command_for_child(rollback_arguments(through.wait, through.standby_wait))
    with asked.guarded(start_guardian(journal, command, seconds, closes_files=True)) as guardian:
        yield AwaitedRun(guardian, seconds, lambda: through, asked.waiting, asked.tell, lowered)
