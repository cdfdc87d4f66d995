"""Values that stand for themselves: a P_Key, Q_Key, GUID, LID, a MAD or a trap in hex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.errors import MalformedMad
from ibkeys.keys.pkey import PKey
from ibkeys.keys.pkey import explain as explain_p_key
from ibkeys.keys.qkey import classify
from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE, MgmtClass, TrapNumber, describe_status, method_name
from ibkeys.mad.decode import attribute_name
from ibkeys.mad.hex_text import mads_in, notice_of
from ibkeys.mad.notice import BadMKeyDetails, Notice
from ibkeys.mad.smp import parse
from ibkeys.symptoms.numbers import NumberKind
from ibkeys.symptoms.row import Cause, Symptom

SUBJECT: Final = "Values"

_MEMBERS: Final = Cause(
    "members", "Which ports have it.", ("pkey-show --all --partition {pkey}",), "the ports with this partition"
)
P_KEY: Final = Symptom(
    name="p-key",
    title="a P_Key",
    example="0x8010",
    meaning="A partition and the membership in it.",
    causes=(
        _MEMBERS,
        Cause("p-key-rules", "How it affects each kind of packet.", ("pkey-explain {pkey}",), "the rules"),
    ),
    source="IBA 10.9",
    words="partition key membership full limited",
)
Q_KEY: Final = Symptom(
    name="q-key",
    title="a Q_Key",
    example="0x80010000",
    meaning="The key of a datagram queue pair.",
    causes=(Cause("q-key-rules", "What it can be used for.", ("qkey-explain {qkey}",), "its class"),),
    source="IBA 10.2.5",
)
GUID: Final = Symptom(
    name="guid",
    title="a GUID",
    example="0x0002c903000a1021",
    meaning="The name of a node or port, also the lower half of its GID.",
    causes=(
        Cause(
            "where", "Which node it is, and its P_Keys.", ("pkey-show -G {guid}",), "the node, the port and its P_Keys"
        ),
        Cause(
            "its-m-key", "How its M_Key protects it.", ("mkey-show -G {guid}",), "state, level and lease of the M_Key"
        ),
    ),
    source="IBA 4.1",
)
LONG_NUMBER: Final = Symptom(
    name="guid-or-key",
    title="a number of 64 bits: a GUID or a key",
    example="0x1234567890abcdef",
    meaning="GUIDs, M_Keys, SM_Keys and SA_Keys look alike. This one is not the GUID of a known maker of adapters, so "
    "it may be a key, and is not repeated here.",
    causes=(
        Cause("perhaps-a-guid", "If it is a GUID, write GUID before it.", ("discover",), "all GUIDs of the fabric"),
    ),
    source="IBA 4.1, 14.2.4",
    leaks="If it is a key, it is in your shell's history now: change it (ibkeys mkey-rotate, smkey-rotate).",
)
LID: Final = Symptom(
    name="lid",
    title="a LID",
    example="LID 5",
    meaning="The address of a port in its subnet.",
    causes=(
        Cause("its-p-keys", "Which node it is, and its P_Keys.", ("pkey-show {lid}",), "the node and its P_Keys"),
        Cause("its-m-key", "How its M_Key protects it.", ("mkey-show {lid}",), "state, level and lease of the M_Key"),
    ),
    source="IBA 4.1",
)
MAD: Final = Symptom(
    name="mad-in-hex",
    title="a MAD in hex",
    example="01010101000000000000000000000001...",
    meaning="A management datagram.",
    causes=(
        Cause("decode", "All its fields: give the same text to decode.", ("decode -",), "each field; keys are masked"),
    ),
    source="IBA 13.4",
    words="hex dump SMP packet",
)

ROWS: Final = (P_KEY, Q_KEY, GUID, LONG_NUMBER, LID, MAD)


@dataclass(frozen=True, slots=True)
class HexText:
    """The contents of a text in hex. ``words``: a description. ``trap``: its number if it is a trap or a Report, else
    None. ``numbers``: those of the trap. ``has_key``: whether a key that is not 0 is in it.
    """

    words: str
    trap: int | None
    numbers: dict[NumberKind, str]
    has_key: bool


def read_hex(text: str) -> HexText | None:
    """Return the contents of *text* if it is a Notice or a MAD in hex, with or without the offsets of a hex dump; else
    None."""
    for raw in mads_in(text):
        notice = notice_of(raw)
        found = _of_notice(notice) if notice is not None else None
        if found is None and len(raw) == MAD_SIZE:
            found = _of_mad(raw)
        if found is not None:
            return found
    return None


def _of_mad(raw: bytes) -> HexText | None:
    try:
        mad = parse(raw)
    except MalformedMad:
        return None
    name = attribute_name(mad.attribute_id, mad.mgmt_class) or f"attribute 0x{mad.attribute_id:04x}"
    status = describe_status(int.from_bytes(raw[at.STATUS]), mad.mgmt_class)
    words = f"{method_name(raw[at.METHOD])}({name}), class 0x{mad.mgmt_class:02x}, status {status}"
    is_smp = mad.mgmt_class in (MgmtClass.SUBN_LID_ROUTED, MgmtClass.SUBN_DIRECTED_ROUTE)
    has_key = is_smp and any(raw[24:32])
    return HexText(words, None, {}, has_key or (name == "PortInfo" and any(raw[64:72])))


def _of_notice(notice: Notice) -> HexText | None:
    details = notice.details
    number = notice.number
    if details is None or number not in [*TrapNumber]:
        return None
    fields = details.to_json()
    lids = [value for name, value in fields.items() if name.startswith("lid_addr") and 0 < value <= 0xBFFF]
    numbers = {NumberKind(name): str(lid) for name, lid in zip(("lid1", "lid2"), lids, strict=False)}
    if lids:
        numbers[NumberKind.LID] = str(lids[0])
    key = fields.get("p_key")
    if isinstance(key, str) and int(key, 16) & 0x7FFF:
        numbers[NumberKind.P_KEY] = f"0x{int(key, 16):04x}"
    has_key = isinstance(details, BadMKeyDetails) and BadMKeyDetails.m_key.decode(notice.raw) != 0
    return HexText(f"trap {number}", number, numbers, has_key)


def words_of(kind: NumberKind, value: int) -> str:
    """Return the meaning of a P_Key or Q_Key in words; "" for another kind."""
    if kind in (NumberKind.P_KEY, NumberKind.P_KEY2):
        return f"{PKey(value)}: {explain_p_key(PKey(value))}"
    if kind is NumberKind.Q_KEY:
        meaning = classify(value)
        return f"0x{value:08x}: {meaning.kind}: {meaning.text}"
    return ""
