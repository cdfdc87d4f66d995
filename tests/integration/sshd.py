"""A real SSH server on the loopback interface, with keys, port and configuration of its own."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.integration.ibsim import START_TIMEOUT

INSTALL = "apt-get install openssh-client openssh-server"
SSHD = "/usr/sbin/sshd"


class Sshd:
    """A running sshd that lets this user in by a key of its own. Use it as a context manager.

    `config` is an ssh_config that knows it as ``smhost``, and as ``stranger`` without knowing its host key; there it
    also says that host keys need not be checked. ``outsider``: with a key that it does not take. *tools*: a folder
    whose programs come first over there. *own_mounts*: in a mount namespace of its own.

    A login shell over there does not read this user's ~/.bashrc: bash reads it below sshd only where SHLVL is not
    set, and such a file may start hundreds of programs (pyenv) for each connection.
    """

    def __init__(self, folder: Path, tools: Path | None = None, *, own_mounts: bool = False) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.own_mounts = own_mounts
        self.folder = folder
        self.config = folder / "ssh_config"
        assert Path(SSHD).exists(), f"sshd is not installed: {INSTALL}"
        for name in ("host", "user", "outsider"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True, timeout=60, stdin=subprocess.DEVNULL)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
        host_key = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"smhost {host_key}outsider {host_key}")
        (folder / "known-none").touch()
        self._write_server_config(tools)
        self._write_client_config()

    def _write_server_config(self, tools: Path | None) -> None:
        lines = [
            "ListenAddress 127.0.0.1",
            f"Port {self.port}",
            f"HostKey {self.folder}/host",
            f"AuthorizedKeysFile {self.folder}/authorized",
            *("PidFile none", "UsePAM no", "StrictModes no", "PasswordAuthentication no", "PermitRootLogin yes"),
            f"SetEnv SHLVL=2{'' if tools is None else f' PATH={tools}:/usr/bin:/bin'}",
        ]
        (self.folder / "sshd_config").write_text("\n".join(lines) + "\n")

    def _write_client_config(self) -> None:
        user = pwd.getpwuid(os.geteuid()).pw_name
        lines = []
        for name, key, known, check in (
            ("smhost", "user", "known", "yes"),
            ("stranger", "user", "known-none", "no"),
            ("outsider", "outsider", "known", "yes"),
        ):
            lines += [f"Host {name}", "HostName 127.0.0.1", f"Port {self.port}", f"User {user}", f"HostKeyAlias {name}"]
            lines += [f"IdentityFile {self.folder}/{key}", "IdentitiesOnly yes", "IdentityAgent none"]
            lines += [f"UserKnownHostsFile {self.folder}/{known}", "GlobalKnownHostsFile /dev/null"]
            lines += [f"StrictHostKeyChecking {check}", ""]
        self.config.write_text("\n".join(lines))

    def __enter__(self) -> Self:
        command = [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        if self.own_mounts:
            command = ["unshare", "-m", *command]
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd of root wants it; its service makes it too
        self._server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.said: list[str] = []
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self._reader.start()
        if not ready.wait(START_TIMEOUT) or self._server.poll() is not None:
            said = "".join(self.said)
            self.__exit__(None, None, None)
            raise AssertionError(f"sshd did not start:\n{said}")
        return self

    def _read(self, ready: threading.Event) -> None:
        assert self._server.stderr is not None
        for line in self._server.stderr:
            self.said.append(line)
            if "Server listening" in line:
                ready.set()
        ready.set()

    @property
    def pid(self) -> int:
        """The server's process ID."""
        return self._server.pid

    def cut(self) -> None:
        """End the server and every connection that stands."""
        table = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], check=True, capture_output=True, text=True).stdout
        rows = [line.split(None, 2) for line in table.splitlines()]
        below = {self._server.pid}
        while more := {int(pid) for pid, above, _ in rows if int(above) in below} - below:
            below |= more
        for pid, _, words in rows:
            if int(pid) in below and words.startswith(("sshd", SSHD)):
                os.kill(int(pid), signal.SIGKILL)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.terminate()
        self._server.wait(10)
        self._reader.join(10)
        assert self._server.stderr is not None
        self._server.stderr.close()
