"""One run over the steps of a course: the files, the signal, the ports; then the next step."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.apply.by_sm.stepped_run import SteppedRun
from ibkeys.apply.by_sm.steps import expectations
from ibkeys.apply.by_sm.watch import Watch, Watched
from ibkeys.apply.opensm.course import Course
from ibkeys.apply.opensm.guards import Guards
from ibkeys.apply.opensm.site import Site
from ibkeys.errors import NotStored
from ibkeys.plan.order import Phase
from ibkeys.store.journal import Entry, FileEntry
from ibkeys.topology.enforcement import ENFORCEMENT_BITS
from ibkeys.topology.port_id import PortId


@dataclass(slots=True)
class Run(SteppedRun):
    """One run. After ``wait`` seconds without progress OpenSM is signalled once more, and after as many it is given up.
    ``fell_back``: OpenSM turned to its built-in policy, and nothing was done after that."""

    course: Course
    site: Site
    guards: Guards
    fell_back: bool = False

    def make(self) -> None:
        """Make the steps. Raises what stops it."""
        if self.make_steps():
            self._verify_files("its present content takes effect when OpenSM sweeps again")
            self.note_written(self._bits_of)

    def make_step(self, number: int, entries: list[Entry]) -> bool:
        """Give OpenSM the policy of a step, and wait until the ports are as predicted."""
        written = self._give(number)
        seen = self._watch(number)
        self.fell_back = seen.fell_back
        if self.fell_back:
            return False
        if seen.wrong:
            self._stop(seen, entries, self.phases[number])
            return False
        self.settle(number, entries, written, seen)
        return True

    def _give(self, number: int) -> list[FileEntry]:
        """Put the files of a step in place, and tell OpenSM where there is anything new to it."""
        self.site.verify()
        self.guards.written(self.course.contents[number])
        written = []
        for file in self.course.files:
            entry = file.put(self.assignment.operation, self.course.contents[number][file.key])
            if entry is not None:
                written.append(entry)
        if written or self.ports_of(number) or (number == 0 and self.site.unread_edit("policy")):
            self._tell()
        return written

    def _tell(self) -> None:
        """Send SIGHUP to the very process that was examined, while the files are as they were left."""
        self.site.verify()
        self._verify_files("OpenSM was not signalled to read it")
        master = self.site.master
        master.machine.signal(master.instance.process)

    def _verify_files(self, otherwise: str) -> None:
        """Raise FileChanged where a file is not as it was left."""
        for file in self.course.files:
            file.verify(otherwise)

    def _watch(self, number: int) -> Watched:
        """Return the final state of the ports; OpenSM is signalled once more when nothing comes nearer."""
        step, survey = self.course.steps[number], self.prediction.survey
        expected = expectations(step, self.course.before(number), self.course.bits(number), self.prediction)
        watch = Watch(self.site.writer, survey.targets, self.clock, self._look_around, self.report_of(step))
        seen = watch.until(expected, self.ports_of(number), self.wait)
        if seen.wrong and not seen.fell_back:
            self._tell()
            seen = watch.until(expected, [*seen.wrong, *seen.silent], self.wait)
        return seen

    def _look_around(self) -> None:
        """Stop where the user asks for it, or where there is no OpenSM any more that could come nearer."""
        self.assignment.check()
        self.site.verify_process()
        self.guards.alive()

    # --- how a step ended --------------------------------------------------------------------------------------------

    def _stop(self, seen: Watched, entries: list[Entry], phase: Phase) -> None:
        """Go no further: name each port."""
        why = f"{self.wait:g} s without progress, although OpenSM was signalled twice"
        for key, text in seen.wrong.items():
            self.carried.failed[key] = NotStored(f"{text} ({why})")
        self.carried.failed.update(seen.silent)
        self.assignment.operation.record_all((), failed=entries)
        self.carried.stopped = phase

    def _bits_of(self, port: PortId) -> dict[str, int]:
        after = next((each.after for each in self.course.enforcement if each.port.key == port.key), None)
        return (
            {} if after is None else dict(zip(ENFORCEMENT_BITS, map(int, (after.inbound, after.outbound)), strict=True))
        )
