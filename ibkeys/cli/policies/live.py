"""An edit of the policy in force: the policy and the fabric are changed together, through the subnet manager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.documents.plans import APPLY
from ibkeys.cli.exits import clean, write, write_each
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import ViaOptions
from ibkeys.cli.partitions.apply import ApplyRequest
from ibkeys.cli.partitions.apply import carry_out as apply
from ibkeys.cli.partitions.many_ports import ManyPortsOptions
from ibkeys.cli.policies.edit_request import EditOptions
from ibkeys.cli.policies.edited import difference, differing_lines, warn_of_new_problems
from ibkeys.cli.policies.members import look_up
from ibkeys.cli.render import write_document
from ibkeys.cli.showing import progress_bar
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.cli.sm.policy import master_policy
from ibkeys.cli.sm.ufm import UfmOptions
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.automation.partition_edits import RequestedEdit
    from ibkeys.automation.policy_in_force import PlannedEdit
    from ibkeys.managers.hosts import SmHost
    from ibkeys.managers.master_policy import MasterPolicy
    from ibkeys.plan.model import PartitionPlan
    from ibkeys.scripting import Fabric

_FILE_ONLY: Final = "with --policy FILE it edits that file only"


def carry_out(requested: RequestedEdit, command_options: EditOptions) -> int:
    """Edit the policy in force, show the difference, ask, and apply it; return the exit code of `ibkeys apply`.

    Raises UsageError if no OpenSM of this host or of those named is master, Refused for removals in other partitions
    and for an interlock, and the errors of planning and applying.
    """
    from ibkeys.automation.policy_in_force import plan_edit, refuse_other_removals
    from ibkeys.change.consent import Consent

    command, editing, where = requested.command, command_options.editing, command_options.where
    if editing.out is not None:
        raise UsageError(f"--out: {command} writes a file only with --policy FILE")
    if where.snapshot is not None:
        raise UsageError(f"--from reads a file, and {command} without --policy FILE changes the fabric: {_FILE_ONLY}")
    with open_fabric(where) as fabric, progress_bar(where) as progress:
        master = _policy_in_force(fabric, hosts_of(where, command_options.sm_hosts))
        planned = plan_edit(fabric, requested, master, exits.warn, exits.note, look_up, progress)
    requested.refuse_index_0(planned.edited, Consent(overrides=frozenset(command_options.consent.override)))
    if planned.plan is None:
        _report_no_change(command_options)
        return exits.DONE
    warn_of_new_problems(planned.edited)
    if command_options.format == "table":
        write_each(map(clean, difference(planned.edited)))
        for file in planned.changed_together.files:
            write_each(map(clean, differing_lines(file.before, file.after, str(file.path))))
    if not editing.allow_removals:
        refuse_other_removals(planned.plan, requested, planned.edited)
    return apply(_request(command_options, planned.plan, requested, planned), editing.confirm_within)


def _policy_in_force(fabric: Fabric, hosts: Sequence[SmHost]) -> MasterPolicy:
    try:
        return master_policy(fabric, hosts)
    except UsageError as error:
        raise error.going_on(_FILE_ONLY) from None


def _report_no_change(command_options: EditOptions) -> None:
    """Write the result of an edit that leaves the policy in force as it is: that of an apply without a phase."""
    result: dict[str, Any] = {"dry_run": command_options.consent.dry_run, "applied": False, "complete": True}
    result |= {"gone_back": False, "operation": None, "digest": None, "carrier": "opensm", "left_for_later": 0}
    result |= {"removals": 0, "phases": [], "breaks": [], "notes": [], "interlocks": [], "errors": []}
    result |= {"rehearsal": None, "waiting": [], "other_indexes": []}
    if not write_document(command_options.format, APPLY, lambda: result, []):
        write("nothing to change: the policy in force says this already")


def _request(
    command_options: EditOptions, plan: PartitionPlan, requested: RequestedEdit, planned: PlannedEdit
) -> ApplyRequest:
    """Return the request to apply *plan*; the removals in it were looked at before."""
    from ibkeys.apply.apply import Permissions

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
        command=requested.command,
        subject=requested.subject,
        questions=planned.questions,
        objections=planned.objections,
        changed_together=planned.changed_together,
    )
