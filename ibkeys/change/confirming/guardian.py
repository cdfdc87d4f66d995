"""A guard process that rolls a change back when the process that waits for its confirmation dies.

A command with ``--confirm-within`` waits for a confirmation itself, and rolls back itself. But the change may cut the
connection over which the command runs, and so kill it. Therefore it starts a child in a separate session before it
opens the fabric. The child holds one end of a pipe and no terminal. When the pipe closes without a final message, the
child waits for the remaining time and then runs the rollback command (for ``apply`` that is ``ibkeys undo``).

A waiting process that somebody has stopped (SIGSTOP) is alive, holds the locks, and rolls nothing back. When the time
is over the child lets it go on (SIGCONT), and it finds that the time is over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Final, NamedTuple, NoReturn

from ibkeys.keys.mkey import MKey

POLL: Final = 0.5
"""Seconds between two looks at whether it was confirmed."""
TRIES: Final = 60
"""How often that command is started, when another changing command holds the lock or the fabric does not answer: for
about an hour, since one that waits for a confirmation of its own holds it as long as it waits."""
LONGEST: Final = 1800.0
"""Seconds that one attempt may take: a driver that does not answer must not block it forever."""
PAUSES: Final = 2.0, 60.0
"""Seconds between two of them: the first ones, doubled each time, and at most."""
_SETS_OPTIONS: Final = "IBKEYS_"
"""How the names of environment variables begin that set options of our commands."""


def seconds_since_boot() -> float:
    """Return what a clock shows that goes on while this process is stopped and while this host is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class GuardedStart(NamedTuple):
    """What the child looks after: one start of an operation, counted from 1. Whoever goes on with the operation later
    looks after it in another way, or not at all."""

    operation: int
    start: int = 1


AsksForStart = Callable[[int, int], bool]
"""Called with operation and start."""


def own_program() -> list[str]:
    """Return the words that start this program again. Python would look for it in the current folder first, where
    anybody may have put one of that name; it does so only where this process has its own code from there.
    """
    try:
        here = {"", os.getcwd()}
    except FileNotFoundError:
        here = {""}
    return [sys.executable, *([] if here & set(sys.path) else ["-P"]), "-m", "ibkeys"]


class Guardian:
    """The child, as seen from the process that it looks after. M_Keys reach it through the pipe only.

    *command*: the command line that rolls back, which the child may have to start, without the operation and M_Key;
    *is_unconfirmed*: returns whether a start of an operation is to be rolled back unless somebody confirms it, also in
    the child;
    *seconds*: the time in which it is to be confirmed. *may_go_back*: asked in the child before each start of
    *command*, where more than *is_unconfirmed* is to be asked. *is_alone*: the child closes the files that are open
    here: a fabric that was opened before would stay locked as long as the child lives.
    """

    def __init__(
        self,
        command: Sequence[str],
        is_unconfirmed: AsksForStart,
        seconds: float,
        may_go_back: AsksForStart | None = None,
        is_alone: bool = False,
    ) -> None:
        self._is_unconfirmed = is_unconfirmed
        self._guarded: GuardedStart | None = None
        reader, self._writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._writer)  # or the pipe would never close
            if is_alone:
                os.closerange(3, reader)
                os.closerange(reader + 1, os.sysconf("SC_OPEN_MAX"))
            _live(reader, list(command), is_unconfirmed, may_go_back or is_unconfirmed, seconds)
        os.close(reader)

    def send(self, word: str, value: object = "") -> None:
        """Send the child a word: ``key`` KEY, ``port`` CA NUMBER, ``began`` ID START, ``waiting``, ``over``."""
        with suppress(OSError):  # without the child the change is still undone by this process
            os.write(self._writer, f"{word} {value}\n".encode())

    def began(self, operation: int, start: int = 1) -> None:
        """Tell the child which start of which operation may have to be rolled back."""
        self._guarded = GuardedStart(operation, start)
        self.send("began", f"{operation} {start}")

    def keep_key(self, key: MKey | None) -> None:
        """Send the child the M_Key that the user typed, for the rollback command."""
        if key is not None:
            self.send("key", f"0x{key.reveal():016x}")

    def keep_port(self, ca: str, port: int) -> None:
        """Send the child the local port that is open here, for the rollback command. It could choose another one: of
        several ports without -C and -P the first that is active, and the change may have brought a link down."""
        self.send("port", f"{ca} {port}")

    def leave(self) -> bool:
        """Called when this process ends. After a confirmation or a completed rollback the child ends too, else it rolls
        back. Return whether the child goes on.
        """
        if self._guarded is None or not self._is_unconfirmed(*self._guarded):
            self.send("over")
            os.close(self._writer)
            os.waitpid(self._pid, 0)
            return False
        os.close(self._writer)
        return True


def _live(
    reader: int,
    command: list[str],
    is_unconfirmed: AsksForStart,
    may_go_back: AsksForStart,
    seconds: float,
) -> NoReturn:
    """The child's life. It never returns into the program that it was forked from."""
    code, parent = 1, os.getppid()
    try:
        os.setsid()
        for each in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        watch = GuardianWatch(is_unconfirmed, seconds_since_boot, time.sleep, partial(_continue_later, parent))
        with os.fdopen(reader, "r", encoding="ascii") as lines:
            guarded = watch.listen(lines, seconds)
        if guarded is not None:
            go_back([*command, *watch.options], guarded.operation, watch.key, lambda: may_go_back(*guarded))
        code = 0
    finally:
        os._exit(code)


def _continue_later(parent: int, seconds: float) -> None:
    """Let *parent* go on in *seconds*, should it be stopped then. To one that runs SIGCONT does nothing."""

    def go_on(number: int, frame: FrameType | None) -> None:
        if os.getppid() == parent:
            with suppress(OSError):
                os.kill(parent, signal.SIGCONT)

    signal.signal(signal.SIGALRM, go_on)
    signal.setitimer(signal.ITIMER_REAL, seconds)


class GuardianWatch:
    """What the child knows: reads the pipe to its end, and lets the time run out. ``key``: the M_Key that came.
    ``options``: those that name the port that its parent opened. *ends_in*: told how long the parent waits from now on.
    """

    def __init__(
        self,
        is_unconfirmed: AsksForStart,
        now: Callable[[], float],
        sleep: Callable[[float], None],
        ends_in: Callable[[float], None],
    ) -> None:
        self._is_unconfirmed, self._now, self._sleep, self._ends_in = is_unconfirmed, now, sleep, ends_in
        self.key = ""
        self.options = list[str]()

    def listen(self, lines: Iterable[str], seconds: float) -> GuardedStart | None:
        """Return the start of an operation that must be rolled back. None: nothing began, or it was confirmed."""
        guarded: GuardedStart | None = None
        began_waiting: float | None = None
        for line in lines:
            word, _, value = line.strip().partition(" ")
            if word == "over":
                return None
            if word == "key":
                self.key = value
            elif word == "port":
                ca, _, number = value.rpartition(" ")
                self.options = [f"--Ca={ca}", f"--Port={number}"]
            elif word == "began":
                guarded = GuardedStart(*map(int, value.split()))
            elif word == "waiting":
                began_waiting = self._now()
                self._ends_in(seconds)
        if guarded is None:
            return None
        deadline = (self._now() if began_waiting is None else began_waiting) + seconds
        while self._is_unconfirmed(*guarded):
            left = deadline - self._now()
            if left <= 0:
                return guarded
            self._sleep(min(left, POLL))
        return None


def go_back(
    command: list[str],
    operation: int,
    key: str,
    wanted: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Start *command* as long as it is *wanted*. *key*: the M_Key that was typed, which reaches it as a file in
    memory. No variable sets an option of it: one that its parent did not need or overrode, such as ``IBKEYS_FORMAT``,
    may be wrong for this command, and each attempt would fail unseen."""
    pause, longest_pause = PAUSES
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_SETS_OPTIONS)}
    for _ in range(TRIES):
        if not wanted():  # it may have been confirmed in the pause
            return
        descriptors: list[int] = []
        if key:
            descriptor = os.memfd_create("m_key")
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, key.encode())
            descriptors.append(descriptor)
        secret = [f"--m_key=@/proc/self/fd/{each}" for each in descriptors]
        with suppress(subprocess.TimeoutExpired):
            words = [*command, str(operation), *secret]
            subprocess.run(words, env=environment, pass_fds=descriptors, timeout=LONGEST)
        for each in descriptors:
            os.close(each)
        if not wanted():
            return
        sleep(pause)
        pause = min(2 * pause, longest_pause)
