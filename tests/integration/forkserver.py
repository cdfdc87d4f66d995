"""A fork server for ``ibkeys``: commands that start without importing the program each time.

An ibkeys that starts spends a quarter of a second of processor time on imports, more than on most commands. So one
process imports all of it once, and forks for each command. A command is a process of its own with its own pipes,
environment and folder; it runs the same code in ``__main__``, and what is to be done at its exit.

Three things differ from a start: all modules are there already, commands of one fork server have the same hash seed,
and nothing is freed at the end.
Tests of importing and of hash seeds start real processes. So does a command with an environment that Python itself
reads, with a standard input, or one that is talked to while it runs.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

_LIBC = ctypes.PyDLL(None)
_MAX_MESSAGE = 1 << 18
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "TZ", "OPENSSL")
"""Beginnings of the environment variables that count when a process starts, and not later."""


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


# --- for the tests ----------------------------------------------------------------------------------------------------


class ForkServer:
    """A fork server with the environment *environment*, whose command line has *before* before that of Python.

    It ends by `close`, or with the process that started it. Any thread may `run` commands.
    """

    def __init__(self, environment: Mapping[str, str], before: Sequence[str] = ()) -> None:
        self._environment = _at_start(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [*before, sys.executable, "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, env=dict(environment), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )

    def close(self) -> None:
        """End it; commands that run go on."""
        self._socket.close()
        self._process.wait()

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a command with this *environment* is the same here as in a process that starts with it."""
        return self._process.poll() is None and _at_start(environment) == self._environment

    def run(
        self, code: str | None, arguments: Sequence[str], environment: Mapping[str, str], folder: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run *code* with *arguments* in *folder* as ``python -c`` does; None: as ``python -m ibkeys`` does.

        Its standard input is empty. Returns when it has ended and nobody has its output open any more. *timeout*: in
        seconds. Raises TimeoutExpired.
        """
        pipes = [os.pipe() for _ in range(3)]  # standard output, standard error, how it ended
        self._ask(code, arguments, environment, folder, [end for _, end in pipes])
        out, err, ended = _read_to_the_end([end for end, _ in pipes], time.monotonic() + timeout)
        lines = ended.split()
        if len(lines) < 2:
            if lines:
                with suppress(ProcessLookupError):
                    os.kill(int(lines[0]), signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(arguments), timeout, out, err)
        texts = [each.decode(errors="replace") for each in (out, err)]
        return subprocess.CompletedProcess(list(arguments), int(lines[1]), *texts)

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: str, code: str | None = None
    ) -> Forked:
        """Start ``ibkeys`` with *arguments* in *folder*, or *code* as in `run`; its standard input is empty."""
        (said, out), (ended, end) = os.pipe(), os.pipe()
        try:
            self._ask(code, arguments, environment, folder, [out, os.dup(out), end])
        except BaseException:
            os.close(said)
            os.close(ended)
            raise
        return Forked(arguments, said, ended)

    def _ask(
        self,
        code: str | None,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        ends: Sequence[int],
    ) -> None:
        """Ask for a child that has these *ends* of pipes; they are closed here."""
        asked = json.dumps([code, arguments, dict(environment), folder]).encode()
        try:
            socket.send_fds(self._socket, [asked], ends)
        finally:
            for end in ends:
                os.close(end)


class Forked:
    """A command of a fork server that goes on: as `subprocess.Popen` with one pipe for standard output and error."""

    stdin = None

    def __init__(self, args: Sequence[str], said: int, ended: int) -> None:
        self.args = args
        self.stdout = os.fdopen(said, errors="replace")
        self.returncode: int | None = None
        self._ended = ended
        number, _, self._rest = os.read(ended, 64).partition(b" ")
        self.pid = int(number)

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended. *timeout*: in seconds. Raises TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """End it by SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        """Return its exit code when it is there within *timeout* seconds; for None, wait for it."""
        if self.returncode is None and (self._rest or select.select([self._ended], [], [], timeout)[0]):
            self.returncode = int(self._rest or os.read(self._ended, 64))
            os.close(self._ended)
        return self.returncode


def _read_to_the_end(ends: Sequence[int], deadline: float) -> list[bytes]:
    """Return all that comes from pipes until the last one is closed, or until the *deadline*; close them."""
    found = dict.fromkeys(ends, b"")
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                part = os.read(key.fd, 1 << 16)
                found[key.fd] += part
                if not part:
                    selector.unregister(key.fd)
    for end in ends:
        os.close(end)
    return list(found.values())


# --- the fork server itself -------------------------------------------------------------------------------------------


def serve(asking: socket.socket) -> tuple[str | None, list[str]]:
    """Fork for each request; return, in the child, what it is to run. Leaves when nobody can ask any more."""
    with selectors.PollSelector() as selector:  # it has no descriptor that a child would have to close
        selector.register(asking, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    _report(*key.data)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    continue
                message, ends, _, _ = socket.recv_fds(asking, _MAX_MESSAGE, 3)
                if not message:
                    sys.exit()
                child = os.fork()
                if not child:
                    asking.detach()
                    code, arguments, environment, folder = json.loads(message)
                    _become(ends, environment, folder)
                    sys.path[0] = folder if code is None else ""
                    return code, arguments
                for end in ends[:2]:
                    os.close(end)
                os.write(ends[2], b"%d " % child)
                selector.register(os.pidfd_open(child), selectors.EVENT_READ, (child, ends[2]))


def _report(child: int, end: int) -> None:
    """Say how a *child* ended to who waits for it."""
    _, status = os.waitpid(child, 0)
    with suppress(BrokenPipeError):  # it was waited for too long
        os.write(end, b"%d" % os.waitstatus_to_exitcode(status))
    os.close(end)


def _become(ends: Sequence[int], environment: Mapping[str, str], folder: str) -> None:
    """Give this process standard output and error, environment and folder of a command, and nothing of the server."""
    os.dup2(ends[0], 1)
    os.dup2(ends[1], 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loader = {name: value for name, value in os.environ.items() if name.startswith("LD_")}  # of ibsim-run
    os.environ.clear()
    os.environ.update({**loader, **environment})
    os.chdir(folder)


def _run(code: str | None, ending: _Ending) -> None:
    """Run *code*, or ``ibkeys`` for None, and note the exit code that Python would end with."""
    try:
        if code is None:
            runpy.run_module("ibkeys", run_name="__main__", alter_sys=True)
        else:
            exec(code, {"__name__": "__main__"})
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            ending.exit_code = left.code or 0
        raise
    except KeyboardInterrupt:
        atexit.unregister(ending)  # Python ends by a signal then
        raise
    ending.exit_code = 0


class _Ending:
    """Ends this process when all that is to be done at its exit is done, and frees nothing.

    Python would empty 800 modules. Each of their pages is copied for that: it took three quarters of the processor time
    of a short command.
    """

    def __init__(self) -> None:
        self.exit_code = 1
        """By default that of an exception that nothing caught."""

    def __call__(self) -> None:
        """Write what is in the buffers, and end: libumad2sim leaves ibsim by its destructor, which exit(3) calls.

        Where the writing fails, Python ends the process as it always does.
        """
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            _LIBC.exit(self.exit_code)


if __name__ == "__main__":
    ending = _Ending()
    atexit.register(ending)  # the first one that is registered is called last
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: it is for who asks
    import ibkeys

    for module in pkgutil.walk_packages(ibkeys.__path__, "ibkeys."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # Now all objects are old, and so many that a child never examines them, which would copy their pages. If they were
    # frozen the same would hold, but ibkeys counts the frozen ones, and to count half a million takes 5 ms.
    gc.collect()
    code, arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["-c", *arguments]
    _run(code, ending)
