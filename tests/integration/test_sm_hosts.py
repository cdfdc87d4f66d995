"""sm-show of another host, through a real sshd: this machine once more, under another name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import DATA
from tests.integration.served import Served
from tests.integration.sm_files import KEY, SM_KEY, opensm, write
from tests.integration.sshd import Sshd

GUID = "0x0002c903000a1011"


@pytest.fixture
def fabric(serve: Callable[[Path], Served]) -> Served:
    return serve(DATA / "fabrics" / "two-switch.net")


def ask(fabric: Served, server: Sshd, *words: str, code: int = 0) -> tuple[dict[str, Any], str]:
    folder = fabric.folder / "osm"
    known = ("--security-keys", folder) if folder.exists() else ()
    done = fabric.ibkeys("sm-show", "-f", "json", "--ssh-config", server.config, *words, *known)
    assert done.returncode == code, done.stdout + done.stderr
    for key in (KEY, SM_KEY):
        assert key[2:] not in done.stdout + done.stderr + "".join(server.said)
    document: dict[str, Any] = json.loads(done.stdout)
    return document, done.stderr


SURELY_BEFORE = 1.5
"""Seconds after which a start is seen as later than a file's last change: there that is known within a second."""


def test_another_host_shows_what_this_one_shows(fabric: Served, tmp_path: Path) -> None:
    folder = fabric.folder / "osm"
    write(folder / "o.conf", f"m_key {KEY}\nsm_key {SM_KEY}\nqos true\n")
    write(folder / "p.conf", "Default=0x7fff : ALL=full ;\n")
    written = (folder / "p.conf").stat().st_ctime
    while time.time() < written + SURELY_BEFORE:
        time.sleep(0.05)  # polls a condition
    with Sshd(tmp_path / "ssh") as server, opensm(fabric, "-Fo.conf", "-Pp.conf", "-g", GUID) as process:
        document, _ = ask(fabric, server, "--sm-host", "smhost")
        here, there = document["hosts"]
        assert (here["host"], there["host"], there["error"]) == ("", "smhost", None)
        [ours], [theirs] = here["instances"], there["instances"]
        assert ours["pid"] == theirs["pid"] == process.pid
        begun = [datetime.fromisoformat(each.pop("started")) for each in (ours, theirs)]
        assert abs(begun[0] - begun[1]) <= timedelta(seconds=1)  # each look works it out from two clocks
        assert ours == theirs
        assert (theirs["state"], theirs["port_guid"]) == ("master", GUID)
        seen = [(each["host"], each["danger"]) for each in document["dangers"]]
        assert ("smhost", "not-true") in seen


def test_no_ssh_config_loosens_the_check_of_the_host(fabric: Served, tmp_path: Path) -> None:
    """This one says that the host's key need not be checked, and does not know it."""
    with Sshd(tmp_path / "ssh") as server:
        document, error = ask(fabric, server, "--sm-host", "stranger", code=3)
        assert document["hosts"][1]["error"].endswith("Host key verification failed.")
        assert "ibkeys: not read: stranger: it ended" in error
        (server.folder / "known").write_text((server.folder / "known").read_text().replace("AAAA", "AAAB", 1))
        document, _ = ask(fabric, server, "--sm-host", "smhost", code=3)
        assert "Host key verification failed." in document["hosts"][1]["error"]


def test_nobody_is_asked_for_a_password(fabric: Served, tmp_path: Path) -> None:
    with Sshd(tmp_path / "ssh") as server:
        document, _ = ask(fabric, server, "--sm-host", "outsider", "--sm-host", "smhost", code=3)
    assert "Permission denied (publickey" in document["hosts"][1]["error"]
    assert (document["hosts"][2]["host"], document["hosts"][2]["error"]) == ("smhost", None), "the next one is asked"


def test_sudo_is_told_to_ask_nobody(fabric: Served, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    log = tmp_path / "said"
    (tools / "sudo").write_text(f'#!/bin/sh\nprintf "%s" "$*" >> {log}\nshift\nexec "$@"\n')
    (tools / "sudo").chmod(0o755)
    with Sshd(tmp_path / "ssh", tools) as server:
        document, _ = ask(fabric, server, "--sm-host", "smhost", "--sudo")
        assert document["hosts"][1]["error"] is None
        assert log.read_text() == "-n /bin/sh -s"
        (tools / "sudo").write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
        document, _ = ask(fabric, server, "--sm-host", "smhost", "--sudo", code=3)
        assert document["hosts"][1]["error"].endswith("sudo: a password is required")
