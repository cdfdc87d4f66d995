"""The agents of classes with keys of their own: congestion control, baseboard, and two vendor classes.

No port has such an agent until a test or `ibkeys sim ctl` (classkey) adds one. Only the check of B_Key is known, from a
running agent. The behaviour of the other agents is guessed: each guess is a field of `ClassRules` with two values, so
that a program can be tested with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args, get_type_hints

from ibkeys.keys.classkey import check_class_key
from ibkeys.mad import offsets as at
from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.classes.gmp import (
    CLASS_PORT_INFO,
    KEY_CLASSES,
    NOTICE,
    ClassKeyHeader,
    KeyClass,
    build_class_mad,
)
from ibkeys.mad.classes.key_info import KeySettings
from ibkeys.mad.classes.notices import (
    BAD_B_KEY,
    BAD_CC_KEY,
    BAD_VENDOR_KEY,
    BadBKeyDetails,
    BadCCKeyDetails,
    BadVendorKeyDetails,
)
from ibkeys.mad.const import GSI_QP, MAD_SIZE, MadStatus, Method, MgmtClass, NoticeType
from ibkeys.mad.notice import DataDetails, Notice
from ibkeys.mad.replies import lid_routed_reply
from ibkeys.sim.nodes import ClassAgent, SimPort
from ibkeys.sim.traps import Traps

MOST_VIOLATIONS: Final = 0xFFFF
_CHECKED: Final = frozenset({Method.GET, Method.SET, Method.SEND, Method.TRAP_REPRESS})
_ANSWERED: Final = frozenset({Method.GET, Method.SET})
_BAD_KEY: Final[Mapping[MgmtClass, tuple[int, type[DataDetails], str]]] = {
    MgmtClass.CONGESTION: (BAD_CC_KEY, BadCCKeyDetails, "cc_key"),
    MgmtClass.BASEBOARD: (BAD_B_KEY, BadBKeyDetails, "b_key"),
    MgmtClass.VENDOR_VS: (BAD_VENDOR_KEY, BadVendorKeyDetails, "key"),
    MgmtClass.VENDOR_N2N: (BAD_VENDOR_KEY, BadVendorKeyDetails, "key"),
}
"""Class → the trap for a wrong key: its number, the layout of its details, and the name of the field with the key."""
_GENERIC: Final = frozenset({MgmtClass.CONGESTION, MgmtClass.BASEBOARD})
"""The classes whose traps are generic notices. The traps of the vendor classes are vendor-specific."""


@dataclass(slots=True)
class ClassRules:
    """The guessed behaviour of one class, for all ports of a subnet.

    ``absent``: how a port without the class answers a request. ``version``: how an agent answers another class version.
    ``others``: how it answers another attribute. ``gets``: whether it answers a Get without the key although the
    protect bit is set. ``portinfo``: whether it checks the key of a Get of ClassPortInfo. ``violations``: whether a Set
    with 0 violations clears their counter. ``lease``: whether a right key stops the lease timer. ``traps``: whether it
    sends a trap to the SM for a wrong key.
    """

    absent: Literal["silence", "status"] = "silence"
    version: Literal["status", "silence"] = "status"
    others: Literal["status", "silence"] = "status"
    gets: Literal["answers", "drops"] = "answers"
    portinfo: Literal["open", "checked"] = "open"
    violations: Literal["cleared", "kept"] = "cleared"
    lease: Literal["stops", "runs"] = "stops"
    traps: Literal["sent", "none"] = "sent"


CHOICES: Final[Mapping[str, tuple[str, str]]] = {
    name: get_args(choices) for name, choices in get_type_hints(ClassRules).items()
}
"""The possible values of each field of `ClassRules`."""


def default_rules() -> dict[int, ClassRules]:
    """Return MgmtClass → the rules at the start. The class of B_Key has those of the known agent; agents of the vendor
    classes drop a Get with a wrong key."""
    rules = {int(each.mgmt_class): ClassRules() for each in KEY_CLASSES.values()}
    baseboard = rules[MgmtClass.BASEBOARD]
    baseboard.violations, baseboard.version, baseboard.others = "kept", "silence", "silence"
    rules[MgmtClass.VENDOR_VS].gets = rules[MgmtClass.VENDOR_N2N].gets = "drops"
    return rules


def place(port: SimPort, key_class: KeyClass, **settings: int) -> ClassAgent:
    """Add the class *key_class* to *port*, with *settings*, fields of `KeySettings` by name; all other fields are 0.

    Returns the state of the agent, which a test may read and set. Raises EncodeError for a value that does not fit.
    """
    agent = ClassAgent(bytearray(KeySettings.new(**settings).raw), key_class.capability)
    if port.class_agents is None:
        port.class_agents = {}
    port.class_agents[int(key_class.mgmt_class)] = agent
    port.touch()
    return agent


def remove(port: SimPort, key_class: KeyClass) -> None:
    """Remove the class *key_class* from *port*."""
    (port.class_agents or {}).pop(int(key_class.mgmt_class), None)
    port.touch()


def expire(port: SimPort, agent: ClassAgent) -> None:
    """If the lease of *agent* has run out, set its protect bit to 0. The key stays."""
    if agent.deadline is not None and port.node.history.now >= agent.deadline:
        agent.deadline = None
        KeySettings.protect_bit.patch(agent.info, 0)
        port.touch()
        port.record("class-lease-expired")


def is_answered(port: SimPort, key_class: KeyClass, rules: ClassRules) -> bool:
    """Return whether *port* answers MADs of *key_class* itself: by an agent, or by a status under ``absent``. All other
    MADs are for programs there."""
    return int(key_class.mgmt_class) in (port.class_agents or {}) or rules.absent == "status"


def answer(port: SimPort, key_class: KeyClass, rules: ClassRules, mad: bytes, traps: Traps) -> bytes | None:
    """Return the reply of *port* to a MAD of *key_class*; None if it sends none."""
    agent = (port.class_agents or {}).get(int(key_class.mgmt_class))
    method, attribute = mad[at.METHOD], int.from_bytes(mad[at.ATTRIBUTE_ID])
    if agent is None:
        request = method in _ANSWERED and rules.absent == "status"
        return _with_status(mad, MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED) if request else None
    if method not in _CHECKED:
        return None
    if mad[at.CLASS_VERSION] != key_class.class_version:
        return _with_status(mad, MadStatus.BAD_VERSION) if rules.version == "status" else None
    expire(port, agent)
    if attribute == CLASS_PORT_INFO and method == Method.GET and rules.portinfo == "open":
        return _reply(key_class, mad, _class_port_info(key_class, agent))
    settings = KeySettings(bytes(agent.info))
    sent_key = ClassKeyHeader(mad[: ClassKeyHeader.size]).class_key
    verdict = check_class_key(method, settings.key, settings.protect_bit, sent_key, drops_gets=rules.gets == "drops")
    if verdict.is_right and agent.deadline is not None and rules.lease == "stops":
        agent.deadline = None
        port.touch()
        port.record("class-lease-stopped")
    if verdict.counted:
        _count_violation(port, key_class, rules, agent, mad, traps)
    if not verdict.accepted or method not in _ANSWERED:
        return None
    if attribute == CLASS_PORT_INFO and method == Method.GET:
        return _reply(key_class, mad, _class_port_info(key_class, agent))
    if attribute != key_class.key_info.attribute_id:
        return _with_status(mad, MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED) if rules.others == "status" else None
    if method == Method.SET:
        _set_key_info(port, agent, rules, mad[key_class.data_offset : key_class.data_offset + KeySettings.size])
        return _reply(key_class, mad, bytes(agent.info))
    return _reply(key_class, mad, settings.replace(key=0).raw if verdict.key_hidden else settings.raw)


def _set_key_info(port: SimPort, agent: ClassAgent, rules: ClassRules, data: bytes) -> None:
    """Store the KeyInfo *data* of a Set.

    With the rule ``violations`` "cleared", a 0 clears the counter of violations; otherwise it is not changed. The bytes
    after it are never changed.
    """
    violations = KeySettings.violations
    clears = rules.violations == "cleared" and not violations.decode(data)
    agent.info[: violations.byte] = data[: violations.byte]
    if clears:
        violations.patch(agent.info, 0)
    port.touch()
    port.node.history.changes += 1


def _count_violation(
    port: SimPort, key_class: KeyClass, rules: ClassRules, agent: ClassAgent, mad: bytes, traps: Traps
) -> None:
    settings = KeySettings(bytes(agent.info))
    KeySettings.violations.patch(agent.info, min(settings.violations + 1, MOST_VIOLATIONS))
    port.touch()
    port.record("class-key-violation", method=mad[at.METHOD], attribute=int.from_bytes(mad[at.ATTRIBUTE_ID]))
    if settings.lease_period and agent.deadline is None:
        agent.deadline = port.node.history.now + settings.lease_period
        port.record("class-lease-started", deadline=agent.deadline)
    if rules.traps == "sent":
        number, notice = _build_notice(port, key_class, mad)
        traps.send_once(port, number, build_class_mad(key_class, Method.TRAP, NOTICE, data=notice.raw))


def _build_notice(port: SimPort, key_class: KeyClass, mad: bytes) -> tuple[int, Notice]:
    """Return the TrapNumber and the notice for the wrong key in *mad*. The LID and GID of the sender in it are 0,
    because they are not known here."""
    request = ClassKeyHeader(mad[: ClassKeyHeader.size])
    number, layout, key_field = _BAD_KEY[key_class.mgmt_class]
    details = layout.new(
        method=request.method,
        attribute_id=request.attribute_id,
        attribute_modifier=request.attribute_modifier,
        qp=GSI_QP,
        **{key_field: request.class_key},
    )
    is_generic = int(key_class.mgmt_class in _GENERIC)
    producer = int(port.node.node_type) if is_generic else port.node.vendor_id
    notice = Notice.new(
        is_generic=is_generic,
        type=NoticeType.SECURITY,
        producer_type=producer,
        trap_number=number if is_generic else port.node.device_id & 0xFFFF,
        issuer_lid=port.lid,
    )
    return number, notice.with_details(details)


def _class_port_info(key_class: KeyClass, agent: ClassAgent) -> bytes:
    return ClassPortInfo.new(
        base_version=1, class_version=key_class.class_version, capability_mask=agent.capability_mask, resp_time_value=18
    ).raw


def _reply(key_class: KeyClass, mad: bytes, data: bytes) -> bytes:
    """Return the GetResp to *mad* with *data*, filled up with zeros."""
    start = key_class.data_offset
    return lid_routed_reply(mad[:start] + data.ljust(MAD_SIZE - start, b"\0"), MadStatus.OK, b"")


def _with_status(mad: bytes, status: int) -> bytes:
    """Return the GetResp with *status* by which an agent, or a kernel in its place, rejects *mad*. The data are those
    of *mad*."""
    return lid_routed_reply(mad, status, b"")
