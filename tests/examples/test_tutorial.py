"""The tutorial, typed through as written: each of its commands shows what the tutorial shows."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.corpus import DATA

TUTORIAL = DATA.parents[1] / "docs" / "tutorial.md"
COLUMNS = 80
END = "\x1e"
VARIES = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ": "TIME",
    r"(?<=HCA-1 port 1 of )\S+(?=, read)": "HOST",
    r"(?<=\(process )\d+(?=\))": "PID",
    r"(?<=set 2 60 )[1-3](?= gpu-a01)": "ATTEMPTS",  # smpquery gives up when poll's timeout comes before the kernel's
}
"""What is not the same for every reader, and what stands for it."""
SHELL = "ibkeys sim shell"
"""The command that opens another shell, into which the following commands are typed, until `exit`."""
LAB = f"lab-{os.getpid()}"
"""A socket name that no other run of the tests has, in the place of the page's."""
WAITED_FOR = {"ibkeys sim serve": ("ready", "serve.log"), "opensm": ("SUBNET UP", "opensm.log")}
"""For what a reader waits after a command that goes on, and in which file."""


@dataclass(frozen=True)
class Step:
    """A command of the tutorial and what is shown below it; a line of three dots stands for any lines."""

    command: str
    shown: str

    def is_shown_by(self, output: str) -> bool:
        parts = (re.escape(plain(part)) for part in re.split(r"^ *\.\.\.$", self.shown, flags=re.M))
        return re.fullmatch(".*".join(parts), plain(output)) is not None


def steps() -> list[Step]:
    """Return the commands in the order in which a reader types them."""
    blocks = re.findall(r"```console\n(.*?)```", TUTORIAL.read_text(), re.S)
    return [Step(*found) for found in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.M)]


def plain(text: str) -> str:
    """Return *text* without what varies, and with one blank where words are apart: lines fold by the words in them."""
    text = " ".join(text.replace(LAB, "lab").split())
    for pattern, word in VARIES.items():
        text = re.sub(pattern, word, text)
    return text


def typed(commands: list[str], home: Path) -> list[str]:
    """Run the commands in one shell on a terminal. Return what each has written, both streams as they came."""
    script = home / "typed.sh"
    script.write_text(script_of(commands, home))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, COLUMNS))
    environment = {"PATH": path, "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8", "SHELL": "/bin/bash"}
    environment["OSM_CACHE_DIR"] = str(home)  # the key files of this host's OpenSM are not those of the lab
    with subprocess.Popen(
        ["bash", script],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        text = until_closed(ours)
    os.close(ours)
    # Of a line that was written over, what a reader sees is the last.
    seen = re.sub(r"[^\n]*\r(?!\n)", "", text.replace("\r\n", "\n"))
    return seen.split(END)[:-1]


def script_of(commands: list[str], home: Path) -> str:
    """Return a script that runs the commands, and writes a mark after each. Those for the shell on a simulated host are
    in a file of their own, which that shell reads.
    """
    own = [command.replace("--socket lab", f"--socket {LAB}") for command in commands]
    opened = next(number for number, command in enumerate(own) if command.startswith(SHELL))
    left = own.index("exit")
    there = home / "typed-there.sh"
    there.write_text(mark() + "".join(map(with_mark, own[opened + 1 : left])))
    lines = [*map(with_mark, own[:opened]), f"{own[opened]} <{there}\n{mark()}", *map(with_mark, own[left + 1 :])]
    return "".join(lines)


def mark() -> str:
    return "printf '\\036'\n"


def with_mark(command: str) -> str:
    """Return the lines of a script that run a command, wait as a reader does if it goes on, and write the mark."""
    if not command.endswith("&"):
        return f"{command} </dev/null\n{mark()}"
    [(text, file)] = [waited for begin, waited in WAITED_FOR.items() if command.startswith(begin)]
    return f"{command}\ntimeout 60 sh -c \"until grep -qs '{text}' {file}; do sleep 0.1; done\"\n{mark()}"


def until_closed(terminal: int) -> str:
    """Read from a terminal until nobody has it open; Linux says so with EIO."""
    read = b""
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:
            chunk = b""
        if not chunk:
            return read.decode()
        read += chunk


def test_the_tutorial_typed_through_as_written(tmp_path: Path) -> None:
    written = steps()
    try:
        outputs = typed([step.command for step in written], tmp_path)
    finally:  # if a command of the page failed
        subprocess.run([sys.executable, "-m", "ibkeys", "sim", "stop", "--socket", LAB], capture_output=True)
    assert len(outputs) == len(written) > 20
    wrong = [
        f"$ {step.command}\nthe tutorial shows:\n{step.shown}\nit wrote:\n{output}"
        for step, output in zip(written, outputs, strict=True)
        if not step.is_shown_by(output)
    ]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)
