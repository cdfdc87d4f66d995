"""The OpenSM carrier: policies take the place of the master's own, one after the other, and OpenSM writes the tables.

One step: the former bytes are in the journal; the new file is beside the old one, complete and on disk, and takes its
place, at the standbys first; SIGHUP; the wire is read until it is as predicted. Before each file and each signal it is
looked at again whether it is the same process, the same one master, and nobody else has written a file meanwhile.
Source: facts of a running OpenSM (osm_state_mgr.c, osm_pkey_mgr.c, osm_prtn_config.c) and of its ways to lose a fabric.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ibkeys.apply.carrier import Carried, FabricChange, Failed, OnStep, Written
from ibkeys.apply.opensm.images import images_of, table_image
from ibkeys.apply.opensm.interlocks import (
    drift_of,
    objections_to_edits,
    objections_to_managers,
    objections_to_self,
    objections_to_standbys,
)
from ibkeys.apply.opensm.policy_files import Place, PolicyFile, steps_back, ways_in
from ibkeys.apply.opensm.site import Reached, Site, find_site
from ibkeys.apply.opensm.steps import (
    PolicyStep,
    Prediction,
    expectations,
    partitions_in,
    phase_of,
    rewriting,
)
from ibkeys.apply.opensm.watch import Watch, Watched
from ibkeys.apply.remaining import Former, Remaining
from ibkeys.apply.survey import Survey, look_at_all, read_again
from ibkeys.change.consent import Objection
from ibkeys.change.wanted import EnforcementChange, Entries, TableChange
from ibkeys.change.writer import Writer
from ibkeys.errors import FileChanged, FileError, IbkeysError, NotStored, Refused, UsageError
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.courses import Circle
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import Break, BreakKind, PartitionPlan
from ibkeys.plan.order import Phase
from ibkeys.plan.sm_policies import SmPolicies, policies_between
from ibkeys.printable import counted, named
from ibkeys.store.journal import Entry, FileEntry, Operation
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId, PortKey

WAIT: Final = 60.0
"""Seconds without progress after which OpenSM is told once more, and after which it is given up."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asks of the carrier. ``wait``: see `WAIT`; ``gaps``: pairs may be cut for a moment; ``rewrite``:
    OpenSM writes every table anew first; ``at_once``: an undo goes back in one step."""

    wait: float = WAIT
    gaps: bool = False
    rewrite: bool = False
    at_once: bool = False


@dataclass(slots=True)
class _Course:
    """What is done, step by step. ``contents``: what each file holds in each step; ``enforcement``: what the last step
    changes; ``policies``: what the master is given, parsed; ``start``: the tables before the first step."""

    start: Mapping[PortKey, Entries] = field(default_factory=dict)
    steps: list[PolicyStep] = field(default_factory=list)
    contents: list[Mapping[Place, bytes | None]] = field(default_factory=list)
    enforcement: list[EnforcementChange] = field(default_factory=list)

    @property
    def end(self) -> Mapping[PortKey, Entries]:
        """The tables after the last step."""
        return self.steps[-1].tables if self.steps else self.start

    def before(self, number: int) -> Mapping[PortKey, Entries]:
        """Return the tables before a step."""
        return self.steps[number - 1].tables if number else self.start

    def bits(self, number: int) -> Sequence[EnforcementChange]:
        """Return the enforcement bits that a step changes: only the last one does."""
        return self.enforcement if number == len(self.steps) - 1 else ()


class OpensmCarrier:
    """Makes changes through the master OpenSM. *reached*: the hosts that may be looked at and written to.

    *now*, *sleep*: of a clock that only goes forward.
    """

    name = "opensm"
    sends_sets = False
    way_back = "in one step, which may cut or join pairs for a moment"

    def __init__(
        self,
        writer: Writer,
        reached: Sequence[Reached],
        settings: Settings | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._writer = writer
        self._reached = reached
        self._settings = settings or Settings()
        self._now, self._sleep = now, sleep
        self._files: list[PolicyFile] = []
        self._course = _Course()
        self._breaks: tuple[Break, ...] = ()
        self._objections: list[Objection] = []
        self._site: Site
        self._prediction: Prediction

    @property
    def way(self) -> str:
        """The OpenSM, and the files that are replaced."""
        listed = named([file.name for file in reversed(self._files)])
        return f"through {self._site.master.instance.name}: {listed}"

    # --- planning ----------------------------------------------------------------------------------------------------

    def survey(self, ports: Collection[PortKey], *, by_port_guid: bool = False) -> Survey:
        """Look at all end ports and leaf ports: a policy is for all of them."""
        return look_at_all(self._writer, ports, by_port_guid=by_port_guid)

    def state(self, wanted: PartitionPlan | Former, survey: Survey, former: Former | None = None) -> Remaining:
        """Return what is left, with what OpenSM will make of it. Finds the master, and looks at its files.

        Raises UsageError where this change cannot go this way, FileFormatError for a policy that OpenSM would refuse,
        Refused where a file cannot be replaced or OpenSM not be told, and FileError, HostNotReached.
        """
        if self._writer.fabric.is_simulated:
            raise UsageError("a simulated subnet has no OpenSM on any host; leave --via out")
        assert survey.topology is not None
        self._site = site = find_site(self._writer, self._reached, survey.topology)
        self._files = [PolicyFile.of(place) for place in site.places]
        self._refuse_hindered()
        self._prediction = Prediction(survey, site.options, site.manager.guid)
        self._course = _Course(dict(self._prediction.now))
        remaining = self._plan_back(wanted) if isinstance(wanted, Former) else self._plan_forth(wanted, former)
        survey.notes += site.notes
        remaining.tables += [each for each in self._prediction.changed_to(self._course.end) if each.differs]
        remaining.enforcement += self._course.enforcement
        return remaining

    def _refuse_hindered(self) -> None:
        """Raise Refused for what would stop the change later."""
        for file in self._files:
            reason = file.hands.hindrance(file.seen)
            if reason is not None:
                raise Refused(f"{reason}; nothing was changed", "file")
        master = self._site.master
        reason = master.hands.may_signal(master.instance.process)
        if reason is not None:
            raise Refused(f"{reason}; nothing was changed", "signal")

    def _plan_forth(self, plan: PartitionPlan, former: Former | None) -> Remaining:
        site, prediction = self._site, self._prediction
        new = _policy_for(plan, site)
        remaining = Remaining()
        goal = _goal(plan, prediction, remaining, is_resumed=former is not None)
        old = site.policy
        texts: list[bytes] = []
        before = prediction
        if self._settings.rewrite:
            text = rewriting(old, partitions_in(prediction.now.values()))
            texts, old = [text], parse_policy(text, str(site.master.path))
            before = replace(prediction)
            before.now = prediction.follow([old])[0]
        found = policies_between(
            old,
            new,
            _between(prediction, before.now, goal),
            site.manager.guid,
            site.options,
            plan_digest(plan),
            others=prediction.unread,
            gaps=self._settings.gaps,
        )
        self._note(found)
        self._breaks = _breaks_of(found, prediction)
        texts += found.texts
        blind = set(prediction.not_enforcing(found.tables[-1]))
        self._course.enforcement = [
            each for each in _enforcement(plan, prediction.survey, remaining) if each.port.key not in blind
        ]
        self._note_blind(blind)
        self._lay_out(texts)
        ours = {image.after for image in former.files} if former is not None else set()
        if site.policy is None or site.policy.data not in ours:
            self._objections += objections_to_edits(site)
        self._objections += objections_to_standbys(site, self._files) if former is None else ()
        self._objections += objections_to_self(site, new)
        self._objections += objections_to_managers(self._files)
        if former is None and not self._settings.rewrite:
            drift = drift_of(prediction, site.policy, goal, new)
            self._objections += drift.objections()
            if drift.mended:
                site.notes.append(
                    f"{counted(drift.mended, 'port')} do not have what OpenSM's present policy says; this change "
                    "writes them, or they are as the new policy says already"
                )
        return remaining

    def _lay_out(self, texts: Sequence[bytes]) -> None:
        """Set the steps of an apply; none where files and tables are as the last policy says."""
        course = self._course
        tables = self._prediction.follow(map(parse_policy, texts))
        names = ["between"] * (len(texts) - 1) + ["policy"]
        if self._settings.rewrite:
            names[0] = "rewrite"
        steps = [PolicyStep(*each) for each in zip(names, texts, tables, strict=True)]  # type: ignore[arg-type]
        is_there = all(file.seen.data == texts[-1] for file in self._files)
        if len(steps) == 1 and is_there and steps[0].tables == course.start and not course.enforcement:
            return
        course.steps = steps
        course.contents = [{file.key: text for file in self._files} for text in texts]

    def _plan_back(self, former: Former) -> Remaining:
        """Lay out the way back: the same policies in reverse, and at the end each file's own former bytes."""
        ways = ways_in(former.files)
        gone = ways.keys() - {file.key for file in self._files}
        if gone:
            listed = named([f"{path}{f' on {host}' if host else ''}" for host, path in sorted(gone)])
            raise UsageError(
                f"the policy files of that operation are not those that the SMs read now ({listed}); name the hosts as "
                "then (--sm-host), or put the files back yourself: `ibkeys journal` has them"
            )
        master = self._files[-1]
        # Those that are not in there were not at their turn when it was cut off.
        self._files = [file for file in self._files if file.key in ways]
        try:
            contents = steps_back(self._files, ways, self._settings.at_once)
        except FileChanged as error:
            raise _stale(error) from error
        if master.key in ways:
            first = {file.key: ways[file.key][0] for file in self._files}
            tables = self._prediction.follow(_parsed(each[master.key]) for each in contents or [first])
            if not contents and tables[-1] != self._course.start:
                contents = [first]  # the file is back, and OpenSM was not told
        else:
            tables = [dict(self._course.start) for _ in contents]
        names = ["between"] * (len(contents) - 1) + ["former"]
        self._course.steps = [
            PolicyStep(*each)  # type: ignore[arg-type]
            for each in zip(names, [each.get(master.key) for each in contents], tables, strict=False)
        ][: len(contents)]
        self._course.contents = list(contents)
        self._course.enforcement = list(_former_enforcement(former, self._prediction.survey))
        return Remaining()

    def _note(self, found: SmPolicies) -> None:
        notes, names = self._site.notes, _names(self._prediction)
        if found.given_default:
            ports = named([names(guid) for guid in found.given_default])
            notes.append(f"OpenSM gives {ports} a P_Key of the default partition, which they do not have now")
        if found.torn:
            listed = named([f"{names(guid)} in partition 0x{base:04x}" for _, guid, base in found.torn])
            notes.append(f"OpenSM moves a P_Key to another block of its table, so it is away for a moment: {listed}")
        for mgid, source, target in found.moved_groups[:3]:
            notes.append(
                f"the policy moves multicast group {mgid:032x} from partition 0x{source:04x}, which ends, to "
                f"0x{target:04x}: OpenSM 3.3.23 may crash at a later change; give the group to a partition that stays"
            )

    def _note_blind(self, blind: Collection[PortKey]) -> None:
        """Say which leaf ports OpenSM lets enforce nothing. Raises UsageError for those that enforce now."""
        targets = [self._prediction.survey.targets[key] for key in blind]
        losing = [each for each in targets if each.enforcement != Enforcement(False, False)]
        if not targets:
            return
        text = (
            f"the policy fills the P_Key table of {named([each.id for each in losing or targets])} to the last entry, "
            "and OpenSM lets such a port enforce nothing"
        )
        if losing:
            raise UsageError(f"{text}, but it enforces now and the plan does not say that this ends")
        self._site.notes.append(f"{text}, as it does now")

    def check(self, change: FabricChange) -> list[Objection]:
        """What may be right for the master at this moment and wrong all the same."""
        return list(self._objections)

    def phases(self, remaining: Remaining, survey: Survey) -> list[Phase]:
        """Return one phase for each policy."""
        course = self._course
        return [
            phase_of(step, course.before(number), course.bits(number), survey)
            for number, step in enumerate(course.steps)
        ]

    def breaks(self, wanted: PartitionPlan | Former, remaining: Remaining) -> tuple[Break, ...]:
        """Return who is cut because ports wait for each other in a circle; the way back cuts whom the way forth did."""
        return self._breaks

    def kept(self) -> Mapping[str, Any]:
        """Return the hosts, so that an undo reaches them too."""
        hosts = [each.host.ssh for each in self._reached if each.host.ssh is not None]
        return {"sm_hosts": [{"name": each.name, "sudo": each.sudo, "ssh_config": each.config} for each in hosts]}

    # --- making it ---------------------------------------------------------------------------------------------------

    def carry_out(
        self, change: FabricChange, operation: Operation, check: Callable[[], None], progress: OnStep | None
    ) -> Carried:
        """Give OpenSM one policy after the other, each proven on the wire before the next."""
        carried = Carried()
        self._clean_up(operation, carried)
        run = _Run(self, change, operation, check, progress, carried)
        try:
            run.make()
        except FileChanged as error:
            carried.problem = _stale(error)
        except (IbkeysError, KeyboardInterrupt) as problem:
            carried.problem = problem
        return carried

    def _clean_up(self, operation: Operation, carried: Carried) -> None:
        """Remove what a run that was cut off has left beside the files."""
        journal, places = operation.journal, {file.key for file in self._files}
        entries = [
            entry
            for record in journal.list_operations()
            for entry in journal.files(record.id)
            if (entry.image.host, entry.image.path) in places
        ]
        for host in {file.hands.name: file.hands for file in self._files}.values():
            try:
                left = host.clean_up(entries)
            except FileError as error:
                carried.notes.append(str(error))
                continue
            if left.foreign:
                carried.notes.append(f"what nobody knows lies beside a policy, and stays: {named(left.foreign)}")

    def go_back(self, operation: Operation) -> list[Failed]:
        """Put the former files back in one step, tell OpenSM, and prove it. The files come first: that the fabric can
        be read is not needed for them."""
        assert operation.id is not None
        ways = ways_in(entry.image for entry in operation.journal.files(operation.id))
        failed: list[Failed] = []
        with operation.journal.undo_of(operation.id, self._writer.origin) as undo:
            entries = self._put_former(undo, ways, failed)
            wanted = self._files[-1].seen.data
            try:
                master = self._site.master
                master.hands.signal(master.instance.process)
                failed += self._prove_back(wanted)
            except IbkeysError as error:
                failed.append((None, str(error)))
            if not failed:
                for entry in entries:
                    entry.done()
            undo.outcome = "open" if failed else "done"
        return failed

    def _put_former(self, undo: Operation, ways: Mapping[Place, Any], failed: list[Failed]) -> list[FileEntry]:
        entries = []
        for file in self._files:
            if file.key not in ways:
                continue  # it was not at its turn yet
            try:
                file.seen = file.hands.look(file.path)
                for content in steps_back([file], ways, at_once=True):
                    entry = file.put(undo, content[file.key])
                    entries += [entry] if entry is not None else []
            except FileChanged as error:
                failed.append((None, str(_stale(error))))
            except IbkeysError as error:
                failed.append((None, str(error)))
        return entries

    def _prove_back(self, text: bytes | None) -> Iterator[Failed]:
        targets = self._prediction.survey.targets
        silent = read_again(self._writer, targets.values())
        prediction = replace(self._prediction)
        [tables] = prediction.follow([_parsed(text)])
        step = PolicyStep("former", text, tables)
        before = dict(prediction.now)
        expected = expectations(step, before, (), prediction.survey, self._site.options.keep_pkey_indexes)
        watch = Watch(self._writer, targets, self._now, self._sleep, lambda: None)
        changing = [key for key, entries in tables.items() if entries != before[key] and key not in silent]
        seen = watch.until(expected, changing, self._settings.wait)
        for key, text_of in seen.wrong.items():
            yield targets[key].id, text_of
        for key, error in seen.silent.items():
            yield targets[key].id, str(error)


class _Run:
    """One run over the steps of a course."""

    def __init__(
        self,
        carrier: OpensmCarrier,
        change: FabricChange,
        operation: Operation,
        check: Callable[[], None],
        progress: OnStep | None,
        carried: Carried,
    ) -> None:
        self.carrier, self.operation, self.check, self.carried = carrier, operation, check, carried
        self.course, self.site, self.files = carrier._course, carrier._site, carrier._files
        self.targets = carrier._prediction.survey.targets
        self.phases = change.phases
        self.progress = progress

    def make(self) -> None:
        for number, (step, phase) in enumerate(zip(self.course.steps, self.phases, strict=True)):
            self.check()
            entries = self.operation.record_all(images_of(phase, self.targets, self.course.before(number), step.tables))
            written = self.give(number)
            seen = self.wait(number)
            if seen.fell_back:
                self.fall_back(seen)
                return
            if seen.wrong:
                self.stop(seen, entries, written, phase)
                return
            self.note_silent(seen, is_last=number == len(self.course.steps) - 1)
            self.settle(number, entries, written)
        self.verify_files("what it holds now comes into force when OpenSM sweeps again")
        self.carried.written = {
            each.port.key: Written(target, dict(target.table), self.bits_of(each.port))
            for phase in self.phases
            for each in phase.steps
            for target in [self.targets[each.port.key]]
            if each.port.key not in self.carried.failed
        }

    def give(self, number: int) -> list[FileEntry]:
        """Put the files of a step in place, and tell OpenSM."""
        self.site.verify()
        written = []
        for file in self.files:
            entry = file.put(self.operation, self.course.contents[number][file.key])
            if entry is not None:
                written.append(entry)
        self.tell()
        return written

    def tell(self) -> None:
        """Send SIGHUP to the very process that was looked at, while the files are as they were left."""
        self.site.verify()
        self.verify_files("OpenSM was not told to read it")
        master = self.site.master
        master.hands.signal(master.instance.process)

    def verify_files(self, otherwise: str) -> None:
        """Raise FileChanged where a file is not as it was left."""
        for file in self.files:
            if file.hands.look(file.path) != file.seen:
                raise FileChanged(f"{file.name}: somebody else changed it meanwhile; {otherwise}")

    def wait(self, number: int) -> Watched:
        """Return how the wire ends up; OpenSM is told once more when nothing comes nearer."""
        carrier, step, before = self.carrier, self.course.steps[number], self.course.before(number)
        expected = expectations(
            step, before, self.course.bits(number), carrier._prediction.survey, self.site.options.keep_pkey_indexes
        )
        changing = list({each.port.key: None for each in self.phases[number].steps})
        watch = Watch(
            carrier._writer,
            self.targets,
            carrier._now,
            carrier._sleep,
            self.look_around,
            lambda *so_far: self.report(step, so_far),
        )
        seen = watch.until(expected, changing, carrier._settings.wait)
        if seen.wrong and not seen.fell_back:
            self.tell()
            seen = watch.until(expected, [*seen.wrong, *seen.silent], carrier._settings.wait)
        return seen

    def look_around(self) -> None:
        """Stop where the user asks for it, or where there is no OpenSM any more that could come nearer."""
        self.check()
        self.site.verify_process()

    def report(self, step: PolicyStep, so_far: tuple[int, int]) -> None:
        if self.progress is not None:
            self.progress(step.name, *so_far)

    def settle(self, number: int, entries: list[Entry], written: list[FileEntry]) -> None:
        """Note in the journal that a step is proven; tables that came out with other indexes are noted as they are."""
        step, before = self.course.steps[number], self.course.before(number)
        late = []
        for key, after in step.tables.items():
            now = self.targets[key].table
            if now != after and key not in self.carried.failed:
                blocks = {index // P_KEYS_PER_BLOCK for index in {*now, *after} if now.get(index) != after.get(index)}
                late += [table_image(self.targets[key], block, before[key], now) for block in sorted(blocks)]
        entries += self.operation.record_all(late)
        self.operation.record_all((), done=entries)
        for entry in written:
            entry.done()
        # What comes next begins at what is there.
        self.course.steps[number] = replace(step, tables={key: self.targets[key].table for key in step.tables})

    def note_silent(self, seen: Watched, is_last: bool) -> None:
        if is_last:
            self.carried.failed.update(seen.silent)
        else:
            names = named([str(self.targets[key].id) for key in seen.silent])
            self.carried.notes += [f"silent while a policy in between came into force: {names}"] if seen.silent else []

    def stop(self, seen: Watched, entries: list[Entry], written: list[FileEntry], phase: Phase) -> None:
        """Go no further: name each port."""
        seconds = f"{self.carrier._settings.wait:g} s without progress, OpenSM told twice"
        for key, text in seen.wrong.items():
            self.carried.failed[key] = NotStored(f"{self.targets[key].id}: {text} ({seconds})")
        self.carried.failed.update(seen.silent)
        self.operation.record_all((), failed=entries)
        self.carried.stopped = phase

    def fall_back(self, seen: Watched) -> None:
        """Everybody is a full member of everything: the former policy goes back in one step, and nobody is asked."""
        self.carried.not_given_back = self.carrier.go_back(self.operation)
        result = "it could not be put back everywhere" if self.carried.not_given_back else "the former policy is back"
        self.carried.gone_back = (
            f"OpenSM made every port a full member of the default partition, as it does where it finds no policy that "
            f"it takes; {result}; look into its log"
        )

    def bits_of(self, port: PortId) -> dict[str, int]:
        if not any(each.port.key == port.key for each in self.course.enforcement):
            return {}
        wanted = next(each.after for each in self.course.enforcement if each.port.key == port.key)
        return {
            "partition_enforcement_inbound": int(wanted.inbound),
            "partition_enforcement_outbound": int(wanted.outbound),
        }


# --- what a plan says -------------------------------------------------------------------------------------------------


def _policy_for(plan: PartitionPlan, site: Site) -> Policy:
    """Return the policy of a plan. Raises UsageError where the plan was made for another OpenSM than that of *site*,
    FileFormatError for a policy that OpenSM would refuse."""
    if plan.options.disconnect_unconfigured:
        raise UsageError(
            "the plan disconnects ports that no partition names, and OpenSM gives each port its default P_Key: that "
            "cannot go through it; plan again without --disconnect-unconfigured"
        )
    text, made_for = plan.policy.require_text(), plan.sm_options
    policy = parse_policy(text, plan.policy.file)
    policy.require_accepted()
    if made_for is not None and (made_for.enforce, made_for.allow_both_pkeys) != (
        site.options.enforce,
        site.options.allow_both_pkeys,
    ):
        raise UsageError(
            f"the plan was made for enforcement {made_for.enforce} and allow_both_pkeys "
            f"{str(made_for.allow_both_pkeys).upper()}; {site.master.instance.name} works with enforcement "
            f"{site.options.enforce} and {str(site.options.allow_both_pkeys).upper()}; plan again with "
            f"--enforce {site.options.enforce}{' --allow-both-pkeys' if site.options.allow_both_pkeys else ''}"
        )
    return policy


def _goal(
    plan: PartitionPlan, prediction: Prediction, remaining: Remaining, is_resumed: bool
) -> dict[PortKey, Entries]:
    """Return the table of each port as the plan wants it; note in *remaining* what is not as the plan found it."""
    targets = prediction.survey.targets
    goal = dict(prediction.now)
    for table in plan.tables:
        key = table.port.key
        if key not in targets:
            if table.differs:
                remaining.leave_out(f"{table.port} ({prediction.survey.missing.get(key, 'not found on the fabric')})")
            continue
        now = targets[key].table
        goal[key] = table.after
        if not table.differs or now == table.before:
            continue
        known = {*table.before.values(), *table.after.values()}
        if not is_resumed or not known >= {*now.values()}:
            remaining.foreign.append(f"{table.port} ({_surprise(table, now)})")
    return goal


def _surprise(table: TableChange, now: Entries) -> str:
    index = next(index for index in sorted({*now, *table.before}) if now.get(index) != table.before.get(index))
    return f"index {index} is {now.get(index, 'empty')}, not {table.before.get(index, 'empty')}"


def _between(
    prediction: Prediction, now: Mapping[PortKey, Entries], goal: Mapping[PortKey, Entries]
) -> list[TableChange]:
    return [replace(each, before=now[each.port.key], after=goal[each.port.key]) for each in prediction.tables]


def _enforcement(plan: PartitionPlan, survey: Survey, remaining: Remaining) -> list[EnforcementChange]:
    found = []
    for change in plan.enforcement:
        target = survey.targets.get(change.port.key)
        if target is None:
            if change.before != change.after:
                remaining.leave_out(f"{change.port} ({survey.missing.get(change.port.key, 'not found')})")
        elif target.enforcement != change.after:
            found.append(replace(change, port=target.id, before=target.enforcement))
    return found


def _former_enforcement(former: Former, survey: Survey) -> Iterator[EnforcementChange]:
    for key, bits in former.bits.items():
        target = survey.targets.get(key)
        if target is not None and target.enforcement != bits:
            yield EnforcementChange(target.id, target.enforcement, bits)


def _breaks_of(found: SmPolicies, prediction: Prediction) -> tuple[Break, ...]:
    """Return the circles with the names of their ports: a circle of policies knows port GUIDs only."""
    ports = {port.guid: port.id for port in prediction.survey.end_ports}
    breaks = []
    for circle in found.circles:
        shown = Circle(
            circle.partition,
            _with_names(circle.leaving, ports),
            _with_names(circle.entering, ports),
            tuple((ports[one], ports[other]) for one, other in circle.pairs),
            tuple(
                (_with_names(leaving, ports), base, _with_names(entering, ports))
                for leaving, base, entering in circle.waits
            ),
        )
        kind: BreakKind = "circle" if circle.entering else "no-room"
        breaks.append(Break(circle.partition, (*shown.leaving, *shown.entering), circle.pairs, shown.message, kind))
    return tuple(breaks)


def _with_names(guids: Sequence[int], ports: Mapping[int, PortId]) -> tuple[PortId, ...]:
    return tuple(ports[guid] for guid in guids)


def _names(prediction: Prediction) -> Callable[[int], str]:
    names = {port.guid: str(port) for port in prediction.survey.end_ports}
    return lambda guid: names.get(guid, f"port GUID 0x{guid:016x}")


def _parsed(text: bytes | None) -> Policy | None:
    return None if text is None else parse_policy(text)


def _stale(error: FileChanged) -> Refused:
    shown = f"\n{error.difference}" if error.difference else ""
    return Refused(f"refused by interlock stale, which nothing overrides: {error}{shown}", "stale")
