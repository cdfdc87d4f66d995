"""Made-up OpenSMs on the simulated subnet: their options files are real ones, their hosts, signals and time are not.

A master and two standbys. One reads its file when it gets a signal, and a standby whose sm_key is not the master's
becomes a second master after its polling time, as OpenSM does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ibkeys.change.clock import Clock
from ibkeys.change.consent import Consent
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import HostNotReached
from ibkeys.host.file_access import FileFact
from ibkeys.host.host_lock import FoundLock, LocalLock
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.host.replacing.replace import LeftOvers, RecordedImages
from ibkeys.host.replacing.staging import StagedFile
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.const import SMState
from ibkeys.managers import site
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import read_instance
from ibkeys.managers.machines.machine import TakenLock
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.opensm.command_line import read_command_line
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.managers.report import HostReport
from ibkeys.managers.site import ReachedHost
from ibkeys.sim.nodes import SimNode
from ibkeys.smkeys.key_holders import DEFAULT, SmKeyKind, keys_in
from ibkeys.smkeys.planning import KeyChange, plan_change
from ibkeys.smkeys.recorded_changes import COMMAND
from ibkeys.smkeys.run import SmKeySettings
from ibkeys.store.journal import FileEntry, FileImage, Journal, RunningOperation
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeys, StoredSmKey
from tests.fabricsim import replace_hca, subnet, tool

NODES = ("node01 mlx4_0", "node05 mlx4_0", "node06 mlx4_0")
CONF = "sm_priority {}\nsminfo_polling_timeout 10000\npolling_retry_number 4\n"
POLLING = 40.0


class Killed(BaseException):
    """The end of this process, as far as a test can make one."""


@dataclass
class Host:
    """A `Machine` over this host's own, with one OpenSM. ``name``: "" for this host. ``is_deaf``: it hears no signal.
    ``is_cut``: it does not answer any more. ``is_layered``: its files are in the layer of a container."""

    site: MadeUpSite
    name: str
    node: SimNode
    folder: Path
    priority: int
    words: list[str] = field(default_factory=list)
    started: float | None = None
    output: str = "/dev/null"
    is_deaf: bool = False
    is_cut: bool = False
    is_layered: bool = False
    runs: bool = True
    sa_key: int = DEFAULT.reveal()

    def __post_init__(self) -> None:
        self.conf = self.folder / "opensm.conf"
        self.conf.write_text(CONF.format(self.priority))
        self.conf.chmod(0o640)
        self.log = self.folder / "opensm.log"
        self.log.write_text("log\n")
        self.log.chmod(0o644)

    # --- its OpenSM ---------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> Mapping[SmKeyKind, SMKey]:
        """What its file says."""
        return keys_in(self.conf.read_bytes())

    def read(self) -> None:
        """Read the options file, as OpenSM does when it gets a signal: an option without a line keeps its value."""
        sm = self.node.sm
        assert sm is not None
        has_line = read_options(self.conf.read_bytes()).values
        if "sm_key" in has_line:
            sm.sm_key = self.keys["sm_key"].reveal()
        if "sa_key" in has_line:
            self.sa_key = self.keys["sa_key"].reveal()
        self.site.settle()

    @property
    def process(self) -> OpensmProcess:
        number = 100 + self.priority
        words = ["-F", str(self.conf), "-g", f"{self.node.ports[1].guid:#x}", "-f", str(self.log), *self.words]
        return OpensmProcess(
            number,
            self.folder,
            True,
            self.conf,
            command=read_command_line(words),
            environment={"OSM_TMP_DIR": str(self.folder)},
            folder=self.folder,
            started=self.started,
            view="host",
            program_known=True,
            ticks=number,
            output=self.output,
        )

    def report(self) -> HostReport:
        return HostReport(self.name, (read_instance(self.process, self.files),) if self.runs else ())

    # --- machine ------------------------------------------------------------------------------------------------------

    @property
    def files(self) -> Any:
        return NamedFiles(self)

    def note(self, word: str) -> None:
        if self.is_cut:
            raise HostNotReached(f"host {self.name}: the connection is closed", self.name)
        self.site.step(f"{word} {self.node.description.split()[0]}")

    def look(self, path: Path) -> SeenFile:
        self.note("look")
        return THIS.look(path)

    def hindrance(self, seen: SeenFile, rights: int | None = None) -> str | None:
        return None

    def is_in_layer(self, seen: SeenFile) -> bool:
        return self.is_layered

    def may_signal(self, process: OpensmProcess) -> str | None:
        return None

    def is_running(self, process: OpensmProcess) -> bool:
        return self.runs

    def signal(self, process: OpensmProcess) -> None:
        self.note("signal")
        if not self.is_deaf:
            self.read()

    def replace(
        self,
        operation: RunningOperation,
        seen: SeenFile,
        data: bytes | None,
        mode: int = 0o644,
        *,
        conversions: FileConversions = WITHOUT_KEYS,
        rights: int | None = None,
        owner: int | None = None,
    ) -> FileEntry:
        self.note("replace")
        return THIS.replace(
            self._named(operation), seen, data, mode, conversions=conversions, rights=rights, owner=owner
        )

    @contextmanager
    def _stage(self, staged: AbstractContextManager[StagedFile]) -> Iterator[StagedFile]:
        self.note("stage")
        with staged as ready:
            yield NotedStaged(self, ready)

    def stage(
        self,
        operation: RunningOperation,
        seen: SeenFile,
        data: bytes,
        *,
        conversions: FileConversions = WITHOUT_KEYS,
        rights: int | None = None,
    ) -> AbstractContextManager[StagedFile]:
        return self._stage(THIS.stage(self._named(operation), seen, data, conversions=conversions, rights=rights))

    def set_mode(self, path: Path, seen: FileFact, mode: int) -> int:
        self.note("close")
        return THIS.set_mode(path, seen, mode)

    def take_lock(self, path: Path, text: bytes, over: bytes | None = None) -> TakenLock | FoundLock | None:
        self.note("lock")
        lock = THIS.take_lock(path, text, over)
        return NotedLock(self, lock) if isinstance(lock, LocalLock) else lock

    def clean_up(self, recorded: RecordedImages, conversions: FileConversions = WITHOUT_KEYS) -> LeftOvers:
        return THIS.clean_up(recorded, conversions)

    def _named(self, operation: RunningOperation) -> Any:
        return NamedOperation(operation, self.name)


class NotedLock:
    """A lock that is lost with the connection to its host."""

    def __init__(self, host: Host, lock: LocalLock) -> None:
        self._host, self._lock = host, lock

    def release(self) -> None:
        if self._host.is_cut:
            os.close(self._lock.descriptor)
            raise HostNotReached(f"host {self._host.name}: the connection is closed", self._host.name)
        self._lock.release()


class NotedStaged:
    """A staged file that says when it is put."""

    def __init__(self, host: Host, staged: StagedFile) -> None:
        self._host, self._staged = host, staged

    @property
    def entry(self) -> FileEntry:
        return self._staged.entry

    def put(self) -> None:
        self._host.note("put")
        self._staged.put()
        self._host.note("was put")


class NamedOperation:
    """An operation whose files are those of a made-up host."""

    def __init__(self, operation: RunningOperation, name: str) -> None:
        self._operation, self._name = operation, name

    def record_file(self, image: FileImage) -> FileEntry:
        return self._operation.record_file(replace(image, host=self._name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operation, name)


class NamedFiles:
    """This host's files, under the name of a made-up host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.name = host.name

    def __getattr__(self, name: str) -> Any:
        return getattr(THIS.files, name)


class MadeUpSite:
    """Three hosts with an OpenSM each; the first one is this host, and master. ``steps``: what was done to them, in
    order; ``before_each``: called with each step before it is done, and raises what shall go wrong. *stores*: where
    journal and key store are, by default in *folder*; *step*: how far the GUIDs are from those of another site."""

    def __init__(self, folder: Path, stores: Path | None = None, step: int = 0) -> None:
        self.net = subnet("two-switch")
        for hardware in self.net.nodes if step else ():
            replace_hca(hardware, step=step)
        self.folder = folder
        self.stores = stores or folder
        self.steps: list[str] = []
        self.before_each: Callable[[str], None] = lambda step: None
        self.time = 0.0
        self.apart: float | None = None
        self.hosts = []
        for number, node in enumerate(NODES):
            (folder / f"sm{number}").mkdir(parents=True)
            found = next(each for each in self.net.nodes if each.description == node)
            state = SMState.STANDBY if number else SMState.MASTER
            self.net.set_sm(found, state, 9 - number, 1, 1)
            self.hosts.append(Host(self, f"sm{number}" if number else "", found, folder / f"sm{number}", 9 - number))
        for host in self.hosts:
            host.read()

    def step(self, step: str) -> None:
        self.steps.append(step)
        self.before_each(step)

    # --- the SMs ------------------------------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.settle()

    def settle(self) -> None:
        """Let the SMs find out about each other."""
        running = [host for host in self.hosts if host.runs]
        keys = {host.node.sm.sm_key for host in running if host.node.sm is not None}
        if len(keys) == 1:
            self.apart = None
            self._states(running[:1])
        elif self.apart is None:
            self.apart = self.time
        elif self.time - self.apart > POLLING:
            first = running[0].node.sm
            assert first is not None
            self._states([host for host in running if host is running[0] or host.node.sm.sm_key != first.sm_key])

    def _states(self, masters: list[Host]) -> None:
        for host in self.hosts:
            sm = host.node.sm
            if not host.runs or sm is None:
                continue
            state = SMState.MASTER if host in masters else SMState.STANDBY
            self.net.set_sm(host.node, state, host.priority, 1, sm.sm_key)
            if state == SMState.MASTER:
                self.net.managers.sa_of(host.node).sa_key = host.sa_key

    @property
    def masters(self) -> int:
        return sum(host.node.sm is not None and host.node.sm.state == SMState.MASTER for host in self.hosts)

    # --- ibkeys -------------------------------------------------------------------------------------------------------

    def run(
        self,
        monkeypatch: pytest.MonkeyPatch,
        given: Mapping[SmKeyKind, SMKey] | None = None,
        overrides: Iterable[str] = (),
        dry_run: bool = False,
        said: list[str] | None = None,
        is_new: bool = False,
        goes_on: int | None = None,
    ) -> KeyChange:
        """Plan a change and make it. *is_new*, *goes_on*: see `plan_change` and `ChangeWriter`."""
        by_name = {host.name: host for host in self.hosts}
        monkeypatch.setattr(site, "report_on_host", lambda files, entry, socket: by_name[files.name].report())
        monkeypatch.setattr("ibkeys.managers.files.listeners.SYSLOG", self.folder / "no-such-file")
        reached = [ReachedHost(SmHost(SshHost(host.name) if host.name else None), host) for host in self.hosts]
        stores = {"keystore": self.stores / "keys.db", "journal": self.stores / "journal.db", "retries": 0}
        settings = SmKeySettings(5, Clock(lambda: self.time, self.sleep), say=(said if said is not None else []).append)
        with tool(self.net, "node03 mlx4_0", **stores) as fabric:
            fabric.is_simulated = False
            consent = Consent(overrides=frozenset(overrides))
            with ChangeWriter(fabric, COMMAND, consent, dry_run, continued=goes_on) as writer:
                change = plan_change(writer, reached, given or {}, settings, is_new)
                if not dry_run:
                    writer.apply(change)
        return change

    def stored(self) -> list[StoredSmKey]:
        with KeyStore(self.stores / "keys.db") as store:
            return SmKeys(store).rows()

    def journal(self) -> Journal:
        return Journal(self.stores / "journal.db")

    def confs(self) -> list[bytes]:
        return [host.conf.read_bytes() for host in self.hosts]

    def left_over(self) -> list[str]:
        """What lies beside the files that nobody should leave there."""
        return sorted(each.name for host in self.hosts for each in host.folder.iterdir() if "ibkeys-" in each.name)
