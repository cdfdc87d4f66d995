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
VARIES = {r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ": "TIME", r"(?<=sim0 port 1 of )\S+(?=, read)": "HOST"}
"""What is not the same for every reader, and what stands for it."""


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
    text = " ".join(text.split())
    for pattern, word in VARIES.items():
        text = re.sub(pattern, word, text)
    return text


def typed(commands: list[str], home: Path) -> list[str]:
    """Run the commands in one shell on a terminal. Return what each has written, both streams as they came."""
    script = home / "typed.sh"
    script.write_text("".join(f"{command}\nprintf '\\036'\n" for command in commands))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, COLUMNS))
    with subprocess.Popen(
        ["bash", script],
        cwd=home,
        env={"PATH": path, "HOME": str(home), "TERM": "dumb", "LANG": "C.UTF-8"},
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
    outputs = typed([step.command for step in written], tmp_path)
    assert len(outputs) == len(written) > 20
    wrong = [
        f"$ {step.command}\nthe tutorial shows:\n{step.shown}\nit wrote:\n{output}"
        for step, output in zip(written, outputs, strict=True)
        if not step.is_shown_by(output)
    ]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)
