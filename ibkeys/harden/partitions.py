"""The step for P_Keys: the user's policy replaces OpenSM's own. Without a policy no P_Key changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ibkeys.apply.apply import plan_apply, plan_resume, unfinished
from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.apply.carriers import CarrierChoice, carrier_of
from ibkeys.apply.opensm.carrier import OpensmCarrier
from ibkeys.apply.opensm.site import OpensmSite, find_site
from ibkeys.change.clock import REAL_TIME, look_until
from ibkeys.change.interrupts import Interrupts
from ibkeys.change.subnets import is_elsewhere
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import UsageError
from ibkeys.harden.step import HardeningStep, HardenRequest, StepChange, undo_of
from ibkeys.managers.site import reach
from ibkeys.plan.model import PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.printable import counted
from ibkeys.store.journal import Journal
from ibkeys.topology.model import Topology


class PartitionStep(HardeningStep):
    """The step of one apply through OpenSM."""

    name = "partitions"
    title = "P_Keys as the policy says"
    command = "apply"

    def is_asked_for(self, asked: HardenRequest) -> bool:
        """Return whether the user gave a policy."""
        return asked.policy is not None

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        """Return whether the user gave a policy, which the fabric is then made to match."""
        return asked.policy is not None

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return the changes by the policy, or the rest of an interrupted apply. Raises the errors of `plan_apply` and
        `plan_resume`."""
        interrupts = Interrupts()
        hooks = ApplyHooks(interrupts.check, asked.listener.progress)
        settings = CarrierSettings(asked.wait, asked.permissions.breaks)
        via = CarrierChoice(OpensmCarrier.name, settings, asked.hosts)
        cut_off = _cut_off(writer)
        if cut_off is not None:
            plan = plan_resume(writer, asked.permissions, hooks, via=via, operation=cut_off)
        else:
            plan = self._new(writer, asked, hooks, via)
        if not plan.pending:
            return None
        words = [plan.carrier.way, *_in_words(plan)]
        return StepChange.of(plan, words, undo_of(cut_off), lambda: _make(writer, plan, interrupts))

    def _new(self, writer: ChangeWriter, asked: HardenRequest, hooks: ApplyHooks, via: CarrierChoice) -> ApplyPlan:
        """Plan for the options that the master works with: its enforcement is changed by another step."""
        if asked.policy is None:
            raise UsageError("P_Keys change only with a policy")
        found = writer.fabric.sweep(wanted=Wanted(p_keys=True, sm_info=True))
        writer.fabric.read_alias_guids(found, asked.policy.named_guids)
        site = _site(writer, asked, found)
        options = PlanOptions(site.options.enforce, site.options.allow_both_pkeys)
        made = make_plan(asked.policy, found, options)
        return plan_apply(writer, made, asked.permissions, hooks, carrier_of(writer, via))


PARTITIONS: Final = PartitionStep()


def _site(writer: ChangeWriter, asked: HardenRequest, found: Topology) -> OpensmSite:
    """Return the master OpenSM, after the sweep in which it read the options that an earlier step wrote."""
    reached = reach(writer.enter, asked.hosts)
    return look_until(
        lambda: find_site(writer, reached, found),
        lambda site: not writer.dry_run and bool(site.unread_edit("options")),
        REAL_TIME,
        asked.wait,
    )


def _cut_off(writer: ChangeWriter) -> int | None:
    """Return the unfinished operation of an apply through OpenSM on this subnet, None if there is none.

    An operation by an earlier version of ibkeys may be of any subnet.
    """
    here = {port.guid for port in (writer.fabric.swept or writer.fabric.sweep()).end_ports()}
    with Journal.read(writer.fabric.stores.journal) as journal:
        found = [each for each in unfinished(journal) if not is_elsewhere(journal, each.id, here)]
        kept = journal.options_of(found[-1].id) if found else {}
    return found[-1].id if kept.get("carrier") == OpensmCarrier.name else None


def _in_words(plan: ApplyPlan) -> list[str]:
    words = [f"{phase.name}: {counted(len({step.port.key for step in phase.steps}), 'port')}" for phase in plan.phases]
    if plan.removed:
        words.append(f"P_Keys to be removed, full to limited included: {plan.removed}")
    return [*words, *(f"temporary loss of connectivity: {each.message}" for each in plan.breaks)]


def _make(writer: ChangeWriter, plan: ApplyPlan, interrupts: Interrupts) -> Sequence[str]:
    with interrupts:
        writer.apply(plan)
    return [f"{port}: {error}" if port is not None else error for port, error in plan.failed]
