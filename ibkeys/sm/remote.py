"""Another host's files, read by a small shell program there: `HostFiles` through ssh. Nothing has to be installed.

The program (`host_reader.sh`) goes over standard input, and then one question at a time. Contents come back over the
same pipe: also an options file with keys in it, which nobody but this process sees. An answer that the program cannot
have given ends the conversation.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Final, NoReturn, Self

from ibkeys import files
from ibkeys.errors import HostNotReached
from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import Clock
from ibkeys.printable import clean
from ibkeys.sm.channel import Channel, ChannelBroken

READY: Final = b"ibkeys-host-reader-1"
START_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 20.0
HOST_SECONDS: Final = 300.0
HOST_BYTES: Final = 256 * files.MIB
"""Most time and most bytes for all answers of one host."""
MOST_PROCESSES: Final = 4096
_MOST_LINES: Final = 1 << 16
_BYTES_IN_LINE: Final = 16
"""Bytes of a file in a line of its contents."""
_LONGEST_PATH: Final = 4096
MOST_BYTES: Final = files.LIST
"""Of one file: a policy of another host may be that long."""
_BANNER: Final = 1 << 16
"""Bytes that a login shell may say before the program does."""
_MOST_WORDS: Final = 300
_LAST_SECOND: Final = 250_000_000_000
"""In the year 9892. What lies behind the year 9999 is no time to Python."""
_LAST_MODE: Final = 0xFFFF_FFFF
_REASONS: Final = {
    b"! absent": (errno.ENOENT, "No such file or directory"),
    b"! denied": (errno.EACCES, "Permission denied"),
    b"! no file": (errno.EINVAL, "is no regular file"),
    b"! failed": (errno.EIO, "cannot be read"),
}
_FRACTION: Final = re.compile(r":\d\d(?:\.(\d{1,9}))?(?: |$|\|)")


def program() -> str:
    """Return the program that runs on the other host."""
    return resources.files("ibkeys.sm").joinpath("host_reader.sh").read_text()


class RemoteFiles:
    """A `HostFiles` of another host. Use it as a context manager: the connection ends on the way out."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        open_channel: Callable[[Sequence[str], Mapping[str, str]], Channel] = Channel,
    ) -> None:
        """Reach the host *name* by *command*, which starts a shell there. Raises HostNotReached."""
        self._name = name
        self._deadline = time.monotonic() + HOST_SECONDS
        self._bytes = 0
        with ExitStack() as stack:
            try:
                self._channel = stack.enter_context(open_channel(command, environment))
                self._channel.send(program().encode(), START_SECONDS)
                self._channel.lines(START_SECONDS, _BANNER, _BANNER, lambda line: line == READY)
            except ChannelBroken as broken:
                self._break(str(broken))
            stack.pop_all()

    @property
    def name(self) -> str:
        """The host's name as the user gave it."""
        return self._name

    def close(self) -> None:
        """End the connection. May be called twice."""
        self._channel.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the connection."""
        self.close()

    # --- HostFiles ---------------------------------------------------------------------------------------------------

    def read(self, path: Path, limit: int) -> bytes:
        """Return all of a regular file."""
        limit = min(limit, MOST_BYTES)
        data = self._hex(self._ask("content", path, limit, 4 * limit))
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"more than {limit} bytes, which no such file has")
        return data

    def stat(self, path: Path) -> FileFact:
        """Return what can be told of a file from outside."""
        first, *above = self._ask("status", path) or [""]
        match first.split(" ", 8):
            case [mode, uid, gid, size, device, inode, written, changed, times]:
                fractions = [float(f"0.{each or 0}") for each in _FRACTION.findall(times)]
                if len(fractions) != 2:
                    self._break("its answer makes no sense (times of a file)")
                seconds = [self._time(each) + part for each, part in zip((written, changed), fractions, strict=True)]
                return FileFact(
                    path,
                    self._mode(mode),
                    self._number(uid),
                    self._number(gid),
                    datetime.fromtimestamp(seconds[0], UTC),
                    tuple(map(self._parent, above)),
                    seconds[0],
                    seconds[1],
                    self._number(size),
                    (self._number(device), self._number(inode)),
                )
        self._break("its answer makes no sense (status of a file)")

    def link(self, path: Path) -> str:
        """Return where a symbolic link leads to."""
        return os.fsdecode(self._hex(self._ask("target", path)))

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory."""
        return sorted(self._ask("names", path))

    def processes(self, proc: Path, program: str) -> list[int]:
        """Return the processes there whose program is called opensm."""
        found = self._ask_for_sure("processes", proc)
        if len(found) > MOST_PROCESSES:
            self._break(f"it lists more than {MOST_PROCESSES} processes called opensm")
        return sorted(self._number(Path(each).parent.name) for each in found)

    def clock(self) -> Clock:
        """Return the time of that host."""
        match " ".join(self._ask_for_sure("clock", Path("/"))).split():
            case [uptime, now]:
                whole, _, part = now.partition(".")
                is_exact = part.isdecimal()  # a date without nanoseconds says N or nothing
                seconds = self._time(whole) + (float(f"0.{part}") if is_exact else 0.5)
                up, _, hundredths = uptime.partition(".")
                booted = self._time(up) + (float(f"0.{hundredths}") if hundredths.isdecimal() else 0.0)
                return Clock(seconds, booted, 0.05 if is_exact else 1.0)
        self._break("its answer makes no sense (time)")

    def own_user(self) -> int:
        """Return the user ID that reads there."""
        return self._number("".join(self._ask_for_sure("user", Path("/"))))

    # --- asking ------------------------------------------------------------------------------------------------------

    def _ask(self, question: str, path: Path, limit: int = 0, most_bytes: int = files.SETTINGS) -> list[str]:
        """Return the lines of an answer. Raises OSError for what the host says it cannot read."""
        text = os.fsencode(path)
        if not path.is_absolute() or b"\n" in text or b"\0" in text or len(text) > _LONGEST_PATH:
            raise OSError(errno.EINVAL, "a name that cannot be asked for")
        seconds = min(self._deadline - time.monotonic(), ANSWER_SECONDS)
        if seconds <= 0:
            self._break(f"it took more than {HOST_SECONDS:.0f} seconds altogether")
        if self._bytes > HOST_BYTES:
            self._break(f"it said more than {HOST_BYTES // files.MIB} MiB altogether")
        most_lines = _MOST_LINES + limit // _BYTES_IN_LINE
        try:
            if self._channel.is_ahead():
                self._break("it said something before it was asked")
            self._channel.send(b"%s %d %s\n" % (question.encode(), limit, text), seconds)
            *lines, last = self._channel.lines(seconds, most_bytes + _BANNER, most_lines, lambda line: line[:1] != b" ")
        except ChannelBroken as broken:
            self._break(str(broken))
        self._bytes += sum(map(len, lines))
        if last in _REASONS:
            raise OSError(*_REASONS[last])
        if last != b".":
            self._break("its answer makes no sense")
        return [os.fsdecode(line[1:]) for line in lines]

    def _ask_for_sure(self, question: str, path: Path) -> list[str]:
        """Return the lines of an answer that every host can give."""
        try:
            return self._ask(question, path)
        except OSError as error:
            self._break(f"its answer makes no sense ({question}: {error.strerror})")

    def _hex(self, lines: Sequence[str]) -> bytes:
        try:
            return bytes.fromhex(" ".join(lines))
        except ValueError:
            self._break("its answer makes no sense (bytes of a file)")

    def _parent(self, line: str) -> tuple[Path, int, int]:
        match line.split(" ", 2):
            case [mode, uid, name]:
                return Path(os.fsdecode(self._hex([name]))), self._mode(mode), self._number(uid)
        self._break("its answer makes no sense (a directory)")

    def _number(self, text: str, base: int = 10) -> int:
        if not re.fullmatch(r"[0-9a-fA-F]{1,20}", text):
            self._break("its answer makes no sense (a number)")
        try:
            return int(text, base)
        except ValueError:
            self._break("its answer makes no sense (a number)")

    def _mode(self, text: str) -> int:
        mode = self._number(text, 16)
        if mode > _LAST_MODE:
            self._break("its answer makes no sense (a mode)")
        return stat.S_IMODE(mode)

    def _time(self, text: str) -> int:
        seconds = self._number(text)
        if seconds > _LAST_SECOND:
            self._break("its answer makes no sense (a time)")
        return seconds

    def _break(self, what: str) -> NoReturn:
        said = clean(self._channel.last_words())[:_MOST_WORDS] if hasattr(self, "_channel") else ""
        raise HostNotReached(f"host {self._name}: {what}{f': {said}' if said else ''}", self._name) from None
