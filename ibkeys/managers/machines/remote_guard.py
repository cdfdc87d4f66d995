"""A guard process on another host that rolls back by itself: it needs neither the connection nor the fabric.

It has a directory of its own (mode 0700, below /tmp of that host) with the former bytes, the checksums of the texts
that it may replace by them, and the program that it runs. The directory's name is its token. Of "confirmed" and
"rolling back" exactly one happens: both make the same symbolic link in that directory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import HostRefused
from ibkeys.host.replacing.looked_up import SeenFile
from ibkeys.managers.machines import writer as program_there
from ibkeys.managers.machines.writer import HostWriter, WriterRefused, sum_of
from ibkeys.managers.opensm.process import OpensmProcess

QUIET_SECONDS: Final = 900
"""After so many seconds without a keep-alive the guard treats the connection as cut. The program on the host has the
same number.
"""
_TOKEN: Final = re.compile(r"ibkeys-guard-[A-Za-z0-9]{8,64}")


@dataclass(slots=True, eq=False, repr=False)
class RemoteGuard:
    """A process on another host that restores a policy file if the new one is not confirmed in time. It needs no
    connection.

    The order: `start` once, before anything is written; `announce` with each text, before that text is written;
    `start_time_limit` when all is written; then `confirm`, or `end` after rolling back. If neither follows, the guard
    restores the former file ``_seconds`` after `start_time_limit`. Without `start_time_limit` these seconds count from
    the end of the connection, or from when the guard had no keep-alive for too long, because a dead network may go
    unnoticed.

    It replaces only texts that were announced: bytes of another program stay, and former bytes stay too. Then it
    signals OpenSM, and removes its directory. Every method raises HostNotReached.

    ``token``: the name by which another process of ibkeys reaches the guard (`Machine.confirm_guard`), "" before
    `start`; ``pid``: its process ID there, 0 before `start`. ``_named``: returns the words that identify a process.
    """

    _host: str
    _writer: HostWriter
    _seconds: float
    _named: Callable[[OpensmProcess], tuple[str, str, str]]
    token: str = ""
    pid: int = 0

    def start(self, seen: SeenFile, process: OpensmProcess) -> str:
        """Start the guard, and return its token. *seen*: the file that it restores; *process*: the OpenSM that it
        signals.

        Raises HostRefused if it is running already or cannot be started there.
        """
        if self.token:
            raise HostRefused(f"{self._host}: the guard is already running", self._host)
        talk = self._writer.conversation
        who, seconds = "+".join(self._named(process)), max(math.ceil(self._seconds), 0)
        try:
            token = self._writer.one("make_room")
            if not _TOKEN.fullmatch(token):
                talk.end("its answer is invalid (a guard)")
            self._writer.send("keep", program_there.program().encode(), token, "program")
            if seen.data is not None:
                self._writer.send("keep", seen.data, token, "former")
            words = (token, str(seconds), who, sum_of(seen.data))
            self.pid = talk.number(self._writer.one("watch", *words, path=seen.path))
        except WriterRefused as no:
            raise HostRefused(f"{self._host}: no guard can be started: {no.reason or no.kind}", self._host) from None
        self.token = token
        return token

    def announce(self, data: bytes) -> None:
        """Announce bytes that are about to be written: the guard may replace them by the former ones. Raises
        HostRefused."""
        self._say("note", sum_of(data))

    def keep_alive(self) -> None:
        """Send a keep-alive. Call this at least every `QUIET_SECONDS` until `start_time_limit` is called.

        Every other question to the same host counts as a keep-alive, except those that go through ``files``.
        """
        self._say("alive")

    def start_time_limit(self) -> None:
        """Start the time within which the change must be confirmed. Raises HostRefused if the guard has gone."""
        self._say("waiting")

    def end(self) -> bool:
        """End the guard after this process restored everything. Return False if it is rolling back already, or has done
        so."""
        return bool(self.token) and confirm_guard(self._host, self._writer, self.token)

    def confirm(self) -> bool:
        """End the guard and keep the change. Return False if it is rolling back already, or has done so: then it was
        too late."""
        return self.end()

    def _say(self, question: str, *words: str) -> None:
        if not self.token:
            raise HostRefused(f"{self._host}: the guard was not started", self._host)
        try:
            self._writer.ask(question, self.token, *words)
        except WriterRefused as no:
            why = no.reason or "it is not there any more"
            raise HostRefused(f"{self._host}: the guard cannot be reached: {why}", self._host) from None


def confirm_guard(host: str, writer: HostWriter, token: str) -> bool:
    """End a guard and keep the change; return False if it is rolling back already, or has gone. Raises HostRefused,
    HostNotReached."""
    if not _TOKEN.fullmatch(token):
        raise HostRefused(f"{host}: {token!r} is not a guard", host)
    try:
        writer.ask("over", token)
    except WriterRefused as no:
        if no.kind == "gone":
            return False
        raise HostRefused(f"{host}: the guard cannot be reached: {no.reason or no.kind}", host) from None
    return True
