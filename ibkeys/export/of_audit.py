"""Metrics taken from an audit report: coverage, partitions, rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ibkeys.audit.findings import RESULTS, SEVERITIES, Report
from ibkeys.audit.inputs import AuditInput
from ibkeys.export.family import Family, Labels, of_one
from ibkeys.export.of_ports import NODE_TYPES


def coverage(data: AuditInput, report: Report) -> Iterator[Family]:
    """Yield the number of nodes, and how many of their ports were read."""
    zeros: dict[Labels, float] = {(each,): 0 for each in NODE_TYPES}
    nodes = Family("ibkeys_nodes", "Nodes that were found.", ("node_type",), zeros)
    for node in data.fabric.nodes:
        nodes.add(node.type_name)
    yield nodes
    coverage = report.coverage
    yield Family(
        "ibkeys_coverage_ports",
        "Ports by how much of them was read; silent: ports behind which nothing answered.",
        ("reading",),
        {("read",): coverage.read, ("unreadable",): coverage.unreadable, ("silent",): coverage.silent},
    )


def partitions(data: AuditInput, report: Report) -> Iterator[Family]:
    """Yield the partitions with their members; nothing if no P_Key table of an end port was read."""
    if not any(port.p_key_raw is not None for port in data.end_ports):
        return
    members = Family(
        "ibkeys_partition_members",
        "End ports with a P_Key of the partition in their table, of those that were read.",
        ("partition", "membership"),
    )
    for partition, _, full, limited in report.partitions:
        members.put(f"0x{partition:04x}", "full", value=full)
        members.put(f"0x{partition:04x}", "limited", value=limited)
    yield of_one("ibkeys_partitions", "Partitions that some end port is in.", len(report.partitions))
    yield members


def rules(report: Report) -> Iterator[Family]:
    """Yield the results of the rules of the audit, and the number of findings of each."""
    ended = Family(
        "ibkeys_audit_rules",
        "Audit rules by severity and result.",
        ("severity", "result"),
        dict.fromkeys(product(SEVERITIES, RESULTS), 0),
    )
    findings = Family(
        "ibkeys_audit_findings",
        "Ports, nodes and files that an audit rule names, by its result for each.",
        ("rule", "severity", "result"),
    )
    for each in report.results:
        ended.add(each.severity, each.result)
        for result in ("fail", "unknown", "waived"):
            named = sum(subject.result == result for subject in each.subjects)
            findings.put(each.rule, each.severity, result, value=named)
    yield from (ended, findings)
