"""The command that reaches another host: the OpenSSH client, as careful as it can be told to be.

Nobody is asked for a password, the host has to be known already, and nothing of this host is lent to the other one: no
agent, no display, no forwarded port, no terminal. What stands on the command line wins over the user's ssh_config, so
no file can loosen it. The program goes over standard input, so nothing of it is in the argument list over there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import UsageError

CONNECT_SECONDS: Final = 10
_SETTINGS: Final = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "CheckHostIP=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ForwardX11Trusted=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "EscapeChar=none",
    f"ConnectTimeout={CONNECT_SECONDS}",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=2",
)
_SHELL: Final = "/bin/sh -s"
_HOST: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_:\[][A-Za-z0-9_.:\]-]*")
"""USER@HOST, HOST, an address. Nothing that a shell, or ssh's own %-words, would take for more than a name."""
_KEPT_BACK: Final = re.compile(r"IBKEYS_.*|SSH_ASKPASS.*|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY")
"""Variables that ssh does not get: a user's ssh_config may send variables to the other host, and nobody is to be asked
for a password."""


@dataclass(frozen=True, slots=True)
class SshHost:
    """How one host is reached. ``sudo``: its files are read through ``sudo -n``, which asks for no password either.
    ``config``: an ssh_config in the place of the user's own."""

    name: str
    sudo: bool = False
    config: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for a name that is none, or that ssh would take for an option."""
        if not _HOST.fullmatch(self.name):
            hint = "it begins with '-'" if self.name.startswith("-") else "write HOST or USER@HOST, as in ssh_config"
            raise UsageError(f"{self.name!r} is no name of a host: {hint}")

    def command(self) -> list[str]:
        """Return the command that starts a shell there, which reads its program from standard input."""
        settings = [word for each in _SETTINGS for word in ("-o", each)]
        config = ["-F", self.config] if self.config is not None else []
        shell = f"sudo -n {_SHELL}" if self.sudo else _SHELL
        return ["ssh", *config, "-T", "-a", "-x", *settings, "--", self.name, shell]


def environment(own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment that ssh gets."""
    variables = os.environ if own is None else own
    return {name: value for name, value in variables.items() if not _KEPT_BACK.fullmatch(name)}
