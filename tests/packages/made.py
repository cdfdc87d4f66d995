"""`make release` in a clone of this repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def made(folder: Path, source: Path = ROOT, umask: int = -1) -> Path:
    """Clone the last commit of *source* into *folder*, make a release there where an earlier one is, and return the
    folder with it.

    Who does it has *umask*; -1: that of this process.
    """
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "clone", "-q", str(source), str(folder)]
    cloned = subprocess.run(command, umask=umask, capture_output=True, text=True, check=False)
    assert cloned.returncode == 0, f"a release is made from a clone of the repository: {cloned.stderr}"
    dist = folder / "dist"
    dist.mkdir(exist_ok=True)
    for kind in ("ibkeys-0.0.0.tar.gz", "ibkeys-0.0.0.cdx.json", "ibkeys_0.0.0_amd64.deb", "SHA256SUMS"):
        (dist / kind).write_text("of an earlier version")
    command = ["make", "release"]
    done = subprocess.run(command, cwd=folder, umask=umask, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return dist
