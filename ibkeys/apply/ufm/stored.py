"""One partition as UFM stores it, the calls that change its members, and what the journal keeps of it.

Source: NVIDIA UFM REST guide; facts of UFM, 3. Which call is taken and why: `ibkeys.ufm.rest`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from ibkeys import jsonfile
from ibkeys.errors import FileFormatError, StoreError, UsageError
from ibkeys.partitions.model import Policy
from ibkeys.store.journal import FileImage
from ibkeys.ufm.access import PREFIX
from ibkeys.ufm.answers import UfmPartition, Word, p_key_base
from ibkeys.ufm.rest import Call, changing, resource

Words = Mapping[int, Word]
"""GUID → membership."""
MembersChange = Mapping[int, tuple[Word | None, frozenset[Word | None]]]
"""GUID → its membership before an operation, and all that the operation may have left; None: no member."""
_MEMBERS: Final = "members"


@dataclass(frozen=True, slots=True)
class Stored:
    """A partition as UFM has it. ``exists``: whether UFM has it at all; ``index0``: the flag of its members, None where
    they differ. A new one gets its flags from the policy."""

    base: int
    words: Words
    exists: bool
    ip_over_ib: bool = True
    index0: bool | None = False

    @classmethod
    def of(cls, base: int, entry: UfmPartition | None, policy: Policy | None) -> Stored:
        """Return what UFM has of a partition; *entry*: its answer, None for none. *policy*: that of the plan, for the
        flags of a new one."""
        planned = policy.partition(base) if policy is not None else None
        new = cls(base, {}, False, planned.ipoib if planned is not None else True, bool(planned and planned.indx0))
        if entry is None:
            return new
        flags = {bool(member.index0) for member in (entry.members or {}).values()}
        return cls(
            base,
            entry.words,
            True,
            entry.ip_over_ib if entry.ip_over_ib is not None else True,  # as UFM has it where nobody says
            new.index0 if not flags else flags.pop() if len(flags) == 1 else None,
        )

    def becoming(self, words: Words) -> Stored:
        """Return it with other members."""
        return replace(self, words=dict(words), exists=True)

    def is_as(self, entry: UfmPartition | None) -> bool:
        """Whether UFM's answer has these members. An empty list and no answer at all are the same: neither says who is
        in it, and UFM was never seen to keep one from the other. GUIDs without their membership are neither."""
        if entry is not None and entry.is_untold:
            return False
        return dict(self.words) == (dict(entry.words) if entry is not None else {})

    def calls_to(self, words: Words) -> list[Call]:
        """Return the calls after which *words* are its members. Raises UsageError where none keeps what the others
        have."""
        calls = changing(self.base, self.words, words, ip_over_ib=self.ip_over_ib, index0=bool(self.index0))
        if self.index0 is None and any(call.method == "PUT" for call in calls):
            raise UsageError(
                f"UFM has members with and without index0 in partition {self.base:#x}, and the only call that sets "
                "memberships gives all members the same index0: make them equal in UFM first"
            )
        return calls

    # --- the journal -------------------------------------------------------------------------------------------------

    def image(self, url: str, words: Words) -> FileImage:
        """Return what the journal keeps of a change to *words*: UFM stands in place of a host, the partition in
        that of a file."""
        before = _text(self.words) if self.exists else None
        return FileImage(resource(self.base), before, _text(words), host=host_of(url))


def host_of(url: str) -> str:
    """Return the name under which the journal keeps what a UFM has."""
    return f"{PREFIX}{url}"


def changes_in(images: list[FileImage], url: str) -> dict[int, MembersChange]:
    """Return whom an operation of the journal changed in the partitions of the UFM at *url*, by partition.

    Raises StoreError for an image that cannot be read.
    """
    found: dict[int, dict[int, tuple[Word | None, frozenset[Word | None]]]] = {}
    for image in images:
        if image.host != host_of(url):
            continue
        pairs = found.setdefault(p_key_base(image.path.rpartition("/")[2]), {})
        before, after = _words_in(image.before), _words_in(image.after)
        for guid in before.keys() | after.keys():
            was, known = pairs.get(guid, (before.get(guid), frozenset()))
            if before.get(guid) != after.get(guid) or known:
                pairs[guid] = (was, known | {before.get(guid), after.get(guid)})
    return {base: pairs for base, pairs in found.items() if pairs}


def with_changes(words: Words, changes: Mapping[int, Word | None]) -> dict[int, Word]:
    """Return *words* with other memberships; None takes one out."""
    merged: dict[int, Word | None] = {**words, **changes}
    return {guid: word for guid, word in merged.items() if word is not None}


def differing(one: Words, other: Words) -> Iterator[int]:
    """Yield the GUIDs whose memberships differ."""
    return (guid for guid in sorted({*one, *other}) if one.get(guid) != other.get(guid))


def _text(words: Words) -> bytes:
    return json.dumps({_MEMBERS: {f"{guid:016x}": words[guid] for guid in sorted(words)}}).encode()


def _words_in(text: bytes | None) -> dict[int, Word]:
    if text is None:
        return {}
    try:
        members = jsonfile.loads(text)[_MEMBERS]
        return {int(guid, 16): cast(Word, str(word)) for guid, word in members.items()}
    except (FileFormatError, LookupError, TypeError, ValueError, AttributeError):
        raise StoreError("the journal is damaged: the former members of a partition in UFM cannot be read") from None
