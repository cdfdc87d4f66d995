"""The program of another host, made up: it answers as `host_reader.sh` does, of a `MadeUpHost`, or as a test says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ibkeys.managers.elsewhere.remote import READY
from tests.managers.hosts import BOOTED, MadeUpHost


class Answering:
    """A `Channel` without a program. *lies*: number of a question → the lines that are its answer."""

    def __init__(self, host: MadeUpHost, lies: Mapping[int, Sequence[bytes]]) -> None:
        self._host = host
        self._lies = lies
        self._next: list[bytes] = []
        self.questions: list[bytes] = []

    def send(self, data: bytes, *_: float) -> None:
        if not data.endswith(b"\n") or data.count(b"\n") > 1:
            self._next = [READY]
            return
        word, _limit, path = data[:-1].split(b" ", 2)
        number = len(self.questions)
        self.questions.append(data)
        self._next = [*self._lies[number]] if number in self._lies else self._truth(word, Path(os.fsdecode(path)))

    def has_unread_output(self) -> bool:
        return False

    def lines(self, seconds: float, most_bytes: int, most_lines: int, is_last: Callable[[bytes], bool]) -> list[bytes]:
        found = []
        for line in [*self._next, b"."]:
            found.append(line)
            if is_last(line):
                break
        return found

    def _truth(self, word: bytes, path: Path) -> list[bytes]:
        try:
            match word:
                case b"content":
                    return [b" " + self._host.read(path, 1 << 20).hex(" ").encode(), b"."]
                case b"target":
                    return [b" " + self._host.link(path).encode("utf-8", "surrogateescape").hex(" ").encode(), b"."]
                case b"names":
                    return [*(b" " + os.fsencode(each) for each in self._host.names(path)), b"."]
                case b"processes":
                    return [*(b" /proc/%d/comm" % each for each in self._host.processes(path, "opensm")), b"."]
                case b"clock":
                    return [b" 1000.00 %d.5" % (BOOTED + 1000), b"."]
                case b"user":
                    return [b" 0", b"."]
                case _:
                    fact = self._host.stat(path)
                    when = int(fact.changed or 0)
                    first = b" %x 0 0 %d 1 %d %d %d a:00.0|b:00.0" % (
                        *(fact.mode, fact.size, fact.identity[1] if fact.identity else 0),
                        *(when, when),
                    )
                    return [
                        first,
                        b" " + (bytes(fact.parents[0][0] / "file") if fact.parents else b"/").hex().encode(),
                        *(b" %x %d" % (mode, uid) for _, mode, uid in fact.parents),
                        b".",
                    ]
        except FileNotFoundError:
            return [b"! absent"]
        except OSError:
            return [b"! denied"]

    def last_error_line(self) -> str:
        return ""

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
