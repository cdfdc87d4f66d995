"""Real programs on a simulated fabric: starts ibsim, runs commands through ibsim-run, OpenSM and smpquery included.

A client whose server is gone waits for ever, so everything here has a time limit. A tool that is missing fails the
test with the line that installs it: a test that did not run must not look green.
"""

from __future__ import annotations

import atexit
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from tests import documents
from tests.integration.forkserver import Forked, ForkServer

INSTALL = "apt-get install ibsim-utils libumad2sim0 opensm infiniband-diags"
START_TIMEOUT = 180.0  # seconds for a server to start, also where other tests take the processors
RUN_TIMEOUT = 180.0  # seconds for one client, also where other tests take the processors

# The node that clients sit on, for each fabric of the corpus; without it that is the file's first record.
SIM_HOSTS = {
    "two-switch.net": "H-0002c903000a1010",
    "dual-home.net": "H-248a070300b10100",
    "ring-router.net": "H-506b4b0300500020",
    "dualport64.net": "H-b8cef60300100000",
    "torus444.net": "H-b8cef60300100000",
    "ft648.net": "H-b8cef60300100000",
    "ft2048.net": "H-b8cef60300100000",
    "isr9024-2007.net": "H-0008f10403960984",
    "lab-loopback-2016.net": "H-0002c9030004e938",
    "rocket-2014.net": "H-24be05ffff98aba0",
    "psmn-x5-2020.net": "H-0002c90300080e84",
    "dgx-pod-2025.net": "H-e09d730300156ff6",
}

ROOT = Path(__file__).parents[2]

Library = Literal["own", "umad2sim"]
"""By which libibumad programs attach: ours, or Debian's libumad2sim, which is preloaded."""
OWN_LIBRARY: Final = ROOT / "ibkeys" / "sim" / "lib" / "libibumad.so.3"

NO_LAYERS = """
import ibkeys.host.replacing.mounts
ibkeys.host.replacing.mounts.is_layer = lambda kind: False
"""
"""Comes before a command line: no file counts as one in the layer of a container, where the tests may run. Tests of
ibkeys.host.replacing and ibkeys.managers.machines are about that rule."""

# The command line with journal and key store in the folder that comes first: root's own are in /var/lib.
_MAIN = f"""{NO_LAYERS}
import sys
from pathlib import Path
import ibkeys.store.paths
stores = Path(sys.argv.pop(1))
ibkeys.store.paths.default_directory = lambda: stores
from ibkeys.cli import main
main()
"""

_serial = itertools.count()


def tool(name: str) -> str:
    """Return the path of a program; an AssertionError with the install line when it is not there."""
    # Debian keeps opensm and infiniband-diags in sbin, which is not on every user's PATH
    path = shutil.which(name, path=os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin:/sbin")
    assert path, f"{name} is not installed: {INSTALL}"
    return path


def ibkeys_environment() -> dict[str, str]:
    """What ibkeys is run with: this working tree, none of the user's own options, and no site file of this machine."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("IBKEYS_") and name != "SIM_HOST"}
    fixed = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200", "IBKEYS_SITE": "none"}
    return {**own, **fixed}


_fork_servers: dict[Library | None, ForkServer] = {}
_starting = threading.Lock()


def _library_path() -> dict[str, str]:
    """Return the environment by which programs load our libibumad."""
    assert OWN_LIBRARY.exists(), "our libibumad is not built: make setup"
    return {"LD_LIBRARY_PATH": str(OWN_LIBRARY.parent)}


def _fork_server(library: Library | None, environment: dict[str, str]) -> ForkServer | None:
    """Return the fork server for *library*, for None the one without a fabric; None if a command with *environment* is
    another one there."""
    with _starting:
        if library not in _fork_servers:
            before = [tool("ibsim-run")] if library == "umad2sim" else []
            own = _library_path() if library == "own" else {}
            _fork_servers[library] = ForkServer({**ibkeys_environment(), **own}, before)
            atexit.register(_fork_servers[library].close)
    server = _fork_servers[library]
    return server if server.fits(environment) else None


def _forked(
    library: Library | None,
    arguments: Sequence[str | int | Path],
    environment: dict[str, str],
    folder: Path,
    timeout: float,
) -> subprocess.CompletedProcess[str] | None:
    """Run `_MAIN` by the fork server for *library*; for None ``ibkeys`` without a fabric. None if no server fits."""
    server = _fork_server(library, environment)
    code = None if library is None else _MAIN
    return server.run(code, [*map(str, arguments)], environment, str(folder), timeout) if server else None


def start_ibkeys(arguments: Sequence[str], folder: Path) -> Forked | subprocess.Popen[str]:
    """Start ``ibkeys ARGUMENTS`` without a fabric in *folder*. What it says comes through one pipe."""
    environment = ibkeys_environment()
    server = _fork_server(None, environment)
    if server is not None:
        return server.start(arguments, environment, str(folder))
    return subprocess.Popen(
        [sys.executable, "-m", "ibkeys", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def ibkeys(*arguments: str | int | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``ibkeys ARGUMENTS`` as a user would, without ibsim; *options* are those of `subprocess.run`.

    Where there are no others than *cwd* and *timeout* it is run by a fork server.
    """
    if options.keys() <= {"cwd", "timeout"}:
        folder, timeout = options.get("cwd") or Path.cwd(), options.get("timeout", RUN_TIMEOUT)
        forked = _forked(None, arguments, ibkeys_environment(), folder, timeout)
        if forked is not None:
            documents.check(forked.stdout)
            return forked
    options = {"capture_output": True, "timeout": RUN_TIMEOUT, "env": ibkeys_environment(), **options}
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    command = [sys.executable, "-m", "ibkeys", *map(str, arguments)]
    done = subprocess.run(command, text=True, errors="replace", **options)
    documents.check(done.stdout or "")
    return done


class Ibsim:
    """A running ibsim with its own sockets and its own folder, `folder`. Use it as a context manager.

    *sim_host*: node id or description that clients attach to; by default what SIM_HOSTS says, else the file's first
    node. *limits*: ibsim's own options, such as ``("-N", "4096")``, in place of those counted from
    the file. *console*: keep ibsim's console open for `command`.
    """

    umad_library: Library = "umad2sim"

    def __init__(
        self,
        netfile: str | Path,
        *,
        sim_host: str | None = None,
        limits: Sequence[str] | None = None,
        console: bool = False,
    ) -> None:
        self.netfile = Path(netfile).resolve()
        self.sim_host = sim_host or SIM_HOSTS.get(self.netfile.name)
        self.limits = tuple(limits) if limits is not None else count_limits(self.netfile.read_text(errors="replace"))
        self.console = console
        self.socket_name = f"ibkeys-{os.getpid()}-{next(_serial)}"
        self._folder = tempfile.TemporaryDirectory(prefix="ibkeys-ibsim-")
        self.folder = Path(self._folder.name)
        self.opensm_cache = self.folder
        self.output: list[str] = []
        self.program: subprocess.Popen[str] | Forked | None = None
        self.reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        # without a console ibsim needs no input; stdbuf, because it speaks through a pipe
        command = [tool("stdbuf"), "-oL", tool("ibsim"), "-s", *self.limits, str(self.netfile)]
        if not self.console:
            command.insert(-1, "-n")
        environment = {**os.environ, "IBSIM_SOCKNAME": self.socket_name}
        return self.started("ibsim", command, environment, subprocess.PIPE if self.console else subprocess.DEVNULL)

    def started(
        self, name: str, command: Sequence[str], environment: dict[str, str], stdin: int = subprocess.DEVNULL
    ) -> Self:
        """Start the server, and return `when_ready`."""
        self.program = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        return self.when_ready(name)

    def when_ready(self, name: str) -> Self:
        """Return when the server says that it is ready."""
        assert self.program is not None
        ready = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(self.program.stdout, ready), daemon=True)
        self.reader.start()
        if not ready.wait(START_TIMEOUT) or self.program.poll() is not None:
            said = "".join(self.output[-20:])
            self.close()
            raise AssertionError(f"{name} did not start on {self.netfile}:\n{said}")
        return self

    def says_ready(self, line: str) -> bool:
        """Whether the server says in this line that programs can attach."""
        return "Network simulator ready" in line

    def _read(self, stream: Any, ready: threading.Event) -> None:
        for line in stream:
            self.output.append(line)
            if self.says_ready(line):
                ready.set()
        ready.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server and remove its folder."""
        if self.program is not None:
            self.program.send_signal(signal.SIGTERM)
            try:
                self.program.wait(10)
            except subprocess.TimeoutExpired:
                self.program.kill()
                self.program.wait()
            if self.reader is not None:
                self.reader.join(10)
            for stream in (self.program.stdin, self.program.stdout):
                if stream is not None:
                    stream.close()
            self.program = None
        self._folder.cleanup()

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to find this server."""
        return self.environment_for(self.umad_library)

    def environment_for(self, library: Library) -> dict[str, str]:
        """What a client on *library* needs to find this server."""
        # ours does not read IBSIM_SOCKNAME, but ibkeys does, to tell the OpenSMs of one fabric from those of another
        environment = {**ibkeys_environment(), "IBSIM_SOCKNAME": self.socket_name}
        if library == "own":
            environment.update({"IBKEYS_SIM_SOCKET": self.socket_name, **_library_path()})
        return {**environment, **(_at(library, self.sim_host) if self.sim_host else {})}

    def at(self, node: str) -> dict[str, str]:
        """What a client needs to sit on *node*, beside `environment`."""
        return _at(self.umad_library, node)

    def arguments(self, command: Sequence[str | Path]) -> list[str]:
        """Return the command line that runs *command* on this fabric, for a caller that starts it itself."""
        program, *rest = [str(part) for part in command]
        before = [tool("ibsim-run")] if self.umad_library == "umad2sim" else []
        return [*before, tool(program) if os.sep not in program else program, *rest]

    def run(
        self,
        command: Sequence[str | Path],
        timeout: float = RUN_TIMEOUT,
        *,
        env: dict[str, str] | None = None,
        sim_host: str | None = None,
        check: bool = False,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on this fabric and return what it said. *env* is added to the environment.

        The folder is the current directory (the preload library writes its fake sysfs there). For this project's own
        code, begin *command* with `sys.executable`.
        """
        environment = {**self.environment, **(env or {})}
        if sim_host is not None:
            environment.update(self.at(sim_host))
        options = {"capture_output": True, "cwd": self.folder, **options}
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run(
            self.arguments(command), timeout=timeout, env=environment, text=True, errors="replace", **options
        )
        assert not check or done.returncode == 0, (
            f"{done.args} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
        return done

    def ibkeys(self, *arguments: str | int | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run ``ibkeys ARGUMENTS`` on this fabric; its journal and key store are in ``folder / "stores"``.

        Where there are no *options* but *timeout* it is run by a fork server.
        """
        done = None
        if options.keys() <= {"timeout"}:
            words, timeout = (self.folder / "stores", *arguments), options.get("timeout", RUN_TIMEOUT)
            done = _forked(self.umad_library, words, self.environment, self.folder, timeout)
        done = done or self.run(self.ibkeys_command(*arguments), **options)
        documents.check(done.stdout or "")
        return done

    def start_ibkeys(
        self, *arguments: str | int | Path, before: Sequence[str] = (), first: str = ""
    ) -> Forked | subprocess.Popen[str]:
        """Start ``ibkeys ARGUMENTS`` on this fabric as `ibkeys` does; what it says comes through one pipe.

        Where nothing stands *before* it, it is started by a fork server. *first*: Python that runs before it.
        """
        server = None if before else _fork_server(self.umad_library, self.environment)
        if server is not None:
            words = [*map(str, (self.folder / "stores", *arguments))]
            return server.start(words, self.environment, str(self.folder), first + _MAIN)
        python, option, code, *words = self.ibkeys_command(*arguments)
        return subprocess.Popen(
            [*before, *self.arguments([python, option, first + code, *words])],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ibkeys_command(self, *arguments: str | int | Path) -> list[str]:
        """Return the command that `ibkeys` runs, for `arguments`."""
        return [sys.executable, "-c", _MAIN, str(self.folder / "stores"), *map(str, arguments)]

    def opensm(
        self,
        conf_text: str | None = None,
        partitions: str | Path | None = None,
        once: bool = True,
        extra: Sequence[str] = (),
        timeout: float = 300.0,
    ) -> str:
        """Let OpenSM sweep the fabric once and return its log; an AssertionError unless the subnet came up.

        *conf_text*: its configuration; *partitions*: text or path of a partitions.conf. Its cache lies in `folder`.
        """
        assert once, "for an OpenSM that goes on, start opensm_arguments() with subprocess.Popen"
        arguments = self.opensm_arguments(conf_text, partitions, ("-o", *extra))
        log = self.folder / "opensm.log"
        log.unlink(missing_ok=True)
        done = self.run(arguments, timeout, env=self.opensm_environment)
        text = log.read_text(errors="replace") if log.exists() else ""
        assert "SUBNET UP" in text, (
            f"OpenSM did not bring the subnet up ({done.returncode}):\n{done.stdout}{text[-2000:]}"
        )
        return text

    @property
    def opensm_environment(self) -> dict[str, str]:
        """Where OpenSM keeps its cache, `opensm_cache`, and its dumps: by default both in `folder`."""
        return {"OSM_CACHE_DIR": str(self.opensm_cache), "OSM_TMP_DIR": str(self.folder)}

    def opensm_arguments(
        self, conf_text: str | None = None, partitions: str | Path | None = None, extra: Sequence[str] = ()
    ) -> list[str]:
        """Return OpenSM's command line with log, configuration and partitions in `folder`."""
        conf = self.folder / "opensm.conf"
        conf.write_text(conf_text or "")
        if not isinstance(partitions, Path):
            policy = self.folder / "partitions.conf"
            policy.write_text(partitions or "")
            partitions = policy
        return ["opensm", "-f", str(self.folder / "opensm.log"), "-F", str(conf), "-P", str(partitions), *extra]

    def smpquery(self, attribute: str, *arguments: str | int, timeout: float = RUN_TIMEOUT) -> str:
        """Return what smpquery prints for an attribute, such as ``smpquery("portinfo", "-D", "0,1", 1)``."""
        command = ["smpquery", *(str(each) for each in arguments if str(each).startswith("-"))]
        command += [attribute, *(str(each) for each in arguments if not str(each).startswith("-"))]
        return self.run(command, timeout, check=True).stdout

    def command(self, line: str) -> None:
        """Type a line at ibsim's console, such as ``Unlink "H-1"[1]``; needs ``console=True``.

        The server reads its console and its clients in one loop, so a client that is started later finds it done.
        """
        assert self.program is not None
        assert self.program.stdin is not None, "start Ibsim with console=True"
        self.program.stdin.write(line + "\n")
        self.program.stdin.flush()


def _at(library: Library, node: str) -> dict[str, str]:
    return {"IBKEYS_SIM_HOST" if library == "own" else "SIM_HOST": node}


def count_limits(text: str) -> tuple[str, ...]:
    """Return the options that let ibsim hold the net file *text*; () when its own limits do."""
    switches = [int(ports) for ports in re.findall(r"^Switch[^\d\n]*(\d+)", text, re.MULTILINE)]
    others = [int(ports) for ports in re.findall(r"^(?:Ca|Hca|Rt)[^\d\n]*(\d+)", text, re.MULTILINE)]
    needed = {
        "-N": (len(switches) + len(others), 2048),
        "-S": (len(switches), 256),
        "-P": (sum(ports + 1 for ports in switches) + sum(ports + 1 for ports in others), 256 * 36 + 2048 * 2),
    }
    if all(count <= default for count, default in needed.values()):
        return ()
    return tuple(part for option, (count, default) in needed.items() for part in (option, str(max(count, default))))


def parse_dump(text: str) -> dict[str, str]:
    """Return the fields of what libibmad's dump prints: ``Lid:.............42`` is ``{"Lid": "42"}``."""
    fields = {}
    for line in text.splitlines():
        found = re.match(r"([^:#]+):\.*(.*)", line)
        if found:
            fields[found[1]] = found[2].strip()
    return fields


def parse_pkeys(text: str) -> list[int]:
    """Return the table that ``smpquery pkeys`` prints, empty entries included: ``   0: 0xffff 0x8001 ...``."""
    rows = re.findall(r"^ *\d+:((?: +0x[0-9a-f]{4})+) *$", text, re.MULTILINE)
    return [int(pkey, 16) for row in rows for pkey in row.split()]
