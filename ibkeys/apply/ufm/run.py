"""One run over the steps of a course through UFM: each partition read again, changed and read back; then the ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.apply.by_sm.stepped_run import SteppedRun
from ibkeys.apply.by_sm.steps import expectations
from ibkeys.apply.by_sm.watch import Watch, Watched
from ibkeys.apply.ufm.course import UfmCourse
from ibkeys.apply.ufm.stored import Stored, Words, differing
from ibkeys.change.clock import look_until
from ibkeys.change.writer import Writer
from ibkeys.errors import NotStored, Refused, UfmRefused
from ibkeys.plan.order import Phase
from ibkeys.printable import named
from ibkeys.store.journal import Entry, FileEntry
from ibkeys.topology.port_id import PortKey
from ibkeys.ufm.answers import UfmPartition
from ibkeys.ufm.rest import Call, Ufm, resource

_SHOWS_WITHIN: Final = 10.0
"""Seconds in which UFM has to show what it stored."""


@dataclass(slots=True)
class UfmRun(SteppedRun):
    """One run. After ``wait`` seconds without progress a job, or the ports, are given up."""

    course: UfmCourse
    writer: Writer
    ufm: Ufm

    def make(self) -> None:
        """Make the steps. Raises what stops it."""
        if self.make_steps():
            self.note_written(lambda port: {})

    def make_step(self, number: int, entries: list[Entry]) -> bool:
        """Change the partitions of a step in UFM, and wait until the ports are as predicted."""
        written, lost = self._ask_for(number)
        if lost:
            self._stop(lost, entries, self.phases[number])
            return False
        seen = self._watch(number)
        if seen.wrong:
            self._stop_at_ports(seen, entries, self.phases[number])
            return False
        self.settle(number, entries, written, seen)
        return True

    # --- UFM ---------------------------------------------------------------------------------------------------------

    def _ask_for(self, number: int) -> tuple[list[FileEntry], dict[PortKey | None, str]]:
        """Change the partitions of one step. Return what the journal keeps of it, and what UFM did not store, by port;
        None for what is not a port of the fabric."""
        written: list[FileEntry] = []
        for base, words in self.course.words[number].items():
            calls = self.course.stored[base].calls_to(words)
            if not calls:
                continue
            stored = self._verify(base)
            entry = self.assignment.operation.record_file(stored.image(self.ufm.url, words))
            written.append(entry)
            for at, call in enumerate(calls):
                self._make(call, entry, is_first=at == 0)
            found, lost = self._read_back(base, words)
            if lost:
                return written, lost
            self._note_lost_settings(stored, found)
            self.course.stored[base] = stored.becoming(words).with_settings(found)
        return written, {}

    def _verify(self, base: int) -> Stored:
        """Read a partition again, and return it. Raises Refused (``stale``) where somebody else has changed it."""
        stored, entry = self.course.stored[base], self.ufm.partition(base)
        if stored.is_as(entry):
            return stored.with_settings(entry)
        if entry is not None and entry.is_untold:
            raise Refused(
                f"refused by interlock stale, which cannot be overridden: {self.ufm.url}{resource(base)}: "
                "it now lists members without their membership, so it was not changed",
                "stale",
            )
        now = entry.words if entry is not None else {}
        texts = [
            f"{guid:016x} is {now.get(guid) or 'no member'} instead of {stored.words.get(guid) or 'no member'}"
            for guid in differing(stored.words, now)
        ]
        raise Refused(
            f"refused by interlock stale, which cannot be overridden: {self.ufm.url}{resource(stored.base)}: somebody "
            f"else changed it in the meantime ({named(texts)}); it was left as it is",
            "stale",
        )

    def _make(self, call: Call, entry: FileEntry, is_first: bool) -> None:
        """Ask for one change, and wait for the job that it may begin. Raises UfmRefused, UfmNotReached."""
        try:
            job = self.ufm.make(call)
        except UfmRefused as error:
            if call.method == "DELETE" and error.status == 404:
                return  # somebody else took one of them out in the meantime: what is there now is read back
            if is_first and 400 <= error.status < 500:  # it said no; of other answers it is not known what came of it
                entry.failed()
            raise
        if job is None:
            return
        found = look_until(
            lambda: self.ufm.job(job),
            lambda found: found.state not in ("done", "failed"),
            self.clock,
            self.wait,
            self.assignment.check,
        )
        if found.state != "done":
            ended = f"failed: {found.summary}" if found.state == "failed" else f"has not ended after {self.wait:g} s"
            raise UfmRefused(f"{self.ufm.url}{call.path}: job {job} of UFM {ended}", 202)

    def _read_back(self, base: int, words: Words) -> tuple[UfmPartition | None, dict[PortKey | None, str]]:
        """Return what UFM has, and what it has not stored of *words*, by port: None for what is no port of the fabric.

        It is read again for a while: clients of UFM have seen it show a change a moment after its answer.
        """

        def look() -> tuple[UfmPartition | None, dict[PortKey | None, str]]:
            entry = self.ufm.partition(base)
            lost = self._lost(base, words, entry)
            if lost:
                self.assignment.check()
            return entry, lost

        return look_until(look, lambda seen: bool(seen[1]), self.clock, min(self.wait, _SHOWS_WITHIN))

    def _note_lost_settings(self, stored: Stored, entry: UfmPartition | None) -> None:
        """Tell what UFM lost of a partition besides its members: no call carries all of it."""
        lost = stored.lost_settings(entry) if entry is not None else []
        if lost:
            self.carried.notes.append(
                f"{self.ufm.url}{resource(stored.base)}: UFM made the change, but now has "
                f"{', '.join(lost)}: restore that in UFM"
            )

    def _lost(self, base: int, words: Words, entry: UfmPartition | None) -> dict[PortKey | None, str]:
        if entry is not None and entry.is_untold:
            return {None: f"UFM reported success, but lists members of {base:#x} without their membership"}
        now = entry.words if entry is not None else {}
        ports = {
            target.port.guid: key
            for key, target in self.prediction.survey.targets.items()
            if not target.port.is_external
        }
        lost: dict[PortKey | None, str] = {}
        for guid in differing(words, now):
            text = f"UFM reported success, but has GUID {guid:016x} as {now.get(guid) or 'no member'} of {base:#x}"
            text += f", not as {words.get(guid) or 'no member'}"
            key = ports.get(guid)
            lost[key] = f"{lost[key]}; {text}" if key in lost else text
        return lost

    # --- the ports ---------------------------------------------------------------------------------------------------

    def _watch(self, number: int) -> Watched:
        """Return the final state of the ports."""
        step, survey = self.course.steps[number], self.prediction.survey
        expected = expectations(step, self.course.before(number), (), self.prediction)
        watch = Watch(self.writer, survey.targets, self.clock, self.assignment.check, self.report_of(step))
        return watch.until(expected, self.ports_of(number), self.wait)

    # --- how a step ended --------------------------------------------------------------------------------------------

    def _stop_at_ports(self, seen: Watched, entries: list[Entry], phase: Phase) -> None:
        why = f"{self.wait:g} s without progress, although UFM has stored it"
        wrong: dict[PortKey | None, str] = {key: f"{text} ({why})" for key, text in seen.wrong.items()}
        if seen.fell_back:
            self.carried.notes.append(
                "most ports became full members of the default partition, as happens when OpenSM accepts "
                f"no policy: run `ibkeys undo {self.assignment.operation.id}`, and check UFM's log"
            )
        else:
            self.carried.notes.append(
                f"UFM at {self.ufm.url} has stored the change, but the ports do not show it: check "
                "whether UFM's SM runs, is master, and has read the partitions"
            )
        self._stop(wrong, entries, phase)
        self.carried.failed.update(seen.silent)

    def _stop(self, wrong: dict[PortKey | None, str], entries: list[Entry], phase: Phase) -> None:
        """Go no further: name each port."""
        for key, text in wrong.items():
            if key is not None:
                self.carried.failed[key] = NotStored(text)
        self.assignment.operation.record_all((), failed=entries)
        self.carried.stopped = phase
        if None in wrong and len(wrong) == 1:
            raise NotStored(wrong[None])
