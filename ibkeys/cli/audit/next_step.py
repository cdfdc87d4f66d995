"""The command that an audit suggests next: it shows more of the gravest finding, or would fix it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ibkeys.audit.findings import SEVERITIES, Report, RuleResult
from ibkeys.cli.audit.shared_options import DEFAULT_PROFILE
from ibkeys.topology.subnet_manager import shown_subnet_manager

if TYPE_CHECKING:
    from ibkeys.audit.inputs import AuditInput

_HARDEN_FIXES = SEVERITIES[:2]
"""The severities that `ibkeys harden` fixes by default."""


def next_step(report: Report, data: AuditInput, policy: str | None, recorded: str | None) -> str | None:
    """Return the command to suggest for the gravest failure; None if no rule fails.

    Among failures of equal severity the first in the catalogue counts. The command changes nothing as it stands.
    *policy*: the value of ``--policy``; *recorded*: the snapshot of ``--from``.
    """
    failed = [each for each in report.results if each.result == "fail"]
    if not failed:
        return None
    gravest = min(failed, key=lambda each: SEVERITIES.index(each.severity))
    words = _command_words(gravest, report, data, policy)
    from_file = ["--from", recorded] if recorded is not None and words[0] in ("why", "plan") else []
    return f"`{shlex.join(['ibkeys', *words, *from_file])}` ({gravest.rule})"


def _command_words(result: RuleResult, report: Report, data: AuditInput, policy: str | None) -> list[str]:
    from ibkeys.harden.findings import STEP_OF_RULE

    pair = _pair(result) if result.rule == "PK005" else None
    if pair is not None:
        return ["why", "-G", *pair]
    step = STEP_OF_RULE.get(result.rule)
    if step == "partitions" and policy is not None:
        return ["plan", "--policy", policy]
    if step not in (None, "partitions") and result.severity in _HARDEN_FIXES and _sm_may_run(data):
        return ["harden", *([] if report.profile == DEFAULT_PROFILE else ["--profile", report.profile]), "--dry-run"]
    if result.rule == "MK001" and not _sm_may_run(data):
        return ["mkey-deploy", "--same", "--protect", "2", "--lease", "60", "--dry-run"]
    return ["audit", "--explain", result.rule]


def _pair(result: RuleResult) -> tuple[str, str] | None:
    """Return the port GUIDs of one pair of ports that fails a rule about pairs; None without such a pair."""
    for subject in result.subjects:
        partners = subject.evidence.get("partners")
        if subject.result == "fail" and partners:
            return subject.identity["port_guid"], next(iter(partners))
    return None


def _sm_may_run(data: AuditInput) -> bool:
    return shown_subnet_manager(data.fabric).may_be_master
