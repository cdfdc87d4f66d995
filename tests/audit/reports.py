"""Reports made by hand, with as many findings as a test wants."""

from __future__ import annotations

from typing import Any

from ibkeys.audit.findings import Coverage, Report, Result, RuleResult, Severity, Subject

NASTY = '<script>alert("x")</script>\'"& \x1b[31m\u202eevil\u200b\x00\n</style></title>'
"""What a node may call itself: markup, quotes, an escape sequence, a right-to-left override, NUL, a line's end."""

RULES: tuple[tuple[str, str, Severity], ...] = (
    ("MK001", "M_Key unset", "critical"),
    ("MK002", "M_Key readable by all", "high"),
    ("MK003", "reads open", "medium"),
    ("MK005", "lease absent or out of range", "medium"),
    ("MK008", "ProtectBits or lease differ", "medium"),
    ("MK011", "port not auditable", "medium"),
    ("KF001", "key file readable", "critical"),
    ("PK001", "full member of default", "high"),
    ("PK002", "P_Key not in policy", "critical"),
    ("PK006", "full and limited P_Key of one partition", "medium"),
    ("PK007", "invalid or duplicate entry", "low"),
    ("PK008", "unexpected P_Key at index 0", "high"),
    ("SE001", "leaf enforcement off or one-way", "high"),
    ("SE002", "leaf table differs from node table", "high"),
    ("QK001", "P_Key or Q_Key violations rise", "medium"),
    ("QK003", "users may use controlled Q_Keys", "high"),
    ("SM001", "SM not on the list, or two masters", "critical"),
    ("SM002", "default SM_Key or SA_Key", "critical"),
    ("HY002", "duplicate or unknown GUID", "high"),
    ("HY003", "audit incomplete", "info"),
)
TEXTS: dict[str, dict[str, Any]] = {
    rule: {
        "why": f"Whoever can use this reaches more than he should ({rule}).",
        "evidence": "PortInfo.M_Key, PortInfo.M_KeyProtectBits",
        "false_positives": "a lab without tenants",
        "sources": ["opensm(8)", "IBA vol. 1, 14.2.4"],
    }
    for rule, _, _ in RULES
}


def identity(number: int, name: str | None = None) -> dict[str, Any]:
    """Return the keys that name a CA port."""
    return {
        "node_guid": f"0x0002c903{number:08x}",
        "port_guid": f"0x0002c904{number:08x}",
        "node_desc": f"host{number:04d} mlx5_0" if name is None else name,
        "node_type": "ca",
        "port": 1,
        "lid": number,
    }


def subject(number: int, result: Result = "fail", message: str = "M_KeyProtectBits is 0", **more: Any) -> Subject:
    """Return what a rule says of port *number*."""
    name = more.pop("name", None)
    settings: dict[str, Any] = {
        "evidence": {"PortInfo": {"m_key": "0x0000000000000000", "m_key_protect_bits": 0, "m_key_lease_period": 0}},
        "time": "2026-11-20T09:30:00Z",
        "m_key_used": False,
        "waiver": "the old storage: until 2027-01-31" if result == "waived" else None,
    }
    return Subject(identity(number, name), result, message, **{**settings, **more})


def rule(id: str, result: Result = "pass", *subjects: Subject, **more: Any) -> RuleResult:
    """Return what one of `RULES` says."""
    title, severity = next((title, severity) for name, title, severity in RULES if name == id)
    settings: dict[str, Any] = {
        "remedy": f"Set it right, then audit again ({id}).",
        "passed": 12 if result == "pass" else 3,
    }
    return RuleResult(id, id[:2], title, severity, result, subjects=subjects, **{**settings, **more})


def coverage(*troubles: str) -> Coverage:
    """Return that of twelve ports that were read, and one that was not for each trouble."""
    listed = [{**identity(900 + number), "error": error} for number, error in enumerate(troubles)]
    return Coverage(8 + len(troubles), 12 + len(troubles), 12, len(troubles), 0, listed)


def report(*results: RuleResult, **more: Any) -> Report:
    """Return a report with the given results; the other rules pass."""
    given = {each.rule: each for each in results}
    settings: dict[str, Any] = {
        "profile": "cloud-secured",
        "taken": "2026-11-20T09:30:00Z",
        "source": "fabric.ibkeys",
        "policy": "partitions.conf",
        "coverage": coverage(),
        "partitions": partitions(4),
    }
    return Report(results=[given.get(id) or rule(id) for id, _, _ in RULES], **{**settings, **more})


def partitions(number: int) -> list[tuple[int, str | None, int, int]]:
    """Return *number* partitions of many sizes, the default one first."""
    tenants = [(0x10 + n, f"tenant-{n}" if n % 5 else None, 2 + n * 7 % 40, n * 3 % 11) for n in range(1, number)]
    return [(0x7FFF, "Default", 3, 1200 if number > 50 else 60), *tenants]


def small() -> Report:
    """Return a report with three findings, and of everything else one."""
    return report(
        rule("MK001", "fail", subject(1, message="M_Key is 0 at ProtectBits 0: any host can set anything")),
        rule(
            "PK001",
            "fail",
            subject(
                2, message="full member of the default partition at index 0", evidence={"P_KeyTable": {"0": "0xffff"}}
            ),
            subject(3, "waived", "full member of the default partition at index 0"),
            subject(4, "unknown", "P_KeyTable was not read: no reply"),
        ),
        rule("PK007", "fail", subject(5, message="entry 3 is 0x8000", evidence={"P_KeyTable": {"3": "0x8000"}})),
        rule("MK003", "unknown", subject(8, "unknown", "PortInfo was not read: no reply")),
        rule("QK001", "unknown", note="no earlier snapshot to compare with: give --baseline FILE", passed=0),
        rule("HY002", "waived", subject(6, "waived", "the same GUID at two places"), passed=11),
        rule("SM002", "unknown", note="not asked: --probe-sa does", passed=0),
        rule("KF001", "n/a", note="the snapshot was taken elsewhere", passed=0),
        rule("HY003", "fail", subject(7, message="2 of 12 ports were only partly read")),
        coverage=coverage("PortInfo: no reply after 3 attempts", "P_KeyTable: status 0x1c"),
    )


def large(findings: int = 3000) -> Report:
    """Return a report with very many findings, most of them of few rules."""
    share = findings // 10
    return report(
        rule("MK001", "fail", *(subject(n) for n in range(share * 4))),
        rule("MK002", "fail", *(subject(n, message="the M_Key is shown to whom asks") for n in range(share * 2))),
        rule("PK001", "fail", *(subject(n, message="full member of the default partition") for n in range(share * 3))),
        rule("PK007", "fail", *(subject(n, message="entry 3 is 0x8000") for n in range(share))),
        rule("QK001", "unknown", note="no earlier snapshot to compare with", passed=0),
        coverage=coverage(*(f"PortInfo: no reply after 3 attempts ({n})" for n in range(40))),
        partitions=partitions(500),
    )
