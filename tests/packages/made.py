"""`make release` in a clone of this repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def made(folder: Path, source: Path = ROOT) -> Path:
    """Clone the last commit of *source* into *folder* and make a release there; return the folder with it."""
    shutil.rmtree(folder, ignore_errors=True)
    cloned = subprocess.run(["git", "clone", "-q", source, folder], capture_output=True, text=True, check=False)
    assert cloned.returncode == 0, f"a release is made from a clone of the repository: {cloned.stderr}"
    done = subprocess.run(["make", "release"], cwd=folder, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"
