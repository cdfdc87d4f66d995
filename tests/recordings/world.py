"""All that a command of a scenario sees: a simulated fabric as if it were real, OpenSMs, a UFM, clock, host and user.

What is replaced are the lowest things: the port, system calls, and functions that ask this very host. So a recording
stays the same when the code between the command line and these is built anew.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn, Self, cast

import httpx
import pytest

from ibkeys.change.clock import REAL_TIME
from ibkeys.errors import HostNotReached
from ibkeys.host import file_access, host_files
from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import HostTime
from ibkeys.mad.const import SMState
from ibkeys.managers.elsewhere.access import Access
from ibkeys.managers.host_facts import host_facts
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.opensm import process as opensm_process
from ibkeys.store import sqlite
from ibkeys.store.keystore.sealing import Cost
from ibkeys.umad.port import Outgoing, SendFailure, UmadPort
from ibkeys.umad.simulated import SimulatedPort, port_on
from tests.fabricsim import subnet
from tests.managers.ufm.mock import Mock
from tests.recordings.machines import NamedFiles, NamedHost
from tests.recordings.opensm import Opensm
from tests.recordings.secrets_named import Names

START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWN_PID, CHILD = 4242, 4243
STANDBY_HOST: Final = "sm2"
_BOOTED: Final = 1000.0
"""Seconds before `START`."""


class SeenPort:
    """A port of a simulated subnet that is not known as one. ``seen`` is called with each MAD before it leaves."""

    def __init__(self, port: SimulatedPort, seen: Callable[[str, Any], None]) -> None:
        self._port, self._seen = port, seen

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        failures: list[SendFailure] = []
        for index, outgoing in enumerate(batch):
            self._seen("mad", outgoing)
            failures += [SendFailure(index, failure.errno) for failure in self._port.send([outgoing])]
        return failures

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self._port.close()

    def __getattr__(self, name: str) -> Any:
        if name in ("subnet", "state_path", "inner"):
            raise AttributeError(name)
        return getattr(self._port, name)


_UNSET = ("SIM_HOST", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "IBSIM_SOCKNAME")


class World:
    """The fabric *name*, in files below *folder*. ``seen`` is called with each thing that happens, before it does.

    ``opensms``: the first one runs on this host, and is master. ``guard``: where what the child of ``--confirm-within``
    is told can be read. ``silent_hosts``: those that no connection reaches.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.fabric, self.net = name, subnet(name)
        self.folder, self.proc = folder, folder / "proc"
        self.names = Names()
        self.opensms: list[Opensm] = []
        self.ufm: Mock | None = None
        self.seen: Callable[[str, Any], None] = lambda kind, what: None
        self.wrote: Callable[[], None] = lambda: None
        self.guard: int | None = None
        self.silent_hosts: set[str] = set()
        self._pipe: tuple[int, int] | None = None
        self._held: dict[int, int] = {}
        self._file_times: dict[str, tuple[object, float]] = {}
        (self.proc / "self" / "ns").mkdir(parents=True)
        (self.proc / "self" / "ns" / "mnt").symlink_to("mnt:[1]")

    def add_opensm(self, node: str, more: str = "") -> Opensm:
        """Start an OpenSM: the first on this host, others on `STANDBY_HOST`."""
        number = len(self.opensms)
        folder = self.folder / f"opensm{number or ''}"
        opensm = Opensm(self.net, node, folder, self.proc, 100 + number, 9 - number, more)
        self.opensms.append(opensm)
        opensm.begin(SMState.STANDBY if number else SMState.MASTER)
        for path in [folder, *folder.rglob("*")]:
            self._file_times[os.path.realpath(path)] = _content(path), self.now() - 100
        return opensm

    # --- time ---------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time of day, in seconds since 1970. It passes only where somebody waits."""
        return START.timestamp() + self.net.now

    def sleep(self, seconds: float) -> None:
        self.seen("sleep", seconds)
        self.net.advance(max(0.0, seconds))
        for opensm in self.opensms:
            opensm.wait()
        due = [opensm for opensm in self.opensms if opensm.is_due]
        for opensm in due:
            if opensm.is_master:
                opensm.sweep()
            opensm.is_due = False
        if due:
            self.wrote()

    # --- the fabric ---------------------------------------------------------------------------------------------------

    def open_port(self, ca: str | None = None, port: int | None = None) -> UmadPort:
        """Open a port, in place of `ibkeys.umad.libibumad.open_port`."""
        return cast(UmadPort, SeenPort(port_on(self.net, None, port), self.seen))

    # --- processes ----------------------------------------------------------------------------------------------------

    def pidfd_open(self, pid: int, flags: int = 0) -> int:
        if not any(opensm.pid == pid and opensm.runs for opensm in self.opensms):
            raise ProcessLookupError(3, "No such process")
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._held[descriptor] = pid
        return descriptor

    def pidfd_send_signal(self, descriptor: int, number: int, *_: object) -> None:
        if number == 0:
            return
        [opensm] = [each for each in self.opensms if each.pid == self._held[descriptor]]
        self.seen("signal", f"{signal.Signals(number).name} to process {opensm.pid}")
        if number == signal.SIGHUP:
            opensm.hear()
        else:
            opensm.end()

    def fork(self) -> int:
        """Leave no child; what it would be told can be read."""
        assert self._pipe is not None
        self.guard = os.dup(self._pipe[0])
        return CHILD

    def told_guard(self) -> list[str]:
        """Return what the child was told, and forget it."""
        if self.guard is None:
            return []
        os.set_blocking(self.guard, False)
        try:
            told = os.read(self.guard, 1 << 16).decode()
        except BlockingIOError:
            told = ""
        os.close(self.guard)
        self.guard = None
        return [line.strip() for line in told.splitlines()]

    def _pids(self, away: bool) -> list[int]:
        """Return the OpenSMs that run here, or *away*."""
        found = self.opensms[1:] if away else self.opensms[:1]
        return [opensm.pid for opensm in found if opensm.runs]

    @contextmanager
    def machine(self, host: SmHost) -> Iterator[NamedHost]:
        """Open a host, in place of `ibkeys.managers.machines.opening.open_machine`."""
        name = host.name
        if name in self.silent_hosts:
            raise HostNotReached(f"host {name}: it does not answer", name)
        files = NamedFiles(name, pids=lambda: self._pids(bool(name)))
        yield NamedHost({}, self.proc, files, lambda word: self.seen("guard", f"{name}: {word}"))

    @contextmanager
    def files(self, access: Access) -> Iterator[NamedFiles]:
        """Open a host for reading, in place of `ibkeys.managers.elsewhere.access.open_files`."""
        with self.machine(SmHost(access)) as machine:
            yield machine.there

    # --- in place -----------------------------------------------------------------------------------------------------

    @contextmanager
    def entered(self) -> Iterator[Self]:
        """Let everything of this process be in this world."""
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            self._environment(patch)
            self._time(patch, stack)
            self._disk(patch)
            self._system(patch, stack)
            self._host(patch)
            self._rest(patch)
            yield self

    def _environment(self, patch: pytest.MonkeyPatch) -> None:
        for name in [*os.environ]:
            if name.startswith(("IBKEYS_", "XDG_", "CLICOLOR")) or name in _UNSET:
                patch.delenv(name)
        patch.setenv("IBKEYS_JOURNAL", str(self.folder / "journal.db"))
        patch.setenv("IBKEYS_KEYSTORE", str(self.folder / "keys.db"))
        patch.setenv("XDG_STATE_HOME", str(self.folder / "state"))
        patch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
        patch.setattr("ibkeys.store.paths.SYSTEM_DIRECTORY", self.folder / "state" / "ibkeys")
        patch.chdir(self.folder)

    def _time(self, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        def now(zone: tzinfo | None = None) -> datetime:
            return (START + timedelta(seconds=self.net.now)).astimezone(zone)

        patch.setattr("ibkeys.store.sqlite.datetime", SimpleNamespace(now=now))
        patch.setattr(time, "time", self.now)
        patch.setattr(time, "monotonic", lambda: _BOOTED + self.net.now)
        patch.setattr(time, "clock_gettime", lambda clock: _BOOTED + self.net.now)
        patch.setattr(time, "sleep", self.sleep)
        before = REAL_TIME.now, REAL_TIME.sleep  # it took these two when it was made
        stack.callback(_set_clock, *before)
        _set_clock(time.monotonic, self.sleep)
        for module in (file_access, host_files):
            patch.setattr(module, "fact_of", self._fact_of)
        clock = HostTime(START.timestamp(), 0.0, 0.01)
        patch.setattr(host_files.LocalFiles, "clock", lambda files: clock)

    def _fact_of(self, path: Path, status: os.stat_result, parents: Any) -> FileFact:
        """Return a fact with the times of this world: when a file was first seen to be as it is. The kernel's own are
        too coarse: two changes may have one time."""
        fact = _FACT_OF(path, status, parents)
        real, content = os.path.realpath(path), _content(path)
        before, when = self._file_times.get(real, (None, 0.0))
        if before != content:
            when = self.now()
            self._file_times[real] = content, when
        return replace(fact, modified=datetime.fromtimestamp(when, UTC), written=when, changed=when)

    def _disk(self, patch: pytest.MonkeyPatch) -> None:
        """Let nothing be synced: a recording does not outlive this process. A new journal has always the same name."""
        connect = sqlite.connect

        def unsynced(path: Path | None, read_only: bool) -> Any:
            connection = connect(path, read_only)
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.create_function("randomblob", 1, lambda length: bytes([0x1D]) * length)
            return connection

        patch.setattr(sqlite, "connect", unsynced)
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr(os, "fdatasync", lambda descriptor: None)
        patch.setattr("ibkeys.store.keystore.sealed.Cost", lambda n=2, r=8, p=1: Cost(n, r, p))

    def _system(self, patch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        names, waitpid, pipe = self.names, os.waitpid, os.pipe
        # A shell lets what runs in the background ignore it.
        stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

        def own_pipe() -> tuple[int, int]:
            self._pipe = pipe()
            return self._pipe

        patch.setattr("secrets.randbelow", names.below)
        patch.setattr("secrets.token_hex", names.token_hex)
        patch.setattr("secrets.token_bytes", names.token_bytes)
        patch.setattr(os, "urandom", names.token_bytes)
        patch.setattr(os, "getpid", lambda: OWN_PID)
        patch.setattr(os, "pipe", own_pipe)
        patch.setattr(os, "fork", self.fork)
        patch.setattr(os, "waitpid", lambda pid, how: (pid, 0) if pid == CHILD else waitpid(pid, how))
        patch.setattr(os, "pidfd_open", self.pidfd_open)
        patch.setattr(signal, "pidfd_send_signal", self.pidfd_send_signal)

    def _host(self, patch: pytest.MonkeyPatch) -> None:
        named = os.uname()
        node = SimpleNamespace(nodename="admin1", sysname=named.sysname, release=named.release, machine=named.machine)
        patch.setattr(os, "uname", lambda: node)
        patch.setattr("socket.gethostname", lambda: "admin1")
        patch.setattr("ibkeys.store.origin.user_name", lambda: "operator")
        patch.setattr("ibkeys.umad.libibumad.open_port", self.open_port)
        patch.setattr("ibkeys.cli.opening.DEFAULT_CONFIG", self.folder / "none")
        patch.setattr("ibkeys.cli.opening.DEFAULT_NAME_MAP", self.folder / "none")
        patch.setattr("ibkeys.managers.settings.DEFAULT_SETTINGS", self.folder / "none")
        patch.setattr("ibkeys.managers.files.listeners.SYSLOG", self.folder / "none")
        patch.setattr("ibkeys.managers.report.host_ports", lambda host: ())
        patch.setattr("ibkeys.managers.machines.this_host.is_in_layer", lambda seen: False)
        for module in ("ibkeys.managers.site", "ibkeys.apply.opensm.guards"):
            patch.setattr(f"{module}.open_machine", self.machine)
        patch.setattr("ibkeys.managers.hosts.open_files", self.files)
        patch.setattr(host_files.LocalFiles, "processes", lambda files, proc, program: self._pids(False))
        patch.setattr("ibkeys.audit.gather.host_facts", partial(host_facts, **self.own_places()))
        patch.setattr("subprocess.Popen", _refuse_program)
        patch.setattr(opensm_process, "PROC", self.proc)
        patch.setattr(opensm_process, "OPENSM_CONFIGS", ())
        patch.setattr(opensm_process, "OPENSM_CACHE", self.folder / "none")
        patch.setattr(opensm_process, "DEVICES", self.folder / "none")

    def own_places(self) -> dict[str, Any]:
        """Return where an audit looks on this host."""
        none = self.folder / "none"
        places = {"opensm_cache": none, "ibdiag_config": none, "devices": none, "proc": self.proc}
        return {**places, "opensm_configs": (), "run": lambda command: None}

    def _rest(self, patch: pytest.MonkeyPatch) -> None:
        """Let each request to the UFM be seen before it is sent."""
        send = httpx.HTTPTransport.handle_request

        def seen(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
            path = request.url.raw_path.decode()
            self.seen("rest", " ".join([request.method, path, *filter(None, [request.read().decode()])]))
            return send(transport, request)

        patch.setattr(httpx.HTTPTransport, "handle_request", seen)


def _refuse_program(command: object, *_: object, **__: object) -> NoReturn:
    raise AssertionError(f"a scenario starts no program: {command}")


_FACT_OF: Final = file_access.fact_of


def _set_clock(now: Callable[[], float], sleep: Callable[[float], None]) -> None:
    object.__setattr__(REAL_TIME, "now", now)
    object.__setattr__(REAL_TIME, "sleep", sleep)


def _content(path: Path) -> object:
    """What tells one version of a file or folder from another."""
    return path.stat().st_mode, sorted(os.listdir(path)) if path.is_dir() else path.read_bytes()
