"""What another host says through ssh, in the place of the program that ibkeys runs there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ibkeys.errors import HostNotReached
from ibkeys.managers.elsewhere.channel import Channel, ChannelBroken
from ibkeys.managers.elsewhere.remote import READY, RemoteFiles
from tests.fuzz.target import Target


class ToldChannel(Channel):
    """A `Channel` without a process: its lines are those of an input."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.rest = list(_told)

    def send(self, data: bytes, seconds: float) -> None:
        """Nobody is there who reads it."""

    def lines(self, seconds: float, most_bytes: int, most_lines: int, is_last: Callable[[bytes], bool]) -> list[bytes]:
        """Return the next lines up to one that *is_last*."""
        found: list[bytes] = []
        while self.rest:
            found.append(self.rest.pop(0))
            if is_last(found[-1]):
                return found
        raise ChannelBroken("it ended")

    def has_unread_output(self) -> bool:
        """It never is: what comes next is the answer."""
        return False

    def last_error_line(self) -> str:
        """Return the last line that is left."""
        return self.rest[-1].decode("utf-8", "replace") if self.rest else ""

    def close(self) -> None:
        """There is nothing to end."""


_told: list[bytes] = []


def _host(data: bytes) -> None:
    """Each question that is asked of a host's files, and an answer that the input says."""
    _told[:] = data.split(b"\n")
    path = Path("/etc/opensm/opensm.conf")
    with suppress(HostNotReached), RemoteFiles("sm2", ["ssh"], {}, ToldChannel) as host:
        for ask in (
            host.clock,
            host.own_user,
            lambda: host.stat(path),
            lambda: host.read(path, 1 << 20),
            lambda: host.link(path),
            lambda: host.names(path),
            lambda: host.processes(Path("/proc"), "opensm"),
        ):
            with suppress(OSError):
                ask()


def _answers() -> Iterator[bytes]:
    status = b" 81a4 0 0 120 fe01 1234 1763850000 1763850001 x:00.5 |x:01.25 \n 41ed 0 0 /etc\n"
    whole = b" 12.5 1763850000.123\n.\n 0\n.\n" + status + b".\n 6d5f6b65\n.\n 2f78\n.\n a\n b\n.\n /proc/12/exe\n.\n"
    yield READY + b"\n" + whole
    yield READY + b"\n 12 1763850000.N\n.\n 1000\n.\n! absent\n! denied\n! no file\n! failed\n"


TARGETS = (
    Target(
        "other-host",
        _host,
        _answers,
        (
            b"\n.\n",
            b"\n ",
            b"! absent\n",
            b"! denied\n",
            READY + b"\n",
            b" 1763850000",
            b"fe01",
            b"99999999999999999999",
        ),
        largest=1024,
    ),
)
