"""A hardening: audit findings become one plan, which is carried out step by step.

The order of the steps protects the keys that later steps write: folders are closed before the first key, and the SA_Key
is changed before the first M_Key. P_Key tables are changed before M_Keys close the ports. A hardening stores no state:
after a failed step, running it again repeats the audit and continues with the remaining steps.
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
from ibkeys.harden.findings import StepName, failing_rules, rules_by_step
from ibkeys.harden.m_keys import M_KEYS, NEW_M_KEY
from ibkeys.harden.partitions import PARTITIONS
from ibkeys.harden.sm_keys import SM_KEYS
from ibkeys.harden.step import COMMAND, HardeningStep, HardenRequest, StepChange

STEPS: Final[tuple[HardeningStep, ...]] = (FOLDERS, SM_KEYS, ENFORCEMENT, PARTITIONS, NEW_M_KEY, M_KEYS, KEY_FILES)
"""All steps, in the order in which they are made."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a plan.

    ``rules``: the audit rules whose findings it fixes; ``change``: its planned change, None if the planning failed;
    ``refusals``: the reasons for a refusal, besides interlocks.
    """

    step: HardeningStep
    rules: tuple[str, ...]
    change: StepChange | None
    refusals: Sequence[IbkeysError]

    def to_json(self) -> dict[str, Any]:
        """Return the step for the JSON document of `ibkeys harden`, without keys."""
        change = self.change
        return {
            "step": self.step.name,
            "title": self.step.title,
            "command": self.step.command,
            "rules": list(self.rules),
            "changes": list(change.words) if change is not None else [],
            "way_back": change.rollback if change is not None else None,
            "refusals": [str(each) for each in self.refusals],
        }


@dataclass(slots=True)
class Hardening(Plan):
    """A plan of steps. Its notes, interlocks and questions are those of all steps. ``unmade``: the parts that were not
    done, in words."""

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
    """Plan the steps for the findings of *report* with *severity* or worse, and the steps that are due without a
    finding.

    Nothing is written or locked. A step that is refused is in the plan with the reason; then no step is made. Raises
    StoreError, HostNotReached, and the errors of a sweep if it cannot be determined whether a step is due.
    """
    plan = Hardening(COMMAND)
    rules = rules_by_step(failing_rules(report, severity))
    lifted: set[str] = set()
    for step in _needed_steps(fabric, asked, rules, steps):
        with ChangeWriter(fabric, step.command, consent, dry_run=True) as writer:
            try:
                change = step.plan_change(writer, asked)
                refusals = change.refusals if change is not None else ()
            except IbkeysError as error:
                change, refusals = None, (error,)
        if change is None and not refusals:
            continue
        plan.steps.append(PlannedStep(step, rules.get(step.name, ()), change, refusals))
        plan.refusals += refusals
        if change is not None:
            plan.notes += [each for each in change.notes if each not in plan.notes]
            plan.objections += _new_objections(plan.objections, change.objections, lifted)
            plan.questions += change.questions
        lifted |= step.lifts
    return plan


def _needed_steps(
    fabric: LiveFabric, asked: HardenRequest, rules: Mapping[StepName, tuple[str, ...]], steps: Sequence[HardeningStep]
) -> list[HardeningStep]:
    """Return the steps that fix findings, the steps that are due without a finding, and the steps that these need."""
    wanted = set()
    for step in steps:
        with ChangeWriter(fabric, step.command, dry_run=True) as writer:
            if step.is_asked_for(asked) and (step.name in rules or step.is_due(writer, asked)):
                wanted.add(step.name)
    return [step for step in steps if step.name in wanted or step.serves & wanted]


def _new_objections(known: Sequence[Objection], more: Sequence[Objection], lifted: set[str]) -> list[Objection]:
    """Return the objections of *more* that are not *known* yet, without those of interlocks that earlier steps remove
    (*lifted*)."""
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
    """Make the steps one after the other. Each is planned again right before it is made.

    *options*: the user's options, for the journal; *say*: called with the title of each step before the step. If parts
    of a step were not done (``hardening.unmade``), no further step is made. Raises the errors of a step, with the
    step's number and how to continue.
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
                _refuse_objections(consent, change)
                hardening.unmade += change.make()
        except IbkeysError as error:
            raise _add_advice(error, number, count, planned) from None
        if hardening.unmade:
            return


def _refuse_objections(consent: Consent, change: StepChange) -> None:
    """Raise Refused for the interlocks of a step that were not overridden, or else the first other refusal of the
    step."""
    objections = [each for each in change.objections if not consent.covers(each.interlock)]
    if objections:
        raise objections[0].refusal(objections[1:])
    for refusal in change.refusals:
        raise refusal


def _add_advice(error: IbkeysError, number: int, count: int, planned: PlannedStep) -> IbkeysError:
    """Add to an error its step, the steps that are done, and the commands that roll back or continue, and return it. A
    refused step has nothing to roll back."""
    done = f"the {number - 1} steps before it are done and verified" if number > 2 else ""
    done = done or ("the step before it is done and verified" if number == 2 else "no step was done before it")
    back = [planned.change.rollback] if planned.change and not isinstance(error, Refused) else []
    error.step = f"step {number} of {count} ({planned.step.title})"
    return error.after("this step changed nothing").going_on(
        done, *(f"to roll this step back: {each}" for each in back), "`ibkeys harden --via opensm` continues"
    )
