"""Rules about keys of other management classes: CC_Key, VS_Key, N2N manager key, B_Key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rule import Verdict, rule
from ibkeys.classkeys.reading import ANSWERED, ClassKeyReading
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.mad.classes.key_info import N2NKeyInfo

NOT_QUERIED: Final = "keys of other classes were not queried (--class-keys queries them)"
NOT_COUNTED: Final = 0xFFFF
"""B_KeyViolations of a port that does not count them, or has counted so many."""


def _begin(data: AuditInput) -> Verdict:
    """Begin a verdict; where ports were queried, nodes that did not say who they are make it unknown."""
    if data.snapshot.class_keys is None:
        return Verdict.without(data, NOT_QUERIED)
    return Verdict.over_fabric(data)


def _answers(verdict: Verdict) -> Iterator[ClassKeyReading]:
    """Yield what ports that have a class said about its key; ports that said nothing of use are unknown.

    A port without a class is no subject. *verdict* says so where all are.
    """
    for reading in verdict.data.snapshot.class_keys or ():
        if reading.state in ANSWERED:
            yield reading
        elif reading.state != "absent":
            message = f"{KEY_CLASSES[reading.of].key_name} is unknown ({reading.state}): {reading.detail}"
            verdict.unknown(reading.port, message, _evidence(reading), labels=(reading.of,))
    if not (verdict.drafts or verdict.passed or verdict.unknown_as_a_whole):
        verdict.note = "no queried port has such a key, or no queried port has these classes"


def _evidence(reading: ClassKeyReading) -> dict[str, Mapping[str, Any]]:
    """Return what KeyInfo said, without the key."""
    name, settings = KEY_CLASSES[reading.of].key_info.name, reading.settings
    if settings is None:
        return {name: {"state": reading.state}}
    shown = {"protect_bit": settings.protect_bit, "lease_period": settings.lease_period}
    return {name: {"state": reading.state, **shown, "violations": settings.violations}}


def _fail(verdict: Verdict, reading: ClassKeyReading, text: str) -> None:
    name = KEY_CLASSES[reading.of].key_name
    verdict.fail(reading.port, f"{name}: {text}", _evidence(reading), labels=(reading.of,))


@rule(
    id="CK001",
    title="key of another class unset",
    severity="high",
    evidence="KeyInfo of the classes 0x21, 0x0A, 0x0C and 0x05 of every end port: key 0, and it is not hidden",
    why="With key 0 anybody can send MADs of this class that change the port: congestion control, vendor settings.",
    sources=("NVG", "NICO", "ISV"),
    remedy="cc_key_enable 2, vs_key_enable 2 and n2n_key_enable 2 in the configuration of NVIDIA's subnet manager.",
    false_positives="The class is not used, and no untrusted host can send MADs on this fabric.",
    lower_in_cloud=True,
)
def unset(data: AuditInput) -> Verdict:
    """CK001: key of another class unset."""
    verdict = _begin(data)
    for reading in _answers(verdict):
        if reading.state == "zero":
            _fail(verdict, reading, "is 0: not set")
        else:
            verdict.passed += 1
    return verdict


@rule(
    id="CK002",
    title="key of another class readable",
    severity="high",
    evidence="the key in KeyInfo, shown to a query without it, or its protect bit 0",
    why="With protect bit 0 the port shows its key to everybody, and anyone who has it can use it.",
    sources=("NVG", "NICO"),
    remedy="cc_key_protect_bit 1, vs_key_ci_protect_bits 1 and n2n_key_protect_bit 1 in the subnet manager's "
    "configuration; then new keys, because the old ones may be known.",
    false_positives="A lease that has just run out: the subnet manager sets the bit again.",
    lower_in_cloud=True,
)
def readable(data: AuditInput) -> Verdict:
    """CK002: key of another class readable."""
    verdict = _begin(data)
    for reading in _answers(verdict):
        settings = reading.settings
        if reading.state == "zero" or settings is None:
            continue
        if not settings.protect_bit:
            _fail(verdict, reading, "the protect bit is 0: everybody can read it")
        elif reading.state == "set" and not reading.with_key:
            _fail(verdict, reading, "was shown to a query without the key")
        else:
            verdict.passed += 1
    return verdict


@rule(
    id="CK003",
    title="key of another class without a lease",
    severity="medium",
    evidence="lease period 0 in KeyInfo of a port whose key is set",
    why="With lease 0 the protect bit stays for ever: if the key is lost, nobody can read or change it any more.",
    sources=("NVG", "NICO"),
    remedy="cc_key_lease_period, vs_key_lease_period and n2n_key_lease_period 60 (seconds) in the subnet manager's "
    "configuration.",
    false_positives="Keys of which a copy is kept in a safe place.",
    lower_in_cloud=True,
)
def no_lease(data: AuditInput) -> Verdict:
    """CK003: key of another class without a lease."""
    verdict = _begin(data)
    for reading in _answers(verdict):
        settings = reading.settings
        if reading.state == "zero" or settings is None:
            continue
        if settings.lease_period:
            verdict.passed += 1
        else:
            _fail(verdict, reading, "the lease is 0: its protection never ends")
    return verdict


@rule(
    id="CK004",
    title="violations of a key of another class",
    severity="medium",
    evidence="the violation counters in KeyInfo; 0xffff of class 0x05 is left out, because it can also mean that "
    "violations are not counted",
    why="Somebody sent MADs of this class with a wrong key.",
    sources=("NVG",),
    remedy="Find the sender: the subnet manager's log has the traps. A Set of CongestionKeyInfo with 0 clears it.",
    false_positives="Queries without the key by diagnostic programs, including ibkeys --ask-unkeyed.",
    lower_in_cloud=True,
)
def violations(data: AuditInput) -> Verdict:
    """CK004: violations of a key of another class."""
    verdict = _begin(data)
    for reading in _answers(verdict):
        settings = reading.settings
        if settings is None or (reading.of == "b" and settings.violations == NOT_COUNTED):
            continue
        info = reading.key_info
        between = info.node_key_violations if isinstance(info, N2NKeyInfo) else 0
        if settings.violations:
            _fail(verdict, reading, f"{settings.violations} violations")
        elif between:
            _fail(verdict, reading, f"{between} violations of the key between nodes")
        else:
            verdict.passed += 1
    return verdict
