"""docs/howto/without-hardware.md, typed through: partitions and M_Keys are changed through a real OpenSM."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.corpus import DATA
from tests.examples.pages import DOCS

PAGE: Final = DOCS / "howto" / "without-hardware.md"
DEADLINE: Final = 120.0
TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
LAB, COPY = f"lab-{os.getpid()}", f"copy-{os.getpid()}"
"""Socket names that no other run of the tests has, in the place of those of the page."""


def blocks_under(heading: str) -> list[list[str]]:
    """Return the commands of each block of shell under *heading*."""
    [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.S | re.M)
    own = section.replace("--socket lab", f"--socket {LAB}").replace("--socket copy", f"--socket {COPY}")
    return [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", own, re.S)]


class Typed:
    """A shell in *home* into which commands are typed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"

    def run(self, command: str) -> str:
        """Run a command to its end, and return what it wrote. One that ends in & goes on, and writes to ``started``."""
        if command.endswith("&"):
            command = f"{command.removesuffix('&')} >>started 2>&1 &"
        done = subprocess.run(
            ["bash", "-c", f"umask 077; {command}"],
            cwd=self.home,
            env={"PATH": self._path, "HOME": str(self.home), "LANG": "C.UTF-8", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
        )
        expected = 1 if " ibkeys plan " in command else 0  # there is something to change
        assert done.returncode == expected, f"{command}\n{done.stdout}"
        return done.stdout

    def wait(self, name: str, text: str) -> None:
        """Wait until a file has *text*."""
        deadline = time.monotonic() + DEADLINE
        while not (self.home / name).exists() or text not in (self.home / name).read_text():
            assert time.monotonic() < deadline, (name, text)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Typed]:
    typed = Typed(tmp_path)
    yield typed
    for socket_name in (LAB, COPY):  # one that the test has ended is not there any more
        subprocess.run([sys.executable, "-m", "ibkeys", "sim", "stop", "--socket", socket_name], capture_output=True)


def test_five_commands_from_nothing_to_changed_partitions_and_m_keys(shell: Typed) -> None:
    files, five, look, stop = blocks_under("Your own OpenSM")
    for line in files:
        shell.run(line)
    assert len(five) == 5
    serve, opensm, *changes = five
    shell.run(serve)
    shell.wait("started", "ready\n")
    shell.run(opensm)
    shell.wait("opensm.log", "SUBNET UP")
    for line in changes:
        shell.run(line)
    p_keys, m_keys, paths, rotation = [shell.run(line) for line in look]
    assert len(re.findall("^gpu-a0[34] .* 1:0x8010$", p_keys, re.M)) == 2
    assert len(re.findall(r" set +2 +60 +0$", m_keys, re.M)) == 50
    assert paths.count("PathRecord dump") > 1000
    assert "operation 3: 50 ports done, 0 failed" in rotation
    for line in stop:
        shell.run(line)
    assert LAB not in shell.run("ibkeys sim ls")


def test_a_snapshot_with_keys_is_taken_over_by_opensm(shell: Typed) -> None:
    made = f"--backend sim:{TWO_SWITCH},state=fabric,links=active"
    shell.run(f"ibkeys mkey-deploy --same --protect 2 --lease 60 {made} --yes")
    shell.run(f"ibkeys snapshot my-cluster.db {made}")
    for line in blocks_under("Your own OpenSM")[0]:
        shell.run(line)
    [(serve, show, opensm)] = blocks_under("A copy with keys")
    shell.run(serve)
    shell.wait("started", "ready\n")
    assert len(re.findall(r" set +2 +60 +0$", shell.run(show), re.M)) == 8
    shell.run(opensm)
    shell.wait("copy.log", "SUBNET UP")
