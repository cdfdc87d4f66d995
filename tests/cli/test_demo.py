"""``make demo``, run whole on a terminal of 80 x 24: each screen fits it, and each command does what it is to show."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
import tomllib
from pathlib import Path

from ibkeys.cli.screen.lines import columns
from ibkeys.cli.tools.demo import PROMPT, SCREENS
from tests.packages.made import ROOT

COLUMNS, LINES = 80, 24
NEEDED = {"click"}
"""What the Makefile installs for it."""


def run_demo(answer: str, folder: Path) -> tuple[int, list[str]]:
    """Run the demo with no other library than it needs; say *answer* to each prompt. Return its exit code and what
    was on the terminal before and after each prompt."""
    for name in dependencies() - NEEDED:
        (folder / f"{name}.py").write_text(f"raise ImportError('the demo is to work without {name}')\n")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (LINES, COLUMNS))
    with subprocess.Popen(
        [sys.executable, "-m", "ibkeys.cli.tools.demo"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}:{ROOT}", "TERM": "dumb", "LANG": "C.UTF-8"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as demo:
        os.close(theirs)
        read = b""
        while chunk := read_some(ours):
            read += chunk
            if read.endswith(PROMPT.encode()):
                os.write(ours, f"{answer}\n".encode())
    os.close(ours)
    # Of a line that was written over, what a reader sees is the last.
    seen = re.sub(r"[^\n]*\r(?!\n)", "", read.decode().replace("\r\n", "\n"))
    return demo.returncode, seen.split(PROMPT)


def read_some(terminal: int) -> bytes:
    """Read from a terminal; nothing when nobody has it open any more, which Linux says with EIO."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def dependencies() -> set[str]:
    """Return what is installed with ibkeys, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {re.split(r"[<>=!~]", each)[0] for each in project["dependencies"]}


def test_each_screen_of_the_demo_fits_a_terminal(tmp_path: Path) -> None:
    code, seen = run_demo("", tmp_path)
    assert code == 0, seen[-1]
    assert len(seen) == len(SCREENS) + 1
    for screen, text in zip(SCREENS, seen, strict=False):
        lines = text.strip("\n").splitlines()
        assert f"$ ibkeys {screen.typed}" in lines
        assert len(lines) + 1 <= LINES, text  # the prompt is one
        assert max(map(columns, lines)) <= COLUMNS, text
    shown = dict(zip((screen.title for screen in SCREENS), seen, strict=False))
    audit, why, plan, change, proof, undo = seen[1:7]
    assert "next: `ibkeys why -G " in audit
    assert "\n  can talk\n" in why
    assert "gpu-a03 mlx5_0" in plan
    assert "done, verified by a fresh read" in change
    assert "\n  cannot talk\n" in proof
    assert "done, verified by a fresh read" in undo
    assert "   50  set " in shown["Proof: all M_Keys, read from the ports."]
    assert "ibkeys doctor" in seen[-1]


def test_the_demo_ends_when_the_user_has_seen_enough(tmp_path: Path) -> None:
    code, seen = run_demo("q", tmp_path)
    assert code == 0
    assert len(seen) == 2
