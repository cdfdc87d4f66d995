"""The guardian: a child process that rolls a change back when the process that waits for its confirmation dies.

A command with ``--confirm-within`` waits for a confirmation itself, and rolls back itself. But the change may cut the
connection over which the command runs, and so kill it. Therefore it starts a child in a separate session before it
opens the fabric. The child holds one end of a pipe and no terminal. When the pipe closes without a final message, the
child waits for the remaining time and then runs the rollback command (for ``apply`` that is ``ibkeys undo``).

A waiting process that was stopped by SIGSTOP is alive, holds the locks, and rolls nothing back. When the time is over,
the child sends it SIGCONT; it goes on and rolls back itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Final, NamedTuple, NoReturn

from ibkeys.keys.mkey import MKey
from ibkeys.simulated_host import OF_THE_HOST

POLL: Final = 0.5
"""Seconds between two reads of the journal for a confirmation."""
TRIES: Final = 60
"""Most starts of the rollback command, which fails while another changing command holds the lock or the fabric does not
answer. With `PAUSES` they last about an hour: a command that waits for its own confirmation holds the lock so long."""
LONGEST_ATTEMPT: Final = 1800.0
"""Most seconds for one attempt: a driver that does not answer must not block the rollback forever."""
PAUSES: Final = 2.0, 60.0
"""Seconds between two attempts: the first pause, which is doubled each time, and the longest."""
_SETS_OPTIONS: Final = "IBKEYS_"
"""The prefix of the environment variables that set options of ibkeys commands."""


def seconds_since_boot() -> float:
    """Return the seconds of a clock that runs on while this process is stopped or this host is suspended
    (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class GuardedStart(NamedTuple):
    """One start of an operation that the child guards, counted from 1. A later start of the same operation has a guard
    of its own, or none."""

    operation: int
    start: int = 1


MustRollBack = Callable[[int, int], bool]
"""A function that gets an operation and its start, and returns whether that start has to be rolled back."""


class Guardian:
    """The guardian, as its parent uses it. M_Keys reach it through the pipe only.

    *command*: the rollback command, without the operation and the M_Key. *is_unconfirmed*: returns whether a start of
    an operation will be rolled back unless it is confirmed in time; called in the parent and in the child. *seconds*:
    the time limit for the confirmation. *block_confirmation*: called in the child before and after each start of
    *command*, in place of *is_unconfirmed*. *closes_files*: the child closes all files that this process has open.
    Without it, a fabric that is already open stays locked as long as the child lives.
    """

    def __init__(
        self,
        command: Sequence[str],
        is_unconfirmed: MustRollBack,
        seconds: float,
        block_confirmation: MustRollBack | None = None,
        closes_files: bool = False,
    ) -> None:
        self._is_unconfirmed = is_unconfirmed
        self._guarded: GuardedStart | None = None
        reader, self._writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._writer)  # else the pipe would never close
            if closes_files:
                os.closerange(3, reader)
                os.closerange(reader + 1, os.sysconf("SC_OPEN_MAX"))
            _run_child(reader, list(command), is_unconfirmed, block_confirmation or is_unconfirmed, seconds)
        os.close(reader)

    def send(self, word: str, value: object = "") -> None:
        """Send the child a message: ``key`` KEY, ``port`` CA NUMBER, ``began`` ID START, ``waiting``, ``over``. Does
        nothing if the child has ended."""
        with suppress(OSError):  # Without the child this process still rolls the change back.
            os.write(self._writer, f"{word} {value}\n".encode())

    def send_start(self, operation: int, start: int = 1) -> None:
        """Send the child the number of the *operation*, and of its start, that may have to be rolled back."""
        self._guarded = GuardedStart(operation, start)
        self.send("began", f"{operation} {start}")

    def send_key(self, key: MKey | None) -> None:
        """Send the child the M_Key that the user typed, for the rollback command."""
        if key is not None:
            self.send("key", f"0x{key.reveal():016x}")

    def send_port(self, ca: str, port: int) -> None:
        """Send the child the local port that is open here, for the rollback command. Without -C and -P that command
        would take the first active port, which may be another one, since the change may have brought a link down."""
        self.send("port", f"{ca} {port}")

    def close(self) -> bool:
        """Close the pipe, and return whether the child goes on and rolls the change back. If there is nothing to roll
        back, because the change was confirmed or is rolled back already, wait until the child has ended."""
        if self._guarded is None or not self._is_unconfirmed(*self._guarded):
            self.send("over")
            os.close(self._writer)
            os.waitpid(self._pid, 0)
            return False
        os.close(self._writer)
        return True


def _run_child(
    reader: int,
    command: list[str],
    is_unconfirmed: MustRollBack,
    block_confirmation: MustRollBack,
    seconds: float,
) -> NoReturn:
    """Run the child: wait, and roll the change back if it is not confirmed in time. Never returns: the child process
    ends here."""
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
            run_rollback([*command, *watch.options], guarded.operation, watch.key, lambda: block_confirmation(*guarded))
        code = 0
    finally:
        os._exit(code)


def _continue_later(parent: int, seconds: float) -> None:
    """Send *parent* SIGCONT in *seconds*, in case it is stopped then. A running process ignores SIGCONT."""

    def go_on(number: int, frame: FrameType | None) -> None:
        if os.getppid() == parent:
            with suppress(OSError):
                os.kill(parent, signal.SIGCONT)

    signal.signal(signal.SIGALRM, go_on)
    signal.setitimer(signal.ITIMER_REAL, seconds)


class GuardianWatch:
    """The child's reader of the pipe and timer. ``key``: the M_Key that came through the pipe. ``options``: the options
    that name the port that the parent opened. *on_waiting*: called when the parent begins to wait for the confirmation,
    with the seconds that it waits."""

    def __init__(
        self,
        is_unconfirmed: MustRollBack,
        now: Callable[[], float],
        sleep: Callable[[float], None],
        on_waiting: Callable[[float], None],
    ) -> None:
        self._is_unconfirmed, self._now, self._sleep, self._on_waiting = is_unconfirmed, now, sleep, on_waiting
        self.key = ""
        self.options = list[str]()

    def listen(self, lines: Iterable[str], seconds: float) -> GuardedStart | None:
        """Read *lines* to the end, wait for the time limit, and return the start that must be rolled back; None if
        nothing began, if the parent sent ``over``, or if no rollback is needed any more."""
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
                self._on_waiting(seconds)
        if guarded is None:
            return None
        deadline = (self._now() if began_waiting is None else began_waiting) + seconds
        while self._is_unconfirmed(*guarded):
            left = deadline - self._now()
            if left <= 0:
                return guarded
            self._sleep(min(left, POLL))
        return None


def run_rollback(
    command: list[str],
    operation: int,
    key: str,
    is_needed: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Start the rollback *command* until *is_needed* returns False, at most `TRIES` times. *key*: the M_Key that was
    typed; it reaches the command as a file in memory.

    No environment variable sets an option of the command: a variable that the parent overrode, such as
    ``IBKEYS_FORMAT``, may be wrong for this command, and each attempt would fail unseen. Those of a simulated host are
    kept: without them the command would find no fabric there.
    """
    pause, longest_pause = PAUSES
    environment = {
        name: value for name, value in os.environ.items() if name in OF_THE_HOST or not name.startswith(_SETS_OPTIONS)
    }
    for _ in range(TRIES):
        if not is_needed():  # The change may have been confirmed during the pause.
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
            subprocess.run(words, env=environment, pass_fds=descriptors, timeout=LONGEST_ATTEMPT)
        for each in descriptors:
            os.close(each)
        if not is_needed():
            return
        sleep(pause)
        pause = min(2 * pause, longest_pause)
