"""The command that reaches another host."""

from __future__ import annotations

import pytest

from ibkeys.errors import UsageError
from ibkeys.sm.ssh import SshHost, environment


@pytest.mark.parametrize("name", ["sm2", "root@sm2.example.org", "10.0.0.7", "fe80::1", "[::1]", "node_7", "a-b"])
def test_names_of_hosts(name: str) -> None:
    command = SshHost(name).command()
    assert command[-3:] == ["--", name, "/bin/sh -s"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-oProxyCommand=x",
        "--",
        "a b",
        "a;b",
        "$(x)",
        "`x`",
        "a\nb",
        "@",
        "@h",
        "u@",
        "u@-h",
        "-u@h",
        "%h",
        "a/b",
        "ü",
    ],
)
def test_what_is_no_name_of_a_host_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a host"):
        SshHost(name)


def test_nothing_is_asked_loosened_or_lent() -> None:
    command = SshHost("sm2", sudo=True, config="/c").command()
    assert command[:6] == ["ssh", "-F", "/c", "-T", "-a", "-x"]
    assert command[-1] == "sudo -n /bin/sh -s"
    settings = [command[at + 1] for at, word in enumerate(command) if word == "-o"]
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no", "ForwardX11=no"} <= set(settings)
    assert "ClearAllForwardings=yes" in settings


def test_ssh_gets_no_variable_that_tells_or_asks_something() -> None:
    own = {"HOME": "/h", "SSH_AUTH_SOCK": "/s", "SSH_ASKPASS": "x", "DISPLAY": ":0", "IBKEYS_M_KEY": "@f", "LANG": "C"}
    assert environment(own) == {"HOME": "/h", "SSH_AUTH_SOCK": "/s", "LANG": "C"}
