"""The command that reaches another host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ibkeys.errors import UsageError
from ibkeys.managers.elsewhere.ssh import SETTINGS, SshHost, environment


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
    with pytest.raises(UsageError, match="is not a valid host name"):
        SshHost(name)


def test_nothing_is_asked_loosened_or_lent() -> None:
    command = SshHost("sm2", sudo=True, config="/c").command()
    assert command[:6] == ["ssh", "-F", "/c", "-T", "-a", "-x"]
    assert command[-1] == "sudo -n /bin/sh -s"
    settings = [command[at + 1] for at, word in enumerate(command) if word == "-o"]
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no", "ForwardX11=no"} <= set(settings)
    assert "ClearAllForwardings=yes" in settings


LOOSE = {
    "BatchMode": "no",
    "StrictHostKeyChecking": "no",
    "VerifyHostKeyDNS": "yes",
    "NoHostAuthenticationForLocalhost": "yes",
    "CheckHostIP": "yes",
    "UpdateHostKeys": "yes",
    "ControlMaster": "auto",
    "ControlPath": "/tmp/master",
    "ControlPersist": "60",
    "ForwardAgent": "yes",
    "AddKeysToAgent": "yes",
    "GSSAPIDelegateCredentials": "yes",
    "ForwardX11": "yes",
    "ForwardX11Trusted": "yes",
    "ClearAllForwardings": "no",
    "Tunnel": "yes",
    "SetEnv": "SECRET=x",
    "PermitLocalCommand": "yes",
    "RemoteCommand": "false",
    "SessionType": "subsystem",
    "StdinNull": "yes",
    "ForkAfterAuthentication": "yes",
    "RequestTTY": "force",
    "EscapeChar": "~",
    "ConnectTimeout": "9999",
    "ServerAliveInterval": "9999",
    "ServerAliveCountMax": "9999",
}
"""An ssh_config that says the opposite of all."""


def in_force(command: list[str]) -> dict[str, str]:
    """What ssh itself says that it would do, with "no" and "none" for what it says by another word or not at all."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    found = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    return {name: {"false": "no", "true": "yes"}.get(value, value) for name, value in found.items()}


def test_no_ssh_config_takes_an_option_back(tmp_path: Path) -> None:
    config = tmp_path / "loose"
    config.write_text("Host *\n" + "".join(f"{name} {value}\n" for name, value in LOOSE.items()))
    assert {*LOOSE, "IgnoreUnknown"} == {name for name, _, _ in SETTINGS}
    loose = in_force(["ssh", "-G", "-F", str(config), "--", "sm2"])
    strict = in_force(["ssh", "-G", *SshHost("sm2", config=str(config)).command()[1:]])
    for name, value, why in SETTINGS:
        if name == "IgnoreUnknown":
            continue
        assert strict.get(name.lower(), "none") == value, (name, why)
        assert loose.get(name.lower()) != strict.get(name.lower()), f"{name}: the loose file says nothing else"


def test_ssh_gets_no_variable_that_tells_or_asks_something() -> None:
    own = {
        "HOME": "/h",
        "SSH_AUTH_SOCK": "/s",
        "SSH_ASKPASS": "x",
        "DISPLAY": ":0",
        "IBKEYS_M_KEY": "@f",
        "LANG": "C",
        "TOKEN": "t",
    }
    assert environment(own) == {"HOME": "/h", "SSH_AUTH_SOCK": "/s", "LANG": "C"}
