"""The files of another host, read by a small shell program there: `HostFiles` through ssh. Nothing has to be installed.

First the program (`host_reader.sh`) is sent over standard input, and then one question at a time. The contents of files
come back through a pipe, which no other process can read, so an options file with keys can be read too. An invalid
answer ends the conversation.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import HostTime
from ibkeys.managers.elsewhere.channel import Channel
from ibkeys.managers.elsewhere.conversation import MOST_LINES, Conversation, OpenChannel, encode_path
from ibkeys.simulated_host import SimulatedHost

READY: Final = b"ibkeys-host-reader-1"
MOST_PROCESSES: Final = 4096
_BYTES_IN_LINE: Final = 16
"""The number of bytes of a file in one line of an answer, as od prints them."""
MOST_BYTES: Final = files.LIST
"""The most bytes that are read of one file of another host."""
_REASONS: Final = {
    b"! absent": (errno.ENOENT, "No such file or directory"),
    b"! denied": (errno.EACCES, "Permission denied"),
    b"! no file": (errno.EINVAL, "is not a regular file"),
    b"! failed": (errno.EIO, "cannot be read"),
}
_FRACTION: Final = re.compile(r":\d\d(?:\.(\d{1,9}))?(?: |$|\|)")


def program() -> str:
    """Return the program that runs on the other host."""
    return resources.files("ibkeys.managers.elsewhere").joinpath("host_reader.sh").read_text()


class RemoteFiles(Conversation):
    """The files of another host, as `HostFiles`. Use it as a context manager: the connection ends at the end of the
    block.

    ``simulated_host``: the simulated host to which it connects, set by the code that opens it; None for a real host.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        open_channel: OpenChannel = Channel,
    ) -> None:
        """Connect to the host *name*. *command*: starts a shell there, with only the variables of *environment*. Raises
        HostNotReached."""
        super().__init__(name, command, environment, program(), READY, open_channel)
        self.simulated_host: SimulatedHost | None = None

    def read(self, path: Path, limit: int) -> bytes:
        """Return all bytes of a regular file. Raises OSError for one with more than *limit* bytes, or more than
        `MOST_BYTES`."""
        limit = min(limit, MOST_BYTES)
        data = self.hex(self._ask("content", path, limit, 4 * limit))
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"more than {limit} bytes, the limit for such a file")
        return data

    def stat(self, path: Path) -> FileFact:
        """Return the facts of a file or directory without opening it; symbolic links are followed."""
        match self._ask("status", path):
            case [first, real, *above]:
                return self._fact(path, first, self._parents(real, above))
        self.end("its answer is invalid (status of a file)")

    def _fact(self, path: Path, line: str, parents: tuple[tuple[Path, int, int], ...]) -> FileFact:
        match line.split(" ", 8):
            case [mode, uid, gid, size, device, inode, written, changed, times]:
                fractions = [float(f"0.{each or 0}") for each in _FRACTION.findall(times)]
                if len(fractions) != 2:
                    self.end("its answer is invalid (times of a file)")
                seconds = [self.time(each) + part for each, part in zip((written, changed), fractions, strict=True)]
                return FileFact(
                    path,
                    self.mode(mode),
                    self.number(uid),
                    self.number(gid),
                    datetime.fromtimestamp(seconds[0], UTC),
                    parents,
                    seconds[0],
                    seconds[1],
                    self.number(size),
                    (self.number(device), self.number(inode)),
                )
        self.end("its answer is invalid (status of a file)")

    def _parents(self, real: str, lines: Sequence[str]) -> tuple[tuple[Path, int, int], ...]:
        """Return path, mode and owner of each directory above a file, from the nearest. *real*: the file's path in hex;
        *lines*: mode and owner of each."""
        paths = Path(os.fsdecode(self.hex([real]))).parents
        facts = [line.split(" ") for line in lines]
        if len(facts) != len(paths) or any(len(each) != 2 for each in facts):
            self.end("its answer is invalid (the directories above a file)")
        return tuple(
            (folder, self.mode(mode), self.number(uid)) for folder, (mode, uid) in zip(paths, facts, strict=True)
        )

    def link(self, path: Path) -> str:
        """Return the target of a symbolic link."""
        return os.fsdecode(self.hex(self._ask("target", path)))

    def names(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        return sorted(self._ask("names", path))

    def processes(self, proc: Path, program: str) -> list[int]:
        """Return the IDs of the processes on the host that are called opensm; *program* is not used."""
        found = self._ask_required("processes", proc)
        if len(found) > MOST_PROCESSES:
            self.end(f"it lists more than {MOST_PROCESSES} processes called opensm")
        return sorted(self.number(Path(each).parent.name) for each in found)

    def clock(self) -> HostTime:
        """Return the time of the host."""
        match " ".join(self._ask_required("clock", Path("/"))).split():
            case [uptime, now]:
                whole, _, part = now.partition(".")
                is_exact = part.isdecimal()  # a date command without nanoseconds prints N or nothing
                seconds = self.time(whole) + (float(f"0.{part}") if is_exact else 0.5)
                up, _, hundredths = uptime.partition(".")
                booted = self.time(up) + (float(f"0.{hundredths}") if hundredths.isdecimal() else 0.0)
                return HostTime(seconds, booted, 0.05 if is_exact else 1.0)
        self.end("its answer is invalid (time)")

    def own_user(self) -> int:
        """Return the user ID with which the program on the host reads files."""
        return self.number("".join(self._ask_required("user", Path("/"))))

    def _ask(self, question: str, path: Path, limit: int = 0, most_bytes: int = files.SETTINGS) -> list[str]:
        """Ask the program about *path*, and return the lines of the answer. *limit*: the most bytes of the file's
        contents; *most_bytes*: the most bytes of the answer. Raises OSError if the host answers that it cannot read the
        file."""
        text = encode_path(path)
        most_lines = MOST_LINES + limit // _BYTES_IN_LINE
        lines, last = self.ask(b"%s %d %s" % (question.encode(), limit, text), most_bytes, most_lines)
        if last in _REASONS:
            raise OSError(*_REASONS[last])
        if last != b".":
            self.end("its answer is invalid")
        return lines

    def _ask_required(self, question: str, path: Path) -> list[str]:
        """Return the lines of the answer to a question that every host can answer. Raises HostNotReached if the host
        answers that it cannot."""
        try:
            return self._ask(question, path)
        except OSError as error:
            self.end(f"its answer is invalid ({question}: {error.strerror})")
