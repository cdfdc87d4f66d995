"""UFM's REST interface as calls: its partitions and their members, its jobs, its version.

The calls, and when each is used: POST only adds, and clients have observed that it makes every member full whatever the
request says; PUT stores the exact list, and overwrites changes that another client made in the meantime; DELETE removes
members. So full members are added to a partition of full members by POST, and all other members by PUT. Source: NVIDIA
UFM REST guide.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ibkeys import jsonfile
from ibkeys.errors import EncodeError, FileFormatError, UfmRefused
from ibkeys.managers.ufm.access import ALL_WITHIN, UfmAccess
from ibkeys.managers.ufm.answers import (
    UfmJob,
    UfmMembership,
    UfmPartition,
    UfmPartitions,
    entry_in,
    job_in,
    job_of,
    partitions_in,
)
from ibkeys.managers.ufm.client import HttpMethod, UfmClient
from ibkeys.printable import counted

P_KEYS: Final = "/resources/pkeys"
_GUIDS: Final = {"guids_data": "true"}
_ENTRY: Final = {**_GUIDS, "qos_conf": "true"}
"""The query for one partition. The query for the list of all does not work with both parameters."""
_TAKES_NAMES: Final = (6, 22)
"""The first version in which POST and PUT take ``partition_name``."""
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})")
_IN_ONE_PATH: Final = 100
"""The most GUIDs in the path of one DELETE."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One call that asks UFM for a change, also as a person would type it. ``body``: None for DELETE."""

    method: HttpMethod
    path: str
    body: Mapping[str, Any] | None = None


def resource(base: int) -> str:
    """Return the path of a partition below the base of UFM: unpadded, without the membership bit."""
    return f"{P_KEYS}/{base:#x}"


def adding(base: int, guids: Collection[int], *, ip_over_ib: bool, index0: bool, name: str | None = None) -> Call:
    """Return the call that makes *guids* full members beside those that are there, and the partition with them. *name*:
    that of the partition, None if UFM takes none."""
    return Call("POST", P_KEYS, _body(base, sorted(guids), ip_over_ib, index0, name) | {"membership": "full"})


def replacing(
    base: int, words: Mapping[int, UfmMembership], *, ip_over_ib: bool, index0: bool, name: str | None = None
) -> Call:
    """Return the call that makes *words* the whole list of members; an empty one is never sent, because its effect is
    not known. *name*: that of the partition, None if UFM takes none."""
    assert words
    guids = sorted(words)
    body = _body(base, guids, ip_over_ib, index0, name)
    return Call("PUT", P_KEYS, body | {"memberships": [words[guid] for guid in guids]})


def removing(base: int, guids: Collection[int]) -> Iterator[Call]:
    """Yield the calls that remove *guids* from a partition."""
    ordered = sorted(guids)
    for start in range(0, len(ordered), _IN_ONE_PATH):
        listed = ",".join(f"{guid:016x}" for guid in ordered[start : start + _IN_ONE_PATH])
        yield Call("DELETE", f"{resource(base)}/guids/{listed}")


def changing(
    base: int,
    before: Mapping[int, UfmMembership],
    after: Mapping[int, UfmMembership],
    *,
    ip_over_ib: bool,
    index0: bool,
    name: str | None = None,
) -> list[Call]:
    """Return the calls after which *after* are the members of a partition that has *before*. The module's text says
    which ones, and why."""
    gone = [guid for guid in before if guid not in after]
    new = [guid for guid in after if guid not in before]
    changed = [guid for guid, word in after.items() if before.get(guid, word) != word]
    if not new and not changed:
        return list(removing(base, gone)) if gone else []
    if not changed and not gone and set(after.values()) == {"full"}:
        return [adding(base, new, ip_over_ib=ip_over_ib, index0=index0, name=name)]
    return [replacing(base, after, ip_over_ib=ip_over_ib, index0=index0, name=name)]


def _body(base: int, guids: Sequence[int], ip_over_ib: bool, index0: bool, name: str | None) -> dict[str, Any]:
    # Both have defaults that would change a partition unasked: index0 false, ip_over_ib true.
    body: dict[str, Any] = {
        "pkey": f"{base:#x}",
        "guids": [f"{guid:016x}" for guid in guids],
        "index0": index0,
        "ip_over_ib": ip_over_ib,
    }
    return body | ({"partition_name": name} if name is not None else {})


class Ufm:
    """One UFM. All methods raise UfmNotReached and UfmRefused. *now*: a monotonic clock, in seconds."""

    def __init__(self, access: UfmAccess, now: Callable[[], float] = time.monotonic) -> None:
        self._client, self._now = UfmClient(access), now

    @property
    def url(self) -> str:
        """Its base, without credentials."""
        return self._client.url

    def version(self) -> str | None:
        """Return its version, None where it does not say."""
        found = self._client.read("/app/ufm_version")
        version = found.get("ufm_release_version") if isinstance(found, dict) else None
        return version if isinstance(version, str) else None

    def takes_names(self) -> bool:
        """Return whether its POST and PUT take the name of a partition. A UFM that does not show its version does
        not."""
        try:
            found = _VERSION.match(self.version() or "")
        except UfmRefused:  # this user may not read it; the name that UFM stores is checked anyway
            return False
        return found is not None and (int(found[1]), int(found[2])) >= _TAKES_NAMES

    def partitions(self) -> dict[int, UfmPartition]:
        """Return all partitions by number, with their members as far as UFM lists them.

        Raises UfmNotReached also if that takes longer than `ALL_WITHIN`.
        """
        document = self._client.read(P_KEYS, _GUIDS)
        if document is None:
            what = "answered with status 404: no list of partitions; without a path in the URL the usual one is taken"
            raise self._client.not_reached(P_KEYS, what)
        found = self._parsed(P_KEYS, document, partitions_in)
        if found.complete:
            return dict(found.by_base)
        return self._one_by_one(found)

    def _one_by_one(self, listed: UfmPartitions) -> dict[int, UfmPartition]:
        """Ask for each partition, because some versions list only the P_Keys."""
        end = self._now() + ALL_WITHIN
        entries: dict[int, UfmPartition] = {}
        for base, bare in listed.by_base.items():
            if self._now() >= end:
                raise self._client.not_reached(
                    P_KEYS,
                    f"it lists P_Keys only, and asking for each of its {counted(len(listed.by_base), 'partition')} "
                    f"takes more than {ALL_WITHIN:g} s: {len(entries)} were read by then",
                )
            entries[base] = self.partition(base) or bare
        return entries

    def partition(self, base: int) -> UfmPartition | None:
        """Return one partition, None where UFM has none: it answers with 404 or ``{}``."""
        path = resource(base)
        found = self._client.read(path, _ENTRY)
        return None if found is None else self._parsed(path, found, lambda document: entry_in(base, document))

    def make(self, call: Call) -> str | None:
        """Ask for one change, once. Return the id of the job where UFM began one. The answer is no proof of the
        change."""
        answer = self._client.write(call.method, call.path, call.body)
        if answer.status != 202:
            return None
        document: Any = None
        with suppress(FileFormatError):  # the job may stand in Location alone
            document = jsonfile.loads(answer.body)
        job = self._parsed(call.path, document, lambda each: job_of(answer.location, each))
        if job is None:
            what = "status 202 names no job: it is not known whether the change is made"
            raise self._client.not_reached(call.path, what)
        return job

    def job(self, identity: str) -> UfmJob:
        """Return the state of a job. Raises UfmRefused for one that UFM does not know."""
        path = f"/jobs/{identity}"
        found = self._client.read(path)
        if found is None:
            raise UfmRefused(f"{self.url}{path}: UFM does not know the job that it started", 404)
        return self._parsed(path, found, lambda document: job_in(identity, document))

    def sm_settings(self) -> Mapping[str, Any]:
        """Return the settings of the subnet manager as UFM returns them: keys in clear. For
        `ibkeys.managers.ufm.sm_settings`."""
        path = "/app/smconf"
        found = self._client.read(path, holds_keys=True)
        if not isinstance(found, dict):
            raise self._client.not_reached(path, "its answer is not a list of settings")
        return found

    def _parsed(self, path: str, document: Any, parse: Callable[[Any], T]) -> T:
        try:
            return parse(document)
        except EncodeError as error:
            raise self._client.not_reached(path, str(error)) from None
