"""Rules about P_Key and Q_Key violations, and about the users who may use controlled Q_Keys."""

from __future__ import annotations

from typing import Final

from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rule import RuleVerdict, rule
from ibkeys.audit.rules.counters import judge_counters
from ibkeys.audit.rules.enforcement import enforcing_leaves
from ibkeys.mad.attributes import PortInfo
from ibkeys.port_text import PortText

SATURATED: Final = 0xFF
"""The highest value of the constraint error counters of PortCounters, at which they stop."""
_COUNTERS: Final = (PortInfo.p_key_violations, PortInfo.q_key_violations)


@rule(
    id="QK001",
    title="P_Key or Q_Key violations rise",
    severity="medium",
    evidence="PortInfo.P_KeyViolations and Q_KeyViolations compared with the baseline",
    why="A host sends where it may not, or probes. The counter of the destination rises.",
    sources=("SEED1", "SEED3"),
    remedy="Traps 257, 258 and 259 in the SM's log name both sides. Then ibkeys counters-clear.",
    false_positives="Applications that start before their P_Key is in the table; IPoIB; a counter that stays at 65535.",
)
def violations(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports whose P_KeyViolations or Q_KeyViolations rose since the baseline (QK001)."""
    for port in verdict.with_port_info(data.end_ports):
        judge_counters(verdict, port, _COUNTERS)


@rule(
    id="QK002",
    title="switch drops by enforcement",
    severity="medium",
    evidence="PortRcvConstraintErrors and PortXmitConstraintErrors of enforcing switch ports compared with the "
    "baseline",
    why="Enforcement dropped packets: the host behind this port, or a host that sends to it, uses a P_Key "
    "that the port does not have.",
    sources=("GEX",),
    remedy="See what runs on the host behind the port.",
    false_positives="Raw packet filters count here too.",
    if_empty="no leaf port enforces",
)
def constraint_errors(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail enforcing switch ports whose constraint errors rose since the baseline (QK002)."""
    for leaf, port in enforcing_leaves(verdict):
        errors = data.snapshot.constraint_errors.get(leaf)
        if errors is None or errors.received is None or errors.transmitted is None:
            why = errors.error if errors is not None and errors.error else "they were not queried"
            verdict.unknown(leaf, f"its PortCounters were not read: {why}", {"PortCounters": {"error": why}})
            continue
        counts = {"port_rcv_constraint_errors": errors.received, "port_xmit_constraint_errors": errors.transmitted}
        evidence = {"PortCounters": counts}
        if not any(counts.values()):
            verdict.passed += 1
            continue
        known = data.before(leaf)
        before = data.baseline.constraint_errors.get(known) if data.baseline is not None and known else None
        listed = ", ".join(f"{name} {value}" for name, value in counts.items() if value)
        if before is None or before.received is None or before.transmitted is None:
            verdict.unknown(leaf, f"{listed}, and there is no baseline that has them", evidence)
        elif SATURATED in (errors.received, errors.transmitted) and errors == before:
            verdict.unknown(leaf, f"{listed}: saturated at {SATURATED}, in the baseline too", evidence)
        elif errors == before:
            verdict.passed += 1
        else:
            was = f"{before.received} and {before.transmitted} in the baseline"
            verdict.fail(leaf, PortText.of(f"it drops packets of or for {{}}: {listed} ({was})", port), evidence)


@rule(
    id="QK003",
    title="users may use controlled Q_Keys",
    severity="high",
    evidence="rdma system show on this host: privileged-qkey on",
    why="A user can then forge packets to QP1 of any host in the partition (Q_Key 0x80010000).",
    sources=("RDMAQ", "SEED3"),
    remedy="rdma system set privileged-qkey off",
    false_positives="Old applications that need it.",
    needs="host",
    over_fabric=False,
)
def privileged_q_keys(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail this host if its users may use controlled Q_Keys (QK003)."""
    assert data.host is not None
    allowed = data.host.facts.privileged_qkey
    evidence = {"rdma system": {"privileged_qkey": allowed}}
    if allowed is None:
        message = "neither the kernel nor `rdma system show` of this host reports privileged-qkey"
        verdict.unknown(None, message, evidence)
    elif allowed:
        verdict.fail(
            None, "any user of this host may use controlled Q_Keys, including that of QP1 (0x80010000)", evidence
        )
    else:
        verdict.passed = 1
