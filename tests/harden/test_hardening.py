"""A plan of made-up steps: which are made, in which order, what refuses, and how it goes on after a failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from ibkeys.change.consent import Consent, Objection
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import NotStored, Refused, UsageError
from ibkeys.harden.findings import StepName
from ibkeys.harden.hardening import Hardening, make, plan_hardening
from ibkeys.harden.step import HardenRequest, StepChange
from ibkeys.scripting import Fabric
from tests.fabricsim import subnet, tool
from tests.harden.reports import report

FOUND = report(("SE001", "high", "fail"), ("MK001", "critical", "fail"), ("QK003", "high", "fail"))
KEY_OPEN = Objection("default-sa-key", "the SA_Key is the default")
DRIFT = Objection("drift", "a port has more")


@dataclass
class Made:
    """A step that notes in ``log`` what is done with it. ``left``: what it says it has not done; ``error``: what it
    raises when it is made; ``is_done``: there is nothing more to do for it."""

    name: StepName
    log: list[str]
    serves: frozenset[StepName] = frozenset()
    lifts: frozenset[str] = frozenset()
    objections: Sequence[Objection] = ()
    refused: Refused | UsageError | None = None
    error: NotStored | None = None
    left: Sequence[str] = ()
    is_allowed: bool = True
    was_begun: bool = False
    is_done: bool = False
    command: str = "made"
    notes: list[str] = field(default_factory=lambda: ["a note of all"])

    @property
    def title(self) -> str:
        return f"the step {self.name}"

    def is_asked_for(self, asked: HardenRequest) -> bool:
        return self.is_allowed

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        return self.was_begun

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        if self.refused is not None:
            raise self.refused
        if self.is_done:
            return None
        self.log.append(f"{'looks' if writer.dry_run else 'makes'} {self.name}")
        return StepChange([f"changes {self.name}"], f"back {self.name}", self._make, self.notes, self.objections)

    def _make(self) -> Sequence[str]:
        if self.error is not None:
            raise self.error
        self.is_done = not self.left
        return self.left


@pytest.fixture
def fabric() -> Iterator[Fabric]:
    with tool(subnet("two-switch")) as opened:
        yield opened


def planned(fabric: Fabric, *steps: Made) -> Hardening:
    return plan_hardening(fabric, Consent(), HardenRequest(()), FOUND, "high", steps)


def names(plan: Hardening) -> list[str]:
    return [each.step.name for each in plan.steps]


def test_steps_that_findings_call_for_are_planned_in_their_order_and_nothing_is_made(fabric: Fabric) -> None:
    log: list[str] = []
    steps = [Made(name, log) for name in ("enforcement", "new-m-key", "m-keys")]  # type: ignore[arg-type]
    plan = planned(fabric, *steps)
    assert [(each.step.name, each.rules) for each in plan.steps] == [
        ("enforcement", ("SE001",)),
        ("m-keys", ("MK001",)),
    ]
    assert log == ["looks enforcement", "looks m-keys"]
    assert plan.notes == ["a note of all"]


def test_a_step_that_serves_one_comes_with_it_and_not_without(fabric: Fabric) -> None:
    log: list[str] = []
    before = Made("folders", log, serves=frozenset({"m-keys"}))
    after = Made("key-files", log, serves=frozenset({"new-m-key"}))
    assert names(planned(fabric, before, Made("m-keys", log), after)) == ["folders", "m-keys"]


def test_a_step_that_was_begun_goes_on_whatever_the_audit_finds(fabric: Fabric) -> None:
    assert names(planned(fabric, Made("new-m-key", [], was_begun=True))) == ["new-m-key"]
    assert names(planned(fabric, Made("partitions", [], was_begun=True, is_allowed=False))) == []


def test_an_interlock_that_an_earlier_step_removes_is_none_of_the_plan(fabric: Fabric) -> None:
    first = Made("enforcement", [], lifts=frozenset({"default-sa-key"}))
    second = Made("m-keys", [], objections=[KEY_OPEN, DRIFT])
    assert planned(fabric, first, second).objections == [DRIFT]
    assert planned(fabric, second, first).objections == [KEY_OPEN, DRIFT]


def test_a_step_that_would_be_refused_is_in_the_plan_with_its_reason(fabric: Fabric) -> None:
    refused = Refused("sweep_interval is 0", "opensm-keys")
    plan = planned(fabric, Made("m-keys", [], refused=refused))
    assert plan.refusals == [refused]
    assert plan.steps[0].to_json()["refusals"] == ["sweep_interval is 0"]
    assert plan.steps[0].to_json()["way_back"] is None


def test_each_step_is_planned_again_when_its_turn_comes(fabric: Fabric) -> None:
    log: list[str] = []
    one, other = Made("enforcement", log), Made("m-keys", log)
    plan = planned(fabric, one, other)
    other.is_done = True  # the step before did it along
    said: list[str] = []
    make(fabric, Consent(), HardenRequest(()), plan, (), said.append)
    assert log == ["looks enforcement", "looks m-keys", "makes enforcement"]
    assert said == ["step 1 of 2: the step enforcement", "step 2 of 2: the step m-keys"]


def test_a_step_that_fails_says_what_is_made_its_way_back_and_how_to_go_on(fabric: Fabric) -> None:
    log: list[str] = []
    one = Made("enforcement", log)
    other = Made("m-keys", log, error=NotStored("level 1: no port has it"))
    plan = planned(fabric, one, other)
    with pytest.raises(NotStored) as failed:
        make(fabric, Consent(), HardenRequest(()), plan, (), log.append)
    text = str(failed.value)
    assert text.startswith("step 2 of 2 (the step m-keys): level 1: no port has it; the step before it is done")
    assert "back m-keys" in text
    assert "`ibkeys harden --via opensm` continues" in text
    other.error = None
    again = planned(fabric, one, other)
    assert names(again) == ["m-keys"]  # what is done is not planned again


def test_an_interlock_that_came_meanwhile_refuses_the_step(fabric: Fabric) -> None:
    step = Made("m-keys", [])
    plan = planned(fabric, step)
    step.objections = [DRIFT]
    with pytest.raises(Refused, match=r"step 1 of 1 .*interlock drift.*no step was done before it"):
        make(fabric, Consent(), HardenRequest(()), plan, (), lambda text: None)
    make(fabric, Consent(overrides=frozenset({"drift"})), HardenRequest(()), plan, (), lambda text: None)
    assert step.is_done


def test_a_step_that_leaves_something_undone_is_the_last(fabric: Fabric) -> None:
    log: list[str] = []
    plan = planned(fabric, Made("enforcement", log, left=["leaf 3 was silent"]), Made("m-keys", log))
    make(fabric, Consent(), HardenRequest(()), plan, (), lambda text: None)
    assert plan.unmade == ["leaf 3 was silent"]
    assert "makes m-keys" not in log
