"""A bare Debian like this host's, made new in a folder that goes when the test is done; needs no root."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_ENVIRONMENT: Final = (
    "export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8"
)
_PROGRAMS: Final = {"mmdebstrap": "mmdebstrap", "newuidmap": "uidmap"}
"""What it takes, and the package that has it."""
_SOURCES: Final = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d/debian.sources"))


def in_bare_debian(script: str, files: Iterable[Path], out: Path, packages: str = "") -> str:
    """Run the shell commands *script* in a bare Debian with apt and *packages*; *files* are in /in there.

    Returns what it said. An AssertionError shows it where a command failed.
    """
    for name, package in _PROGRAMS.items():
        assert shutil.which(name), f"{name} is not installed: apt-get install {package}"
    (out / "try").write_text(f"set -eux\n{_ENVIRONMENT}\n{script}")
    copied = " ".join(f"'{path}'" for path in (*files, out / "try"))
    command = ["mmdebstrap", "--quiet", "--variant=apt", "--format=null", f"--include={packages or 'apt'}"]
    command += [f"--customize-hook={each}" for each in ("mkdir $1/in", f"copy-in {copied} /in")]
    command += [
        "--customize-hook=chroot $1 sh /in/try 2>&1",
        platform.freedesktop_os_release()["VERSION_CODENAME"],
        "-",
    ]
    command += [str(path) for path in _SOURCES if path.exists()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said
