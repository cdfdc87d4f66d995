"""One run over the steps of a course: the files, the signal, the ports; then the next step."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.apply.by_sm.stepped_run import SteppedRun
from ibkeys.apply.by_sm.steps import expectations
from ibkeys.apply.by_sm.watch import Watch, Watched
from ibkeys.apply.opensm.course import Course
from ibkeys.apply.opensm.guards import Guards
from ibkeys.apply.opensm.site import Site
from ibkeys.change.opensm_session import OpensmSession
from ibkeys.errors import NotStored
from ibkeys.plan.order import Phase
from ibkeys.store.journal import Entry
from ibkeys.topology.enforcement import ENFORCEMENT_BITS
from ibkeys.topology.port_id import PortId


@dataclass(slots=True)
class OpensmRun(SteppedRun):
    """One run. After ``wait`` seconds without progress OpenSM is signalled once more, and after as many it is given up.
    ``fell_back``: OpenSM turned to its built-in policy, and nothing was done after that."""

    course: Course
    site: Site
    guards: Guards
    fell_back: bool = False

    @property
    def session(self) -> OpensmSession:
        """The master while the policies are given to it."""
        return self.site.session(self.course.files, self._asked_to_stop)

    def make(self) -> None:
        """Make the steps. Raises what stops it."""
        if self.make_steps():
            self.session.verify_files("its present content takes effect when OpenSM sweeps again")
            self.note_written(self._bits_of)

    def make_step(self, number: int, entries: list[Entry]) -> bool:
        """Give OpenSM the policy of a step, and wait until the ports are as predicted."""
        session = self.session
        session.verify()
        self.guards.written(self.course.contents[number])
        written = session.write(lambda file: self.course.contents[number][file.key], self.assignment.operation)
        has_news = bool(written or self.ports_of(number) or (number == 0 and self.site.unread_edit("policy")))
        seen = self._watch(number, has_news)
        self.fell_back = seen.fell_back
        if self.fell_back:
            return False
        if seen.wrong:
            self._stop(seen, entries, self.phases[number])
            return False
        self.settle(number, entries, written, seen)
        return True

    def _asked_to_stop(self) -> None:
        self.assignment.check()
        self.guards.alive()

    def _watch(self, number: int, has_news: bool) -> Watched:
        """Signal OpenSM where there are news for it, and return the final state of the ports."""
        step, survey = self.course.steps[number], self.prediction.survey
        expected = expectations(step, self.course.before(number), self.course.bits(number), self.prediction)
        watch = Watch(self.site.writer, survey.targets, self.clock, self.session.check, self.report_of(step))

        def wait(seen: Watched | None) -> Watched:
            changing = self.ports_of(number) if seen is None else [*seen.wrong, *seen.silent]
            return watch.until(expected, changing, self.wait)

        return self.session.tell_until(wait, lambda seen: bool(seen.wrong) and not seen.fell_back, has_news)

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
