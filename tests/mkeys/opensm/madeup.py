"""A made-up OpenSM on the simulated subnet, which sets M_Keys port by port while it is waited for.

It does what a real one was seen to do: at a signal it reads its options file, and gives each port key, level and lease;
what it has set it writes into guid2mkey at the end of that sweep.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.change.clock import Clock
from ibkeys.change.consent import Consent
from ibkeys.change.through_sm import ManagedOpensm, OpensmManagers
from ibkeys.change.writer import ChangeWriter
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import Instance, InstanceFile, Role
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.opensm.command_line import CommandLine
from ibkeys.managers.opensm.effective_options import EffectiveOptions
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.managers.site import ReachedHost, RunningOpensm
from ibkeys.managers.subnet_managers import Manager
from ibkeys.mkeys import places as rooms
from ibkeys.mkeys.confirming import lower_unconfirmed
from ibkeys.mkeys.opensm import key_steps, planned
from ibkeys.mkeys.opensm.fit_managers import KEY_LINES, KEY_OPTIONS
from ibkeys.mkeys.opensm.lowering import Lowering
from ibkeys.mkeys.opensm.method import OpensmMethod
from ibkeys.mkeys.planning_options import PlanningOptions, ViaOpensm
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.removal import OF_REMOVAL
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.sim.nodes import SimPort
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions, Runs
from tests.fabricsim import subnet, tool

WAIT = 30
CONF = b"sa_key 0x5e11a7c0ffee\nsweep_interval 3\n"


class MadeUpOpensm:
    """OpenSM on node01 of two-switch.net. ``folder``: where its files are, beside journal and key store.

    ``is_deaf``: it hears no signals; ``is_stuck``: its sweep does not end; ``runs``: whether its process is there;
    ``is_unread``: the times of its options file say that it was changed after its last sweep; ``before_each``: called
    with a word before a signal, and before each pause, in which it sets one port more or ends its sweep; raises what
    shall go wrong; ``order``: a port with a lower number is set before others.
    """

    def __init__(self, folder: Path) -> None:
        self.net = subnet("two-switch")
        self.net.set_sm(self.net.nodes[0])
        self.folder, self.conf = folder, folder / "opensm.conf"
        self.conf.write_bytes(CONF)
        self.conf.chmod(0o600)
        folder.chmod(0o700)
        self.is_deaf, self.is_stuck, self.runs, self.is_layered, self.is_unread = False, False, True, False, False
        self.before_each: Callable[[str], None] = lambda word: None
        self.order: Callable[[SimPort], int] = lambda port: 0
        self.time = 0.0
        self._due: list[SimPort] = []
        self._is_sweeping = False
        self._setting = (0, 0, 0)

    # --- what it does ------------------------------------------------------------------------------------------------

    def ports(self) -> list[SimPort]:
        return [port for node in self.net.nodes for port in node.end_ports if port.is_up or node.is_switch]

    def keys(self) -> set[tuple[int, int, int]]:
        """Return what the end ports have."""
        return {(port.m_key, port.protect_bits, port.lease_period) for port in self.ports()}

    def key(self) -> tuple[int, int, int]:
        [found] = self.keys()
        return found

    def hear(self) -> None:
        """Read the options file; the ports are set one by one afterwards."""
        self.before_each("signal")
        if self.is_deaf:
            return
        self.finish()
        options = self._options()
        key, level, lease = (options.setting(name).value for name in KEY_LINES)
        assert isinstance(key, MKey)
        self._setting = (key.reveal(), cast(int, level), cast(int, lease))
        self._due, self._is_sweeping = sorted(self.ports(), key=self.order), True

    def sleep(self, seconds: float) -> None:
        """What passes for time."""
        self.before_each("pause")
        self.time += seconds
        if self._due:
            self._set(self._due.pop(0))
        else:
            self.finish()

    def finish(self) -> None:
        """Finish the sweep that it is at."""
        for port in self._due:
            self._set(port)
        if self._is_sweeping and not self.is_stuck:
            self._write_keys()
        self._due, self._is_sweeping = [], self._is_sweeping and self.is_stuck

    def restart(self) -> None:
        """Die in the middle of its sweep, and start: it reads the options file, and sets all ports."""
        self._due, self._is_sweeping = [], False
        self.hear()
        self.finish()

    def _set(self, port: SimPort) -> None:
        if port in self.ports():  # nobody has pulled its cable since
            port.m_key, port.protect_bits, port.lease_period = self._setting

    def _write_keys(self) -> None:
        lines = [f"0x{port.guid:016x} 0x{port.m_key:016x}\n\n" for port in self.ports()]
        (self.folder / "guid2mkey").write_text("".join(lines))

    # --- how it is seen ----------------------------------------------------------------------------------------------

    def _options(self) -> EffectiveOptions:
        return EffectiveOptions(CommandLine(), read_options(self.conf.read_bytes()), False, "")

    def options_file(self) -> OpensmFile:
        """Look at its options file."""
        return OpensmFile.at(cast(Any, _Machine(self)), self.conf, os.geteuid())

    def managers(self, port: Any) -> OpensmManagers:
        """Return it as the one master. *port*: of its node, as a sweep found it."""
        process = OpensmProcess(7, Path("/c"), True, None, ticks=1)
        paths: dict[Role, Path | None] = {
            "options": self.conf,
            "cache": self.folder,
            "log": None,
            "output": None,
            "policy": None,
        }
        files = {role: InstanceFile(role, path, path, "default", True) for role, path in paths.items()}
        if self.is_unread:
            files["options"] = replace(files["options"], reading="not-read")
        options = self._options()
        instance = Instance("", process, files, options, options.file, None, None, port.guid)
        manager = Manager(port, port.guid, "master", 0, 0)
        machine = cast(Any, _Machine(self))
        running = RunningOpensm(instance, machine, manager)
        conf = self.options_file()
        conf.opensms, conf.places = [running], [self.conf]
        settings = {name: options.setting(name) for name in (*KEY_LINES, *KEY_OPTIONS)}
        report = cast(Any, SimpleNamespace(managers=[manager]))
        return OpensmManagers(report, (ManagedOpensm(running, manager, conf, settings),), [conf], [])


@dataclass
class _Machine:
    """This host, but for the process."""

    opensm: MadeUpOpensm

    def __getattr__(self, name: str) -> Any:
        return getattr(THIS, name)

    def signal(self, process: OpensmProcess) -> None:
        self.opensm.hear()

    def is_running(self, process: OpensmProcess) -> bool:
        return self.opensm.runs

    def can_start(self, process: OpensmProcess) -> bool:
        return False

    def is_in_layer(self, seen: SeenFile) -> bool:
        return self.opensm.is_layered


@dataclass
class Bench:
    """The commands on a made-up OpenSM. ``stores``: what the names of key store and journal begin with. ``results``:
    what became of ports; ``goals``: for what its options were looked at."""

    opensm: MadeUpOpensm
    monkeypatch: pytest.MonkeyPatch
    results: list[PortResult] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    goals: list[KeySetting] = field(default_factory=list)
    overrides: Sequence[str] = ()
    stores: str = ""

    def deploy(self, level: int = 2, lease: int = 60, confirm: bool = False) -> None:
        options = RunOptions(True, level, lease)
        self.run(lambda w, t: planned.plan_keys(w, "mkey-deploy", options, None, t), confirm=confirm)

    def rotate(
        self,
        open_while_rotating: bool = False,
        level: int | None = None,
        lease: int | None = None,
        confirm: bool = False,
    ) -> None:
        options = RunOptions(True, level, lease)
        self.run(lambda w, t: planned.plan_keys(w, "mkey-rotate", options, None, t), open_while_rotating, confirm)

    def remove(self, confirm: bool = False) -> None:
        self.run(lambda w, t: planned.plan_removal(w, OF_REMOVAL, replace(t, leaves_open=True)), confirm=confirm)

    def resume(self) -> None:
        self.run(planned.plan_rest)

    def abort(self) -> None:
        self.run(lambda w, t: planned.plan_return(w, replace(t, leaves_open=True)))

    def settle(self) -> None:
        """Keep in the key store where ports are now."""
        with self.writer() as writer:
            rooms.settle(writer, rooms.survey(writer))

    def lower(self, operation: int = 1) -> Lowering | None:
        """Let the run of an operation go back that nobody confirmed."""
        with self.writer() as writer:
            return lower_unconfirmed(writer, ViaOpensm([SmHost()], WAIT), operation)

    def run(
        self,
        plan: Callable[[ChangeWriter, PlanningOptions], PlannedRun],
        open_while_rotating: bool = False,
        confirm: bool = False,
    ) -> None:
        """Plan and carry out. *confirm*: the run is to be confirmed."""
        with self.writer() as writer:
            through = ViaOpensm([SmHost()], WAIT, open_while_rotating, confirm=confirm)
            run = plan(writer, PlanningOptions(lambda: through))
            carry_out(writer, run, self.results.append)

    @contextmanager
    def writer(self) -> Iterator[ChangeWriter]:
        folder, opensm = self.opensm.folder.parent, self.opensm
        stores = {"keystore": folder / f"{self.stores}keys.db", "journal": folder / f"{self.stores}journal.db"}
        with tool(opensm.net, timeout=0.1, **stores) as fabric:
            fabric.is_simulated = False
            with ChangeWriter(
                fabric, "mkey-rotate", Consent(overrides=frozenset({"mkey-under-sm", *self.overrides}))
            ) as writer:
                master = self.opensm.net.nodes[0]

                def found(
                    writer: ChangeWriter, reached: object, managers: Sequence[Manager], wanted: KeySetting
                ) -> Any:
                    self.goals.append(wanted)
                    [port] = [each.port for each in managers if each.port.node.guid == master.guid]
                    return opensm.managers(port)

                def way(*values: Any, **named: Any) -> OpensmMethod:
                    return OpensmMethod(*values, clock=Clock(lambda: opensm.time, opensm.sleep), **named)

                self.monkeypatch.setattr(planned, "OpensmMethod", way)
                self.monkeypatch.setattr(planned, "find_key_managers", found)
                self.monkeypatch.setattr(key_steps, "find_key_managers", found)
                self.monkeypatch.setattr(planned, "options_files", lambda *given: [opensm.options_file()])
                self.monkeypatch.setattr(planned, "take_keys_that_opensm_gave", lambda writer, reached: None)
                self.monkeypatch.setattr(
                    planned, "reach", lambda enter, hosts: [ReachedHost(SmHost(), cast(Any, _Machine(opensm)))]
                )
                yield writer

    def run_state(self) -> str:
        """Return how the last run stands."""
        with Journal.read(self.opensm.folder.parent / f"{self.stores}journal.db") as journal:
            last = Runs(journal).last()
        assert last is not None
        return "open" if last.is_open else last.operation.state

    def open_operations(self) -> list[int]:
        """Return the operations of the journal that somebody should look after."""
        with Journal.read(self.opensm.folder.parent / "journal.db") as journal:
            return [record.id for record in journal.list_operations() if record.state in ("open", "failed")]

    def quiet(self) -> bool:
        """Whether no port counted an M_Key violation, or lost its key to time."""
        kinds = [event.kind for event in self.opensm.net.events]
        return not any(kind.startswith(("lease-expired", "m-key")) for kind in kinds) and not any(
            port.m_key_violations for port in self.opensm.ports()
        )
