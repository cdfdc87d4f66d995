"""An edit of the policy in force: the policy of the master's OpenSM is read, edited, and planned for the fabric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ibkeys.apply.by_sm.changed_together import ChangedTogether
from ibkeys.arguments import given
from ibkeys.automation.absent_hosts import find_replaced, look_up_also_absent
from ibkeys.automation.named_ports import PortsOfWords, look_up, unread_in
from ibkeys.automation.partition_edits import RequestedEdit
from ibkeys.change.consent import Objection, Question
from ibkeys.discovery.wanted import OnFound
from ibkeys.errors import Refused
from ibkeys.fabric.live import LiveFabric
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.master_policy import MasterPolicy, policy_of_master
from ibkeys.partitions.editing.changes import EditedPolicy
from ibkeys.partitions.editing.partition_name import find_partition
from ibkeys.plan.from_fabric import plan_of_sweep, sweep_for_plan
from ibkeys.plan.model import PartitionPlan, PlanOptions, PolicySource
from ibkeys.plan.order import removals
from ibkeys.printable import counted, named
from ibkeys.topology.model import Topology


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """An edit of the policy in force that was not made yet. ``plan``: None if the policy in force says this already.
    ``questions``: consequences that the user must be asked about; ``objections``: the interlocks that the edit itself
    triggers; ``changed_together``: the files and places that change together with the policy."""

    edited: EditedPolicy
    plan: PartitionPlan | None = None
    questions: tuple[Question, ...] = ()
    objections: tuple[Objection, ...] = ()
    changed_together: ChangedTogether = field(default_factory=ChangedTogether)


def read_policy_in_force(fabric: LiveFabric, hosts: Sequence[SmHost]) -> MasterPolicy:
    """Return the policy of the OpenSM that is master. *hosts*: the hosts on which it may run, this one first.

    Raises the errors of `policy_of_master`.
    """
    this_host, *others = hosts or [SmHost()]
    return policy_of_master(fabric, this_host.entry, others=others)


def plan_edit(
    fabric: LiveFabric,
    requested: RequestedEdit,
    master: MasterPolicy,
    warn: Callable[[str], None],
    note: Callable[[str], None],
    find_ports: Callable[[Topology, Sequence[str]], PortsOfWords] = look_up,
    progress: OnFound | None = None,
) -> PlannedEdit:
    """Edit *master*, the policy in force, and plan the changes of the fabric.

    *warn*, *note*: called with each warning and note. *find_ports*: looks the words up, unless *requested* does. SMPs:
    a sweep, with all P_Key tables. Raises AddressError and UsageError for words and for an edit that the policy cannot
    express, StoreError, and the errors of the sweep and of planning.
    """
    topology, _ = sweep_for_plan(fabric, master.policy, progress)
    for text in unread_in(topology):
        warn(text)
    if requested.find is not None:
        found = find_replaced(fabric, master.policy, topology, "".join(requested.words[:1]), requested.find)
    else:
        found = look_up_also_absent(fabric, master.policy, topology, requested.words, find_ports)
    edited = requested.edit(master.policy, found)
    if edited.pending and edited.unchanged:
        count = len(edited.unchanged)
        listed = named([found.known.text_of(guid) for guid in edited.unchanged])
        note(f"{counted(count, 'port')} {'is' if count == 1 else 'are'} already as requested: {listed}")
    for text in edited.notes:
        note(text)
    changed_together = (
        requested.changed_together(topology) if requested.changed_together is not None else ChangedTogether()
    )
    if not (edited.pending or changed_together):
        others = sum(port.is_sm for port in topology.end_ports()) - 1
        if others > 0:
            them = counted(others, "other SM")
            note(f"the policies of {them} were not compared: `ibkeys partition-spread --dry-run` shows the differences")
        return PlannedEdit(edited)
    # The plan is refused later if the file in force is no longer the one that was edited.
    present = PolicySource(master.policy.path, master.policy.digest, master.policy.data)
    options = PlanOptions.as_in_force(master.part_enforce, master.allow_both_pkeys)
    plan = plan_of_sweep(edited.after, topology, present, options)
    remark = requested.lacking_ipoib(master.policy)
    questions = (Question(remark, given("--no-ipoib")),) if remark else ()
    return PlannedEdit(edited, plan, questions, found.objections, changed_together)


def refuse_other_removals(plan: PartitionPlan, requested: RequestedEdit, edited: EditedPolicy) -> None:
    """Raise Refused (``removals``) if *plan* removes P_Keys that the edit has nothing to do with, because the fabric
    differs from the policy in force. Called if the user gave no permission for that."""
    found = find_partition(edited.before, requested.target) if requested.target is not None else None
    bases = {change.base for change in edited.changes} | (set() if found is None else {found.base})
    others = [(port, key) for port, key in removals(plan.tables) if key.partition not in bases]
    if others:
        what = counted(len(others), "P_Key")
        raise Refused(
            f"the fabric differs from the policy in force, so this would also remove {what} of other partitions: "
            f"{named([f'{port} loses {key}' for port, key in others])}; `ibkeys plan opensm` shows all of it, and "
            f"{given('--allow-removals')} permits it",
            "removals",
        )
