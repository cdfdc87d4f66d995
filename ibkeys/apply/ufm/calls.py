"""Changing partitions in UFM: each partition is read again, changed by calls, and read until UFM shows the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ibkeys.apply.by_sm.run import PortsNotStored
from ibkeys.apply.ufm.stored_partition import Memberships, MembershipsByBase, StoredPartition
from ibkeys.change.clock import look_until
from ibkeys.change.runner import Runner, StepKind
from ibkeys.change.wanted import differing_places
from ibkeys.errors import NotStored, UfmRefused
from ibkeys.managers.site import stale_for_good
from ibkeys.managers.ufm.answers import UfmPartition
from ibkeys.managers.ufm.rest import Call, Ufm, resource
from ibkeys.printable import named
from ibkeys.store.journal import FileEntry, RunningOperation
from ibkeys.topology.port_id import PortKey

_SHOWS_WITHIN: Final = 10.0
"""Seconds in which UFM has to show a change that it stored."""


@dataclass(slots=True)
class UfmCalls(StepKind[MembershipsByBase]):
    """The calls of one change. ``stored``: the partitions as UFM has them; ``ports``: end ports by port GUID;
    ``check``: raises if the user asked to stop; ``notes``: settings besides members that UFM lost. No call is made
    twice. Each partition is read again right before its calls. UFM tells its SM itself."""

    may_signal_again = False

    ufm: Ufm
    stored: dict[int, StoredPartition]
    ports: Mapping[int, PortKey]
    runner: Runner
    check: Callable[[], None]
    notes: list[str] = field(default_factory=list)

    def write(self, contents: MembershipsByBase, operation: RunningOperation) -> list[FileEntry]:
        """Change partitions, and return the journal entries of those that were changed. Raises Refused (``stale``),
        UfmRefused, UfmNotReached, StoreError; NotStored if UFM does not show a change."""
        written: list[FileEntry] = []
        for base, members in contents.items():
            calls = self.stored[base].calls_to(members)
            if not calls:
                continue
            stored = self._verify(base)
            entry = operation.record_file(stored.image(self.ufm.url, members))
            written.append(entry)
            for at, call in enumerate(calls):
                self._make(call, entry, is_first=at == 0)
            stored_now = self._read_back(base, members)
            lost = stored.lost_settings(stored_now) if stored_now is not None else []  # no call carries all settings
            if lost:
                self.notes.append(
                    f"{self.ufm.url}{resource(base)}: UFM made the change, but now has {', '.join(lost)}: restore that "
                    "in UFM"
                )
            self.stored[base] = stored.with_members(members).with_settings(stored_now)
        return written

    def _verify(self, base: int) -> StoredPartition:
        """Read a partition again and return it. Raises Refused (``stale``) if another client changed its members."""
        stored, entry = self.stored[base], self.ufm.partition(base)
        if stored.has_members_of(entry):
            return stored.with_settings(entry)
        if entry is not None and entry.lacks_memberships:
            raise stale_for_good(
                f"{self.ufm.url}{resource(base)}: it now lists members without their membership, so it was not changed"
            )
        now = entry.words if entry is not None else {}
        texts = [
            f"{guid:016x} is {now.get(guid) or 'no member'} instead of {stored.members.get(guid) or 'no member'}"
            for guid in differing_places(stored.members, now)
        ]
        raise stale_for_good(
            f"{self.ufm.url}{resource(base)}: another user or program changed it in the meantime ({named(texts)}); it "
            "was left as it is"
        )

    def _make(self, call: Call, entry: FileEntry, is_first: bool) -> None:
        """Make one call, and wait for the job that it may start. Raises UfmRefused, UfmNotReached."""
        try:
            job = self.ufm.make(call)
        except UfmRefused as error:
            if call.method == "DELETE" and error.status == 404:
                return  # another client removed a member in the meantime; the read after the calls decides
            if is_first and 400 <= error.status < 500:  # UFM refused; after other answers the result is unknown
                entry.failed()
            raise
        if job is None:
            return
        job_state = look_until(
            lambda: self.ufm.job(job),
            lambda job_state: job_state.state not in ("done", "failed"),
            self.runner.clock,
            self.runner.wait,
            self.check,
        )
        if job_state.state != "done":
            summary = f"failed: {job_state.summary}"
            ended = summary if job_state.state == "failed" else f"has not ended after {self.runner.wait:g} s"
            raise UfmRefused(f"{self.ufm.url}{call.path}: job {job} of UFM {ended}", 202)

    def _read_back(self, base: int, members: Memberships) -> UfmPartition | None:
        """Return the partition as UFM has it. It is read repeatedly for a while: UFM may show a change a moment after
        its answer. Raises PortsNotStored if UFM has not stored some of *members* that are ports of the fabric;
        NotStored if it has not stored others."""

        def look() -> tuple[UfmPartition | None, dict[PortKey | None, str]]:
            entry = self.ufm.partition(base)
            lost = self._lost(base, members, entry)
            if lost:
                self.check()
            return entry, lost

        runner = self.runner
        entry, lost = look_until(look, lambda seen: bool(seen[1]), runner.clock, min(runner.wait, _SHOWS_WITHIN))
        ports = {key: text for key, text in lost.items() if key is not None}
        if ports:
            raise PortsNotStored(ports)
        if None in lost:
            raise NotStored(lost[None])
        return entry

    def _lost(self, base: int, members: Memberships, entry: UfmPartition | None) -> dict[PortKey | None, str]:
        """Return the GUIDs that UFM has not stored as *members* says, in words by port; under None those that are no
        known port."""
        if entry is not None and entry.lacks_memberships:
            return {None: f"UFM reported success, but lists members of {base:#x} without their membership"}
        now = entry.words if entry is not None else {}
        lost: dict[PortKey | None, str] = {}
        for guid in differing_places(members, now):
            text = f"UFM reported success, but has GUID {guid:016x} as {now.get(guid) or 'no member'} of {base:#x}"
            text += f", not as {members.get(guid) or 'no member'}"
            key = self.ports.get(guid)
            lost[key] = f"{lost[key]}; {text}" if key in lost else text
        return lost
