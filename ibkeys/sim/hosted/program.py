"""Starting a program on a simulated host, and waiting for its end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from ibkeys.closing import closing_descriptor
from ibkeys.errors import IbkeysError, LibraryMissing, Refused, UsageError
from ibkeys.own_program import own_program
from ibkeys.sim.hosted.confining import ALL, Hiding, confine
from ibkeys.simulated_host import HOST, LIBRARY, SimulatedHost

_LOADS: Final = re.compile(r"libibumad\.so\.3 => (\S+)")
_REMOVED_VARIABLES: Final = ("LD_PRELOAD", "IBSIM_SOCKNAME", "IBSIM_SERVER_NAME", "IBSIM_SERVER_PORT", "SIM_HOST")
"""The variables that programs on simulated hosts do not inherit: with them they would see the adapters of ibsim."""
_REMOVED_PREFIX: Final = "IBKEYS_"
"""The prefix of variables that are not inherited either: options of ibkeys for the real fabric, such as keys and
files."""
_NOT_FOUND: Final = 127
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_FORWARDED_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_IGNORED_SIGNALS: Final = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal also sends to the program. The program decides about them, so this process ignores them."""


def environment_of(host: SimulatedHost, named: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of programs on *host*, made from *own*, the environment of this process.

    *named*: the host as the user named it, with or without an adapter. The cache and dumps of OpenSM are in the folder
    of the host, unless *own* names other folders for them.
    """
    inherited = {
        name: value
        for name, value in own.items()
        if name not in _REMOVED_VARIABLES and not name.startswith(_REMOVED_PREFIX)
    }
    path = ":".join(filter(None, (str(LIBRARY.parent), inherited.get("LD_LIBRARY_PATH"))))
    own_files = os.path.join(host.folder, "opensm")
    opensm = {"OSM_CACHE_DIR": own_files, "OSM_TMP_DIR": own_files}
    return {**opensm, **inherited, **host.variables, HOST: named, "LD_LIBRARY_PATH": path}


def run(
    command: Sequence[str],
    host: SimulatedHost,
    environment: Mapping[str, str],
    peers: Iterable[int] = (),
    wait: Callable[[int], object] | None = None,
    means: Iterable[Hiding] = ALL,
) -> int:
    """Run *command* on *host* and return its exit status as a shell does: 128 + the number of a signal that ended it.

    *peers*: ids of processes on that host. *wait*: called with a descriptor that becomes readable when the program
    ends, and returns then; None: this process only waits. *means*: as for `confine`. Raises Refused if the adapters of
    the real host cannot be hidden; LibraryMissing; UsageError for a program that cannot be started or would load
    another libibumad.
    """
    if not LIBRARY.exists():
        raise LibraryMissing("programs on simulated hosts need the libibumad of ibkeys, which was not built")
    for name in ("opensm", "stores"):
        (Path(host.folder) / name).mkdir(0o700, parents=True, exist_ok=True)
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _become(command, host, environment, peers, means, writer)
    os.close(writer)
    program = os.pidfd_open(child)  # Its id is not reused before waitpid() below.
    with closing_descriptor(program), _signals_for(program):
        with os.fdopen(reader, "rb") as answer:
            failure = answer.read().decode("utf-8", "surrogateescape")
        if not failure and wait is not None:
            wait(program)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if failure:
        kind, _, text = failure.partition("\0")
        raise Refused(text, "adapters") if kind == Refused.__name__ else UsageError(text)
    return status if status >= 0 else 128 - status


def _become(
    command: Sequence[str],
    host: SimulatedHost,
    environment: Mapping[str, str],
    peers: Iterable[int],
    means: Iterable[Hiding],
    failed: int,
) -> NoReturn:
    """Confine this child process and execute the program. If that fails, write the kind of the error and its message to
    the descriptor *failed*, and exit."""
    words = _own_ibkeys(command, environment)
    try:
        _note_hiding(confine(host, peers, means))
        _refuse_other_library(command[0], environment)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(words[0], words, dict(environment))
    except IbkeysError as error:
        text = f"{type(error).__name__}\0{error}"
    except OSError as error:
        text = f"OSError\0{command[0]}: cannot be started: {error.strerror}"
    except BaseException as error:
        text = f"OSError\0{command[0]}: cannot be started: internal error ({type(error).__name__})"
    os.write(failed, text.encode("utf-8", "surrogateescape"))
    os._exit(_NOT_FOUND)


def _own_ibkeys(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return *command*; if it is the bare name ``ibkeys`` and PATH has none, with the ibkeys of this process."""
    if command[0] == "ibkeys" and shutil.which("ibkeys", path=environment.get("PATH")) is None:
        return [*own_program(), *command[1:]]
    return list(command)


def _note_hiding(hiding: Hiding) -> None:
    """Write a note to standard error if the simulated host has no mount namespace, and so no files of its own."""
    if hiding != "namespace":
        text = "adapters are hidden by" if hiding == "landlock" else "adapters are closed to this user by"
        os.write(2, f"ibkeys: note: no mount namespace is possible: {text} {hiding}, see ibkeys-sim-run(1)\n".encode())


def _refuse_other_library(program: str, environment: Mapping[str, str]) -> None:
    """Raise UsageError if *program* has a run path by which it loads another libibumad than that of ibkeys."""
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None or not _is_elf(path) or shutil.which("ldd") is None:
        return
    ldd_output = subprocess.run(
        ["ldd", path], env=dict(environment), capture_output=True, text=True, check=False
    ).stdout
    loaded = _LOADS.search(ldd_output)
    if loaded is not None and not os.path.samefile(loaded[1], LIBRARY):
        raise UsageError(
            f"{program} has a run path by which it loads {loaded[1]}, not the libibumad of the simulated fabric, so it "
            "would find no adapter: remove the run path (`patchelf --remove-rpath`)"
        )


def _is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as program:
            return program.read(4) == b"\x7fELF"
    except OSError:
        return False


@contextmanager
def _signals_for(program: int) -> Iterator[None]:
    """Within the context, forward SIGTERM and SIGHUP to the program and ignore the signals of the terminal. *program*:
    its pidfd."""

    def pass_on(number: int, frame: object) -> None:
        with suppress(ProcessLookupError):  # The program has ended.
            signal.pidfd_send_signal(program, number)

    before = {number: signal.signal(number, pass_on) for number in _FORWARDED_SIGNALS}
    before |= {number: signal.signal(number, signal.SIG_IGN) for number in _IGNORED_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
