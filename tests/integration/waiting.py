"""An ibkeys through OpenSM or UFM that waits for its confirmation, and the child that it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tests.integration.ibsim import RUN_TIMEOUT, Ibsim

ENDING = "unless confirmed"


def by_method(words: Sequence[str | Path], via: str = "opensm") -> list[str | Path]:
    """Return a command by a method; one that goes on with an operation knows it."""
    return [*words] if words[0] in ("resume", "undo") else [*words, "--via", via]


class Waiting:
    """An ibkeys that waits for a confirmation. Its end, and that of the child that it leaves, closes a pipe."""

    def __init__(self, served: Ibsim, *words: str | Path, typed: str = "", via: str = "opensm") -> None:
        """*typed*: what it reads from its standard input; *via*: the way that it goes."""
        self.end, kept = os.pipe()
        self.said = ""
        self.process = subprocess.Popen(
            served.arguments(served.ibkeys_command(*by_method(words, via), "--yes")),
            cwd=served.folder,
            env=served.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[kept],
        )
        os.close(kept)
        assert self.process.stdin is not None
        with self.process.stdin as stdin:
            stdin.write(typed)

    def hear(self, words: str = ENDING, answer: Callable[[str], None] = lambda line: None) -> None:
        """Wait until it says *words*; *answer* does what a line asks for."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            answer(line)
            if words in line:
                return
        raise AssertionError(self.said)

    def die_with_child(self) -> None:
        """Kill it and its child: then nobody goes back, or tries to."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert children, self.said
        os.kill(self.process.pid, signal.SIGKILL)
        for pid in map(int, children):
            with suppress(ProcessLookupError):  # an ssh ends by itself once nobody reads from it
                os.kill(pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Return its exit code, when the child that it leaves has ended too."""
        assert self.process.stderr is not None
        self.said += self.process.stderr.read()
        code = self.process.wait(RUN_TIMEOUT)
        with os.fdopen(self.end) as end:
            end.read()
        self.process.stderr.close()
        return code
