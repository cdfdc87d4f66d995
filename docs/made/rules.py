"""The audit rules: a page with each as `ibkeys audit --explain` describes it, and the list in ibkeys-audit(1)."""

from __future__ import annotations

import re
from typing import Final

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.findings import GROUPS
from ibkeys.audit.rule import SOURCES, Rule

_LIST: Final = re.compile(r'(\.\\" made from ibkeys/audit/catalogue.py\n)(?:.*\n)*?(\.\\" end\n)')


def with_rules(page: str) -> str:
    """Return the text of a man page with the list of the rules, where it has one."""
    return _LIST.sub(lambda found: f"{found[1]}{''.join(map(_entry, CATALOGUE))}{found[2]}", page)


def _entry(rule: Rule) -> str:
    severity = rule.severity + (f", in cloud {rule.severity_in('cloud')}" if rule.lower_in_cloud else "")
    title = (rule.title[0].upper() + rule.title[1:]).replace("-", "\\-")
    return f".TP\n\\fB{rule.id}\\fR ({severity})\n{title}.\n"


def page() -> str:
    """Return the text of the page: the rules by group, then the sources that they name."""
    text = "# Audit rules\n\nThe severity is that of the profile `cloud-secured`. "
    text += "`ibkeys audit --explain ID` prints the same about a rule.\n\n"
    for group, title in GROUPS.items():
        text += f"## {group}: {title}\n\n"
        text += "\n".join(_rule(rule) for rule in CATALOGUE if rule.group == group)
    text += "\n## Sources\n\n" + "".join(f"`{tag}`\n: {source}\n\n" for tag, source in SOURCES.items())
    return text


def _rule(rule: Rule) -> str:
    return (
        f"({rule.id.lower()})=\n### {rule.id}: {rule.title}\n\n"
        f"Severity: **{rule.severity}**. Evidence: {rule.evidence}. Sources: {', '.join(rule.sources)}.\n\n"
        f"{rule.why}\n\n**Remedy:** {rule.remedy}\n\n**When it is no danger:** {rule.false_positives}\n"
    )
