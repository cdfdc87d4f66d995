"""Both kinds of hosts for the tests: some of their commands are made up. The other host is a shell of this machine."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ibkeys.managers.elsewhere.channel import Channel
from ibkeys.managers.elsewhere.conversation import Conversation, OpenChannel
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.machines import writer
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.other_host import OWN_SESSION, OtherHost
from ibkeys.managers.machines.this_host import ThisHost
from ibkeys.managers.machines.writer import READY, HostWriter
from ibkeys.managers.opensm.process import OpensmProcess, started_at
from ibkeys.store.journal import FileEntry, Journal

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
PATHS = "PATH=/usr/sbin:"
OLD, NEW = b"old\n" * 100, b"new\n" * 100
LONGEST = 60
"""Seconds that a test waits for what must happen."""


class Tools:
    """A host below *folder*: ``tools`` come before its own commands."""

    def __init__(self, folder: Path) -> None:
        self.tools = folder / "tools"
        self.tools.mkdir(parents=True)

    def tool(self, name: str, script: str) -> None:
        """Let a command of the host be *script*."""
        (self.tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.tools / name).chmod(0o755)

    def systemctl(self, main: int | str, refuses: str = "nothing", words: str = "") -> Path:
        """Let systemctl name *main* as the main process of each unit, and say *words* to the verb that it *refuses*.
        Return a list of how it was called."""
        log = self.tools / "systemctl.log"
        log.touch()
        self.tool(
            "systemctl",
            f'printf \'%s\\n\' "$*" >>{log}; [ "$2" != show ] || echo MainPID={main}; '
            f"[ \"$2\" != {refuses} ] || {{ printf '%s' '{words}' >&2; exit 3; }}",
        )
        return log


class Here(Tools):
    """This host."""

    name = ""

    @contextmanager
    def machine(self) -> Iterator[Machine]:
        yield ThisHost({"PATH": f"{self.tools}:/usr/bin:/bin"})


class There(Tools):
    """Another host: ``rooms`` is where its guards have theirs."""

    name = "sm2"

    def __init__(self, folder: Path, shell: str = "/bin/sh") -> None:
        super().__init__(folder)
        self.command = [shell, "-s"]
        self.rooms = folder / "rooms"
        self.rooms.mkdir()
        self.plain = writer.program()

    def program(self) -> str:
        changes = {PATHS: f"PATH={self.tools}:/usr/sbin:", "ROOMS=/tmp": f"ROOMS={self.rooms}"}
        text = self.plain
        for old, new in changes.items():
            assert text.count(old) == 1
            text = text.replace(old, new)
        return text

    @contextmanager
    def machine(self, open_channel: OpenChannel = OWN_SESSION, reads: OpenChannel = Channel) -> Iterator[OtherHost]:
        command = self.command
        with (
            RemoteFiles("sm2", command, ENVIRONMENT, reads) as reader,
            Conversation("sm2", command, ENVIRONMENT, self.program(), READY, open_channel) as talk,
        ):
            yield OtherHost(reader, HostWriter(talk))


@contextmanager
def opensm() -> Iterator[tuple[OpensmProcess, subprocess.Popen[bytes]]]:
    """A process that says when it hears SIGHUP, and goes on."""
    code = (
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP]); print('up', flush=True)\n"
        "while signal.sigwait([signal.SIGHUP]): print('hup', flush=True)"
    )
    with subprocess.Popen(["python3", "-u", "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        folder = Path(f"/proc/{process.pid}")
        ticks = started_at((folder / "stat").read_text())
        try:
            yield OpensmProcess(process.pid, Path("/x"), True, None, folder=folder, ticks=ticks), process
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def put(machine: Machine, journal: Journal, path: Path, data: bytes | None, mode: int = 0o644) -> FileEntry:
    """Replace a file as it is now, in an operation of its own."""
    with journal.operation("apply") as operation:
        entry = machine.replace(operation, machine.look(path), data, mode)
        entry.done()
    return entry


def heard(process: subprocess.Popen[bytes]) -> bytes:
    """Return what the process says next."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], LONGEST)[0], "it heard nothing"
    return process.stdout.readline()


class Held:
    """A process that is not ours, whose end is waited for."""

    def __init__(self, pid: int) -> None:
        self.descriptor = os.pidfd_open(pid)

    def ended(self) -> None:
        assert select.select([self.descriptor], [], [], LONGEST)[0], "it did not end"
        os.close(self.descriptor)


def cutting(after: int, whole: bool) -> OpenChannel:
    """A channel that is cut at the *after*-th time that something is sent: behind it, or in the middle of it."""

    class Cut(Channel):
        sent = 0

        def send(self, data: bytes, seconds: float) -> None:
            if self.sent == after:
                if not whole:
                    super().send(data[: len(data) // 2], seconds)
                else:
                    super().send(data, seconds)
                assert self.process.stdin is not None
                self.process.stdin.close()
                self.process.wait(LONGEST)
                raise ConnectionResetError("the connection is cut")
            self.sent += 1
            super().send(data, seconds)

    def opened(command: Sequence[str], environment: Mapping[str, str]) -> Channel:
        return Cut(command, environment, own_session=True)

    return opened
