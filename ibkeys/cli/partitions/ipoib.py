"""The work of `compare --ipoib`: it compares the IPoIB multicast groups of a policy with the groups that the SA has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits
from ibkeys.cli.documents.agreement import COMPARE_IPOIB
from ibkeys.cli.documents.field import NOTHING
from ibkeys.cli.exits import clean, write
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import AskSa, Where
from ibkeys.cli.render import write_document, write_table
from ibkeys.cli.showing import sweep
from ibkeys.cli.sm.policy import master_policy, read_accepted
from ibkeys.cli.sm.ufm import UfmOptions
from ibkeys.printable import counted

if TYPE_CHECKING:
    from ibkeys.partitions.ipoib import GroupFinding
    from ibkeys.partitions.model import Policy
    from ibkeys.scripting import Fabric

_WORDS: Final = {
    "as-planned": "as the policy says",
    "differs": "DIFFERS",
    "missing": "MISSING",
    "no-member": "no member, so no group",
    "unexpected": "UNEXPECTED",
    "unknown": "not known",
}


def compare_groups_of_ipoib(where: Where, ufm: UfmOptions, sa: AskSa, file: str, members: bool, format: str) -> int:
    """Compare the multicast groups of the policy *file* with the groups of the SA, and return the exit code.

    *file*: a file, ``opensm`` or a UFM. *members*: whether to show which members can join, too; this reads the fabric.
    Raises the errors of `read_accepted`, `master_policy` and `open_fabric`.
    """
    from ibkeys.keys.pkey import PARTITION_MASK
    from ibkeys.partitions.ipoib import count_states
    from ibkeys.partitions.joining import find_joins

    policy = read_accepted(file, ufm)  # before the fabric is opened
    with open_fabric(where) as fabric:
        if policy is None:
            policy = master_policy(fabric).policy
        findings, error = _compare(fabric, where, policy, sa)
        own_partitions = sorted({key & PARTITION_MASK for key in fabric.local().pkeys} - {0})
        joins = None
        if members and error is None:
            joins = find_joins(policy, findings, sweep(fabric, where, p_keys=True), fabric.local().pkeys)
    document = {
        "policy": {"file": policy.path, "digest": policy.digest},
        "groups": [finding.to_json() for finding in findings],
        "summary": count_states(findings),
        "joins": None if joins is None else [each.to_json() for each in joins],
        "asked_from": [f"0x{base:04x}" for base in own_partitions],
        "error": error,
    }
    if not write_document(format, COMPARE_IPOIB, lambda: document, (each.to_json() for each in findings)):
        _write_words(policy, findings, "gave no answer" if error is not None else "shows no broadcast group")
        for each in joins or ():
            name = f" {each.name}" if each.name else ""
            write(clean(f"0x{each.base:04x}{name}: {each.message}"))
    return _finish(policy, findings, own_partitions, error)


def _compare(fabric: Fabric, where: Where, policy: Policy, sa: AskSa) -> tuple[list[GroupFinding], str | None]:
    """Query the SA for its groups. Return the findings, and the error if the SA did not answer, else None.

    The fabric is swept only if a planned group is missing: the group of a partition without members has to be missing.
    """
    from ibkeys.errors import MadStatusError, MalformedMad, NoReply, SendRefused, TransferFailed, Unreachable
    from ibkeys.partitions.ipoib import compare_groups, populated_partitions

    own_p_keys = fabric.local().pkeys
    try:
        groups = fabric.sa(sm_lid=sa.sm_port, pkey_index=sa.pkey_idx).groups()
    except (MadStatusError, MalformedMad, NoReply, SendRefused, TransferFailed, Unreachable) as error:
        return compare_groups(policy, None), str(error)
    findings = compare_groups(policy, groups, own_p_keys=own_p_keys)
    if any(finding.planned is not None and finding.found is None for finding in findings):
        populated = populated_partitions(policy, sweep(fabric, where))
        findings = compare_groups(policy, groups, populated=populated, own_p_keys=own_p_keys)
    return findings, None


def _write_words(policy: Policy, findings: Sequence[GroupFinding], sa_result: str) -> None:
    from ibkeys.partitions.ipoib import count_states
    from ibkeys.partitions.words import mtu_in_words, rate_in_words

    remarks = [finding for finding in findings if finding.state != "as-planned"]
    for each in remarks:
        name = f"{each.name}, " if each.name else ""
        write(clean(f"{_WORDS[each.state]}: {each.mgid_text} ({name}partition 0x{each.base:04x}): {each.message}"))
    if remarks:
        write("")
    rows = []
    for each in findings:
        values = each.found or each.planned
        assert values is not None
        cells = [mtu_in_words(values.mtu), rate_in_words(values.rate), values.sl, f"0x{values.q_key:08x}"]
        rows.append([f"0x{each.base:04x}", each.name or NOTHING, each.mgid_text, *cells, _WORDS[each.state]])
    if rows:
        write_table(("Partition", "Name", "MGID", "MTU", "Rate", "SL", "Q_Key", "SA"), rows)
    else:
        write(clean(f"{policy.path} marks no partition ipoib and defines no group, and the SA {sa_result}"))
    by_state = ", ".join(f"{count} {_WORDS[state].lower()}" for state, count in count_states(findings).items() if count)
    if by_state:
        write(f"{counted(len(findings), 'group')}: {by_state}")


def _finish(
    policy: Policy, findings: Sequence[GroupFinding], own_partitions: Collection[int], error: str | None
) -> int:
    """Write unknown results to standard error, and return the exit code.

    *own_partitions*: the partitions of the local port. *error*: why the SA did not answer; None if it did.
    """
    from ibkeys.partitions.ipoib import PROBLEMS

    if error is not None:
        exits.warn(error, "error")
        return exits.NOT_COMPLETED
    not_visible = [
        f"0x{each.base:04x}" for each in policy.partitions if not each.ipoib and each.base not in own_partitions
    ]
    if not_visible:
        what = f"partition{'s' if len(not_visible) > 1 else ''} {', '.join(not_visible)}"
        have = "have" if len(not_visible) > 1 else "has"
        exits.note(
            f"it is not known whether {what} {have} a broadcast group that should not exist: OpenSM shows it only to a "
            "port with a P_Key of its partition"
        )
    if any(finding.state == "unknown" for finding in findings):
        exits.warn("the result is partial: the SA does not show this port every group", "error")
        return exits.NOT_COMPLETED
    return exits.SAYS_NO if any(finding.state in PROBLEMS for finding in findings) else exits.DONE
