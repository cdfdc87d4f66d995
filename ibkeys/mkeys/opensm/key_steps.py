"""Making each step of a run: write the options files, send SIGHUP, verify the ports, check guid2mkey, and stop or start
the standbys.

Before the first write of a step, and before each signal, the run checks that the master is the same process, is still
the only master, and that the master's options file has not been changed by another program or administrator. The master
is never stopped. If the run stops, the current step stays in the journal, and `ibkeys resume` repeats it from its
start. Source: opensm osm_state_mgr.c, osm_lid_mgr.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ibkeys.arguments import given
from ibkeys.change.clock import look_until
from ibkeys.change.course import Course
from ibkeys.change.opensm_files import NewFiles, OpensmFiles
from ibkeys.change.runner import AnyStep, Runner, Step, Verdict
from ibkeys.change.through_sm import ManagedOpensm, OpensmManagers
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, NotStored, Unreachable
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.managers.files.journaled import remove_left_overs
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.opensm.edit import NewValue
from ibkeys.managers.site import ReachedHost
from ibkeys.mkeys.opensm.fit_managers import (
    KEY_LINES,
    advice_if_dead,
    find_key_managers,
    refusal_of_newcomers,
    setting_in_options,
)
from ibkeys.mkeys.opensm.key_files import copy_key_files, guids_without_key
from ibkeys.mkeys.opensm.key_proof import KeyProof, PortReadings, key_for_gets
from ibkeys.mkeys.opensm.record import Part, RunRecord
from ibkeys.mkeys.opensm.secrecy import close
from ibkeys.mkeys.opensm.standbys import (
    ProcessState,
    Standby,
    Standbys,
    ask_managers,
    opensms_with,
    refuse_other_settings,
    steady_seconds,
)
from ibkeys.mkeys.planning_options import ViaOpensm
from ibkeys.printable import counted, named


@dataclass(frozen=True, slots=True)
class _FormerValues:
    """The step that restores the former contents of the options files after a step that took effect on no port. The
    journal lists the files, and not the step: no OpenSM is signalled, and no port changes."""

    files: OpensmFiles
    contents: NewFiles

    def make(self, runner: Runner) -> tuple[Verdict, None]:
        for entry in self.files.write(self.contents, runner.operation):
            entry.done()
        return Verdict(is_proven=True), None


@dataclass(slots=True)
class KeySteps:
    """The steps of one run.

    ``reached``: the hosts of the OpenSMs; ``ports``: the end ports that were found, by port GUID; ``through``: the
    options of the user, and the listener for messages; ``note``: stores the record, and syncs it to disk; ``proven``:
    called with the ports that were read, and the setting that they should have; ``check``: called often, raises to
    stop.

    ``last``: the result of reading the ports after the last step. ``_missed_step``: ports that missed a step before the
    key changed, with the reason: they may have the former key at level 2 or 3, and are not asked any more.
    ``_started_early``: standbys that were started too early, by port GUID.
    """

    record: RunRecord
    writer: ChangeWriter
    runner: Runner
    managers: OpensmManagers
    reached: Sequence[ReachedHost]
    ports: Mapping[int, PortHandle]
    through: ViaOpensm
    note: Callable[[RunRecord], None]
    proven: Callable[[PortReadings, KeySetting], None]
    check: Callable[[], None]
    last: PortReadings = field(default_factory=PortReadings)
    _running: list[ManagedOpensm] = field(default_factory=list)
    _missed_step: dict[int, IbkeysError] = field(default_factory=dict)
    _started_early: set[int] = field(default_factory=set)

    def make(self, until: int | None = None) -> None:
        """Make the steps of the record that are not made yet. *until*: make only the steps before this number, and
        start no standby at the end; None makes all. Raises the error that stopped the run; the run can be resumed from
        the record."""
        record = self.record
        self._running = list(self.managers.standbys)
        *standbys, _ = self._note_stopped()
        for text in remove_left_overs(self.runner.operation.journal, self._files(), self.writer.keystore):
            self.through.listener.say(text)
        for manager in self.managers.all:
            close(manager)
        self._missed_step |= self._refusing_next_step()
        self.runner.run(record.course(standbys, until), self._step)
        record.at = len(record.steps) if until is None else until
        self.note(record)

    def make_late(self) -> PortReadings:
        """Let OpenSM sweep again for ports that were absent during the steps, and return the result for all ports.

        A port that was absent may have the former key at level 2 or 3, so it is read only when guid2mkey has the new
        key for it. Raises the errors of `Runner.run`.
        """
        number = len(self.record.steps) - 1
        setting = self._setting(number)

        def too_early(guids: Collection[int]) -> dict[int, str]:
            late = guids_without_key(self.managers.master, setting.key, guids)
            return dict.fromkeys(late, "OpenSM has not given it the M_Key")

        proof = replace(self._proof(number, self.ports), too_early=too_early)
        step: Step[NewFiles, PortReadings] = Step("ports that were absent", self._opensms, (), proof)
        [ended] = self.runner.run(Course([step]), lambda step: step)
        assert isinstance(ended.last_look, PortReadings)
        return ended.last_look

    # --- one step ----------------------------------------------------------------------------------------------------

    def _step(self, part: Part) -> AnyStep | None:
        if part.what == "restore":
            return _FormerValues(self._opensms, self._contents(self._before(part.number)))
        self.check()
        record = self.record
        record.at, record.has_written = part.number, True
        self.note(record)
        if part.standby is None:
            return self._setting_ports(part.number)
        return (self._stopping if part.what == "stop" else self._starting)(part, part.standby)

    def _setting_ports(self, number: int) -> Step[NewFiles, PortReadings]:
        asked = self.ports.keys() - self._missed_step
        proof, judge = self._proof(number, asked), partial(self._judge, number, bool(asked))
        self._wait_before_going_back(number)
        contents = self._contents(self._setting(number))
        return Step(self.record.words(number), self._opensms, contents, proof, judge=judge)

    def _judge(self, number: int, was_asked: bool, seen: PortReadings) -> Verdict:
        """Return the verdict whether all ports took step *number*. *was_asked*: whether any port was read. Raises
        NotStored if no port answers, or if guid2mkey has other keys than the ports."""
        setting = self._setting(number)
        self._note_seen(number, seen)
        if was_asked and not seen.infos:
            first = next(iter(seen.silent.values()), None)
            raise NotStored(
                f"no port answers, so it is not known whether any port has the new key ({first}); "
                "continue with `ibkeys resume` later"
            )
        if seen.infos:
            self.proven(seen, setting)
        if seen.wrong:
            return Verdict(is_proven=False, error=self._step_error(number, seen))
        for guid in seen.infos:
            self.writer.fabric.ring.learn(guid, setting.key)
        if self.record.steps[number].kind == "key" and (left := self._wait_for_key_file(setting.key, seen.infos)):
            raise self._key_file_error(left)
        members = {each.guid for each in self.record.members}
        ports = [self.ports[guid].port for guid in seen.infos]
        return Verdict(is_proven=True, error=refusal_of_newcomers(self.managers, members, ports, seen.infos))

    def _wait_before_going_back(self, number: int) -> None:
        """Wait, in a rollback, until OpenSM's guid2mkey has the key that the ports are about to lose.

        All ports may show this key before OpenSM's sweep, which writes guid2mkey, has ended. If the options file then
        got the former key, and OpenSM started again with the former key in both files, it would lose the ports. Raises
        NotStored.
        """
        replaced, master = self._before(number).key, self.managers.master
        if not self.record.goes_back or setting_in_options(master).key != replaced:
            return
        if self._setting(number).key == replaced:
            return
        infos = {guid: port.port.port_info for guid, port in self.ports.items()}
        have = [guid for guid, info in infos.items() if info is not None and MKey(info.m_key) == replaced != NO_MKEY]
        if missing := self._wait_for_key_file(replaced, have):
            raise self._key_file_error(missing)

    def _note_seen(self, number: int, seen: PortReadings) -> None:
        """Note the result for the ports after step *number*. A port that was silent in the step right before the key
        changes has missed that step, and may still be at level 2 or 3."""
        steps = self.record.steps
        if number + 1 < len(steps) and steps[number + 1].kind == "key" and self._before(number).protect >= 2:
            self._missed_step |= seen.silent
        seen.silent |= self._missed_step
        self.last = seen

    def _refusing_next_step(self) -> dict[int, IbkeysError]:
        """Return the ports that would refuse the Gets of the next step, by port GUID, each with the error: they were
        offline during earlier steps, and have another key."""
        number = self.record.at
        if number == len(self.record.steps):
            return {}
        asked = key_for_gets(self._setting(number), self._before(number))
        text = "it was offline and still has its former M_Key: OpenSM needs time for it; `ibkeys resume` checks"
        return {
            guid: Unreachable(text)
            for guid, port in self.ports.items()
            if (info := port.port.port_info) is not None
            and info.m_key_protect_bits >= 2
            and MKey(info.m_key) not in (asked, NO_MKEY)  # without a key a level has no effect
        }

    def _before(self, number: int) -> KeySetting:
        return self.record.keys.before(self.record.steps, number)

    def _setting(self, number: int) -> KeySetting:
        return self.record.keys.setting(self.record.steps[number])

    def _contents(self, setting: KeySetting) -> NewFiles:
        """Return every options file, those of stopped standbys too, and its new contents with *setting* as explicit
        lines; that of the master last."""
        values: dict[str, NewValue] = dict(zip(KEY_LINES, (setting.key, setting.protect, setting.lease), strict=True))
        return [(file, file.with_options(values)) for file in self._files()]

    def _files(self) -> list[OpensmFile]:
        stopped = [each.options_file(self.reached) for each in self.record.stopped]
        return [*stopped, *(each.file for each in self._running), self.managers.master.file]

    @property
    def _opensms(self) -> OpensmFiles:
        """The OpenSMs that run now."""
        master, running = self.managers.master, [*self._running, self.managers.master]
        return OpensmFiles(
            self.writer,
            master.sm,
            master.running,
            [each.running for each in running],
            [each.file for each in running],
            partial(master.file.verify, "nothing more was done"),
            self.check,
            advice_if_dead(master),
        )

    def _proof(self, number: int, guids: Collection[int]) -> KeyProof:
        wanted, words = self._setting(number), self.record.words(number)
        return KeyProof(
            self.writer,
            {guid: port for guid, port in self.ports.items() if guid in guids},
            wanted,
            key_for_gets(wanted, self._before(number)),
            lambda done, whole: self.through.listener.progress(words, done, whole),
        )

    def _wait_for_key_file(self, key: MKey, guids: Collection[int]) -> set[int]:
        """Wait until guid2mkey, which OpenSM reads when it starts, has *key* for the ports *guids*. Return the GUIDs
        for which it still has another key or none after the runner's waiting time."""

        def look() -> set[int]:
            missing = guids_without_key(self.managers.master, key, guids)
            if missing:
                self._opensms.check()
                self.through.listener.progress("guid2mkey", len(guids) - len(missing), len(guids))
            return missing

        return look_until(look, len, self.runner.clock, self.runner.wait)

    def _key_file_error(self, left: Collection[int]) -> NotStored:
        master, wait = self.managers.master, self.runner.wait
        return NotStored(
            f"{master.cache}/guid2mkey has another key or none for {counted(len(left), 'port')} "
            f"({named([f'0x{guid:016x}' for guid in sorted(left)])}) after {wait:g} s: check OpenSM's "
            "log, then continue with `ibkeys resume`"
        ).explained(f"Every port shows the new key, so a restart of {master.name} now would lose these ports.")

    def _step_error(self, number: int, seen: PortReadings) -> NotStored:
        """Return the error for a step that did not take effect on all ports."""
        words, master, wait = self.record.words(number), self.managers.master, self.runner.wait
        ports = named([f"{self.ports[guid]}: {why}" for guid, why in seen.wrong.items()])
        if self.record.is_without_effect(number, seen):
            return NotStored(
                f"{words}: {master.name} was signalled twice, but no further port changed for "
                f"{wait:g} s ({given('--wait')}): continue with `ibkeys resume` and a longer {given('--wait')}"
            ).explained(
                f"The ports: {ports}.",
                f"Either OpenSM does not read {master.file.name}, which has its former values again: OpenSM never "
                "reads an options file that did not exist when it started.",
                "Or OpenSM's sweep takes longer, and OpenSM may still set the key.",
            )
        return NotStored(
            f"{words}: {counted(len(seen.wrong), 'port')} did not change within {wait:g} s, although OpenSM "
            f"was signalled twice: {ports}; check OpenSM's log, then continue with `ibkeys resume`"
        )

    # --- standbys ----------------------------------------------------------------------------------------------------

    def _note_stopped(self) -> list[Standby]:
        """Note in the record as stopped every OpenSM that was found before and is not found now. Return the OpenSMs
        that run, the master last."""
        running = [Standby.of(each) for each in self.managers.all]
        for standby in self.record.update_standbys(running, {each.machine.name for each in self.reached}):
            self.through.listener.say(
                f"before you start {standby.name} again: copy the options file and key files of the master"
            )
        self.note(self.record)
        return running

    def _stopping(self, part: Part, standby: Standby) -> Step[None, ProcessState] | None:
        """Return the step that stops a standby; None if the standby does not run. If the standby was running when the
        run began, note it in the record as stopped, so that it is started again later."""
        for manager in self._running:
            process = manager.running.instance
            if process.port_guid == standby.guid:
                self.record.stopped.append(Standby.of(manager))
                self.note(self.record)
                self._running.remove(manager)
                return self._standbys().stop(manager.machine, [process.process], manager.name)
        machine = standby.machine_among(self.reached)
        early = opensms_with(machine, standby.cache)
        self._started_early |= {standby.guid} if early else set()
        return self._standbys().stop(machine, early, standby.name) if early else None

    def _starting(self, part: Part, standby: Standby) -> Step[None, ProcessState]:
        """Return the step that starts a standby with the master's key files. When the last standby has started, the
        OpenSMs of the fabric are found again."""
        machine, master, operation = standby.machine_among(self.reached), self.managers.master, self.runner.operation
        key_files = partial(copy_key_files, master, standby, machine, operation)
        progress = partial(self.through.listener.progress, f"starting {standby.name}")

        def on_proven() -> None:
            progress(1, 1)
            if standby.guid == self.record.stopped[-1].guid:
                self._find_managers_again(part.number)

        progress(0, 1)
        return self._standbys().start(standby, machine, key_files, on_proven, standby.guid in self._started_early)

    def _find_managers_again(self, number: int) -> None:
        """Find the OpenSMs again, because the started standbys are new processes. Their options must have the setting
        that all ports have after step *number*, and the master must be the same process as before. Raises Refused,
        HostRefused, and the errors of `find_key_managers`.
        """
        former, started = self.managers, [each.guid for each in self.record.stopped]
        try:
            former.master.file.verify("the standbys are started")
            guids = [*(each.guid for each in former.report.managers or ()), *started]
            managers = ask_managers(self.writer, self.ports, dict.fromkeys(guids))
            found = find_key_managers(self.writer, self.reached, managers, self.record.keys.wanted)
            former.verify_same_master(found)
            refuse_other_settings(found.standbys, self._setting(number))
        except IbkeysError as error:
            error.after(
                f"{number + 1} of {len(self.record.steps)} steps are done and the standbys started: `ibkeys resume` "
                "goes on"
            )
            raise
        self.managers, self._running = found, list(found.standbys)
        self.record.stopped.clear()
        self.note(self.record)

    def _standbys(self) -> Standbys:
        runner, through, steady = self.runner, self.through, steady_seconds(self.managers.master)
        check, say = self._opensms.check, through.listener.say
        return Standbys(self.writer, self.ports, runner, steady, check, say, through.standby_wait)
