"""One partition as UFM stores it, the calls that change its members, and its entry in the journal.

Source: NVIDIA UFM REST guide. Which call is taken and why: `ibkeys.managers.ufm.rest`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from ibkeys import jsonfile
from ibkeys.errors import FileFormatError, StoreError, UsageError
from ibkeys.managers.ufm.access import PREFIX
from ibkeys.managers.ufm.answers import UfmMembership, UfmPartition, p_key_base
from ibkeys.managers.ufm.rest import Call, calls_to_change, resource
from ibkeys.partitions.model import Policy
from ibkeys.store.journal import FileImage

Memberships = Mapping[int, UfmMembership]
"""GUID → membership."""
MembershipsByBase = Mapping[int, Memberships]
"""Number of a partition → its members."""
MembersChange = Mapping[int, tuple[UfmMembership | None, frozenset[UfmMembership | None]]]
"""GUID → its membership before an operation, and the memberships that the operation may have left; None: no member."""
_MEMBERS: Final = "members"
_FLAGS: Final = "flags"
_DAMAGED: Final = "the journal is damaged: the former members of a partition in UFM cannot be read"
_SETTINGS: Final = "settings"
_NAME: Final = "name"
_IS_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Flags:
    """The settings of a partition that a call carries besides its members. ``name``: None if the call carries no
    name."""

    ip_over_ib: bool = True
    index0: bool = False
    name: str | None = None

    @classmethod
    def planned(cls, base: int, policy: Policy | None) -> Flags:
        """Return the settings of a new partition by the *policy* of a plan."""
        found = policy.partition(base) if policy is not None else None
        return cls(found.ipoib, found.indx0) if found is not None else cls()


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A partition as UFM has it. ``exists``: whether UFM has it at all; ``index0``: the flag of its members, None if
    they differ. ``settings``: the other values of UFM, by setting: its name, IPoIB, QoS. ``former_name``: its name
    before an operation that is undone or resumed. ``name``: the name that calls carry. None if calls carry no name: UFM
    accepts none, the name is invalid, or the partition is neither overwritten nor created."""

    base: int
    members: Memberships
    exists: bool
    ip_over_ib: bool = True
    index0: bool | None = False
    settings: Mapping[str, str] = field(default_factory=dict)
    former_name: str | None = None
    name: str | None = None

    @classmethod
    def of(cls, base: int, entry: UfmPartition | None, new: Flags) -> StoredPartition:
        """Return a partition as UFM has it. *entry*: UFM's answer, None if it has no such partition. *new*: the
        settings of a partition that UFM does not have, and the flags of members if it had none."""
        if entry is None:
            return cls(base, {}, False, new.ip_over_ib, new.index0, former_name=new.name)
        flags = {bool(member.index0) for member in (entry.members or {}).values()}
        return cls(
            base,
            entry.words,
            True,
            entry.ip_over_ib if entry.ip_over_ib is not None else True,  # UFM's default
            new.index0 if not flags else flags.pop() if len(flags) == 1 else None,
            settings_of(entry),
            new.name,
        )

    def with_members(self, members: Memberships) -> StoredPartition:
        """Return this partition with *members* in place of its own, as one that UFM has."""
        return replace(self, members=dict(members), exists=True)

    def with_settings(self, entry: UfmPartition | None) -> StoredPartition:
        """Return the partition with the settings of UFM's answer."""
        return self if entry is None else replace(self, settings=settings_of(entry))

    def with_name(self) -> StoredPartition:
        """Return the partition with its former name in the body of calls, if that is a valid name."""
        name = self.former_name or self.settings.get(_NAME, "")
        return replace(self, name=name if _IS_NAME.fullmatch(name) else None)

    def lost_settings(self, entry: UfmPartition) -> list[str]:
        """Return, in words, the settings that UFM's answer no longer has."""
        now = settings_of(entry)
        return [
            f"{name} {now.get(name, 'no longer listed')} instead of {value}"
            for name, value in self.settings.items()
            if now.get(name) != value
        ]

    def has_members_of(self, entry: UfmPartition | None) -> bool:
        """Return whether UFM's answer has the same members as this partition. An empty list and no entry at all count
        as the same: neither lists members, and no UFM is known to tell them apart. An answer with GUIDs but without
        their memberships never matches."""
        if entry is not None and entry.lacks_memberships:
            return False
        return dict(self.members) == (dict(entry.words) if entry is not None else {})

    def calls_to(self, members: Memberships) -> list[Call]:
        """Return the calls that give the partition these *members*. Raises UsageError if no call keeps the index0 flags
        of the others."""
        flags = {"ip_over_ib": self.ip_over_ib, "index0": bool(self.index0)}
        calls = calls_to_change(self.base, self.members, members, **flags, name=self.name)
        if self.index0 is None and any(call.method == "PUT" for call in calls):
            raise UsageError(
                f"UFM has members with and without index0 in partition {self.base:#x}, and the only call that sets "
                "memberships gives all members the same index0: make them equal in UFM first"
            )
        return calls

    # --- the journal -------------------------------------------------------------------------------------------------

    def image(self, url: str, members: Memberships) -> FileImage:
        """Return the journal's image of a change to *members*: UFM is in the place of a host, the partition in that of
        a file."""
        return FileImage(resource(self.base), self._text() if self.exists else None, _text(members), host=host_of(url))

    def _text(self) -> bytes:
        flags = {"ip_over_ib": self.ip_over_ib, "index0": bool(self.index0)}
        return _text(self.members, {_FLAGS: flags, _SETTINGS: dict(self.settings)})


def settings_of(entry: UfmPartition) -> dict[str, str]:
    """Return the settings of a partition in UFM's answer, other than its members, as text by name."""
    settings = {_NAME: entry.name, "ip_over_ib": None if entry.ip_over_ib is None else str(entry.ip_over_ib).lower()}
    return {name: value for name, value in settings.items() if value is not None} | dict(entry.qos)


def host_of(url: str) -> str:
    """Return the name of a UFM in the journal, in the place of a host's name."""
    return f"{PREFIX}{url}"


def changes_in(images: list[FileImage], url: str) -> dict[int, MembersChange]:
    """Return the members that an operation of the journal changed in the partitions of the UFM at *url*, by partition.

    Raises StoreError for an image that cannot be read.
    """
    found: dict[int, dict[int, tuple[UfmMembership | None, frozenset[UfmMembership | None]]]] = {}
    for image in images:
        if image.host != host_of(url):
            continue
        pairs = found.setdefault(p_key_base(image.path.rpartition("/")[2]), {})
        before, after = _memberships_in(image.before), _memberships_in(image.after)
        for guid in before.keys() | after.keys():
            was, known = pairs.get(guid, (before.get(guid), frozenset()))
            if before.get(guid) != after.get(guid) or known:
                pairs[guid] = (was, known | {before.get(guid), after.get(guid)})
    return {base: pairs for base, pairs in found.items() if pairs}


def with_changes(members: Memberships, changes: Mapping[int, UfmMembership | None]) -> dict[int, UfmMembership]:
    """Return *members* with other memberships; None removes a member."""
    merged: dict[int, UfmMembership | None] = {**members, **changes}
    return {guid: word for guid, word in merged.items() if word is not None}


def flags_in(images: list[FileImage], url: str) -> dict[int, Flags]:
    """Return the flags that partitions of the UFM at *url* had before an operation of the journal, by partition;
    partitions that it created, and those in operations of earlier versions of ibkeys, are left out.

    Raises StoreError for an image that cannot be read.
    """
    found: dict[int, Flags] = {}
    for image in images:
        if image.host == host_of(url) and image.before is not None:
            kept = _read(image.before)
            flags, settings = kept.get(_FLAGS), kept.get(_SETTINGS)
            base = p_key_base(image.path.rpartition("/")[2])
            if isinstance(flags, dict) and isinstance(settings, dict):
                name = str(settings[_NAME]) if _NAME in settings else None
                found.setdefault(base, Flags(bool(flags.get("ip_over_ib", True)), bool(flags.get("index0")), name))
    return found


def _text(members: Memberships, more: Mapping[str, object] | None = None) -> bytes:
    return json.dumps({_MEMBERS: {f"{guid:016x}": members[guid] for guid in sorted(members)}, **(more or {})}).encode()


def _memberships_in(text: bytes | None) -> dict[int, UfmMembership]:
    if text is None:
        return {}
    try:
        return {int(guid, 16): cast(UfmMembership, str(word)) for guid, word in _read(text)[_MEMBERS].items()}
    except (LookupError, TypeError, ValueError, AttributeError):
        raise StoreError(_DAMAGED) from None


def _read(text: bytes) -> dict[str, Any]:
    try:
        found = jsonfile.loads(text)
    except FileFormatError:
        found = None
    if not isinstance(found, dict):
        raise StoreError(_DAMAGED)
    return found
