"""Rules about keys of other management classes: CC_Key, VS_Key, N2N manager key, B_Key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rule import RuleVerdict, rule
from ibkeys.classkeys.reading import ANSWERED, ClassKeyReading
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.mad.classes.key_info import KeySettings, N2NKeyInfo
from ibkeys.printable import counted

NOT_QUERIED: Final = "keys of other classes were not queried (`ibkeys audit --class-keys` queries them)"


def _judged(verdict: RuleVerdict, fault_of: Callable[[ClassKeyReading, KeySettings], str | None]) -> RuleVerdict:
    """Call *fault_of* for each port with a readable class key, and return the verdict.

    *fault_of* returns the fault in words, "" if there is none, and None for a port that the rule is not about. A port
    without the class is no subject. A port whose answer cannot be used is unknown. If nodes were not identified, the
    whole rule is unknown.
    """
    readings = verdict.data.snapshot.class_keys
    if readings is None:
        return RuleVerdict.without(verdict.data, NOT_QUERIED, "--class-keys")
    for reading in readings:
        name, settings = KEY_CLASSES[reading.of].key_name, reading.settings
        if reading.state in ANSWERED and settings is not None:
            fault = fault_of(reading, settings)
            if fault:
                verdict.fail(reading.port, f"{name}: {fault}", _evidence(reading), labels=(reading.of,))
            elif fault is not None:
                verdict.passed += 1
        elif reading.state != "absent":
            message = f"{name} is unknown ({reading.state}): {reading.detail}"
            verdict.unknown(reading.port, message, _evidence(reading), labels=(reading.of,))
    verdict.note_if_empty("no queried port has such a key, or no queried port has these classes")
    return verdict


def _evidence(reading: ClassKeyReading) -> dict[str, Mapping[str, Any]]:
    """Return the fields of KeyInfo as evidence, without the key."""
    name, settings = KEY_CLASSES[reading.of].key_info.name, reading.settings
    if settings is None:
        return {name: {"state": reading.state}}
    shown = {"protect_bit": settings.protect_bit, "lease_period": settings.lease_period}
    return {name: {"state": reading.state, **shown, "violations": settings.violations}}


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
def unset(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail ports whose key of another management class is 0 (CK001)."""
    return _judged(verdict, lambda reading, settings: "is 0: not set" if reading.state == "zero" else "")


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
def readable(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail ports that show a key of another management class to a query without that key (CK002)."""

    def fault(reading: ClassKeyReading, settings: KeySettings) -> str | None:
        if reading.state == "zero":
            return None
        if not settings.protect_bit:
            return "the protect bit is 0: everybody can read it"
        return "was shown to a query without the key" if reading.state == "set" and not reading.with_key else ""

    return _judged(verdict, fault)


@rule(
    id="CK003",
    title="key of another class without a lease",
    severity="medium",
    evidence="lease period 0 in KeyInfo of a port whose key is set",
    why="With lease 0 the protect bit stays for ever: if the key is lost, no program can read or change it any more.",
    sources=("NVG", "NICO"),
    remedy="cc_key_lease_period, vs_key_lease_period and n2n_key_lease_period 60 (seconds) in the subnet manager's "
    "configuration.",
    false_positives="Keys of which a copy is kept in a safe place.",
    lower_in_cloud=True,
)
def no_lease(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail ports whose key of another management class has no lease (CK003)."""

    def fault(reading: ClassKeyReading, settings: KeySettings) -> str | None:
        if reading.state == "zero":
            return None
        return "" if settings.lease_period else "the lease is 0: its protection never ends"

    return _judged(verdict, fault)


@rule(
    id="CK004",
    title="violations of a key of another class",
    severity="medium",
    evidence="the violation counters in KeyInfo; 0xffff of class 0x05 is left out, because it can also mean that "
    "violations are not counted",
    why="A program sent MADs of this class with a wrong key.",
    sources=("NVG",),
    remedy="Find the sender: the subnet manager's log has the traps. A Set of CongestionKeyInfo with 0 clears it.",
    false_positives="Queries without the key by diagnostic programs, including `ibkeys classkey-show --ask-unkeyed`.",
    lower_in_cloud=True,
)
def violations(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail ports that count violations of a key of another management class (CK004)."""

    def fault(reading: ClassKeyReading, settings: KeySettings) -> str | None:
        if settings.violations == KEY_CLASSES[reading.of].not_counted:
            return None
        if settings.violations:
            return counted(settings.violations, "violation")
        info = reading.key_info
        between = info.node_key_violations if isinstance(info, N2NKeyInfo) else 0
        return f"{counted(between, 'violation')} of the key between nodes" if between else ""

    return _judged(verdict, fault)
