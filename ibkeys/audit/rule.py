"""The definition of a rule, and how it reports its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from ibkeys.arguments import given
from ibkeys.audit.findings import GROUPS, Profile, Severity
from ibkeys.audit.inputs import AuditInput, PKeyTableFacts, number
from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.mad.fields import NumberRow
from ibkeys.topology.enforcement import as_shown
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import Port

Evidence = Mapping[str, Mapping[str, Any]]

SOURCES: Final[Mapping[str, str]] = {
    "SEED1": "MindShare, InfiniBand Network Architecture, chapter 16 (P_Keys)",
    "SEED2": "RDMAmojo, Partition Key",
    "SEED3": "RDMAmojo, Queue Key",
    "SEED4": "openib-general, 9 Jan 2006, OpenSM partition manager roadmap",
    "SEED5": "linux-rdma, 1 Aug 2012, the M_Key section of opensm(8)",
    "OSM": "OpenSM's sources and opensm(8)",
    "NVG": "NVIDIA, InfiniBand Security Overview and Guidelines, Practical Guidelines",
    "NICO": "NVIDIA infra-controller, InfiniBand runbook",
    "CMX": "ClusterMAX security criteria",
    "ISV": "NVIDIA ai-cloud-validation",
    "UFMSM": "NVIDIA UFM manual, subnet manager",
    "UFMSEC": "NVIDIA UFM manual, enhanced trust model",
    "IBDSRC": "ibdiagnet's error names",
    "PUP": "puppet-opensm",
    "GEX": "infiniband-exporter",
    "RDMAQ": "rdma-system(8)",
    "SANS": "A. Warren 2012, InfiniBand Fabric and Userland Attacks",
    "KB": "kube-bench",
    "NVVIRT": "NVIDIA's ib_types.h of 2025, virtualization",
}
"""Tag → the source that it means."""

_LOWER: Final[Mapping[Profile, Mapping[Severity, Severity]]] = {
    "cloud-secured": {},
    "cloud": {},
    "hpc": {"high": "medium", "medium": "low"},
    "lab": {"critical": "medium", "high": "low", "medium": "info", "low": "info"},
}
_ONE_LOWER: Final[Mapping[Severity, Severity]] = {"critical": "high", "high": "medium", "medium": "low", "low": "info"}
"""Severity → the next lower one; info is the lowest."""
VIRTUAL_TABLES: Final = "it has virtual ports, or may have them, and their P_Key tables cannot be read"
NO_IDENTITY: Final[Mapping[str, None]] = dict.fromkeys(
    ("node_guid", "port_guid", "node_desc", "node_type", "port", "lid")
)
"""The identity of a subject that is not a port."""


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The finding of a rule about one subject, before waivers. ``port`` None: a file of the host, or the whole fabric.

    ``partners``: the other ports of the forbidden pairs. ``labels``: other words by which a waiver may name the
    subject. ``trouble``: the trouble, if the finding is that an attribute or node was not read.
    """

    port: Port | None
    result: Literal["fail", "unknown"]
    message: str
    evidence: Evidence
    severity: Severity | None = None
    partners: Iterable[Port] = ()
    labels: tuple[str, ...] = ()
    trouble: Trouble | None = None


@dataclass(slots=True)
class RuleVerdict:
    """The findings of one rule: the subjects that fail or are unknown, the number of those that pass, and a ``note``.

    The ``note`` is given if no finding is about a single subject. ``unknown_as_a_whole``: whether an input that the
    rule needs was not given; ``lacks``: the option that gives it. If no subject fails, is unknown or passes, the rule
    does not apply.
    """

    data: AuditInput
    findings: list[RuleFinding] = field(default_factory=list)
    passed: int = 0
    note: str = ""
    unknown_as_a_whole: bool = False
    lacks: str = ""

    @classmethod
    def over_fabric(cls, data: AuditInput) -> RuleVerdict:
        """Return a new verdict for a rule about the whole fabric: each node that was not identified is unknown."""
        verdict = cls(data)
        for trouble in data.hidden:
            verdict.unknown_of(trouble)
        return verdict

    @classmethod
    def without(cls, data: AuditInput, note: str, option: str = "") -> RuleVerdict:
        """Return the verdict of a rule for which the file or data to compare with was not given.

        *option*: the option of `ibkeys audit` that gives it.
        """
        return cls(data, note=note, unknown_as_a_whole=True, lacks=option)

    def fail(
        self,
        port: Port | None,
        message: str,
        evidence: Evidence | None = None,
        *,
        severity: Severity | None = None,
        partners: Iterable[Port] = (),
        labels: tuple[str, ...] = (),
    ) -> None:
        """Record a subject that breaks the rule."""
        self.findings.append(RuleFinding(port, "fail", message, evidence or {}, severity, partners, labels))

    def unknown(
        self, port: Port | None, message: str, evidence: Evidence | None = None, *, labels: tuple[str, ...] = ()
    ) -> None:
        """Record a subject about which the rule cannot decide, with the reason."""
        self.findings.append(RuleFinding(port, "unknown", message, evidence or {}, labels=labels))

    def fail_of(self, trouble: Trouble, message: str) -> None:
        """Record that unread data breaks the rule."""
        self.findings.append(RuleFinding(trouble.port, "fail", message, _reading(trouble), trouble=trouble))

    def unknown_of(self, trouble: Trouble) -> None:
        """Record a subject about which the rule cannot decide because something was not read."""
        self.findings.append(RuleFinding(trouble.port, "unknown", trouble.error, _reading(trouble), trouble=trouble))

    def unread(self, port: Port, attribute: str) -> None:
        """Record that a port is unknown because one of its attributes was not read. Why a SwitchInfo was not read is
        recorded at port 0 of the switch.
        """
        trouble = self.data.trouble(port.end_port if attribute == SwitchInfo.name else port, attribute)
        why = trouble.error if trouble is not None else "it was not queried"
        reading = trouble.reading if trouble is not None else "not-asked"
        self.unknown(port, f"{attribute} was not read: {why}", {attribute: {"reading": reading}})

    def with_port_info(self, ports: Iterable[Port]) -> Iterator[Port]:
        """Yield the ports whose PortInfo was read; the others are unknown."""
        for port in ports:
            if port.info is not None:
                yield port
            else:
                self.unread(port, PortInfo.name)

    def with_tables(self, ports: Iterable[Port]) -> Iterator[Port]:
        """Yield the ports whose P_Key table was read; the others are unknown.

        A port may have virtual ports, whose tables cannot be read. Such a port can fail, but a port that would pass is
        unknown.
        """
        for port in ports:
            if port.p_key_raw is None:
                self.unread(port, "P_KeyTable")
                continue
            passed = self.passed
            yield port
            if port.hides_p_keys and self.passed > passed:
                self.passed = passed
                self.unknown(port, VIRTUAL_TABLES, {"VirtualizationInfo": {"state": port.virtual_ports}})

    def end_port_tables(self) -> Iterator[tuple[Port, PKeyTableFacts]]:
        """Yield the end ports with their P_Key tables, as `with_tables` does."""
        for port in self.with_tables(self.data.end_ports):
            table = self.data.table(port)
            assert table is not None
            yield port, table

    def note_if_empty(self, note: str) -> None:
        """Set *note*, which names the missing kind of subject, if no subject passes, fails or is unknown."""
        if not self.passed and not self.findings:
            self.note = note


RuleCheck = Callable[[AuditInput], RuleVerdict]
Judge = Callable[[AuditInput, RuleVerdict], RuleVerdict | None]
"""A function that adds its findings to the verdict that was begun, or returns another verdict in its place."""
Need = Literal["policy", "baseline", "store", "host"]
"""The input that a rule compares with: a field of `AuditInput` that is None where it was not given."""
_LACKING: Final[Mapping[Need, tuple[str, str]]] = {
    "policy": ("policy", "--policy"),
    "baseline": ("baseline", "--baseline"),
    "store": ("key store", "--keystore"),
}
"""Input → its name, and the option that gives it."""


def _without(need: Need, data: AuditInput) -> RuleVerdict:
    if need == "host":
        note = "this host was not examined: the fabric is simulated, or the snapshot is from another host"
        return RuleVerdict(data, note=note)
    name, option = _LACKING[need]
    return RuleVerdict.without(data, f"no {name} to compare with ({given(option)})", option)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """The facts about a rule without the function that checks it.

    ``severity`` is that of the profile cloud-secured; ``lower_in_cloud``: one less in the profile cloud. ``sources``
    are tags of `SOURCES`.
    """

    id: str
    title: str
    severity: Severity
    evidence: str
    why: str
    sources: tuple[str, ...]
    remedy: str
    false_positives: str
    lower_in_cloud: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(RuleFacts):
    """One rule, of the catalogue or of your own: the facts about it, and the function that checks it.

    ``severity`` is that of the profile cloud-secured; ``lower_in_cloud``: one less in the profile cloud. ``sources``
    are tags of `SOURCES`.
    """

    check: RuleCheck

    @property
    def group(self) -> str:
        """The rule's group, a key of `findings.GROUPS`."""
        assert self.id[:2] in GROUPS
        return self.id[:2]

    def severity_in(self, profile: Profile, base: Severity | None = None) -> Severity:
        """Return the severity in a profile, of the rule or of a subject that is *base* in cloud-secured."""
        severity = base or self.severity
        if profile == "cloud" and self.lower_in_cloud:
            return _ONE_LOWER.get(severity, severity)
        return _LOWER[profile].get(severity, severity)

    def explanation(self) -> dict[str, Any]:
        """Return the explanation of the rule, its fields in the order in which readers want them."""
        return {
            "rule": self.id,
            "title": self.title,
            "group": GROUPS[self.group],
            "severity": {profile: self.severity_in(profile) for profile in _LOWER},
            "evidence": self.evidence,
            "why": self.why,
            "remedy": self.remedy,
            "false_positives": self.false_positives,
            "sources": [SOURCES[tag] for tag in self.sources],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class rule(RuleFacts):
    """Declares the function below it as the check of a rule of the catalogue. The function's name then stands for the
    `Rule`.

    ``needs``: the input that the rule needs. Without it the rule is unknown; but a rule that needs ``host`` then does
    not apply.
    ``over_fabric``: whether nodes that were not identified make the rule unknown. ``if_empty``: the note if no subject
    passes, fails or is unknown.
    """

    needs: Need | None = None
    over_fabric: bool = True
    if_empty: str = ""

    def __call__(self, judge: Judge) -> Rule:
        """Return the rule that *judge* checks."""

        def check(data: AuditInput) -> RuleVerdict:
            if self.needs is not None and getattr(data, self.needs) is None:
                return _without(self.needs, data)
            begun = RuleVerdict.over_fabric(data) if self.over_fabric else RuleVerdict(data)
            verdict = judge(data, begun)
            if verdict is not None:
                return verdict
            if self.if_empty:
                begun.note_if_empty(self.if_empty)
            return begun

        return Rule(check=check, **{each.name: getattr(self, each.name) for each in fields(RuleFacts)})


def _reading(trouble: Trouble) -> Evidence:
    return {trouble.attribute or "SMP": {"reading": trouble.reading}}


def port_info(data: AuditInput, port: Port, *rows: NumberRow) -> dict[str, Mapping[str, Any]]:
    """Return fields of PortInfo as evidence. An M_Key is its fingerprint, never the key."""
    shown: dict[str, Any] = {}
    for row in rows:
        shown[row.attr] = m_key_text(data, port) if row is PortInfo.m_key else as_shown(row.attr, number(port, row))
    return {PortInfo.name: shown}


def m_key_text(data: AuditInput, port: Port) -> str:
    """Return the fingerprint of an end port's M_Key for people and documents; zeros if it has no M_Key, or the state of
    the M_Key (``hidden``) if there is no fingerprint.
    """
    state = port.m_key_state
    if state != "set":
        return "0x0000000000000000" if state == "zero" else state
    fingerprint = data.snapshot.fingerprint_of(port)
    return f"fingerprint {fingerprint}" if fingerprint is not None else state


def p_keys(*entries: tuple[int, int]) -> dict[str, Mapping[str, Any]]:
    """Return (index, P_Key) pairs as evidence."""
    return {"P_KeyTable": {str(index): f"0x{key:04x}" for index, key in entries}}
