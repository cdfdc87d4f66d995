"""``ibkeys`` on a served fabric that dies at one of its points: a system call that writes, a rename, a signal."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.integration.ibsim import ROOT, Ibsim, tool

DRIVER = Path(__file__).with_name("crash_driver.py")
SHIM = ROOT / "tests" / "mkeys" / "crashpoint.c"


def compiled_shim(folder: Path) -> str:
    """Return LD_PRELOAD with the shim below libumad2sim: what goes to the fabric is no point."""
    compiler = shutil.which("cc")
    assert compiler is not None, "no C compiler: apt-get install gcc libc6-dev"
    found = re.search(r"^sim_so=(\S+)", Path(tool("ibsim-run")).read_text(), re.MULTILINE)
    assert found, "ibsim-run does not say where libumad2sim is"
    library = folder / "crashpoint.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, SHIM, "-ldl"], check=True)
    return f"{found[1]}:{library}"


def run_to_a_point(
    served: Ibsim, preloaded: str, stores: Path, words: Sequence[str | Path | int], mode: str = "off", point: int = 0
) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run ibkeys with journal and key store in *stores*; return how it ended and how many points it passed.

    *mode*: ``off``, ``count``, or ``kill``: it dies at *point*.
    """
    result = served.folder / "points"
    result.unlink(missing_ok=True)
    stores.mkdir(exist_ok=True)
    command = [sys.executable, DRIVER, mode, point, result, stores, *words]
    done = subprocess.run(
        [str(word) for word in command],
        cwd=served.folder,
        env={**served.environment, "LD_PRELOAD": preloaded},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done, int(result.read_text()) if result.exists() else 0
