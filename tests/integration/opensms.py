"""Starting OpenSMs that go on: each with a folder of its own for its cache and its dumps, heard through its log."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.integration.ibsim import RUN_TIMEOUT, Ibsim

POLLING = "sweep_interval 0\nsminfo_polling_timeout 500\npolling_retry_number 2\n"
"""Options of an OpenSM that sweeps when it is told to, and notices soon that the master has gone."""


class Log:
    """The lines that a program prints, as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._stream = process.stdout
        self._news = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._stream or ():
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait(self, pattern: str, after: int = 0, timeout: float = RUN_TIMEOUT) -> str:
        """Return the first line from number *after* on in which *pattern* is found."""
        deadline, seen = time.monotonic() + timeout, after
        with self._news:
            while True:
                for line in self.lines[seen:]:
                    if re.search(pattern, line):
                        return line
                seen = len(self.lines)
                left = deadline - time.monotonic()
                waiting = not self._ended and left > 0
                assert waiting, f"no {pattern!r} in:\n{''.join(self.lines[-25:])}"
                self._news.wait(left)

    def place(self, pattern: str, after: int = 0) -> int:
        """Wait for *pattern*; returns the number of the line."""
        return self.lines.index(self.wait(pattern, after), after)

    def close(self) -> None:
        self._reader.join(RUN_TIMEOUT)
        if self._stream is not None:
            self._stream.close()


def attached(
    served: Ibsim, stack: ExitStack, name: str, command: Sequence[str | Path], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[str], Log]:
    """Start a program that goes on, in a folder of its own that begins with *name*, and return it with what it says;
    it is ended with *stack*. *environment*: beside that of *served*."""
    folder = tempfile.mkdtemp(prefix=f"{name}-", dir=served.folder)
    process = subprocess.Popen(
        served.arguments(command),
        cwd=folder,
        env={**served.environment, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log = Log(process)
    stack.callback(log.close)
    stack.callback(process.wait, RUN_TIMEOUT)
    stack.callback(process.terminate)
    return process, log


def start(
    served: Ibsim, words: Sequence[str | Path], folder: Path, node: str = "", before: Sequence[str] = ()
) -> tuple[subprocess.Popen[str], Log]:
    """Start an OpenSM by its command line *words*; *node*: where it sits; *before*: what stands before them."""
    own = {"OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder), **(served.at(node) if node else {})}
    return listen([*before, *served.arguments(words)], folder, {**served.environment, **own})


def start_with(served: Ibsim, conf: str) -> tuple[subprocess.Popen[str], Log]:
    """Start an OpenSM with the options *conf*; its key files are where *served* has its cache."""
    words = served.opensm_arguments(conf, extra=("-f", "stdout", "-D", "0x07"))
    return listen(served.arguments(words), served.folder, {**served.environment, **served.opensm_environment})


def sweep(process: subprocess.Popen[str], log: Log) -> None:
    """Let an OpenSM read its files and sweep, and wait until that is done.

    The files of a sweep are written after its "SUBNET UP", and a sweep may follow the one that first says so. After
    this one there is nothing left to do.
    """
    before = len(log.lines)
    process.send_signal(signal.SIGHUP)
    log.wait("SUBNET UP", log.place("INITIATING HEAVY SWEEP", before))


def listen(
    arguments: Sequence[str], folder: str | Path, environment: dict[str, str]
) -> tuple[subprocess.Popen[str], Log]:
    """Start a program in *folder*, and listen to all that it says."""
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return process, Log(process)


class NodesOpensm:
    """An OpenSM on *node* with files of its own, one of several. It is killed when *stack* ends.

    ``log`` is what it says, ``policy`` its policy file, ``conf`` its options file, ``words`` its command line,
    ``cache`` where it keeps its key files. *guid*: the port that it is told to use; *options*: more lines of its
    options file; *key_files*: the folder of which it gets a copy of the key files.
    """

    def __init__(
        self,
        served: Ibsim,
        node: str,
        priority: int,
        stack: ExitStack,
        policy: str = "",
        guid: int | None = None,
        options: str = "",
        key_files: Path | None = None,
    ) -> None:
        self.cache = folder = served.folder / node.partition(" ")[0]
        folder.mkdir()
        self.node, self.policy = node, folder / "partitions.conf"
        self.conf, self._options = folder / "opensm.conf", options
        self.write_priority(priority)
        self.policy.write_text(policy)
        for path in key_files.glob("guid2mkey") if key_files is not None else ():
            shutil.copy(path, folder)
        told = ["-g", f"{guid:#x}"] if guid is not None else []
        self.words = ["opensm", "-F", self.conf, "-P", self.policy, *told, "-f", "stdout", "-D", "0x07"]
        self.process, self.log = start(served, self.words, folder, node)
        stack.callback(self.log.close)
        stack.callback(self.process.wait, RUN_TIMEOUT)
        stack.callback(self.process.kill)

    def write_priority(self, priority: int) -> None:
        """Put *priority* into its options file."""
        self.conf.write_text(f"sm_priority {priority}\n{POLLING}{self._options}")

    def place(self, pattern: str, after: int = 0) -> int:
        """Wait for *pattern* in its log; returns the number of the line."""
        return self.log.place(pattern, after)

    def sweep(self) -> None:
        """Let it sweep, and wait until that is done."""
        sweep(self.process, self.log)
