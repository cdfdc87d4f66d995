"""An edit of the policy in force: the policy and the fabric are changed together, through the subnet manager."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

from ibkeys.cli import exits
from ibkeys.cli.documents.plans import APPLY
from ibkeys.cli.exits import clean, write, write_each
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.opening import open_source
from ibkeys.cli.options import ViaOptions
from ibkeys.cli.partitions.apply import ApplyRequest
from ibkeys.cli.partitions.apply import carry_out as apply
from ibkeys.cli.partitions.many_ports import ManyPortsOptions
from ibkeys.cli.policies.edit_request import EditOptions, RequestedEdit, warn_of_unread
from ibkeys.cli.policies.edited import difference
from ibkeys.cli.render import write_document
from ibkeys.cli.showing import progress_bar
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.policy import master_policy
from ibkeys.cli.sm.ufm import UfmOptions
from ibkeys.errors import Refused, UsageError
from ibkeys.printable import counted, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibkeys.managers.hosts import SmHost
    from ibkeys.managers.master_policy import MasterPolicy
    from ibkeys.partitions.editing.changes import EditedPolicy
    from ibkeys.partitions.editing.partition_name import PartitionName
    from ibkeys.plan.model import PartitionPlan
    from ibkeys.source import Source

_FILE_ONLY: Final = "with --policy FILE it edits that file only"


def carry_out(requested: RequestedEdit, command_options: EditOptions) -> int:
    """Edit the policy in force, show the difference, ask, and apply it; return the exit code of `ibkeys apply`.

    Raises UsageError if no OpenSM of this host or of those named is master, Refused for removals in other partitions
    and for an interlock, and the errors of planning and applying.
    """
    command = requested.document.name
    if command_options.editing.out is not None:
        raise UsageError(f"--out: {command} writes a file only with --policy FILE")
    where = command_options.where
    if where.snapshot is not None:
        raise UsageError(f"--from reads a file, and {command} without --policy FILE changes the fabric: {_FILE_ONLY}")
    with open_source(where) as source, progress_bar(where) as progress:
        from ibkeys.plan.from_fabric import plan_of_sweep, sweep_for_plan
        from ibkeys.plan.model import Enforce, PlanOptions, PolicySource

        hosts = hosts_of(where, command_options.sm_hosts)
        master = _policy_in_force(source, hosts)
        topology, _ = sweep_for_plan(source, master.policy, progress)
    warn_of_unread(topology)
    ports_of_words = requested.look_up(topology)
    edited = requested.edit(master.policy, ports_of_words)
    exits.warn_each(edited.notes, "note")
    if not edited.pending:
        _report_no_change(command_options)
        return exits.DONE
    enforce = master.part_enforce if master.part_enforce in get_args(Enforce) else "both"
    options = PlanOptions(enforce, bool(master.allow_both_pkeys), False, ())  # type: ignore[arg-type]
    present = PolicySource(master.policy.path, master.policy.digest, master.policy.data)
    plan = plan_of_sweep(edited.after, topology, present, options)
    if command_options.format == "table":
        write_each(map(clean, difference(edited)))
    _refuse_other_removals(plan, edited, command_options.editing.allow_removals, requested.target)
    request = _request(command_options, plan, requested, requested.lacking_ipoib(master.policy))
    request = replace(request, objections=ports_of_words.objections)
    return apply(request, command_options.editing.confirm_within)


def _policy_in_force(source: Source, hosts: Sequence[SmHost]) -> MasterPolicy:
    try:
        return master_policy(source, hosts)
    except UsageError as error:
        raise error.going_on(_FILE_ONLY) from None


def _report_no_change(command_options: EditOptions) -> None:
    """Write the result of an edit that leaves the policy in force as it is: that of an apply without a phase."""
    result: dict[str, Any] = {"dry_run": command_options.consent.dry_run, "applied": False, "complete": True}
    result |= {"gone_back": False, "operation": None, "digest": None, "carrier": "opensm", "left_for_later": 0}
    result |= {"removals": 0, "phases": [], "breaks": [], "notes": [], "interlocks": [], "errors": []}
    if not write_document(command_options.format, APPLY, lambda: result, []):
        write("nothing to change: the policy in force says this already")


def _request(
    command_options: EditOptions, plan: PartitionPlan, requested: RequestedEdit, lacking_ipoib: str
) -> ApplyRequest:
    """Return the request to apply *plan*; the removals in it were looked at before. *lacking_ipoib*: the consequence
    that --no-ipoib confirms, "" for none.
    """
    from ibkeys.apply.apply import Permissions
    from ibkeys.change.consent import Question

    many = ManyPortsOptions(
        command_options.where,
        command_options.consent,
        command_options.format,
        command_options.sm_hosts,
        UfmOptions(),
        command_options.folding,
    )
    permissions = Permissions(removals=True, breaks=command_options.editing.allow_break)
    each = gives_each(command_options.folding, command_options.format)
    return ApplyRequest(
        many,
        each,
        permissions,
        ViaOptions("opensm", command_options.editing.sm_wait),
        plan=plan,
        command=requested.document.name,
        subject=requested.subject,
        questions=(Question(lacking_ipoib, "--no-ipoib"),) if lacking_ipoib else (),
    )


def _refuse_other_removals(
    plan: PartitionPlan, edited: EditedPolicy, is_allowed: bool, target: PartitionName | None
) -> None:
    """Raise Refused if *plan* removes P_Keys that the edit has nothing to do with, because the fabric differs from the
    policy in force."""
    from ibkeys.plan.order import removals

    bases = {change.base for change in edited.changes} | _bases(edited, target)
    others = [(port, key) for port, key in removals(plan.tables) if key.partition not in bases]
    if others and not is_allowed:
        what = counted(len(others), "P_Key")
        raise Refused(
            f"the fabric differs from the policy in force, so this would also remove {what} of other partitions: "
            f"{named([f'{port} loses {key}' for port, key in others])}; `ibkeys plan opensm` shows all of it, and "
            "--allow-removals permits it",
            "removals",
        )


def _bases(edited: EditedPolicy, target: PartitionName | None) -> set[int]:
    from ibkeys.partitions.editing.partition_name import find_partition

    found = find_partition(edited.before, target) if target is not None else None
    return set() if found is None else {found.base}
