"""Using the program on another host that changes files there: one question and its answer at a time.

A question has numbers, checksums and names that this process makes, and at its end a path. So nothing in it needs
quoting for a shell.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from ibkeys.errors import FileError
from ibkeys.files import os_errors_as
from ibkeys.managers.elsewhere.conversation import Conversation, encode_path
from ibkeys.printable import clean

READY: Final = b"ibkeys-host-writer-1"
CHUNK: Final = 48 << 10
"""The number of bytes of a file that are sent with one question."""
NOTHING: Final = "-"
"""The word in a question for a value that is not needed, and for checksum and status of a file that does not exist."""
_MOST_REASON: Final = 300
_LAST: Final = re.compile(r"! (changed|unsynced|refused|failed|gone)(?: (.*))?", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z0-9:_.@\\+=-]+")


def program() -> str:
    """Return the text of the program for the other host: the parts in `host_writer/`, in the order of their names."""
    folder = resources.files("ibkeys.managers.machines").joinpath("host_writer")
    parts = {each.name: each.read_text() for each in folder.iterdir() if each.name.endswith(".sh")}
    return "\n".join(parts[name] for name in sorted(parts))


@dataclass(frozen=True, slots=True)
class WriterRefused(Exception):
    """The program on the host refused a request, or a step failed. ``kind``: "changed" (the file is not as it was
    read), "unsynced" (the change was made but not synced to disk), "refused", "failed", or "gone" (there is no such
    guard or lock). ``reason``: the reason in words, or ""."""

    kind: str
    reason: str


def checksum_of(data: bytes | None) -> str:
    """Return the checksum by which the program identifies a file's contents; None stands for no file."""
    return NOTHING if data is None else hashlib.sha256(data).hexdigest()


class HostWriter:
    """Asks the program on another host to change files. Every method raises HostNotReached."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    def ask(self, question: str, *words: str, path: Path = Path("/"), more: bytes = b"") -> list[str]:
        """Ask a question with up to four *words* and a *path*, and return the lines of the answer. *more*: bytes to
        send after it. Raises WriterRefused; FileError for a path that a question cannot have."""
        with os_errors_as(FileError, str(path)):
            text = encode_path(path)
        four_words = [*words, *[NOTHING] * (4 - len(words))]
        assert len(four_words) == 4
        assert all(map(_WORD.fullmatch, four_words)), four_words
        line = b" ".join([question.encode(), *(word.encode() for word in four_words), text])
        lines, last = self.conversation.ask(line, more=more)
        if last == b".":
            return lines
        found = _LAST.fullmatch(os.fsdecode(last))
        if found is None:
            self.conversation.end("its answer is invalid")
        raise WriterRefused(found[1], clean((found[2] or "").strip())[:_MOST_REASON])

    def ask_line(self, question: str, *words: str, path: Path = Path("/")) -> str:
        """Ask a question, as `ask`, and return the only line of the answer. Raises WriterRefused, FileError."""
        lines = self.ask(question, *words, path=path)
        if len(lines) != 1:
            self.conversation.end(f"its answer is invalid ({question})")
        return lines[0]

    def ask_path(self, question: str, path: Path) -> Path:
        """Ask a question about *path*, and return the path in the answer. Raises WriterRefused, FileError."""
        data = self.conversation.hex(self.ask(question, path=path))
        if not data or b"\0" in data:
            self.conversation.end(f"its answer is invalid ({question})")
        return Path(os.fsdecode(data))

    def send(self, question: str, data: bytes, *words: str, path: Path = Path("/")) -> None:
        """Send *data* to the program in as many questions as needed. *words*, *path*: those of each question. Raises
        WriterRefused, FileError."""
        for part in chunks(data):
            text = base64.b64encode(part)
            self.ask(question, str(len(text)), *words, path=path, more=text)


def chunks(data: bytes) -> Iterator[bytes]:
    """Yield *data* in parts of `CHUNK` bytes. For empty data yield one empty part, so that an empty file is made."""
    for start in range(0, max(len(data), 1), CHUNK):
        yield data[start : start + CHUNK]
