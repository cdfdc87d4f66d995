"""The command `policy-check`: problems of a partitions.conf, its meaning, and a clean copy."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.policies import POLICY_CHECK
from ibkeys.cli.exits import clean, write, write_as_is, write_each
from ibkeys.cli.help.command import command
from ibkeys.cli.render import write_document
from ibkeys.cli.sm.policy import is_opensm, only_policy, refuse_url
from ibkeys.cli.sm.ufm import UfmOptions, ufm_options, ufm_policy
from ibkeys.printable import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibkeys.partitions.dialect import Dialect
    from ibkeys.partitions.model import Policy, PolicyProblem


@command("policy-check")
@click.argument("file")
@options.flag("--pin", help="Write out the P_Keys that OpenSM would pick by itself.")
@options.flag("--pin-random", help="Write out random free P_Keys instead.")
@options.format_of(
    ["table", "json", "csv", "conf"],
    "Form of the output; conf is the policy itself.  [default: table; conf with --pin]",
    default=None,
)
@options.option(
    "--dialect",
    type=click.Choice(["opensm", "nvidia"]),
    default="opensm",
    help="Which OpenSM will read it; nvidia: do not report NVIDIA's own keywords.  [default: opensm]",
)
@options.option(
    "--selinux-labels",
    metavar="TABLE",
    help="Instead, print the semanage commands for the SELinux labels in this table.",
)
@ufm_options
@options.common
def policy_check(
    ufm: UfmOptions,
    file: str,
    pin: bool,
    pin_random: bool,
    format: str | None,
    dialect: Dialect,
    selinux_labels: str | None,
) -> int:
    """Check a partition policy (OpenSM's partitions.conf).

    FILE may be the word opensm: the policy that the only OpenSM on this host uses; or ufm:URL: UFM's partitions.

    Reports, with line and column, what OpenSM would refuse, and what it would read in a way that was probably not
    intended. Then describes each partition in words. Reads no fabric. Exits 1 with errors or warnings.
    """
    from ibkeys.errors import UsageError
    from ibkeys.managers.ufm.access import is_ufm
    from ibkeys.partitions import export
    from ibkeys.partitions.describe import to_json
    from ibkeys.partitions.dialect import in_dialect
    from ibkeys.partitions.lint import lint
    from ibkeys.partitions.reader import read_policy

    if pin and pin_random:
        raise UsageError("--pin and --pin-random exclude each other")
    if selinux_labels is not None and (pin or pin_random or format):
        raise UsageError("--selinux-labels prints commands: omit --pin, --pin-random and -f")
    if is_ufm(file):
        policy = ufm_policy(file, ufm)
    else:
        refuse_url(file)
        policy = only_policy() if is_opensm(file) else read_policy(file)
    file, policy = policy.path, in_dialect(policy, dialect)
    problems = lint(policy)
    if selinux_labels is not None:
        return _write_labels(policy, problems, selinux_labels)
    if pin or pin_random:
        format = format or "conf"
        policy = export.pin(policy) if pin else export.pin_random(policy)
    if format == "conf":
        return _write_conf(policy, problems)
    rows = ({"file": file, **asdict(problem)} for problem in problems)
    document = {**to_json(policy, problems), "dialect": dialect}
    if not write_document(format or "table", POLICY_CHECK, lambda: document, rows):
        _write_words(policy, problems)
    return _exit_code(problems)


def _exit_code(problems: Sequence[PolicyProblem]) -> int:
    return exits.SAYS_NO if any(problem.severity != "note" for problem in problems) else exits.DONE


def _write_conf(policy: Policy, problems: Sequence[PolicyProblem]) -> int:
    """Write the policy itself, and its problems to standard error. Return the exit code.

    A policy with errors is not written, because its meaning is not certain; lines that are too long do not count.
    """
    from ibkeys.partitions.export import to_conf

    _warn_of(policy, problems)
    # A line that is too long for OpenSM is no obstacle: ibkeys reads the whole line, and the copy has short lines.
    if any(error.code != "long-line" for error in policy.errors):
        exits.warn(f"{policy.path}: {policy.verdict}; it cannot be written out", "error")
    else:
        write_as_is(to_conf(policy))
    return _exit_code(problems)


def _warn_of(policy: Policy, problems: Sequence[PolicyProblem]) -> None:
    for problem in problems:
        if problem.severity != "note":
            exits.warn(problem.located(policy.path), "problem")


def _write_labels(policy: Policy, problems: Sequence[PolicyProblem], table: str) -> int:
    """Write the commands that label the policy's P_Keys, and its problems to standard error. Return the exit code."""
    from ibkeys.partitions.selinux import read_labels

    policy.require_accepted()
    labels = read_labels(table, policy)
    _warn_of(policy, problems)
    if labels.unlabelled:
        names = ", ".join(each.name or f"0x{each.base:04x}" for each in labels.unlabelled)
        exits.note(clean(f"without a label in {table}: {names}"))
    write_each(labels.commands())
    return _exit_code(problems)


def _write_words(policy: Policy, problems: Sequence[PolicyProblem]) -> None:
    from ibkeys.partitions.describe import in_words
    from ibkeys.partitions.dialect import NOT_CHECKED

    for problem in problems:
        write(clean(problem.located(policy.path)))
    if problems:
        write("")
    by_severity = Counter(problem.severity for problem in problems)
    counts = ", ".join(counted(by_severity[each], each) for each in ("error", "warning", "note") if by_severity[each])
    if not policy.accepted:
        write(clean(f"{policy.path}: {counts}; {policy.verdict}"))
        return
    result = "OpenSM accepts it"
    if any(problem.code == NOT_CHECKED for problem in problems):
        result = "not fully checked, because NVIDIA's OpenSM may know some of its keywords"
    write(clean(f"{policy.path}: {result}: {counted(len(policy.partitions), 'partition')}"))
    write(counts or "no remarks")
    write("")
    write_each(map(clean, in_words(policy)))
