"""The OpenSM carrier: it replaces the policy file of the master by one policy after the other, and OpenSM writes the
tables. One step: the former bytes are in the journal; the new file is written beside the old one, synced, and renamed
into place, at the standbys first; SIGHUP; the ports are read until they are as predicted. Before the first file of a
step and before its signal the carrier checks again that the master is the same process and the one master; before each
file, that the file has not been changed in the meantime. Source: osm_state_mgr.c, osm_pkey_mgr.c, osm_prtn_config.c; a
running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ibkeys.apply.by_sm.carrier import CarrierBySm
from ibkeys.apply.by_sm.changed_together import KEPT_TOGETHER, open_local_files
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.apply.by_sm.prediction import Prediction, phases_of
from ibkeys.apply.by_sm.run import TablesSteps, stale_file, stopped_by
from ibkeys.apply.by_sm.wanted import overwrite_refusal
from ibkeys.apply.carrier import Assignment, CarrierResult, Failed, RollbackResult
from ibkeys.apply.former_values import KEPT_DRIFT, KEPT_FILES, FormerValues, former_in
from ibkeys.apply.opensm.course import OpensmPlanning, PolicyCourse
from ibkeys.apply.opensm.guards import KEPT_GUARDS, Guards, end_guards
from ibkeys.apply.opensm.policy_files import FormerFiles, digest_of, without_shared_files
from ibkeys.apply.opensm.rollback import RollbackPlanning
from ibkeys.apply.opensm.site import OpensmSite, find_site
from ibkeys.apply.remaining import RemainingChanges
from ibkeys.apply.survey import Survey, read_again
from ibkeys.arguments import given
from ibkeys.change.clock import REAL_TIME, Clock
from ibkeys.change.next_commands import advice_to_keep
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileChanged, FileError, IbkeysError, Refused, UsageError
from ibkeys.managers.files.journaled import clean_up
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.managers.site import KEPT_HOSTS, ReachedHost, to_json
from ibkeys.plan.model import PartitionPlan
from ibkeys.port_text import PortText
from ibkeys.printable import named
from ibkeys.store.journal import RunningOperation

KEPT_SPREADS: Final = "spreads"
"""The journal's name of the mark of an operation that only brings the master's policy to the other OpenSMs."""


class OpensmCarrier(CarrierBySm[PolicyCourse]):
    """Makes changes through the master OpenSM. *reached*: the hosts that may be examined and written to.

    ``notes_on_hosts``: notes on further hosts, which were left out.
    """

    name = "opensm"
    rewrites_tables = True
    can_rewrite = True
    can_be_rehearsed = True

    def __init__(
        self,
        writer: ChangeWriter,
        reached: Sequence[ReachedHost],
        settings: CarrierSettings | None = None,
        clock: Clock = REAL_TIME,
    ) -> None:
        super().__init__(writer, PolicyCourse(), settings, clock)
        self._reached = reached
        self._guards = Guards()
        self._problems = list[str]()
        self._undoes: int | None = None
        self._site: OpensmSite
        self.notes_on_hosts: Sequence[str] = ()

    @property
    def sm_in_words(self) -> str:
        """The OpenSM and the files that are replaced, in words."""
        files = [*reversed(self._course.files), *self._course.local_files]
        listed = named([file.name for file in files])
        return f"through {self._site.master.instance.name}: {listed}"

    @property
    def files(self) -> Sequence[OpensmFile]:
        """The policy files that get the policy, the master's last."""
        return self._course.files

    @property
    def done_in_words(self) -> str:
        """What is known when the change is complete, in words. If no port changes, no read of a port shows that OpenSM
        has read the policy."""
        course = self._course
        if course.enforcement or any(step.tables != course.start for step in course.steps):
            return super().done_in_words
        return "done, and no port changes" + ("" if self._settings.spreads else ": OpenSM was told to read the policy")

    @property
    def absent_sms(self) -> tuple[str, ...]:
        """The other SMs whose policy files cannot be reached, in words; also those that a change left out on
        purpose."""
        return (*self._site.out_of_reach, *self._site.left_out)

    # --- planning ----------------------------------------------------------------------------------------------------

    def find_remaining(
        self, wanted: PartitionPlan | FormerValues, survey: Survey, former: FormerValues | None = None
    ) -> RemainingChanges:
        """Return the remaining changes, by the prediction of the tables that OpenSM will write. Finds the master, and
        reads its files.

        Raises UsageError if this change cannot be made through OpenSM, FileFormatError for a policy that OpenSM would
        refuse, Refused if a file cannot be replaced or OpenSM cannot be signalled, and FileError, HostNotReached.
        """
        if self._writer.fabric.is_simulated:
            raise UsageError(
                f"a simulated subnet has no OpenSM on any host: {given('omit --via', 'give via=Direct()')}"
            )
        self._site = site = find_site(self._writer, self._reached, survey.topology)
        files = without_shared_files(site.policy_files())
        local_files: list[tuple[OpensmFile, bytes]] = []
        if not isinstance(wanted, FormerValues):
            try:
                local_files = open_local_files(self._settings.changed_together.files, self._reached)
            except FileChanged as error:
                raise stale_file(error) from error
        self._refuse_hindered([*files, *(file for file, _ in local_files)])
        self._prediction = Prediction(survey, site.options, site.manager.guid)
        facts = (site, files, local_files, self._prediction, self._settings)
        if isinstance(wanted, FormerValues) and not wanted.was_confirmed:
            self._undoes = wanted.operation
        self._course = (
            RollbackPlanning(*facts).rollback_course(wanted)
            if isinstance(wanted, FormerValues)
            else OpensmPlanning(*facts).plan_course(wanted, former)
        )
        survey.notes += [*self.notes_on_hosts, *site.notes]
        return self._remaining()

    def _refuse_hindered(self, files: Sequence[OpensmFile]) -> None:
        """Raise Refused for a file that could not be replaced, or a process that could not be signalled."""
        for file in files:
            reason = file.machine.hindrance(file.seen)
            if reason is not None:
                raise Refused(reason, "file").unchanged()
        master = self._site.master
        reason = master.machine.may_signal(master.instance.process)
        if reason is not None:
            raise Refused(reason, "signal").unchanged()

    def journal_options(self) -> Mapping[str, Any]:
        """Return the hosts, so that an undo reaches them too; the ports that had drifted, which an undo must not take
        for ports that got their P_Keys by this change; and the digests of the files."""
        drifted = [f"0x{guid:016x}" for guid in sorted(self._prediction.drifted)]
        found = [digest_of(file.seen.data) for file in (*self._course.local_files, *self._course.files)]
        changed_together = self._settings.changed_together
        return {
            KEPT_HOSTS: to_json(self._reached),
            KEPT_DRIFT: drifted,
            KEPT_FILES: found,
            **({KEPT_TOGETHER: changed_together.to_json()} if changed_together else {}),
            **({KEPT_SPREADS: True} if self._settings.spreads else {}),
        }

    # --- making it ---------------------------------------------------------------------------------------------------

    def arm(self, operation: RunningOperation, seconds: float) -> None:
        """Start a guard on each other host, and note in the journal how it is reached. Raises HostRefused,
        HostNotReached, StoreError."""
        self._end_earlier_guards(operation)
        try:
            self._guards.begin(self._course.files, seconds)
        finally:
            if operation.id is not None and self._guards.tokens:
                operation.journal.add_options(operation.id, {KEPT_GUARDS: self._guards.tokens})

    def _end_earlier_guards(self, operation: RunningOperation) -> None:
        """End the guards of an earlier start of *operation*, and of the unconfirmed operation that it undoes, whose
        processes may have been killed: the user goes on, or back, now. Otherwise such a guard would also roll back the
        same policy where a later operation makes it again."""
        for each in (operation.id, self._undoes):
            if each is not None:
                self._problems += end_guards(operation.journal.options_of(each))

    def start_time_limit(self) -> list[str]:
        """Start the time limit of the guards; return their problems, in words."""
        return self._guards.start_time_limit()

    def disarm(self, confirmed: bool) -> list[str]:
        """End the guards; return their problems, in words."""
        return self._guards.end(confirmed, {each.machine.name: each.host for each in self._reached})

    def carry_out(self, assignment: Assignment) -> CarrierResult:
        """Give OpenSM one policy after the other, each verified on the ports before the next."""
        policies = self._site.make_policy_files(self._course.files, self._guards, assignment.check)
        if self._settings.spreads and all(step.tables == self._course.start for step in self._course.steps):
            policies.to_signal = []  # the master has read its policy; a standby reads one only when it becomes master
        steps = self._steps(assignment, policies, "OpenSM was signalled twice")
        steps.unread = bool(self._site.unread_edit("policy"))
        # In one step a guard writes the same as this undo, so it is kept in case this process dies.
        keeps_guards = self._settings.at_once
        if not self._guards.tokens and not keeps_guards:
            self._end_earlier_guards(assignment.operation)
        with stopped_by(steps.carried, assignment.operation):
            steps.carried.notes += [*self._problems, *self._clean_up(assignment.operation)]
            if steps.make():
                policies.verify_files("its present content takes effect when OpenSM sweeps again")
                steps.note_written()
                if keeps_guards:
                    self._end_earlier_guards(assignment.operation)
                    steps.carried.notes += self._problems
                self._course.set_places(lambda: self._writer.keystore)
            elif steps.last_look.fell_back:
                self._go_back_from_fallback(assignment.operation, steps.carried)
        return steps.carried

    def _clean_up(self, operation: RunningOperation) -> Iterator[str]:
        """Remove the temporary files that killed runs left beside the files; yield notes on files that are not
        theirs."""
        for _, left in clean_up(operation.journal, [*self._course.local_files, *self._course.files]):
            if isinstance(left, FileError):
                yield str(left)
            elif left.foreign:
                yield f"unknown files beside a policy were left in place: {named(left.foreign)}"

    def _go_back_from_fallback(self, operation: RunningOperation, carried: CarrierResult) -> None:
        """Restore the former policy in one step, without a question, because OpenSM made most ports full members of the
        default partition."""
        assert operation.id is not None
        carried.went_back = went_back = self._go_back(operation, fell_back=True)
        carried.notes += went_back.notes
        if went_back.is_refused:
            result = (
                "nothing was rolled back, because another user or program has changed a policy file; "
                f"{advice_to_keep(operation.id)}"
            )
        elif went_back.failed:
            result = f"it could not be restored everywhere; `ibkeys undo {operation.id}` tries again"
        else:
            result = "the former policy is restored"
        carried.rollback_reason = (
            "OpenSM made most ports full members of the default partition, against the policy, as it does when it "
            f"finds no policy that it accepts; {result}; check its log"
        )

    def go_back(self, operation: RunningOperation) -> RollbackResult:
        """Restore the former files in one step, signal OpenSM, and prove it; return the result. Nothing is restored if
        another program or administrator has changed a file or a port; a port that does not answer does not prevent the
        restoration."""
        read_again(self._writer, self._prediction.survey.targets.values())
        return self._go_back(operation)

    def _go_back(self, operation: RunningOperation, fell_back: bool = False) -> RollbackResult:
        """Restore as `go_back` does, by the last look at the ports; if OpenSM *fell_back*, also over changes of others
        at ports. If it is refused, the guards on other hosts are ended, so that they do not roll back either."""
        assert operation.id is not None
        journal, failed = operation.journal, list[Failed]()
        former = former_in(journal, journal.find(operation.id))
        survey, site = self._prediction.survey, self._site
        prediction = Prediction(survey, site.options, site.manager.guid)
        try:
            files = self._read_written_files(former, failed)
            settings = replace(self._settings, at_once=True)
            planning = RollbackPlanning(site, files, [], prediction, settings, is_automatic=True, fell_back=fell_back)
            course = planning.rollback_course(former)
            if course.remaining.foreign and not fell_back:
                raise overwrite_refusal([port for _, port in course.remaining.foreign], operation.id)
        except Refused as refused:
            reasons = [PortText(str(refused), None, refused.details), *self.disarm(confirmed=False)]
            return RollbackResult([*failed, *((None, reason) for reason in reasons)], is_refused=True)
        has_written_master = files[-1].key in {image.key for image in former.files}
        kind = FormerFiles(site.master if has_written_master else None, failed)
        with journal.undo_of(operation.id, self._writer.origin) as undo:
            assignment = Assignment(phases_of(course, survey), survey.targets, {}, undo, lambda: None, lambda *_: None)
            steps = TablesSteps(
                course, prediction, assignment, self._runner(undo), kind, self._writer, "OpenSM was signalled twice"
            )
            try:
                if steps.make():
                    course.set_places(lambda: self._writer.keystore)
            except IbkeysError as error:
                failed.append((None, str(error)))
            failed += [(survey.targets[key].id, str(error)) for key, error in steps.carried.failed.items()]
            undo.outcome = "open" if failed else "done"
        return RollbackResult(failed, notes=course.enforcement_notes)

    def _read_written_files(self, former: FormerValues, failed: list[Failed]) -> list[OpensmFile]:
        """Read the files that the operation wrote again, and return them, the master's file last in any case. A file
        that cannot be read is left out of *former*, and the problem is added to *failed*. Raises Refused (``stale``) if
        a path leads to another file now."""
        written, readable = {image.key for image in former.files}, dict[FileKey, OpensmFile]()
        for file in [*self._course.local_files, *self._course.files]:
            key = file.key
            if key not in written:
                continue
            try:
                file.seen = file.machine.look(file.path)
                if file.key != key:
                    raise FileChanged(f"{file.path}: now leads to {file.name}, no longer to {key[1]}")
                readable[key] = file
            except FileChanged as error:
                raise stale_file(error) from error
            except IbkeysError as error:
                failed.append((None, str(error)))
        former.files = [image for image in former.files if image.key in readable]
        master = self._course.files[-1]
        return [*(readable | {master.key: master}).values()]
