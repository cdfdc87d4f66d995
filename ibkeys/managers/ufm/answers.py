"""The values in UFM's answers: partitions, jobs, its version, settings of the subnet manager. Pure: JSON in, values
out.

UFM spells P_Keys without the membership bit and without padding, GUIDs without ``0x``; other clients have met other
spellings, so both are read as numbers. A value that an answer does not have is None, which means "not known", never "no
member". Source: NVIDIA UFM REST guide; the spellings that clients of UFM accept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from ibkeys.errors import EncodeError
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.printable import clean

DEFAULT_PARTITION: Final = PARTITION_MASK
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
    """One port of a partition. ``index0``: whether UFM wants the P_Key at index 0 there; None: not in the answer."""

    membership: UfmMembership
    index0: bool | None = None


@dataclass(frozen=True, slots=True)
class UfmPartition:
    """A partition as UFM stores it. ``members``: by GUID, of ports or virtual ports; None: the answer does not have
    them (a list without GUIDs, an empty one, the default partition). ``is_untold``: the answer lists GUIDs without
    their memberships: then there are members, and no call keeps them as they are. ``ip_over_ib``: None if it is not in
    the answer. ``qos``: mtu_limit, service_level and rate_limit of its multicast group, as far as they are in the
    answer."""

    base: int
    name: str | None = None
    members: Mapping[int, Member] | None = None
    ip_over_ib: bool | None = None
    is_untold: bool = False
    qos: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> Mapping[int, UfmMembership]:
        """The memberships by GUID; empty where they are not known."""
        return {guid: member.membership for guid, member in (self.members or {}).items()}


@dataclass(frozen=True, slots=True)
class UfmJob:
    """The state of a job of UFM. ``summary``: the job's own text."""

    id: str
    state: JobState
    summary: str = ""


@dataclass(frozen=True, slots=True)
class UfmPartitions:
    """The partitions of a whole answer. ``complete``: whether the answer has their members, or only their P_Keys."""

    by_base: Mapping[int, UfmPartition] = field(default_factory=dict)
    complete: bool = True


def p_key_base(text: object) -> int:
    """Return the partition number of a P_Key as UFM spells it, or with the membership bit. Raises EncodeError."""
    found = _P_KEY.fullmatch(text) if isinstance(text, str) else None
    base = int(found[1], 16) & PARTITION_MASK if found else 0
    if not base:
        raise EncodeError(f"{_shown(text)} is not a P_Key of a partition")
    return base


def guid_number(text: object) -> int:
    """Return the number of a GUID in any spelling: padded or not, upper or lower case, with or without 0x. Raises
    EncodeError, also for 0."""
    found = _GUID.fullmatch(text) if isinstance(text, str) else None
    number = int(found[1], 16) if found else 0
    if not number:
        raise EncodeError(f"{_shown(text)} is not a GUID")
    return number


def word_of(keys: Iterable[PKey], base: int) -> UfmMembership | None:
    """Return the membership in a partition by the P_Keys of a table, as UFM names it; None: no member."""
    found = [key.is_full for key in keys if key.partition == base]
    return None if not found else "full" if any(found) else "limited"


def partitions_in(document: object) -> UfmPartitions:
    """Return the partitions of a list of all: a dictionary by P_Key, a plain list of P_Keys, or a list of dictionaries
    with a ``pkey`` each. Raises EncodeError."""
    if isinstance(document, dict):
        pairs = [(p_key_base(key), value) for key, value in document.items()]
        return UfmPartitions(_once(partition_in(base, value) for base, value in pairs if value != {}))
    if not isinstance(document, list):
        raise EncodeError(f"{_shown(document)} is not a list of partitions")
    if all(isinstance(each, dict) for each in document) and document:
        return UfmPartitions(_once(partition_in(p_key_base(each.get("pkey")), each) for each in document))
    return UfmPartitions(_once(UfmPartition(p_key_base(each)) for each in document), complete=False)


def entry_in(base: int, document: object) -> UfmPartition | None:
    """Return the partition in the answer for one: flat, or below its P_Key; None for ``{}``. Raises EncodeError."""
    if document == {}:
        return None
    if isinstance(document, dict) and len(document) == 1:
        [(key, value)] = document.items()
        if isinstance(value, dict) and _P_KEY.fullmatch(key):
            if p_key_base(key) != base:
                raise EncodeError(f"UFM was asked for partition {base:#x}, but it answered for {key}")
            document = value
    return partition_in(base, document)


def partition_in(base: int, entry: object) -> UfmPartition:
    """Return one partition from its entry. Raises EncodeError."""
    if not isinstance(entry, dict):
        raise EncodeError(f"partition {base:#x}: {_shown(entry)} is not an entry of a partition")
    name = entry.get("partition")
    guids = entry.get("guids")
    members = None if base == DEFAULT_PARTITION else _members(base, guids)
    return UfmPartition(
        base,
        clean(name) if isinstance(name, str) and name else None,
        members,
        _truth(entry.get("ip_over_ib")),
        is_untold=members is None and bool(guids),
        qos=_qos(entry),
    )


def job_in(identity: str, document: object) -> UfmJob:
    """Return the state of a job: ``ID`` and ``Status``, or the same in lower case. Raises EncodeError."""
    if not isinstance(document, dict):
        raise EncodeError(f"{_shown(document)} is not a job")
    fields = {str(name).lower(): value for name, value in document.items()}
    answered = fields.get("status")
    status = answered.strip().lower() if isinstance(answered, str) else ""
    summary = next((clean(each)[:200] for name in _SUMMARIES if isinstance(each := fields.get(name), str) and each), "")
    if status == "completed":
        return UfmJob(identity, "done", summary)
    if status in _RUNNING and (answered is None or isinstance(answered, str)):
        return UfmJob(identity, "running", summary)
    shown = clean(answered)[:80] if isinstance(answered, str) else _shown(answered)
    return UfmJob(identity, "failed", ": ".join(filter(None, (shown, summary))))


def job_of(location: str | None, document: object) -> str | None:
    """Return the id of the job that an answer began: the last part of its ``Location``, or ``ID`` in it; else None.

    The host in a ``Location`` is ignored. Raises EncodeError for an invalid id.
    """
    found: object = location.rstrip("/").rpartition("/")[2] if location else None
    if found is None and isinstance(document, dict):
        found = next((value for name, value in document.items() if str(name).lower() in ("id", "job_id")), None)
    if found is None:
        return None
    if not isinstance(found, (str, int)) or not re.fullmatch(r"[\w-]{1,64}", str(found), re.ASCII):
        raise EncodeError(f"{_shown(found)} is not the id of a job")
    return str(found)


def _members(base: int, guids: object) -> dict[int, Member] | None:
    """Return the members; None for an empty list, which UFM also returns if all ports are members, and for a list in
    which a membership is missing."""
    if guids is None or guids == []:
        return None
    if not isinstance(guids, list):
        raise EncodeError(f"partition {base:#x}: {_shown(guids)} is not a list of GUIDs")
    found: dict[int, Member] = {}
    is_said = True
    for each in guids:
        if isinstance(each, str):
            guid_number(each)
            is_said = False
            continue
        if not isinstance(each, dict):
            text = f"{_shown(each)} in its list of members is not an entry for a member"
            raise EncodeError(f"partition {base:#x}: {text}")
        guid, word = guid_number(each.get("guid")), each.get("membership")
        if word is None:
            is_said = False
            continue
        if not isinstance(word, str) or word.strip().lower() not in _WORDS:
            raise EncodeError(f"partition {base:#x}: GUID {guid:016x} has membership {_shown(word)}")
        member = Member(cast(UfmMembership, word.strip().lower()), _truth(each.get("index0")))
        if found.setdefault(guid, member).membership != member.membership:
            raise EncodeError(f"partition {base:#x}: GUID {guid:016x} is there twice, as full and as limited")
    return found if is_said else None


def _once(partitions: Iterable[UfmPartition]) -> dict[int, UfmPartition]:
    found: dict[int, UfmPartition] = {}
    for each in partitions:
        if each.base in found and found[each.base] != each:
            raise EncodeError(f"partition {each.base:#x} is there twice, and the two differ")
        found[each.base] = each
    return found


def _qos(entry: Mapping[str, object]) -> dict[str, str]:
    """Return the QoS values of an entry: below ``qos_conf``, or flat, as one client expects them."""
    below = entry.get("qos_conf")
    told: Mapping[str, object] = below if isinstance(below, dict) else entry
    return {name: clean(str(each))[:20] for name in QOS if isinstance(each := told.get(name), (str, int, float))}


def _truth(value: Any) -> bool | None:
    if isinstance(value, str):
        value = value.strip().lower()
    return _TRUTHS.get(value) if isinstance(value, (bool, str)) else None


def _shown(value: object) -> str:
    # Not the repr of a list or object: it may be as long as the answer, and is nested as deeply.
    kinds = {list: "a list", dict: "an object", int: "a number", float: "a number"}
    return kinds.get(type(value)) or clean(repr(value))[:80]
