"""Giving all other OpenSMs the policy file of the master, so that an SM that takes over changes nothing.

It is an apply of the policy in force: the other OpenSMs get the file, no port changes, and no OpenSM is signalled.
Undo, resume and the interlocks are those of an apply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ibkeys.apply.apply import Permissions, plan_apply
from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan
from ibkeys.apply.carriers import CarrierChoice, carrier_of
from ibkeys.apply.opensm.carrier import OpensmCarrier
from ibkeys.apply.opensm.interlocks import STANDBY_DIFFERS
from ibkeys.change.writer import ChangeWriter
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, difference
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.master_policy import MasterPolicy
from ibkeys.plan.digest import state_digest
from ibkeys.plan.model import FabricState, PartitionPlan, PlanOptions, PolicySource


@dataclass(frozen=True, slots=True)
class SpreadFile:
    """The policy file of another OpenSM. ``difference``: a unified diff from its contents to the master's policy, ""
    if they are the same."""

    file: OpensmFile
    difference: str

    @property
    def differs(self) -> bool:
        """Whether the file gets the master's policy."""
        return bool(self.difference)


def plan_spread(
    writer: ChangeWriter, master: MasterPolicy, via: CarrierChoice, hooks: ApplyHooks | None = None
) -> ApplyPlan:
    """Plan to give each other OpenSM of the subnet the policy of *master*, as it was read.

    *via*: the hosts, and the settings of a change through OpenSM. SMPs: as `plan_apply` through OpenSM. Interlocks:
    those of an apply, and ``older-policy`` if the policy is older than the last change of the journal.

    Raises Refused (``stale``) if the master has not read its policy, and the errors of `plan_apply`. Raises Refused
    (``standby-differs``) if an SM cannot be reached, and all files that can be reached have the policy already, unless
    the user overrides it. A dry run puts that refusal into ``refusals`` instead.
    """
    settings = replace(via.settings, spreads=True)
    carrier = carrier_of(writer, replace(via, name=OpensmCarrier.name, settings=settings))
    plan = plan_apply(writer, _plan_of(master), Permissions(), hooks, carrier)
    refusals = [
        each.refusal()
        for each in (carrier.objections() if not plan.phases else ())
        if each.interlock == STANDBY_DIFFERS and not writer.consent.covers(each.interlock)
    ]
    if refusals and not writer.dry_run:
        raise refusals[0]
    plan.refusals += refusals
    return plan


def files_of(plan: ApplyPlan) -> list[SpreadFile]:
    """Return the policy files of the other OpenSMs that a plan of `plan_spread` can reach."""
    assert isinstance(plan.carrier, OpensmCarrier)
    *others, master = plan.carrier.files
    titles = ("as it is now", "as the master's")
    return [SpreadFile(file, difference(file.seen.data, master.seen.data, WITHOUT_KEYS, titles)) for file in others]


def absent_sms_of(plan: ApplyPlan) -> tuple[str, ...]:
    """Return the other SMs, in words, whose policy files a plan of `plan_spread` cannot reach."""
    assert isinstance(plan.carrier, OpensmCarrier)
    return plan.carrier.absent_sms


def _plan_of(master: MasterPolicy) -> PartitionPlan:
    """Return the plan of the policy in force, which changes no port."""
    policy = PolicySource(master.policy.path, master.policy.digest, master.policy.data)
    options = PlanOptions.as_in_force(master.part_enforce, master.allow_both_pkeys)
    return PartitionPlan(FabricState(state_digest((), ())), policy, options=options, live_policy=policy)
