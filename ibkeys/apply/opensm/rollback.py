"""The course of a rollback through OpenSM, worked out before anything is written: the policies in reverse, and the
files that get their former bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ibkeys.apply.by_sm.course import TablesStep
from ibkeys.apply.by_sm.run import stale_file
from ibkeys.apply.by_sm.wanted import foreign_ports, former_enforcement, leaves_of_others
from ibkeys.apply.former_values import FormerValues
from ibkeys.apply.opensm.course import OpensmPlanning, PolicyCourse, notes_on_moved_groups, policy_in_file
from ibkeys.apply.opensm.interlocks import (
    end_of,
    objections_to_edits,
    objections_to_standbys_after_undo,
    ports_as_policy,
    set_drift_aside,
)
from ibkeys.apply.opensm.policy_files import StepContents, rollback_contents, step_contents_in
from ibkeys.arguments import given
from ibkeys.change.consent import Objection
from ibkeys.change.target import PortTarget
from ibkeys.change.wanted import Entries
from ibkeys.errors import FileChanged, UsageError
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.managers.document import guid_text
from ibkeys.managers.files.opensm_file import FileKey, OpensmFile
from ibkeys.managers.site import stale_for_good
from ibkeys.partitions.model import Policy
from ibkeys.plan.model import Break
from ibkeys.plan.sm_policies import groups_that_move
from ibkeys.printable import counted, named
from ibkeys.topology.port_id import PortKey

_AGAIN: Final = "the operation briefly disconnected pairs, and rolling back through the same policies may do so again"


@dataclass(slots=True)
class RollbackPlanning(OpensmPlanning):
    """Works out the course of the rollback of one change. ``is_automatic``: no user waits for it, so objections
    do not stop it, and it signals no OpenSM whose file the operation did not write; ``fell_back``: OpenSM has found no
    policy that it accepts."""

    is_automatic: bool = False
    fell_back: bool = False

    def rollback_course(self, former: FormerValues) -> PolicyCourse:
        """Return the rollback: the same policies in reverse, and at the end each file's own former bytes; with
        ``at_once`` only these. The file of a standby that the operation did not write, and that has its policy now,
        gets the master's former bytes.

        Raises Refused (``stale``) if a file has bytes that the operation did not write, UsageError if a file is on a
        host that is not reached, FileError.
        """
        written = step_contents_in(former.files)
        *standbys, _ = self.files
        step_contents = self._choose_files(former)
        try:
            contents = rollback_contents(self.files, step_contents, self.settings.at_once)
        except FileChanged as error:
            raise stale_file(error) from error
        course = PolicyCourse(dict(self.prediction.present), files=self.files)
        places = self.settings.changed_together.places
        course.set_places = places.record if former.makes_again else places.restore
        master = self.files[-1].key
        present = policy_in_file(self.files[-1].seen.data)
        is_ours = present is not None and present.data in step_contents[master]
        explained = ports_as_policy(self.prediction, present) if is_ours else ()
        found = foreign_ports(former, self.prediction.survey, explained=explained)
        course.remaining.foreign += [(None, each) for each in found]
        # A port that the operation touched has not drifted, wherever the operation stopped.
        later = policy_in_file(step_contents[master][0])
        drift = set_drift_aside(self.prediction, None if self.fell_back else present, later, former.ports)
        self.site.notes += drift.notes()
        self.prediction.remembered = self._former_tables(former)
        first = {file.key: step_contents[file.key][0] for file in self.files}
        tables = self.prediction.tables_after(policy_in_file(each[master]) for each in contents or [first])
        if self.is_automatic and master not in written:  # no OpenSM is signalled
            tables = [self.prediction.present]
        else:
            self._set_enforcement(course, former, tables[-1])
        is_changing = tables[-1] != course.start or (master in written and bool(course.enforcement))
        if not contents and former.files and is_changing:
            contents = [first]  # the file has its former bytes, but OpenSM was not signalled to read it
        if master in written:
            kept = [each for each in standbys if each.key not in step_contents]
            unreached = [f"{path} on {host}" for host, path in self._unreached(written)]
            course.objections += objections_to_standbys_after_undo(self.site, kept, unreached, first[master])
            self._note_own_policies([each for each in standbys if each.key in written], step_contents)
        elif not self.settings.spreads:
            self._note_unwritten_file(step_contents)
        if contents:  # OpenSM is signalled, so unread edits would come into force
            course.objections += objections_to_edits(self.site, self.prediction, is_ours=True)
        names = ["between"] * (len(contents) - 1) + ["former"]
        self.site.notes += notes_on_moved_groups(groups_that_move(present, later))
        self.note_unverifiable(course, present, later, is_undo=True)
        self._note_gone_ports(course, former)
        by_self = self._ports_of_self(later)
        not_restored = [] if self.is_automatic else list(self._not_restored(former, tables[-1], by_self))
        if not_restored and master not in written:
            self._refuse_unwritten_file(not_restored)
        elif not_restored:
            course.objections.append(
                Objection(
                    "drift",
                    f"{counted(len(not_restored), 'port')} would not return to the former state: {named(not_restored)}",
                    "The former policy gives such a port other P_Keys: the port had drifted from that policy, or its "
                    "table has no room for all P_Keys of the policy, and OpenSM would leave out others than before. "
                    "Its P_Keys would change, even if the operation did not change them.",
                )
            )
        if contents and self.settings.had_gaps and not self.settings.at_once:
            course.breaks = (Break(0, (), (), _AGAIN, "circle"),)
        course.steps = [
            TablesStep(name, [(file, each[file.key]) for file in self.files], after)  # type: ignore[arg-type]
            for name, each, after in zip(names, contents, tables, strict=False)
        ]
        return course

    def _set_enforcement(self, course: PolicyCourse, former: FormerValues, end: Mapping[PortKey, Entries]) -> None:
        """Set the enforcement that OpenSM changes while it writes the tables *end*. Add a note on the leaf ports that
        do not get their former enforcement back: OpenSM does not know it."""
        kept, command = [], ""
        for change in former_enforcement(former, self.prediction.survey):
            after = self.prediction.enforcement_by_sm(change.port.key, end) or change.before
            if after != change.before:
                course.enforcement.append(replace(change, after=after))
            if after != change.after:
                kept.append(f"{change.port} ({change.after} before the operation, {after} after the undo)")
                inbound, outbound = ("on" if bit else "off" for bit in change.after.bits)
                command = command or (
                    f"`ibkeys enforce-set -G 0x{change.port.node_guid:016x} {change.port.port} "
                    f"--inbound {inbound} --outbound {outbound} --override active-sm`"
                )
        if kept:
            course.enforcement_notes.append(
                f"{named(kept)}: the former enforcement is not restored, because OpenSM sets it as its part_enforce "
                f"says, and only where a host is connected; {'for example ' if len(kept) > 1 else ''}{command} "
                "restores it, until OpenSM sets it again"
            )
            self.site.notes += course.enforcement_notes

    def _note_gone_ports(self, course: PolicyCourse, former: FormerValues) -> None:
        """Add a note on the ports that the operation changed and that are not on the fabric now."""
        gone = [key for key in former.ports_of_tables if key not in self.prediction.survey.targets]
        if gone:
            names = named([former.names.get(key, f"0x{key[0]:016x} port {key[1]}") for key in gone])
            course.waiting += (names,)
            self.site.notes.append(
                f"{names}: changed by the operation, and not on the fabric now, or not read: OpenSM gives a port the "
                "P_Keys of the policy once it has found it"
            )

    def _former_tables(self, former: FormerValues) -> dict[int, Entries]:
        """Return, by the GUID of each end port, its P_Keys before the operation."""
        return {
            target.port.guid: {i: PKey(value) for i, value in table.values_before.items() if value & PARTITION_MASK}
            for key, table in former.tables.items()
            if (target := self.prediction.survey.targets.get(key)) is not None and not target.port.is_external
        }

    def _ports_of_self(self, policy: Policy | None) -> set[PortKey]:
        """Return the ports to which SELF in *policy* gives P_Keys, or gave them while another SM was master: those of
        all SMs, and their leaf ports."""
        if policy is None or not any(rule.who == "SELF" for each in policy.partitions for rule in each.rules):
            return set()
        ends = {key: end_of(target, self.prediction) for key, target in self.prediction.survey.targets.items()}
        sms = {guid_text(self.site.manager.guid), *self.site.writer.managers, *self.site.earlier_sms}
        return {key for key, end in ends.items() if end is not None and guid_text(end.port.guid) in sms}

    def _not_restored(
        self, former: FormerValues, end: Mapping[PortKey, Entries], by_self: Collection[PortKey]
    ) -> Iterator[str]:
        """Yield, in words, each port whose P_Keys in *end*, the tables after the rollback, differ from those before the
        operation (for a port that it did not touch: from the present ones). Left out: ports connected later that have
        only the P_Keys of the present policy; and, with a note, the ports *by_self*."""
        moved_to = leaves_of_others(former, self.prediction.survey)
        for key, target in self.prediction.survey.targets.items():
            had, gets, when = {*target.table.values()}, {*end[key].values()}, "it has"
            table = former.tables.get(key)
            if table is not None and table.blocks_before and key not in moved_to:
                had = {PKey(value) for value in table.values_before.values() if value & PARTITION_MASK}
                when = "before the operation it had"
            elif self._is_by_policy(target, former):
                continue
            if had != gets:
                texts = [named(sorted(keys)) or "none" for keys in (had, gets)]
                text = f"{target.id}: {when} {texts[0]}, and it would get {texts[1]}"
                if key not in by_self:
                    yield text
                elif not target.port.is_external:
                    self.site.notes.append(f"SELF in the former policy means the port of the present master: {text}")

    def _is_by_policy(self, target: PortTarget, former: FormerValues) -> bool:
        """Return whether a port got its P_Keys by the present policy, and not by hand before the operation."""
        end = end_of(target, self.prediction)
        if end is None or former.drifted is None:
            return False
        return end.port.guid not in {*former.drifted, *self.prediction.drifted}

    def _refuse_unwritten_file(self, not_restored: Sequence[str]) -> None:
        """Raise Refused (``stale``, ``can_be_closed``): OpenSM reads a file that the operation did not write, and ports
        have P_Keys of the operation. It is not ``is_overtaken``: the former master may return, and a rollback that
        no user waits for then goes on."""
        error = stale_for_good(
            f"{self.site.master.instance.name} reads {self.files[-1].name}, which the operation did not write"
        )
        error.can_be_closed = True
        raise error.unchanged(
            "make it read the former file first, or make a new plan for that policy (`ibkeys plan`)",
            "The file or the master has changed since.",
            f"These ports would not get their former P_Keys: {named(not_restored)}.",
        )

    def _choose_files(self, former: FormerValues) -> dict[FileKey, StepContents]:
        """Set ``files`` to the files that are rolled back, and return the contents of each, step by step. For the
        master's file, if the operation stopped before it, these are only its present bytes. A file that no SM reads any
        more is rolled back too, and the file of a standby that got the operation's policy later: its contents are those
        of the master's. Raises UsageError if a host was not reached, and the operation did not write the master's file.
        """
        step_contents = step_contents_in(former.files)
        self._add_later_copies(step_contents)
        *standbys, master = self.files
        unreached = self._unreached(step_contents)
        if unreached and master.key not in step_contents:
            host, path = unreached[0]
            raise UsageError(
                f"{path} on {host} was replaced too, and that host was not reached: add "
                + given(f"--sm-host {host}", "it to hosts=")
            )
        read = {file.key for file in self.files}
        machine = {each.machine.name: each.machine for each in self.site.reached}
        left = [
            OpensmFile.at(machine[host], Path(path))
            for host, path in sorted(step_contents.keys() - read - {*unreached})
        ]
        self.files = [*left, *(file for file in standbys if file.key in step_contents), master]
        step_contents.setdefault(master.key, (master.seen.data,))
        return step_contents

    def _unreached(self, keys: Iterable[FileKey]) -> list[FileKey]:
        """Return those of the files *keys* whose host is not reached."""
        machines = {each.machine.name for each in self.site.reached}
        return sorted(key for key in keys if key[0] not in machines)

    def _note_unwritten_file(self, step_contents: Mapping[FileKey, StepContents]) -> None:
        """Add a note that the operation did not write the master's policy: another SM has become master since, or the
        operation stopped before it."""
        *others, master = self.files
        self.site.notes.append(
            f"the operation did not write {master.name}, which the master reads now: it stays as it is"
        )
        differing = [each.name for each in others if step_contents[each.key][0] != master.seen.data]
        if differing:
            self.site.notes.append(
                f"{named(differing)} {'differs' if len(differing) == 1 else 'differ'} from it after the undo: `ibkeys "
                "partition-spread` shows the difference"
            )

    def _add_later_copies(self, step_contents: dict[FileKey, StepContents]) -> None:
        """Add to *step_contents* the files of standbys that the operation did not write, and that have a policy of it
        now: the standby was off, and partition-spread or an administrator gave it the master's policy since."""
        *standbys, master = self.files
        contents = step_contents.get(master.key)
        if contents is None or self.settings.spreads:  # a spread gave the standbys the policy in force
            return
        copies = [each for each in standbys if each.key not in step_contents and each.seen.data in contents]
        step_contents |= {each.key: contents for each in copies}
        stale = [each.name for each in copies if each.seen.data != contents[0]]
        if stale:
            self.site.notes.append(
                f"the operation did not write {named(stale)}, on a standby, which has its policy now: the former "
                "policy is written there too"
            )

    def _note_own_policies(self, standbys: Sequence[OpensmFile], step_contents: Mapping[FileKey, StepContents]) -> None:
        """Add a note on standbys whose own former policy, from before the operation, differs from the master's."""
        former = step_contents[self.files[-1].key][0]
        differing = [each.name for each in standbys if step_contents[each.key][0] != former]
        if differing:
            self.site.notes.append(
                f"{named(differing)}, on a standby, gets its own former policy back, which differs from the master's: "
                "`ibkeys partition-spread` gives it the master's"
            )
