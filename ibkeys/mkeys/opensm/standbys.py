"""Standby SMs while the M_Key changes: they are stopped before the change and started one by one after it.

A standby polls the master with the M_Key that it read at its own start. A standby that keeps running during a change of
the key becomes a second master at level 1, and loses the fabric at level 2. A systemd service is stopped and started by
systemd. Any other process gets SIGTERM, and the user is shown the command that starts it again. Source: opensm
osm_sm_state_mgr.c; a running OpenSM, observed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from ibkeys.arguments import given
from ibkeys.change.clock import look_while
from ibkeys.change.runner import Proof, Runner, Step, StepKind, Verdict
from ibkeys.change.through_sm import ManagedOpensm
from ibkeys.change.writer import ChangeWriter
from ibkeys.client.smp import Task
from ibkeys.errors import HostNotReached, HostRefused, IbkeysError, StoreError
from ibkeys.fabric.handle import PortHandle
from ibkeys.files import or_none
from ibkeys.keys.key_setting import KeySetting
from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import Method, SMState
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.opensm import process as opensm_host
from ibkeys.managers.opensm.process import OpensmProcess, opensm_processes
from ibkeys.managers.site import ReachedHost
from ibkeys.managers.start_command import command_to_start
from ibkeys.managers.subnet_managers import Manager
from ibkeys.mkeys.opensm.fit_managers import setting_in_options
from ibkeys.mkeys.planning_options import STANDBY_WAIT
from ibkeys.store.journal import FileEntry, RunningOperation
from ibkeys.topology.subnet_manager import sm_state_name

STANDBY: Final = sm_state_name(SMState.STANDBY)
MASTER: Final = sm_state_name(SMState.MASTER)
LEVEL_NOT_RAISED: Final = "The M_Key was set, but the level was not raised."
STEADY_FACTOR: Final = 1.5
"""A standby counts as stable after this many polling times in the state STANDBY. A standby with a wrong key leaves that
state within one polling time. With OpenSM's default options this is 60 seconds."""


def steady_seconds(manager: ManagedOpensm) -> float:
    """Return the seconds for which a standby must stay in the state STANDBY before it counts as stable. *manager*: the
    master, by whose options the polling time is known."""
    return STEADY_FACTOR * manager.takeover_seconds


@dataclass(frozen=True, slots=True)
class Standby:
    """An OpenSM in the record of a run, with the data that are needed to start it again. ``host``: its host, "" for
    this one; ``guid``: its port GUID; ``unit``: its systemd unit, "" if it has none; ``command``: the command line with
    which the user starts it otherwise; ``conf``, ``cache``: its options file, and the folder of its key files;
    ``user``: the ID of the user that it runs as.
    """

    host: str
    guid: int
    unit: str
    command: str
    conf: Path
    cache: Path
    user: int

    @classmethod
    def of(cls, manager: ManagedOpensm) -> Standby:
        """Return the data that are needed to start a running OpenSM again. Raises HostRefused, HostNotReached, and the
        errors of `ManagedOpensm.cache`."""
        instance, machine, conf = manager.running.instance, manager.machine, manager.file
        unit = instance.process.unit if machine.can_start(instance.process) else None
        assert instance.port_guid is not None  # this OpenSM was found by its port GUID
        command = command_to_start(instance)
        return cls(machine.name, instance.port_guid, unit or "", command, conf.path, manager.cache, conf.user)

    @property
    def name(self) -> str:
        """The standby in words."""
        where = f" on {self.host}" if self.host else ""
        return f"the standby OpenSM{where} (port GUID 0x{self.guid:016x}{f', {self.unit}' if self.unit else ''})"

    def machine_among(self, reached: Iterable[ReachedHost]) -> Machine:
        """Return the standby's host. Raises HostNotReached if that host is not among those *reached*."""
        for each in reached:
            if each.machine.name == self.host:
                return each.machine
        raise HostNotReached(
            f"{self.name} runs on host {self.host}, which was not given with {given('--sm-host')}",
            self.host,
        )

    def options_file(self, reached: Iterable[ReachedHost]) -> OpensmFile:
        """Read the standby's options file and return it. Raises FileError if the file is gone, FileChanged,
        HostNotReached."""
        return OpensmFile.at(self.machine_among(reached), self.conf, self.user).require()

    def to_json(self) -> dict[str, Any]:
        """Return the standby as JSON values for the journal."""
        paths = {"conf": str(self.conf), "cache": str(self.cache)}
        return {**asdict(self), "guid": f"0x{self.guid:016x}", **paths}

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> Standby:
        """Return the standby of which the journal has these values. Raises StoreError for values that are no
        standby."""
        try:
            host, unit, command, conf, cache = (
                str(kept[name]) for name in ("host", "unit", "command", "conf", "cache")
            )
            guid, user = int(str(kept["guid"]), 16), int(kept["user"])
            return cls(host, guid, unit, command, Path(conf), Path(cache), user)
        except (KeyError, TypeError, ValueError):
            raise StoreError("the journal is damaged: a standby of the run cannot be read") from None


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of an OpenSM process at one check. ``remaining_count``: 1 while the process is not yet as ordered, else
    0; ``state``: the SM state that it reports, None if it does not answer or was not asked."""

    remaining_count: int
    state: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessOrder(StepKind[None], Proof[ProcessState]):
    """The kind of step that stops or starts an OpenSM process, and its proof. ``signal_sm``: stops or starts it, called
    once; ``look``: returns its state; ``check``: called often, raises to stop; ``prepare``: called first, writes the
    key files that the process needs at its start, which get entries in the journal of their own."""

    may_signal_again = False

    signal_sm: Callable[[], None]
    look: Callable[[], ProcessState]
    check: Callable[[], None]
    prepare: Callable[[], None] = lambda: None

    def write(self, contents: None, operation: RunningOperation) -> list[FileEntry]:
        """Call ``prepare``, and return no entries; see `StepKind`."""
        self.prepare()
        return []


ProcessStep = Step[None, ProcessState]


@dataclass(slots=True)
class Standbys:
    """Stopping and starting standbys, each in a step of its own. ``ports``: the end ports, by port GUID; ``steady``:
    seconds for which a started standby must stay in the state STANDBY; ``check``: called often, raises to stop;
    ``say``: called with an instruction for the user; ``start_wait``: seconds that the user has to start a standby."""

    writer: ChangeWriter
    ports: Mapping[int, PortHandle]
    runner: Runner
    steady: float
    check: Callable[[], None]
    say: Callable[[str], None]
    start_wait: float = STANDBY_WAIT

    def stop(self, machine: Machine, processes: Sequence[OpensmProcess], name: str) -> ProcessStep:
        """Return the step that stops the *processes* of a standby on *machine*. *name*: the standby in words. The step
        fails with HostRefused if a process does not end."""

        def stop_all() -> None:
            for each in processes:
                machine.stop(each)

        def judge(found: ProcessState) -> Verdict:
            refused = HostRefused(
                f"{name} was asked to stop and has not stopped within {self.runner.wait:g} s: end it, and continue "
                "with `ibkeys resume`",
                machine.name,
            )
            return Verdict(not found.remaining_count, refused if found.remaining_count else None)

        order = ProcessOrder(stop_all, lambda: ProcessState(any(map(machine.is_running, processes))), self.check)
        return Step(f"stop {name}", order, None, order, judge=judge)

    def start(
        self,
        standby: Standby,
        machine: Machine,
        give_key_files: Callable[[], None],
        on_proven: Callable[[], None],
        is_second_start: bool = False,
    ) -> ProcessStep:
        """Return the step that gives a standby the master's key files, and starts it. The step is proven when the SM
        has been in the state STANDBY for ``steady`` seconds.

        OpenSM reads key files only when it starts. *give_key_files*: writes them; *on_proven*: called when the step is
        proven; *is_second_start*: whether this standby was started before it had these files, and was stopped again.
        The step fails with HostRefused if the SM does not start, does not become a standby, or was started with other
        key files.
        """
        wait = self.runner.wait if standby.unit else self.start_wait
        where = f" on {standby.host}" if standby.host else " on this host"
        when = "once more: it was started before its key files were there" if is_second_start else "now"
        text = f"start {standby.name} {when}, within {wait:g} s; type{where}: {standby.command}"
        start = partial(machine.start_unit, standby.unit) if standby.unit else partial(self.say, text)

        def prepare() -> None:
            give_key_files()
            if opensms_with(machine, standby.cache):
                raise HostRefused(
                    f"{standby.name} was started while it was given its key files: end it, then type `ibkeys resume`",
                    standby.host,
                )

        def look() -> ProcessState:
            state = self.state_of(standby)
            return ProcessState(state not in (STANDBY, MASTER), state)

        def judge(found: ProcessState) -> Verdict:
            problem = self._watch_start(standby, machine, found.state, wait)
            if problem is None:
                on_proven()
            return Verdict(problem is None, problem)

        order = ProcessOrder(start, look, self.check, prepare)
        return Step(f"start {standby.name}", order, None, order, judge=judge, wait=wait)

    def _watch_start(self, standby: Standby, machine: Machine, state: str | None, wait: float) -> HostRefused | None:
        """Watch a started standby for ``steady`` seconds. Return the error if it is not, or does not stay, in the state
        STANDBY, or has other key files; else None. *state*: its state now; *wait*: the seconds that it had to start.

        A master that finds another one with a higher priority becomes a standby within that time, after DISCOVERING.
        """
        if state == MASTER:
            state = self._state_after(standby, lambda state: state != STANDBY)
            if state == MASTER:
                return HostRefused(
                    f"{standby.name} was started and is master now: its sm_priority is higher, the former master is "
                    "gone, or the sm_keys differ; when there is one master (`ibkeys sm-show`), `ibkeys resume` "
                    "continues",
                    standby.host,
                ).explained(LEVEL_NOT_RAISED)
        if state != STANDBY:
            return HostRefused(
                f"{standby.name} was to be started, and after {wait:g} s it "
                f"{'does not answer' if state is None else f'is {state}'}: start it ({standby.command}), then "
                "continue with `ibkeys resume`",
                standby.host,
            ).explained(LEVEL_NOT_RAISED)
        state = self._state_after(standby, lambda state: state == STANDBY)
        if state != STANDBY:
            return HostRefused(
                f"{standby.name} was a standby and {'no longer answers' if state is None else f'is {state} now'}: "
                "check its log; the level was not raised, `ibkeys resume` continues",
                standby.host,
            )
        if not opensms_with(machine, standby.cache):
            return HostRefused(
                f"{standby.name} was started with other key files than those in {standby.cache}, which are the "
                "right ones (see OSM_CACHE_DIR): end it, and continue with `ibkeys resume`; the right command to "
                f"start it is: {standby.command}",
                standby.host,
            )
        return None

    def _state_after(self, standby: Standby, goes_on: Callable[[str | None], bool]) -> str | None:
        """Ask a standby for its SM state as long as *goes_on* is true of it, for ``steady`` seconds at most. Return the
        last state; None if it does not answer."""
        return look_while(
            self.state_of(standby),
            lambda: self.state_of(standby),
            goes_on,
            self.runner.clock,
            self.steady,
            self.check,
        )

    def state_of(self, standby: Standby) -> str | None:
        """Return the SM state that a standby reports, None if it does not answer."""
        return next((each.state for each in ask_managers(self.writer, self.ports, [standby.guid])), None)


def refuse_other_settings(started: Iterable[ManagedOpensm], setting: KeySetting) -> None:
    """Raise HostRefused if a standby that was *started* works with another M_Key, level or lease than *setting*."""
    for manager in started:
        if setting_in_options(manager) != setting:
            raise HostRefused(
                f"{manager.name} was started with another M_Key, level or lease than was in its options file "
                f"({manager.file.name}): end it, and continue with `ibkeys resume`",
                manager.machine.name,
            )


def opensms_with(machine: Machine, cache: Path) -> list[OpensmProcess]:
    """Return the OpenSMs of a host that have their key files in *cache*. Raises HostNotReached."""
    place = _identity(machine, cache)
    found = opensm_processes(opensm_host.PROC, opensm_host.OPENSM_CACHE, host=machine.files)
    return [each for each in found if place is not None and _identity(machine, each.cache) == place]


def _identity(machine: Machine, folder: Path) -> tuple[int, int] | None:
    fact = or_none(machine.files.stat, folder)
    return None if fact is None else fact.identity


def ask_managers(writer: ChangeWriter, ports: Mapping[int, PortHandle], guids: Iterable[int]) -> list[Manager]:
    """Return the SMs at the end ports with these port GUIDs that answer a Get(SMInfo) (IBA 14.2.5.13)."""
    found: list[Manager] = []
    writer.fabric.client.run([_ask(writer, ports[guid], found) for guid in guids if guid in ports])
    return found


def _ask(writer: ChangeWriter, handle: PortHandle, found: list[Manager]) -> Task:
    key = writer.fabric.ring.key_of(handle.port.port_guid)
    try:
        info = SMInfo((yield writer.fabric.client.request(Method.GET, SMInfo, 0, handle.route, m_key=key)))
    except IbkeysError:
        return  # a port without an SM does not answer
    found.append(Manager(handle.port, handle.port.guid, sm_state_name(info.sm_state), info.priority, info.act_count))
