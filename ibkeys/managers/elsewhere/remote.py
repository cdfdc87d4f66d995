"""Another host's files, read by a small shell program there: `HostFiles` through ssh. Nothing has to be installed.

The program (`host_reader.sh`) goes over standard input, and then one question at a time. Contents come back over the
same pipe, also those of an options file with keys in it, which no other process can read. An invalid answer ends the
conversation.
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
"""Bytes of a file in a line of its contents."""
MOST_BYTES: Final = files.LIST
"""The most bytes of one file, so also the most that a policy of another host may have."""
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
    """A `HostFiles` of another host. Use it as a context manager: the connection ends on the way out.

    ``simulated_host``: the simulated host that it is, which whoever opens it sets; None for a real one.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        open_channel: OpenChannel = Channel,
    ) -> None:
        """Reach the host *name* by *command*, which starts a shell there. Raises HostNotReached."""
        super().__init__(name, command, environment, program(), READY, open_channel)
        self.simulated_host: SimulatedHost | None = None

    # --- HostFiles ---------------------------------------------------------------------------------------------------

    def read(self, path: Path, limit: int) -> bytes:
        """Return all of a regular file."""
        limit = min(limit, MOST_BYTES)
        data = self.hex(self._ask("content", path, limit, 4 * limit))
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"more than {limit} bytes, the limit for such a file")
        return data

    def stat(self, path: Path) -> FileFact:
        """Return the facts of a file that can be read without opening it."""
        first, *above = self._ask("status", path) or [""]
        match first.split(" ", 8):
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
                    tuple(map(self._parent, above)),
                    seconds[0],
                    seconds[1],
                    self.number(size),
                    (self.number(device), self.number(inode)),
                )
        self.end("its answer is invalid (status of a file)")

    def link(self, path: Path) -> str:
        """Return where a symbolic link leads to."""
        return os.fsdecode(self.hex(self._ask("target", path)))

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory."""
        return sorted(self._ask("names", path))

    def processes(self, proc: Path, program: str) -> list[int]:
        """Return the processes there whose program is called opensm."""
        found = self._ask_for_sure("processes", proc)
        if len(found) > MOST_PROCESSES:
            self.end(f"it lists more than {MOST_PROCESSES} processes called opensm")
        return sorted(self.number(Path(each).parent.name) for each in found)

    def clock(self) -> HostTime:
        """Return the time of that host."""
        match " ".join(self._ask_for_sure("clock", Path("/"))).split():
            case [uptime, now]:
                whole, _, part = now.partition(".")
                is_exact = part.isdecimal()  # a date command without nanoseconds prints N or nothing
                seconds = self.time(whole) + (float(f"0.{part}") if is_exact else 0.5)
                up, _, hundredths = uptime.partition(".")
                booted = self.time(up) + (float(f"0.{hundredths}") if hundredths.isdecimal() else 0.0)
                return HostTime(seconds, booted, 0.05 if is_exact else 1.0)
        self.end("its answer is invalid (time)")

    def own_user(self) -> int:
        """Return the user ID that the program on that host reads files with."""
        return self.number("".join(self._ask_for_sure("user", Path("/"))))

    # --- asking ------------------------------------------------------------------------------------------------------

    def _ask(self, question: str, path: Path, limit: int = 0, most_bytes: int = files.SETTINGS) -> list[str]:
        """Return the lines of an answer. Raises OSError for a file that the host answers it cannot read."""
        text = encode_path(path)
        most_lines = MOST_LINES + limit // _BYTES_IN_LINE
        lines, last = self.ask(b"%s %d %s" % (question.encode(), limit, text), most_bytes, most_lines)
        if last in _REASONS:
            raise OSError(*_REASONS[last])
        if last != b".":
            self.end("its answer is invalid")
        return lines

    def _ask_for_sure(self, question: str, path: Path) -> list[str]:
        """Return the lines of the answer to a question that every host can answer."""
        try:
            return self._ask(question, path)
        except OSError as error:
            self.end(f"its answer is invalid ({question}: {error.strerror})")

    def _parent(self, line: str) -> tuple[Path, int, int]:
        match line.split(" ", 2):
            case [mode, uid, name]:
                return Path(os.fsdecode(self.hex([name]))), self.mode(mode), self.number(uid)
        self.end("its answer is invalid (a directory)")
