"""A conversation with a small shell program on another host: one question, one answer, with limits on time and size.

First the program is sent over standard input to a shell on the host, and then one question at a time. An invalid answer
ends the conversation: `HostNotReached`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, NoReturn

from ibkeys import files
from ibkeys.closing import Closing
from ibkeys.errors import HostNotReached
from ibkeys.managers.elsewhere.answer_limits import HOST_BYTES, HOST_SECONDS, AnswerUsage
from ibkeys.managers.elsewhere.channel import Channel, ChannelBroken
from ibkeys.printable import clean

START_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 20.0
MOST_LINES: Final = 1 << 16
LONGEST_PATH: Final = 4096
_BANNER: Final = 1 << 16
"""The most bytes that a login shell may print before the program prints its first line."""
_MOST_CHARACTERS: Final = 300
_LAST_SECOND: Final = 250_000_000_000
"""The latest valid time in seconds since 1970, in the year 9892. Python's last year is 9999."""
_LAST_MODE: Final = 0xFFFF_FFFF
OpenChannel = Callable[[Sequence[str], Mapping[str, str]], Channel]


class Conversation(Closing):
    """A connection to a running program on the host ``name``. Use it as a context manager: the connection ends at the
    end of the block. Every method that reads an answer raises HostNotReached for an invalid one."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        program: str,
        ready: bytes,
        open_channel: OpenChannel = Channel,
    ) -> None:
        """Connect to the host *name* and start a program there. *command*: starts a shell on the host, with only the
        variables of *environment*; *program*: the text of the program; *ready*: the first line that it prints.

        Raises HostNotReached.
        """
        self.name = name
        self._spending = AnswerUsage()
        self._is_over = False
        with ExitStack() as stack:
            try:
                self.channel = stack.enter_context(open_channel(command, environment))
                self.channel.send(program.encode(), START_SECONDS)
                self.channel.lines(START_SECONDS, _BANNER, _BANNER, lambda line: line == ready)
            except ChannelBroken as broken:
                self.end(str(broken))
            stack.pop_all()

    def close(self) -> None:
        """End the connection. May be called twice."""
        self.channel.close()

    def ask(
        self, question: bytes, most_bytes: int = files.SETTINGS, most_lines: int = MOST_LINES, more: bytes = b""
    ) -> tuple[list[str], bytes]:
        """Ask *question*, a line of text, and return the lines of the answer and the line that ends it. *most_bytes*,
        *most_lines*: the limits on the answer; *more*: bytes to send after the question. Raises HostNotReached."""
        if self._is_over:  # a late answer to an earlier question would be taken for the answer to this one
            self.end("it was given up earlier")
        seconds = min(self._spending.seconds_left(), ANSWER_SECONDS)
        if seconds <= 0:
            self.end(f"it took more than {HOST_SECONDS:.0f} seconds altogether")
        if self._spending.is_over_size():
            self.end(f"it sent more than {HOST_BYTES // files.MIB} MiB altogether")
        try:
            if self.channel.has_unread_output():
                self.end("it sent something before any request")
            self.channel.send(b"%s\n%s" % (question, more), seconds)
            *lines, last = self.channel.lines(seconds, most_bytes + _BANNER, most_lines, lambda line: line[:1] != b" ")
        except ChannelBroken as broken:
            self.end(str(broken))
        self._spending.count_answer(sum(map(len, lines)))
        return [os.fsdecode(line[1:]) for line in lines], last

    def hex(self, lines: Sequence[str]) -> bytes:
        """Parse lines of hexadecimal digits, and return their bytes."""
        try:
            return bytes.fromhex(" ".join(lines))
        except ValueError:
            self.end("its answer is invalid (bytes of a file)")

    def number(self, text: str, base: int = 10) -> int:
        """Parse a number in decimal, or in hexadecimal for *base* 16."""
        digits = r"[0-9]{1,20}" if base == 10 else r"[0-9a-fA-F]{1,20}"
        if not re.fullmatch(digits, text):
            self.end("its answer is invalid (a number)")
        return int(text, base)

    def mode(self, text: str) -> int:
        """Parse a file's mode in hexadecimal, and return its permission bits."""
        return stat.S_IMODE(self.kind_and_mode(text))

    def kind_and_mode(self, text: str) -> int:
        """Parse a file's mode in hexadecimal, and return all of it: the permission bits and the kind of file."""
        mode = self.number(text, 16)
        if mode > _LAST_MODE:
            self.end("its answer is invalid (a mode)")
        return mode

    def time(self, text: str) -> int:
        """Parse a time in seconds since 1970."""
        seconds = self.number(text)
        if seconds > _LAST_SECOND:
            self.end("its answer is invalid (a time)")
        return seconds

    def end(self, what: str) -> NoReturn:
        """Let no question be asked any more, and raise HostNotReached. Its message has the reason *what*, and the last
        line of standard error from the host."""
        self._is_over = True
        last_error_line = clean(self.channel.last_error_line())[:_MOST_CHARACTERS] if hasattr(self, "channel") else ""
        why = f"{what}{f': {last_error_line}' if last_error_line else ''}"
        raise HostNotReached(f"host {self.name}: {why}", self.name, why) from None


def encode_path(path: os.PathLike[str]) -> bytes:
    """Return *path* as bytes for the end of a question. Raises OSError for a path that a question cannot have: a
    relative or very long one, or one with a newline or NUL."""
    text = os.fsencode(path)
    if not text.startswith(b"/") or b"\n" in text or b"\0" in text or len(text) > LONGEST_PATH:
        raise OSError(errno.EINVAL, "a name that cannot be asked for")
    return text
