"""A guard process on another host that rolls a change back by itself: it needs neither the connection nor the fabric.

It has its own directory on that host (mode 0700, below /tmp). This has the former bytes of the policy file, the
checksums of the contents that the guard may replace by them, and the program that it runs. The directory's name is the
guard's token. A change is either confirmed or rolled back, never both: for each of the two the same symbolic link must
be made in that directory first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import HostRefused
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.managers.machines import writer as host_program
from ibkeys.managers.machines.writer import HostWriter, WriterRefused, checksum_of
from ibkeys.managers.opensm.process import OpensmProcess

QUIET_SECONDS: Final = 900
"""The seconds without a keep-alive after which the guard takes the connection as cut. The program on the host has the
same number."""
_TOKEN: Final = re.compile(r"ibkeys-guard-[A-Za-z0-9]{8,64}")


@dataclass(slots=True, eq=False, repr=False)
class RemoteGuard:
    """A process on another host that restores a policy file if the new one is not confirmed in time. It needs no
    connection.

    Call `start` once, before anything is written; `announce` with each new content of the file, before this is written;
    `start_time_limit` when all is written; then `confirm`, or `end` after a rollback. If neither of these follows, the
    guard restores the former file ``_seconds`` after `start_time_limit`. If `start_time_limit` is not called, the
    seconds count from the end of the connection, or from `QUIET_SECONDS` after the last keep-alive, because a network
    that fails may go unnoticed.

    The guard replaces only contents that were announced, never those by another program. After that it signals OpenSM,
    and removes its directory. Every method raises HostNotReached.

    ``token``: the name by which another process of ibkeys reaches the guard (`Machine.confirm_guard`), "" before
    `start`; ``pid``: the guard's process ID on the host, 0 before `start`. ``_identify``: returns the words that
    identify a process to the program on the host.
    """

    _host: str
    _writer: HostWriter
    _seconds: float
    _identify: Callable[[OpensmProcess], tuple[str, str, str]]
    token: str = ""
    pid: int = 0

    def start(self, seen: SeenFile, process: OpensmProcess) -> str:
        """Start the guard, and return its token. *seen*: the file that it restores, as it was read; *process*: the
        OpenSM that it signals.

        Raises HostRefused if the guard is running already or cannot be started, FileError for a path that cannot be
        sent.
        """
        if self.token:
            raise HostRefused(f"{self._host}: the guard is already running", self._host)
        conversation = self._writer.conversation
        who, seconds = "+".join(self._identify(process)), max(math.ceil(self._seconds), 0)
        try:
            token = self._writer.ask_line("make_room")
            if not _TOKEN.fullmatch(token):
                conversation.end("its answer is invalid (a guard)")
            self._writer.send("keep", host_program.program().encode(), token, "program")
            if seen.data is not None:
                self._writer.send("keep", seen.data, token, "former")
            words = (token, str(seconds), who, checksum_of(seen.data))
            self.pid = conversation.number(self._writer.ask_line("watch", *words, path=seen.path))
        except WriterRefused as refusal:
            raise HostRefused(
                f"{self._host}: no guard can be started: {refusal.reason or refusal.kind}", self._host
            ) from None
        self.token = token
        return token

    def announce(self, data: bytes) -> None:
        """Let the guard replace the contents *data* by the former ones. Call this before *data* is written. Raises
        HostRefused if the guard was not started or has gone."""
        self._ask("note", checksum_of(data))

    def keep_alive(self) -> None:
        """Send a keep-alive. Call this at least every `QUIET_SECONDS` until `start_time_limit` is called. Raises
        HostRefused before `start`.

        All other calls to the same host count as keep-alives, except those that read through ``files``.
        """
        self._ask("alive")

    def start_time_limit(self) -> None:
        """Start the ``_seconds`` within which the change must be confirmed. Raises HostRefused if the guard was not
        started or has gone."""
        self._ask("waiting")

    def end(self) -> bool:
        """End the guard, after this process has restored everything itself. Return False if the guard was not started,
        is rolling back, or has done so. Raises HostRefused."""
        return bool(self.token) and confirm_guard(self._host, self._writer, self.token)

    def confirm(self) -> bool:
        """End the guard and keep the change. Return False if the guard was not started, or if this is too late: the
        guard is rolling back, or has done so. Raises HostRefused."""
        return self.end()

    def _ask(self, question: str, *words: str) -> None:
        if not self.token:
            raise HostRefused(f"{self._host}: the guard was not started", self._host)
        try:
            self._writer.ask(question, self.token, *words)
        except WriterRefused as refusal:
            why = refusal.reason or "it is not there any more"
            raise HostRefused(f"{self._host}: the guard cannot be reached: {why}", self._host) from None


def confirm_guard(host: str, writer: HostWriter, token: str) -> bool:
    """End the guard with this *token* on *host*, and keep the change. Return False if the guard is rolling back, or has
    gone. Raises HostRefused for a text that is no token or the guard of another user, HostNotReached."""
    if not _TOKEN.fullmatch(token):
        raise HostRefused(f"{host}: {token!r} is not a guard", host)
    try:
        writer.ask("over", token)
    except WriterRefused as refusal:
        if refusal.kind == "gone":
            return False
        raise HostRefused(f"{host}: the guard cannot be reached: {refusal.reason or refusal.kind}", host) from None
    return True
