"""Parsing UFM's answers in JSON: partitions and jobs. The functions are pure.

UFM spells P_Keys without the membership bit and without leading zeros, and GUIDs without ``0x``. Other clients have
found other spellings, so both are read as numbers. A value that an answer does not have is None, which means "not
known", never "no member". Source: NVIDIA UFM REST guide; the spellings that clients of UFM accept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from ibkeys.errors import EncodeError
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.partitions.model import DEFAULT_PARTITION
from ibkeys.printable import clean

UfmMembership = Literal["full", "limited"]
JobState = Literal["running", "done", "failed"]
_WORDS: Final = ("full", "limited")
_P_KEY: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,4})")
_GUID: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16})")
_RUNNING: Final = ("", "pending", "running", "started", "created", "queued", "scheduled", "in progress")
_SUMMARIES: Final = ("summary", "description")
QOS: Final = ("mtu_limit", "service_level", "rate_limit")
_TRUTHS: Final = {True: True, False: False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a partition. ``index0``: whether UFM puts the P_Key at index 0 of the member's table; None: not in
    the answer."""

    membership: UfmMembership
    index0: bool | None = None


@dataclass(frozen=True, slots=True)
class UfmPartition:
    """A partition as UFM stores it. ``base``: its number (15 bits). ``members``: GUID of a port or virtual port →
    member. It is None if the answer does not show the members: it has no list of GUIDs, an empty list, or GUIDs without
    memberships, or it is for the default partition. ``lacks_memberships``: whether the answer has GUIDs although
    ``members`` is None; then there are members, and no call can keep them as they are. ``ip_over_ib``: whether the
    partition has an IPoIB multicast group; None if not in the answer. ``qos``: mtu_limit, service_level and rate_limit
    of that group, those that are in the answer."""

    base: int
    name: str | None = None
    members: Mapping[int, Member] | None = None
    ip_over_ib: bool | None = None
    lacks_memberships: bool = False
    qos: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> Mapping[int, UfmMembership]:
        """GUID → membership; empty if the members are not known."""
        return {guid: member.membership for guid, member in (self.members or {}).items()}


@dataclass(frozen=True, slots=True)
class UfmJob:
    """The state of a job of UFM. ``id``: its name in UFM; ``summary``: UFM's text about it, "" for none."""

    id: str
    state: JobState
    summary: str = ""


@dataclass(frozen=True, slots=True)
class UfmPartitions:
    """The partitions in an answer for all of them. ``by_base``: partition number → partition. ``complete``: whether the
    answer has their members, not only their P_Keys."""

    by_base: Mapping[int, UfmPartition] = field(default_factory=dict)
    complete: bool = True


def p_key_base(text: object) -> int:
    """Return the partition number (15 bits) of a P_Key in hexadecimal, with or without ``0x`` and membership bit.
    Raises EncodeError."""
    found = _P_KEY.fullmatch(text) if isinstance(text, str) else None
    base = int(found[1], 16) & PARTITION_MASK if found else 0
    if not base:
        raise EncodeError(f"{_quoted(text)} is not a P_Key of a partition")
    return base


def guid_number(text: object) -> int:
    """Return the number of a GUID in hexadecimal, with or without ``0x`` and leading zeros. Raises EncodeError, also
    for 0."""
    found = _GUID.fullmatch(text) if isinstance(text, str) else None
    number = int(found[1], 16) if found else 0
    if not number:
        raise EncodeError(f"{_quoted(text)} is not a GUID")
    return number


def membership_of(keys: Iterable[PKey], base: int) -> UfmMembership | None:
    """Return the membership in the partition *base* of a port with the P_Keys *keys*, in UFM's words; None if it is no
    member."""
    found = [key.is_full for key in keys if key.partition == base]
    return None if not found else "full" if any(found) else "limited"


def parse_partitions(document: object) -> UfmPartitions:
    """Parse the answer for all partitions: a dictionary with P_Keys as names, a list of P_Keys, or a list of
    dictionaries, each with a ``pkey``. A P_Key whose value is ``{}`` is left out. Raises EncodeError."""
    if isinstance(document, dict):
        pairs = [(p_key_base(key), value) for key, value in document.items()]
        return UfmPartitions(_by_base(parse_partition(base, value) for base, value in pairs if value != {}))
    if not isinstance(document, list):
        raise EncodeError(f"{_quoted(document)} is not a list of partitions")
    if all(isinstance(each, dict) for each in document) and document:
        return UfmPartitions(_by_base(parse_partition(p_key_base(each.get("pkey")), each) for each in document))
    return UfmPartitions(_by_base(UfmPartition(p_key_base(each)) for each in document), complete=False)


def parse_single_answer(base: int, document: object) -> UfmPartition | None:
    """Parse the answer for the single partition *base*: its entry, or a dictionary with the entry under its P_Key.
    Return None for ``{}``: UFM has no such partition. Raises EncodeError."""
    if document == {}:
        return None
    if isinstance(document, dict) and len(document) == 1:
        [(key, value)] = document.items()
        if isinstance(value, dict) and _P_KEY.fullmatch(key):
            if p_key_base(key) != base:
                raise EncodeError(f"UFM was asked for partition {base:#x}, but it answered for {key}")
            document = value
    return parse_partition(base, document)


def parse_partition(base: int, entry: object) -> UfmPartition:
    """Parse the *entry* of the partition *base*. Raises EncodeError."""
    if not isinstance(entry, dict):
        raise EncodeError(f"partition {base:#x}: {_quoted(entry)} is not an entry of a partition")
    name = entry.get("partition")
    guids = entry.get("guids")
    members = None if base == DEFAULT_PARTITION else _parse_members(base, guids)
    return UfmPartition(
        base,
        clean(name) if isinstance(name, str) and name else None,
        members,
        _parse_truth(entry.get("ip_over_ib")),
        lacks_memberships=members is None and bool(guids),
        qos=_parse_qos(entry),
    )


def parse_job(identity: str, document: object) -> UfmJob:
    """Parse the answer for the job *identity*; its names may be in upper or lower case. A job without a status counts
    as running, and a job with an unknown status counts as failed. Raises EncodeError."""
    if not isinstance(document, dict):
        raise EncodeError(f"{_quoted(document)} is not a job")
    fields = {str(name).lower(): value for name, value in document.items()}
    status_value = fields.get("status")
    status = status_value.strip().lower() if isinstance(status_value, str) else ""
    summary = next((clean(each)[:200] for name in _SUMMARIES if isinstance(each := fields.get(name), str) and each), "")
    if status == "completed":
        return UfmJob(identity, "done", summary)
    if status in _RUNNING and (status_value is None or isinstance(status_value, str)):
        return UfmJob(identity, "running", summary)
    shown = clean(status_value)[:80] if isinstance(status_value, str) else _quoted(status_value)
    return UfmJob(identity, "failed", ": ".join(filter(None, (shown, summary))))


def parse_job_id(location: str | None, document: object) -> str | None:
    """Return the ID of the job that UFM began: the last part of the header ``Location``, or else the ``ID`` in the
    answer; None if there is neither.

    The host in *location* is ignored. Raises EncodeError for an invalid ID.
    """
    found: object = location.rstrip("/").rpartition("/")[2] if location else None
    if found is None and isinstance(document, dict):
        found = next((value for name, value in document.items() if str(name).lower() in ("id", "job_id")), None)
    if found is None:
        return None
    if not isinstance(found, (str, int)) or not re.fullmatch(r"[\w-]{1,64}", str(found), re.ASCII):
        raise EncodeError(f"{_quoted(found)} is not the id of a job")
    return str(found)


def _parse_members(base: int, guids: object) -> dict[int, Member] | None:
    """Return the members in the list *guids*, by GUID. Return None for an empty list, which UFM sends also if all ports
    are members, and for a list in which a membership is missing. Raises EncodeError."""
    if guids is None or guids == []:
        return None
    if not isinstance(guids, list):
        raise EncodeError(f"partition {base:#x}: {_quoted(guids)} is not a list of GUIDs")
    found: dict[int, Member] = {}
    has_all_memberships = True
    for each in guids:
        if isinstance(each, str):
            guid_number(each)
            has_all_memberships = False
            continue
        if not isinstance(each, dict):
            text = f"{_quoted(each)} in its list of members is not an entry for a member"
            raise EncodeError(f"partition {base:#x}: {text}")
        guid, word = guid_number(each.get("guid")), each.get("membership")
        if word is None:
            has_all_memberships = False
            continue
        if not isinstance(word, str) or word.strip().lower() not in _WORDS:
            raise EncodeError(f"partition {base:#x}: GUID {guid:016x} has membership {_quoted(word)}")
        member = Member(cast(UfmMembership, word.strip().lower()), _parse_truth(each.get("index0")))
        if found.setdefault(guid, member).membership != member.membership:
            raise EncodeError(f"partition {base:#x}: GUID {guid:016x} is there twice, as full and as limited")
    return found if has_all_memberships else None


def _by_base(partitions: Iterable[UfmPartition]) -> dict[int, UfmPartition]:
    found: dict[int, UfmPartition] = {}
    for each in partitions:
        if each.base in found and found[each.base] != each:
            raise EncodeError(f"partition {each.base:#x} is there twice, and the two differ")
        found[each.base] = each
    return found


def _parse_qos(entry: Mapping[str, object]) -> dict[str, str]:
    """Return the QoS values in the entry of a partition. They are under ``qos_conf``, or, as one client of UFM expects,
    in the entry itself."""
    nested = entry.get("qos_conf")
    values: Mapping[str, object] = nested if isinstance(nested, dict) else entry
    return {name: clean(str(each))[:20] for name in QOS if isinstance(each := values.get(name), (str, int, float))}


def _parse_truth(value: Any) -> bool | None:
    if isinstance(value, str):
        value = value.strip().lower()
    return _TRUTHS.get(value) if isinstance(value, (bool, str)) else None


def _quoted(value: object) -> str:
    # The repr of a list or object is not used: it may be as long and as deeply nested as the answer.
    kinds = {list: "a list", dict: "an object", int: "a number", float: "a number"}
    return kinds.get(type(value)) or clean(repr(value))[:80]
