"""Reading the flags of definitions and groups: ``ipoib``, ``mtu=5``, ``defmember=full``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ibkeys.partitions.lines import NameValue, Remarks
from ibkeys.partitions.model import Definition, GroupFlags, MemberWord
from ibkeys.partitions.words import MTU_BYTES, RATE_GBPS, RATES_OF_NEWER_OPENSM, abbreviates, c_number, rate_in_words
from ibkeys.printable import shortened

_MEMBERSHIPS: Final[tuple[MemberWord, ...]] = ("full", "both", "limited")
_GROUP_FLAGS: Final = ("mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel")
_KNOWN: Final = (*_GROUP_FLAGS, "ipoib", "defmember", "indx0", *_MEMBERSHIPS)


def read_flag(remarks: Remarks, head: Definition, pair: NameValue) -> Definition:
    """Return the definition *head* with the flag *pair* of its header added; a problem is added to *remarks*."""
    flags = read_group_flag(remarks, head.flags, pair)
    word = pair.name.text
    if flags is not None:
        return replace(head, flags=flags)
    if abbreviates(word, "ipoib"):
        remarks.check_spelling(pair.name, "ipoib")
        return replace(head, ipoib=True)
    if abbreviates(word, "defmember"):
        remarks.check_spelling(pair.name, "defmember")
        value = pair.value
        membership = membership_of(value.text) if value is not None else None
        if value is not None and membership is not None:
            remarks.check_spelling(value, membership)
            return replace(head, default_membership=membership)
        at = value if value is not None else pair.name
        remarks.warn(at.column, "bad-value", "defmember must be full, limited or both; OpenSM ignores this value")
        return head
    if word == "indx0":
        return replace(head, indx0=True)
    remarks.warn(
        pair.name.column, "unknown-flag", f"flag {shortened(word)} is not known and ignored{similar_word_hint(word)}"
    )
    return head


def read_group_flag(remarks: Remarks, flags: GroupFlags, pair: NameValue) -> GroupFlags | None:
    """Return *flags* with the flag *pair* added, None if *pair* is no flag of a group. Problems are added to
    *remarks*."""
    name = next((flag for flag in _GROUP_FLAGS if abbreviates(pair.name.text, flag)), None)
    if name is None:
        return None
    if not pair.name.text and pair.value is None:
        return flags
    remarks.check_spelling(pair.name, name)
    if pair.value is None:
        remarks.warn(pair.name.column, "bad-value", f"{name} has no value and is ignored")
        return flags
    number = c_number(pair.value.text)
    column = pair.value.column
    is_clean = number.is_number and (not number.rest or number.rest[0] in " \t\n\v\f\r")
    value = number.value & 0xFFFFFFFF
    if number.is_octal:
        remarks.warn(column, "octal", f"{name}={pair.value.text} begins with 0 and is octal: {value}")
    if name in ("sl", "FlowLabel"):
        highest = 15 if name == "sl" else 0xFFFFF
        # OpenSM ignores the flag if the value is empty or has text after the number, and else takes the number.
        if not is_clean or value > highest:
            remarks.warn(column, "bad-value", f"{name} is a number from 0 to {highest}; OpenSM ignores this one")
            return flags
        return replace(flags, sl=value) if name == "sl" else replace(flags, flow_label=value)
    if name == "scope":
        if not 1 <= value <= 15:
            remarks.warn(column, "bad-value", "scope is a number from 1 to 15; OpenSM ignores this one")
            return flags
        return replace(flags, scopes=flags.scopes | {value})
    if not is_clean or not value:
        used = f"uses {value}" if value or name in ("Q_Key", "TClass") else "makes no group with it"
        remarks.warn(column, "bad-value", f"{name}={pair.value.text} is not a valid value; OpenSM {used}")
    match name:
        case "mtu":
            if value and value not in MTU_BYTES:
                remarks.warn(column, "bad-value", f"mtu is a code from 1 (256 bytes) to 5 (4096 bytes), not {value}")
            return replace(flags, mtu=value)
        case "rate":
            if value and value not in RATE_GBPS:
                remarks.warn(
                    column, "bad-value", f"rate is a code (3 is 10 Gb/s, 7 is 40 Gb/s), and {value} is not one"
                )
            elif value in RATES_OF_NEWER_OPENSM:
                remarks.warn(
                    column,
                    "bad-value",
                    f"OpenSM 3.3.23 does not know rate={value} ({rate_in_words(value)}) and makes no group with it; "
                    "a newer one may",
                )
            return replace(flags, rate=value)
        case "Q_Key":
            return replace(flags, q_key=value)
        case _:
            if value > 0xFF:
                remarks.warn(column, "bad-value", f"TClass has 8 bits; OpenSM takes 0x{value & 0xFF:02x}")
            return replace(flags, t_class=value & 0xFF)


def membership_of(text: str) -> MemberWord | None:
    """Return the membership that OpenSM reads *text* as, None if it knows no such membership."""
    return next((word for word in _MEMBERSHIPS if abbreviates(text, word)), None)


def similar_word_hint(text: str) -> str:
    """Return the end of a message about an unknown word: the known word that differs only in case, or begins with
    *text*; "" if there is none.
    """
    for word in _KNOWN:
        if text.lower() == word.lower() or (len(text) > 3 and word.lower().startswith(text.lower())):
            return f"; OpenSM knows it as {word}"
    return ""
