"""A relay between ssh and its server, which ends after so many pieces from the other side."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from tests.integration.sshd import Sshd

_PROGRAM = """
import select, socket, sys
from pathlib import Path
port, folder = int(sys.argv[1]), Path(sys.argv[2])
number = len(list(folder.glob("began-*")))
(folder / f"began-{number}").touch()
which, left = map(int, (folder / "cut").read_text().split())
server = socket.create_connection(("127.0.0.1", port))
pieces = 0
while True:
    for each in select.select([server, sys.stdin.buffer.raw], [], [])[0]:
        data = each.recv(65536) if each is server else each.read(65536)
        if not data or (each is server and number == which and pieces == left):
            sys.exit()
        if each is server:
            pieces += 1
            (folder / f"new-{number}").write_text(str(pieces))
            (folder / f"new-{number}").rename(folder / f"pieces-{number}")
            sys.stdout.buffer.raw.write(data)
        else:
            server.sendall(data)
"""
READER, WRITER, NO_USER = 0, 1, -1
"""The two connections to a host in the order in which they are made; none of them."""


class Relay:
    """A relay in front of *sshd*, on the way of its host ``smhost``. *folder*: where it keeps what it knows."""

    def __init__(self, folder: Path, sshd: Sshd) -> None:
        self._folder = folder
        folder.mkdir()
        program = folder / "relay.py"
        program.write_text(_PROGRAM)
        command = shlex.join([sys.executable, str(program), str(sshd.port), str(folder)])
        config = sshd.config.read_text()
        sshd.config.write_text(config.replace("Host smhost\n", f"Host smhost\nProxyCommand {command}\n"))
        self.arm(NO_USER, 0)

    def arm(self, which: int, after: int) -> None:
        """Let it cut one of the next connections *after* so many pieces."""
        for each in self._folder.glob("began-*"):
            each.unlink()
        (self._folder / "cut").write_text(f"{which} {after}")

    def pieces(self, which: int) -> int:
        """How many pieces a connection had."""
        return int((self._folder / f"pieces-{which}").read_text())
