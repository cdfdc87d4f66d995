"""The UFM carrier: members of UFM's partitions are changed over REST, and UFM's SM writes the tables.

One call: the partition is read again and must be unchanged; it goes into the journal; then come the call and the job
that it may start; then the partition is read again. An answer of success says that the change is stored; only P_Key
tables on the wire prove it. UFM has no compare-and-set: another client may still change the partition between the read
and the call. Source: NVIDIA UFM REST guide. No real UFM was reachable when this was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ibkeys.apply.by_sm.carrier import CarrierBySm
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.apply.by_sm.ports_proof import ObservedTables
from ibkeys.apply.by_sm.prediction import Prediction
from ibkeys.apply.by_sm.run import stopped_by
from ibkeys.apply.carrier import Assignment, CarrierResult, RollbackResult
from ibkeys.apply.former_values import FormerValues
from ibkeys.apply.going_back import go_back_by_plan
from ibkeys.apply.remaining import RemainingChanges
from ibkeys.apply.survey import Survey
from ibkeys.apply.ufm.calls import UfmCalls
from ibkeys.apply.ufm.course import UfmCourse, UfmPlanning
from ibkeys.change.clock import REAL_TIME, Clock
from ibkeys.change.writer import ChangeWriter
from ibkeys.managers.ufm.answers import QOS
from ibkeys.managers.ufm.lost_flags import refuse_lost_flags
from ibkeys.managers.ufm.rest import Ufm
from ibkeys.plan.model import PartitionPlan, SmOptions
from ibkeys.plan.tables.leaf_ports import enforcement_as_is
from ibkeys.printable import counted, named
from ibkeys.store.journal import RunningOperation

KEPT_URL: Final = "ufm_url"
"""The journal's name of the URL of the UFM that an operation used."""
_NO_PORT: Final = 0


class UfmCarrier(CarrierBySm[UfmCourse]):
    """Makes changes through *ufm*."""

    name = "ufm"

    def __init__(
        self, writer: ChangeWriter, ufm: Ufm, settings: CarrierSettings | None = None, clock: Clock = REAL_TIME
    ) -> None:
        super().__init__(writer, UfmCourse(), settings, clock)
        self._ufm = ufm

    @property
    def sm_in_words(self) -> str:
        """The UFM and the partitions whose members change, in words."""
        bases = [f"{base:#x}" for base in self._course.stored]
        word = "partition" if len(bases) == 1 else "partitions"
        return f"through UFM at {self._ufm.url}: {f'{word} {named(bases)}' if bases else 'no partition changes'}"

    # --- planning ----------------------------------------------------------------------------------------------------

    def find_remaining(
        self, wanted: PartitionPlan | FormerValues, survey: Survey, former: FormerValues | None = None
    ) -> RemainingChanges:
        """Return the remaining changes, by the prediction of the tables that UFM's SM will write. Reads all partitions
        from UFM. Raises UsageError if this change cannot be made through UFM, UfmNotReached, UfmRefused, StoreError.
        """
        enforce = enforcement_as_is(survey.topology) or (
            wanted.options.enforce if isinstance(wanted, PartitionPlan) else "both"
        )
        self._prediction = Prediction(survey, SmOptions(part_enforce=enforce), _NO_PORT)
        # It is not known at which index UFM's SM puts a P_Key.
        self._prediction.drifted = {port.guid for port in survey.end_ports}
        may_drift = self._writer.consent.covers("drift")
        partitions = self._ufm.partitions()
        policy = wanted.policy.parsed() if isinstance(wanted, PartitionPlan) else None
        if policy is not None:
            refuse_lost_flags(policy, partitions, self._ufm.partition)
        planning = UfmPlanning(self._ufm.url, partitions, self._prediction, self._settings, may_drift)
        self._course = (
            planning.rollback_course(wanted)
            if isinstance(wanted, FormerValues)
            else planning.plan_course(wanted, former)
        )
        self._prepare_overwriting()
        survey.notes += self._course.notes
        return self._remaining()

    def _prepare_overwriting(self) -> None:
        """Add the names of partitions to PUT calls if UFM accepts them, and a note on the settings that PUT does not
        carry."""
        stored, bases = self._course.stored, self._course.overwritten()
        named_anew = [base for base, each in stored.items() if each.former_name is not None and not each.exists]
        if not bases and not named_anew:
            return
        takes_names = self._ufm.takes_names()
        if takes_names:
            stored |= {base: stored[base].with_name() for base in {*bases, *named_anew}}
        if not bases:
            return
        parts = [*([] if takes_names else ["name"]), *QOS]
        listed = named([f"{base:#x}" for base in bases])
        self._course.notes.append(
            f"PUT sets the members of {counted(len(bases), 'partition')} of UFM ({listed}) but not {', '.join(parts)}: "
            "it is not known whether UFM keeps these settings; they are compared afterwards"
        )

    def journal_options(self) -> Mapping[str, Any]:
        """Return the URL of the UFM, so that an undo uses it too; the token is not in it."""
        return {KEPT_URL: self._ufm.url}

    # --- making it ---------------------------------------------------------------------------------------------------

    def carry_out(self, assignment: Assignment) -> CarrierResult:
        """Make one step after the other, each verified on the ports before the next."""
        targets = self._prediction.survey.targets
        ports = {target.port.guid: key for key, target in targets.items() if not target.port.is_external}
        runner = self._runner(assignment.operation)
        calls = UfmCalls(self._ufm, self._course.stored, ports, runner, assignment.check)
        steps = self._steps(assignment, calls, "UFM has stored it")
        steps.carried.notes = calls.notes
        with stopped_by(steps.carried, assignment.operation):
            if steps.make():
                steps.note_written()
            elif steps.last_look.wrong:
                steps.carried.notes.append(self._advice_without_effect(steps.last_look, assignment.operation))
        return steps.carried

    def _advice_without_effect(self, look: ObservedTables, operation: RunningOperation) -> str:
        """Return advice, for the case that UFM has stored the change and the ports do not show it."""
        if look.fell_back:
            return (
                "most ports became full members of the default partition, as happens when OpenSM accepts "
                f"no policy: run `ibkeys undo {operation.id}`, and check UFM's log"
            )
        return (
            f"UFM at {self._ufm.url} has stored the change, but the ports do not show it: check "
            "whether UFM's SM runs, is master, and has read the partitions"
        )

    def go_back(self, operation: RunningOperation) -> RollbackResult:
        """Restore the members that *operation* changed, in one step, verify it, and return the result."""
        kept = self._settings
        self._settings = replace(kept, at_once=True)
        try:
            return go_back_by_plan(self._writer, self, operation)
        finally:
            self._settings = kept
