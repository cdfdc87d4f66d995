"""Standby SMs while the M_Key changes: they are stopped before the change and started one by one after it.

A standby polls the master with the M_Key that it saw at its own start. A standby that keeps running during a change
becomes a second master at level 1, and loses the fabric at level 2. A systemd service is stopped and started by
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
from ibkeys.managers.starting import command_to_start
from ibkeys.managers.subnet_managers import Manager
from ibkeys.mkeys.opensm.fit_managers import setting_in_options
from ibkeys.store.journal import FileEntry, RunningOperation
from ibkeys.topology.subnet_manager import sm_state_name

STANDBY: Final = sm_state_name(SMState.STANDBY)
STEADY: Final = 1.5
"""A standby is stable after this factor times its polling time: a standby that a changed key affects leaves the state
STANDBY within the polling time. With OpenSM's default options the product is 60 seconds."""
STANDBY_WAIT: Final = 600.0
"""Seconds that a user has to log in to a host and start a standby there."""


def steady_seconds(manager: ManagedOpensm) -> float:
    """Return the seconds for which a standby of this OpenSM must stay one before it counts as stable."""
    return STEADY * manager.takeover_seconds


@dataclass(frozen=True, slots=True)
class Standby:
    """A standby in the record of a run, while it is stopped. ``guid``: its port GUID; ``unit``: its systemd unit, "" if
    it has none; ``command``: the command line that starts it otherwise; ``conf``, ``cache``: its options file and the
    folder of its key files on ``host``; ``user``: the user ID that it runs as.
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
        """Return the data of a running SM that are needed to start it again. Raises HostRefused, HostNotReached."""
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
        """Return the standby from the journal. Raises StoreError for values that are no standby."""
        try:
            host, unit, command, conf, cache = (
                str(kept[name]) for name in ("host", "unit", "command", "conf", "cache")
            )
            guid, user = int(str(kept["guid"]), 16), int(kept["user"])
            return cls(host, guid, unit, command, Path(conf), Path(cache), user)
        except (KeyError, TypeError, ValueError):
            raise StoreError("the journal is damaged: a standby of the run cannot be read") from None


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """The result of one look at a process. ``left``: 1 while the process is not as ordered; ``state``: the state that
    an SM reports."""

    left: int
    state: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessOrder(StepKind[None], Proof[SeenProcess]):
    """The kind of step that stops or starts a process, and its proof. ``signal_sm``: gives the order, once; ``look``:
    reads the state of the process; ``check``: called often, raises to stop; ``prepare``: called first, writes the key
    files that the process needs at its start; `write` returns no entries of them."""

    may_signal_again = False

    signal_sm: Callable[[], None]
    look: Callable[[], SeenProcess]
    check: Callable[[], None]
    prepare: Callable[[], None] = lambda: None

    def write(self, contents: None, operation: RunningOperation) -> list[FileEntry]:
        """See `StepKind`."""
        self.prepare()
        return []


ProcessStep = Step[None, SeenProcess]


@dataclass(slots=True)
class Standbys:
    """Stopping and starting standbys, each in a step of its own. ``ports``: end ports by port GUID; ``steady``: seconds
    for which a standby must stay one; ``start_wait``: seconds that a user has to start one; ``say``: tells the user
    what to do; ``check``: called often, raises to stop."""

    writer: ChangeWriter
    ports: Mapping[int, PortHandle]
    runner: Runner
    steady: float
    check: Callable[[], None]
    say: Callable[[str], None]
    start_wait: float = STANDBY_WAIT

    def stop(self, machine: Machine, processes: Sequence[OpensmProcess], name: str) -> ProcessStep:
        """Return the step that ends a standby. The step fails with HostRefused if a process does not end."""

        def give() -> None:
            for each in processes:
                machine.stop(each)

        def judge(found: SeenProcess) -> Verdict:
            refused = HostRefused(
                f"{name} was asked to stop and has not stopped within {self.runner.wait:g} s: end it, and continue "
                "with `ibkeys resume`",
                machine.name,
            )
            return Verdict(not found.left, refused if found.left else None)

        order = ProcessOrder(give, lambda: SeenProcess(any(map(machine.is_running, processes))), self.check)
        return Step(f"stop {name}", order, None, order, judge=judge)

    def start(
        self,
        standby: Standby,
        machine: Machine,
        give_key_files: Callable[[], None],
        then: Callable[[], None],
        again: bool = False,
    ) -> ProcessStep:
        """Return the step that gives a standby the master's key files, and starts it. The step is proven when the
        SM has been a standby for ``steady`` seconds.

        OpenSM reads key files only when it starts. *then*: called when the step is proven; *again*: this standby was
        started before it had these files, and was stopped. The step fails with HostRefused if the SM does not start,
        does not become a standby, or was started with other key files.
        """
        wait = self.runner.wait if standby.unit else self.start_wait
        where = f" on {standby.host}" if standby.host else " on this host"
        when = "once more: it was started before its key files were there" if again else "now"
        text = f"start {standby.name} {when}, within {wait:g} s; type{where}: {standby.command}"
        give = partial(machine.start_unit, standby.unit) if standby.unit else partial(self.say, text)

        def prepare() -> None:
            give_key_files()
            if opensms_with(machine, standby.cache):
                raise HostRefused(
                    f"{standby.name} was started while it was given its key files: end it, then type `ibkeys resume`",
                    standby.host,
                )

        def look() -> SeenProcess:
            state = self.state_of(standby)
            return SeenProcess(state != STANDBY, state)

        def judge(found: SeenProcess) -> Verdict:
            problem = self._why_not(standby, machine, found.state, wait)
            if problem is None:
                then()
            return Verdict(problem is None, problem)

        order = ProcessOrder(give, look, self.check, prepare)
        return Step(f"start {standby.name}", order, None, order, judge=judge, wait=wait)

    def _why_not(self, standby: Standby, machine: Machine, state: str | None, wait: float) -> HostRefused | None:
        """Watch a standby that is in *state* after its start, and return why it does not count as one; None if it
        does."""
        if state != STANDBY:
            return HostRefused(
                f"{standby.name} was to be started, and after {wait:g} s it "
                f"{'does not answer' if state is None else f'is {state}'}: start it ({standby.command}), then "
                "continue with `ibkeys resume`",
                standby.host,
            ).explained("The M_Key was set, but the level was not raised.")
        state = look_while(
            self.state_of(standby),
            lambda: self.state_of(standby),
            lambda state: state == STANDBY,
            self.runner.clock,
            self.steady,
            self.check,
        )
        if state != STANDBY:
            return HostRefused(
                f"{standby.name} was a standby and {'no longer answers' if state is None else f'is {state} now'}: "
                "check its log; the level was not raised, `ibkeys resume` continues",
                standby.host,
            )
        if not opensms_with(machine, standby.cache):
            return HostRefused(
                f"{standby.name} was started with other key files than those in {standby.cache}, which are the "
                f"right ones (see OSM_CACHE_DIR): end it, and continue with `ibkeys resume`; the command is: "
                f"{standby.command}",
                standby.host,
            )
        return None

    def state_of(self, standby: Standby) -> str | None:
        """Return the state that an SM reports, None if it does not answer."""
        return next((each.state for each in ask_managers(self.writer, self.ports, [standby.guid])), None)


def refuse_other_settings(started: Iterable[ManagedOpensm], setting: KeySetting) -> None:
    """Raise HostRefused if a standby that was *started* has other options than *setting*."""
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
