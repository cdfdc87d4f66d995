"""A hardening: audit findings become one plan, which is carried out step by step.

The order of the steps is such that none exposes data that a later one writes: folders before the first key, the SA_Key
before the first M_Key, tables before M_Keys close the ports. A hardening stores no state: after a failed step, running
it again repeats the audit and continues with the remaining steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ibkeys.audit.findings import Report, Severity
from ibkeys.change.consent import Consent, Objection
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, Refused
from ibkeys.fabric.live import LiveFabric
from ibkeys.harden.enforcement import ENFORCEMENT
from ibkeys.harden.files import FOLDERS, KEY_FILES
from ibkeys.harden.findings import StepName, by_step, failing
from ibkeys.harden.m_keys import M_KEYS, NEW_M_KEY
from ibkeys.harden.partitions import PARTITIONS
from ibkeys.harden.sm_keys import SM_KEYS
from ibkeys.harden.step import COMMAND, HardeningStep, HardenRequest, StepChange

STEPS: Final[tuple[HardeningStep, ...]] = (FOLDERS, SM_KEYS, ENFORCEMENT, PARTITIONS, NEW_M_KEY, M_KEYS, KEY_FILES)
"""All steps, in the order in which they are made."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan.

    ``rules``: those whose findings it fixes; ``change``: its planned change, None if that is not known; ``refusals``:
    the reasons for a refusal, besides interlocks.
    """

    step: HardeningStep
    rules: tuple[str, ...]
    change: StepChange | None
    refusals: Sequence[IbkeysError]

    def to_json(self) -> dict[str, Any]:
        """Return the step as the JSON document has it. No key is in it."""
        change = self.change
        return {
            "step": self.step.name,
            "title": self.step.title,
            "command": self.step.command,
            "rules": list(self.rules),
            "changes": list(change.words) if change is not None else [],
            "way_back": change.way_back if change is not None else None,
            "refusals": [str(each) for each in self.refusals],
        }


@dataclass(slots=True)
class Hardening(Plan):
    """A plan of steps: its notes, interlocks and questions are those of all of them. ``unmade``: the parts not done."""

    steps: list[PlannedStep] = field(default_factory=list)
    unmade: list[str] = field(default_factory=list)

    @property
    def pending(self) -> bool:
        """Whether any step has to be made."""
        return bool(self.steps)


def plan_hardening(
    fabric: LiveFabric,
    consent: Consent,
    asked: HardenRequest,
    report: Report,
    severity: Severity,
    steps: Sequence[HardeningStep] = STEPS,
) -> Hardening:
    """Plan the steps for the findings of *report* with *severity* or worse, and those that are due without a finding.

    Nothing is written or locked. A step that is refused is in the plan with its reason: nothing is made then. Raises
    StoreError.
    """
    plan = Hardening(COMMAND)
    calls = by_step(failing(report, severity))
    lifted: set[str] = set()
    for step in _needed(fabric, asked, calls, steps):
        with ChangeWriter(fabric, step.command, consent, dry_run=True) as writer:
            try:
                change = step.plan_change(writer, asked)
                refusals = change.refusals if change is not None else ()
            except IbkeysError as error:
                change, refusals = None, (error,)
        if change is None and not refusals:
            continue
        plan.steps.append(PlannedStep(step, calls.get(step.name, ()), change, refusals))
        plan.refusals += refusals
        if change is not None:
            plan.notes += [each for each in change.notes if each not in plan.notes]
            plan.objections += _new_ones(plan.objections, change.objections, lifted)
            plan.questions += change.questions
        lifted |= step.lifts
    return plan


def _needed(
    fabric: LiveFabric, asked: HardenRequest, calls: Mapping[StepName, tuple[str, ...]], steps: Sequence[HardeningStep]
) -> list[HardeningStep]:
    """Return the steps that fix findings, that are due without a finding, or that another of these needs."""
    wanted = set()
    for step in steps:
        with ChangeWriter(fabric, step.command, dry_run=True) as writer:
            if step.is_asked_for(asked) and (step.name in calls or step.is_due(writer, asked)):
                wanted.add(step.name)
    return [step for step in steps if step.name in wanted or step.serves & wanted]


def _new_ones(known: Sequence[Objection], more: Sequence[Objection], lifted: set[str]) -> list[Objection]:
    """Return the objections of a step that are new, and that no earlier step removes."""
    named_before = {(each.interlock, each.message) for each in known}
    return [
        each for each in more if each.interlock not in lifted and (each.interlock, each.message) not in named_before
    ]


def make(
    fabric: LiveFabric,
    consent: Consent,
    asked: HardenRequest,
    hardening: Hardening,
    options: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Make the steps one after the other; each is planned again for the fabric as it then is.

    *options*: the user's options, for the journal; *say*: called with each step before it. A step that leaves something
    undone is the last. Raises the errors of a step, with the step's number and how to continue.
    """
    count = len(hardening.steps)
    for number, planned in enumerate(hardening.steps, 1):
        step = planned.step
        say(f"step {number} of {count}: {step.title}")
        try:
            with ChangeWriter(fabric, step.command, consent, options=options) as writer:
                change = step.plan_change(writer, asked)
                if change is None:
                    continue  # an earlier step has done it
                _refuse(consent, change)
                hardening.unmade += change.make()
        except IbkeysError as error:
            raise _explained(error, number, count, planned) from None
        if hardening.unmade:
            return


def _refuse(consent: Consent, change: StepChange) -> None:
    """Raise Refused for the first interlock of a step that was not overridden, or the step's other refusals."""
    objections = [each for each in change.objections if not consent.covers(each.interlock)]
    if objections:
        raise objections[0].refusal(objections[1:])
    for refusal in change.refusals:
        raise refusal


def _explained(error: IbkeysError, number: int, count: int, planned: PlannedStep) -> IbkeysError:
    """Add to an error its step, the steps that are done, and the commands that continue. A refused step has nothing to
    roll back."""
    done = f"the {number - 1} steps before it are done and verified" if number > 2 else ""
    done = done or ("the step before it is done and verified" if number == 2 else "no step was done before it")
    back = [planned.change.way_back] if planned.change and not isinstance(error, Refused) else []
    error.step = f"step {number} of {count} ({planned.step.title})"
    return error.after("this step changed nothing").going_on(
        done, *(f"to roll this step back: {each}" for each in back), "`ibkeys harden --via opensm` continues"
    )
