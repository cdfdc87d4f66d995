"""Running the user's command for each event, with the event on its standard input, without a shell.

Few commands run at a time, each with a time limit. If too many events wait, further ones get no command.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.printable import counted

AT_ONCE: Final = 4
"""Commands that run at a time."""
LONGEST: Final = 30.0
"""Seconds that one command may take, then it is killed with all processes that it started."""
MOST_WAITING: Final = 256
"""Events that may wait; further ones are only counted."""
DYING: Final = 1.0
"""Seconds to wait for a killed command, so that it cannot block the watch."""
_STDERR: Final = 2
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""The only environment variables passed to the command: others may name key files."""


def split_command(text: str) -> list[str]:
    """Return the words of a command line as a shell would split it; no other shell syntax is interpreted. Raises
    UsageError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"event command: {error}") from None
    if not words:
        raise UsageError("event command: no command is given")
    return words


@dataclass(frozen=True, slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    ends_at: float


class EventCommand:
    """Runs *words* once for each event. Its output goes to standard error. *say*: called once for each kind of failure.

    The caller has to call `tend` repeatedly: it starts waiting commands, and ends commands that take too long.
    ``waiting``: the documents of events whose command was not started yet. ``running``: the commands that run now.
    ``left_out``: the number of events without a command, because too many were waiting.
    """

    def __init__(
        self, words: Sequence[str], say: Callable[[str], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._words, self._say, self._now = list(words), say, now
        self.waiting: deque[bytes] = deque()
        self.running: list[_Running] = []
        self._said: set[str] = set()
        self.left_out = 0

    def give(self, document: str) -> None:
        """Run the command for an event now, or later if too many commands run. *document*: the standard input of the
        command, one line.
        """
        if len(self.waiting) >= MOST_WAITING:
            self.left_out += 1
            self._say_once(
                "left out", f"event command: {MOST_WAITING} events wait for it already; the rest is left out"
            )
            return
        self.waiting.append(document.encode() + b"\n")
        self.tend()

    def tend(self) -> None:
        """Collect commands that ended, kill those that take too long, and start waiting ones."""
        self.running = [running for running in self.running if not self._has_ended(running)]
        while self.waiting and len(self.running) < AT_ONCE:
            self._start(self.waiting.popleft())

    def finish(self, seconds: float = LONGEST) -> None:
        """Start the waiting commands and wait for all of them, at most *seconds*; kill the rest."""
        end = self._now() + seconds
        try:
            while (self.waiting or self.running) and (left := end - self._now()) > 0:
                self.tend()
                if self.running:
                    with suppress(subprocess.TimeoutExpired):
                        self.running[0].process.wait(min(left, 0.1))
        finally:  # also when the user does not want to wait any longer
            for running in self.running:
                _kill(running.process)
            self.running.clear()
        if self.waiting:
            self._say(f"the event command was not run for the last {counted(len(self.waiting), 'event')}")
            self.waiting.clear()

    def _start(self, document: bytes) -> None:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=_STDERR,  # standard output is for the events
                env=environment,
                start_new_session=True,  # Ctrl-C is for the watch, which waits for running commands
            )
        except OSError as error:
            self._say_once("start", f"event command: {self._words[0]}: cannot be started: {error.strerror or error}")
            return
        assert process.stdin is not None
        with suppress(OSError):  # a command need not read its input
            os.write(process.stdin.fileno(), document)  # shorter than a pipe holds, so it never waits
        process.stdin.close()
        self.running.append(_Running(process, self._now() + LONGEST))

    def _has_ended(self, running: _Running) -> bool:
        code = running.process.poll()
        if code is None:
            if self._now() < running.ends_at:
                return False
            _kill(running.process)
            self._say_once("too long", f"event command: {self._words[0]}: was killed after {LONGEST:.0f} s")
            return True
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
            self._say_once(how, f"event command: {self._words[0]}: {how} (later ones are not reported)")
        return True

    def _say_once(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(text)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # it leads a session, so the group has its number
    with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel, as on a lost NFS server, dies later
        process.wait(DYING)
