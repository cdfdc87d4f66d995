"""The calls of UFM's REST interface for partitions and their members, jobs, the version and SM settings.

POST only adds members; other clients have observed that it makes them full members whatever the request says. PUT
stores a list of members in place of the old one, and so overwrites changes that another client made in the meantime.
DELETE removes members. So POST is used if only full members are added and all members are full, DELETE if members are
only removed, and PUT for every other change. Source: NVIDIA UFM REST guide.
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
from ibkeys.managers.ufm.access import TOTAL_TIMEOUT, UfmAccess
from ibkeys.managers.ufm.answers import (
    UfmJob,
    UfmMembership,
    UfmPartition,
    UfmPartitions,
    parse_job,
    parse_job_id,
    parse_partitions,
    parse_single_answer,
)
from ibkeys.managers.ufm.client import HttpMethod, UfmClient
from ibkeys.printable import counted

P_KEYS: Final = "/resources/pkeys"
_GUIDS: Final = {"guids_data": "true"}
_ENTRY: Final = {**_GUIDS, "qos_conf": "true"}
"""The query for one partition. UFM does not accept both parameters in the query for all partitions."""
_TAKES_NAMES: Final = (6, 22)
"""The first version of UFM in which POST and PUT accept ``partition_name``."""
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})")
_IN_ONE_PATH: Final = 100
"""The most GUIDs in the path of one DELETE."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the REST interface that requests a change. ``path``: below the base URL; ``body``: the JSON document,
    None for DELETE."""

    method: HttpMethod
    path: str
    body: Mapping[str, Any] | None = None


def resource(base: int) -> str:
    """Return the path of the partition *base* below the base URL. It has the number without leading zeros and without
    the membership bit."""
    return f"{P_KEYS}/{base:#x}"


def call_to_add(base: int, guids: Collection[int], *, ip_over_ib: bool, index0: bool, name: str | None = None) -> Call:
    """Return the call that adds *guids* as full members to the partition *base*, which UFM creates if it does not
    exist. *ip_over_ib*, *index0*: as in `UfmPartition` and `Member`. *name*: the partition's name, None if UFM does not
    accept one."""
    return Call("POST", P_KEYS, _body(base, sorted(guids), ip_over_ib, index0, name) | {"membership": "full"})


def call_to_replace(
    base: int, words: Mapping[int, UfmMembership], *, ip_over_ib: bool, index0: bool, name: str | None = None
) -> Call:
    """Return the call that makes *words* (GUID → membership) the only members of the partition *base*. *words* must not
    be empty, because the effect of an empty list is not known. Other arguments as in `call_to_add`."""
    assert words
    guids = sorted(words)
    body = _body(base, guids, ip_over_ib, index0, name)
    return Call("PUT", P_KEYS, body | {"memberships": [words[guid] for guid in guids]})


def calls_to_remove(base: int, guids: Collection[int]) -> Iterator[Call]:
    """Yield the calls that remove *guids* from the partition *base*."""
    ordered = sorted(guids)
    for start in range(0, len(ordered), _IN_ONE_PATH):
        listed = ",".join(f"{guid:016x}" for guid in ordered[start : start + _IN_ONE_PATH])
        yield Call("DELETE", f"{resource(base)}/guids/{listed}")


def calls_to_change(
    base: int,
    before: Mapping[int, UfmMembership],
    after: Mapping[int, UfmMembership],
    *,
    ip_over_ib: bool,
    index0: bool,
    name: str | None = None,
) -> list[Call]:
    """Return the calls that change the members of the partition *base* from *before* to *after* (GUID → membership).
    The docstring of the module says which calls are used; none if *before* and *after* are equal. Other arguments as in
    `call_to_add`."""
    gone = [guid for guid in before if guid not in after]
    new = [guid for guid in after if guid not in before]
    changed = [guid for guid, word in after.items() if before.get(guid, word) != word]
    if not new and not changed:
        return list(calls_to_remove(base, gone)) if gone else []
    if not changed and not gone and set(after.values()) == {"full"}:
        return [call_to_add(base, new, ip_over_ib=ip_over_ib, index0=index0, name=name)]
    return [call_to_replace(base, after, ip_over_ib=ip_over_ib, index0=index0, name=name)]


def _body(base: int, guids: Sequence[int], ip_over_ib: bool, index0: bool, name: str | None) -> dict[str, Any]:
    # index0 and ip_over_ib are always sent: UFM's defaults, false and true, could change the partition.
    body: dict[str, Any] = {
        "pkey": f"{base:#x}",
        "guids": [f"{guid:016x}" for guid in guids],
        "index0": index0,
        "ip_over_ib": ip_over_ib,
    }
    return body | ({"partition_name": name} if name is not None else {})


class Ufm:
    """One UFM. All methods that ask it raise UfmNotReached and UfmRefused. *now*: returns monotonic seconds."""

    def __init__(self, access: UfmAccess, now: Callable[[], float] = time.monotonic) -> None:
        self._client, self._now = UfmClient(access), now

    @property
    def url(self) -> str:
        """The base URL of UFM, which has no credential."""
        return self._client.url

    def version(self) -> str | None:
        """Return the version of UFM, None if its answer does not have it."""
        found = self._client.read("/app/ufm_version")
        version = found.get("ufm_release_version") if isinstance(found, dict) else None
        return version if isinstance(version, str) else None

    def takes_names(self) -> bool:
        """Return whether POST and PUT of this UFM accept the name of a partition; False if its version is not known."""
        try:
            found = _VERSION.match(self.version() or "")
        except UfmRefused:  # this user may not read the version; the name that UFM has stored is checked later anyway
            return False
        return found is not None and (int(found[1]), int(found[2])) >= _TAKES_NAMES

    def partitions(self) -> dict[int, UfmPartition]:
        """Return partition number → partition, for all partitions. The members are in them as far as UFM lists them.

        Raises UfmNotReached too if reading all partitions takes longer than `TOTAL_TIMEOUT`.
        """
        document = self._client.read(P_KEYS, _GUIDS)
        if document is None:
            what = "answered with status 404: no list of partitions; without a path in the URL the usual one is taken"
            raise self._client.not_reached(P_KEYS, what)
        found = self._parse_with(P_KEYS, document, parse_partitions)
        if found.complete:
            return dict(found.by_base)
        return self._read_each(found)

    def _read_each(self, listed: UfmPartitions) -> dict[int, UfmPartition]:
        """Return the partitions *listed*, each read by its own request, because some versions list only P_Keys."""
        end = self._now() + TOTAL_TIMEOUT
        entries: dict[int, UfmPartition] = {}
        for base, entry_of_list in listed.by_base.items():
            if self._now() >= end:
                raise self._client.not_reached(
                    P_KEYS,
                    f"it lists P_Keys only, and asking for each of its {counted(len(listed.by_base), 'partition')} "
                    f"takes more than {TOTAL_TIMEOUT:g} s: {len(entries)} were read by then",
                )
            entries[base] = self.partition(base) or entry_of_list
        return entries

    def partition(self, base: int) -> UfmPartition | None:
        """Return the partition *base*, None if UFM has no such partition."""
        path = resource(base)
        found = self._client.read(path, _ENTRY)
        return (
            None
            if found is None
            else self._parse_with(path, found, lambda document: parse_single_answer(base, document))
        )

    def make(self, call: Call) -> str | None:
        """Request the change *call* once, and return the ID of the job if UFM began one, else None. The result does not
        prove that the change was made."""
        answer = self._client.write(call.method, call.path, call.body)
        if answer.status != 202:
            return None
        document: Any = None
        with suppress(FileFormatError):  # only the header Location may name the job
            document = jsonfile.loads(answer.body)
        job = self._parse_with(call.path, document, lambda each: parse_job_id(answer.location, each))
        if job is None:
            what = "status 202 names no job: it is not known whether the change is made"
            raise self._client.not_reached(call.path, what)
        return job

    def job(self, identity: str) -> UfmJob:
        """Return the state of the job *identity*. Raises UfmRefused if UFM does not know it."""
        path = f"/jobs/{identity}"
        found = self._client.read(path)
        if found is None:
            raise UfmRefused(f"{self.url}{path}: UFM does not know the job that it started", 404)
        return self._parse_with(path, found, lambda document: parse_job(identity, document))

    def sm_settings(self) -> Mapping[str, Any]:
        """Return the settings of the subnet manager as UFM sends them, with keys in clear. Only
        `ibkeys.managers.ufm.sm_settings` may call this."""
        path = "/app/smconf"
        found = self._client.read(path, holds_keys=True)
        if not isinstance(found, dict):
            raise self._client.not_reached(path, "its answer is not a list of settings")
        return found

    def _parse_with(self, path: str, document: Any, parse: Callable[[Any], T]) -> T:
        try:
            return parse(document)
        except EncodeError as error:
            raise self._client.not_reached(path, str(error)) from None
