"""The page of the audit rules: each one as `ibkeys audit --explain` describes it."""

from __future__ import annotations

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.findings import GROUPS
from ibkeys.audit.rule import SOURCES, Rule


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
