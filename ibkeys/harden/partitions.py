"""The step for P_Keys: the user's policy replaces OpenSM's own. Without a policy no P_Key changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ibkeys.apply.apply import list_unfinished, plan_apply, plan_resume
from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.apply.carriers import CarrierChoice, carrier_of
from ibkeys.apply.opensm.carrier import OpensmCarrier
from ibkeys.apply.opensm.site import OpensmSite, find_site
from ibkeys.change.clock import REAL_TIME, look_until
from ibkeys.change.interrupts import Interrupts
from ibkeys.change.subnets import is_of_other_subnet
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
    """The step that applies the user's policy through OpenSM."""

    name = "partitions"
    title = "P_Keys as the policy says"
    command = "apply"

    def is_asked_for(self, asked: HardenRequest) -> bool:
        """Return whether the user gave a policy."""
        return asked.policy is not None

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        """Return whether the user gave a policy: the step is then made without a finding too."""
        return asked.policy is not None

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return the changes to the P_Keys of the policy, or the rest of an interrupted apply; None if nothing has to
        be changed. Raises the errors of `plan_apply`, `plan_resume` and `find_site`."""
        interrupts = Interrupts()
        hooks = ApplyHooks(interrupts.check, asked.listener.progress)
        settings = CarrierSettings(asked.wait, asked.permissions.breaks)
        via = CarrierChoice(OpensmCarrier.name, settings, asked.hosts)
        unfinished = _unfinished_apply(writer, via)
        if unfinished is not None:
            plan = plan_resume(writer, asked.permissions, hooks, via=via, operation=unfinished)
        else:
            plan = self._plan_new(writer, asked, hooks, via)
        if not plan.pending:
            return None
        words = [plan.carrier.sm_in_words, *_in_words(plan)]
        return StepChange.of(plan, words, undo_of(unfinished), lambda: _make(writer, plan, interrupts))

    def _plan_new(self, writer: ChangeWriter, asked: HardenRequest, hooks: ApplyHooks, via: CarrierChoice) -> ApplyPlan:
        """Plan a new apply with the master's present options for enforcement, because another step changes these.
        Raises UsageError without a policy."""
        if asked.policy is None:
            raise UsageError("P_Keys change only with a policy")
        topology = writer.fabric.sweep(wanted=Wanted(p_keys=True, sm_info=True))
        writer.fabric.read_alias_guids(topology, asked.policy.named_guids)
        site = _wait_for_site(writer, asked, topology)
        options = PlanOptions(site.options.enforce, site.options.allow_both_pkeys)
        plan = make_plan(asked.policy, topology, options)
        return plan_apply(writer, plan, asked.permissions, hooks, carrier_of(writer, via))


PARTITIONS: Final = PartitionStep()


def _wait_for_site(writer: ChangeWriter, asked: HardenRequest, topology: Topology) -> OpensmSite:
    """Return the master OpenSM and its files. Unless this is a dry run, wait up to ``asked.wait`` seconds until it has
    read the options that an earlier step wrote."""
    reached = reach(writer.enter, asked.hosts)
    return look_until(
        lambda: find_site(writer, reached, topology),
        lambda site: not writer.dry_run and bool(site.unread_edit("options")),
        REAL_TIME,
        asked.wait,
    )


def _unfinished_apply(writer: ChangeWriter, via: CarrierChoice) -> int | None:
    """Return the number of the last unfinished apply on this subnet if its method is that of *via*, else None.

    An apply by an earlier version of ibkeys may belong to any subnet.
    """
    here = {port.guid for port in (writer.fabric.swept or writer.fabric.sweep()).end_ports()}
    with Journal.read(writer.fabric.stores.journal) as journal:
        on_subnet = [each for each in list_unfinished(journal) if not is_of_other_subnet(journal, each.id, here)]
        options = journal.options_of(on_subnet[-1].id) if on_subnet else {}
    return on_subnet[-1].id if options.get("carrier") == via.name else None


def _in_words(plan: ApplyPlan) -> list[str]:
    words = [f"{phase.name}: {counted(len({step.port.key for step in phase.steps}), 'port')}" for phase in plan.phases]
    if plan.removed:
        words.append(f"P_Keys to be removed, full to limited included: {plan.removed}")
    return [*words, *(f"temporary loss of connectivity: {each.message}" for each in plan.breaks)]


def _make(writer: ChangeWriter, plan: ApplyPlan, interrupts: Interrupts) -> Sequence[str]:
    """Apply the plan, and return the ports that were not changed, with the error."""
    with interrupts:
        writer.apply(plan)
    return [f"{port}: {error}" if port is not None else error for port, error in plan.failed]
