"""The command that reaches another host: the OpenSSH client with its strictest options.

ssh asks for no password, the host's key has to be known already, and the other host gets no access to this one: no
agent, no display, no forwarded port, no terminal. Options on the command line (`SETTINGS`) override the user's
ssh_config, so no file can make ssh less strict. The program for the host is sent over standard input, so no user of the
host sees it in a list of processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.simulated_host import refuse_ssh

CONNECT_SECONDS: Final = 10
SETTINGS: Final[tuple[tuple[str, str, str], ...]] = (
    ("BatchMode", "yes", "no user is asked for a password"),
    ("StrictHostKeyChecking", "yes", "a host whose key is not known, or has changed, is refused"),
    (
        "IgnoreUnknown",
        "RemoteCommand,SetEnv,SessionType,StdinNull,ForkAfterAuthentication,UpdateHostKeys,AddKeysToAgent,UseKeychain",
        "an older ssh ends at an option that it does not know; what it does not know cannot be in force either",
    ),
    ("VerifyHostKeyDNS", "no", "the name service does not vouch for a host's key"),
    ("NoHostAuthenticationForLocalhost", "no", "the key of this host counts too"),
    ("CheckHostIP", "no", "it writes addresses into known_hosts"),
    ("UpdateHostKeys", "no", "it writes what the host offers into known_hosts"),
    ("ControlMaster", "no", "each connection is checked by itself"),
    ("ControlPath", "none", "a connection that a user made with looser options is not used again"),
    ("ControlPersist", "no", "nothing of the connection stays behind"),
    ("ForwardAgent", "no", "the host cannot use the user's keys"),
    ("AddKeysToAgent", "no", "the agent stays as it is"),
    ("GSSAPIDelegateCredentials", "no", "the host gets no ticket in the user's name"),
    ("ForwardX11", "no", "the host gets no display"),
    ("ForwardX11Trusted", "no", "the host gets no display"),
    ("ClearAllForwardings", "yes", "the host gets no port"),
    ("Tunnel", "no", "the host gets no network device"),
    ("SetEnv", "LC_ALL=C", "the first value counts, so ssh_config sets no environment variable there"),
    ("PermitLocalCommand", "no", "no command runs here once the connection stands"),
    ("RemoteCommand", "none", "the program runs, not a command of ssh_config"),
    ("SessionType", "default", "the program is run by a shell, not taken for a subsystem, and is run at all"),
    ("StdinNull", "no", "the program goes over standard input"),
    ("ForkAfterAuthentication", "no", "ssh ends with the process that started it"),
    ("RequestTTY", "no", "a terminal would change bytes"),
    ("EscapeChar", "none", "no byte is a command to ssh"),
    ("ConnectTimeout", str(CONNECT_SECONDS), "a host that is off is given up"),
    ("ServerAliveInterval", "5", "a host that goes away is noticed"),
    ("ServerAliveCountMax", "2", "a host that goes away is noticed"),
)
"""The options of ssh that ssh_config could set to a less strict value: name, value, and the reason. ssh uses the first
value that it reads, which is the one on the command line."""
_SHELL: Final = "/bin/sh -s"
_HOST: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_:\[][A-Za-z0-9_.:\]-]*")
"""USER@HOST, HOST, or an address, without any character that has a meaning to a shell or to ssh's % tokens."""
_SSH_VARIABLES: Final = re.compile(
    r"HOME|USER|LOGNAME|SHELL|PATH|TMPDIR|LANG|LC_.*|SSH_AUTH_SOCK|SSH_AGENT_PID|KRB5CCNAME|KRB5_CONFIG"
)
"""The names of the variables that ssh gets, because it needs them itself. SendEnv in ssh_config cannot be revoked by an
option; so it can send only these variables to the host. Without DISPLAY ssh opens no window to ask for a password."""


@dataclass(frozen=True, slots=True)
class SshHost:
    """The access to one host through ssh. ``name``: HOST or USER@HOST. ``sudo``: whether the program on the host runs
    through ``sudo -n``, which asks for no password. ``config``: the path of an ssh_config in place of the user's own.
    """

    name: str
    sudo: bool = False
    config: str | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a name that is no host name, has a password, or would be an option to ssh."""
        if ":" in self.name.rpartition("@")[0]:
            raise UsageError("a host name must not hold a password: write USER@HOST, and give the user an ssh key")
        if not _HOST.fullmatch(self.name):
            hint = "it begins with '-'" if self.name.startswith("-") else "write HOST or USER@HOST, as in ssh_config"
            raise UsageError(f"{self.name!r} is not a valid host name: {hint}")

    def command(self) -> list[str]:
        """Return the command that starts a shell on the host. The shell reads its program from standard input.

        Raises UsageError on a simulated host.
        """
        refuse_ssh()
        settings = [word for name, value, _ in SETTINGS for word in ("-o", f"{name}={value}")]
        config = ["-F", self.config] if self.config is not None else []
        shell = f"sudo -n {_SHELL}" if self.sudo else _SHELL
        return ["ssh", *config, "-T", "-a", "-x", *settings, "--", self.name, shell]

    def environment(self) -> dict[str, str]:
        """Return the environment that the command gets."""
        return environment()


def environment(own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for ssh: the variables of *own* that ssh needs itself. *own* None: those of this
    process."""
    variables = os.environ if own is None else own
    return {name: value for name, value in variables.items() if _SSH_VARIABLES.fullmatch(name)}
