"""``make demo``: a first look at ibkeys on the packaged fabric, as the commands that a user would type.

Every line that begins with ``$`` is run as it stands, against a simulated subnet that lasts for the length of the demo.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from ibkeys.change.confirming.guardian import own_program
from ibkeys.cli import streams

LINES: Final = 14
"""Lines of each answer that are shown; the rest is counted."""

_STEPS: Final = (
    ("What is on this fabric?", "discover", 0),
    ("Which P_Keys does every port hold?", "pkey-show --all", 0),
    ("Is any M_Key unset?", "mkey-show --all", 0),
    (
        "Put a host into partition 0x0010 as a full member: first look, then do it.",
        "pkey-add -N 'gpu-a03 mlx5_0' 0x8010 --dry-run",
        1,
    ),
    ("", "pkey-add -N 'gpu-a03 mlx5_0' 0x8010 --yes", 0),
    ("", "pkey-show -N 'gpu-a03 mlx5_0'", 0),
    (
        "Give that host an M_Key of its own, protection level 1, with a lease of 60 s.",
        "mkey-set -N 'gpu-a03 mlx5_0' --new-m-key @new.key --protect 1 --lease 60 --yes",
        0,
    ),
    ("", "mkey-show -N 'gpu-a03 mlx5_0'", 0),
)
"""What is asked, the command as it is typed in the folder of the demo, and its exit code."""


def main() -> int:
    """Run the demo. Returns 0 when every command did what it is there to show."""
    with tempfile.TemporaryDirectory(prefix="ibkeys-demo-") as folder:
        backend = f"sim:,state={Path(folder) / 'fabric.state'}"
        key_file = Path(folder) / "new.key"
        key_file.touch(mode=0o600)
        key_file.write_text(_run(["mkey-gen"], backend).stdout)
        print("A simulated subnet of about 40 hosts; no real device is touched.")
        for title, line, expected in _STEPS:
            done = _show(title, line, backend, folder)
            if done != expected:
                print(f"the demo expected exit code {expected} here and got {done}", file=sys.stderr)
                return 1
    print(
        "\nOn a host with an InfiniBand adapter, as root, type next:\n  ibkeys doctor              check the local "
        "InfiniBand stack and suggest fixes\n  ibkeys pkey-show --all     the P_Key table of every port of your own "
        "fabric (reads only)\n  ibkeys audit               unset M_Keys, shared partitions, what could not be read "
        "(reads only)"
    )
    return 0


def _run(words: list[str], backend: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*own_program(), *words, *(["--backend", backend] if words[0] != "mkey-gen" else [])],
        capture_output=True,
        text=True,
        check=False,
    )


def _show(title: str, line: str, backend: str, folder: str) -> int:
    if title:
        print(f"\n# {title}")
    print(f"$ ibkeys {line}")
    done = _run([word.replace("@", f"@{folder}/") for word in shlex.split(line)], backend)
    lines = (done.stdout + done.stderr).splitlines()
    print("\n".join(lines[:LINES]))
    if len(lines) > LINES:
        print(f"... and {len(lines) - LINES} more lines")
    return done.returncode


if __name__ == "__main__":
    with streams.outliving():
        code = main()
    raise SystemExit(code)
