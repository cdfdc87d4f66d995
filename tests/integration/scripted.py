"""A Python script on a served fabric, with the stores of the commands there."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.ibsim import NO_LAYERS, Ibsim

_OWN_STORES = f"""{NO_LAYERS}
import runpy, sys
from pathlib import Path
import ibkeys.store.paths
stores, script, *words = sys.argv[1:]
ibkeys.store.paths.default_directory = lambda: Path(stores)
sys.argv = [script, *words]
runpy.run_path(script, run_name="__main__")
"""


def command(served: Ibsim, script: Path, *words: object) -> list[str | Path]:
    """Return the command that runs *script*, for `Ibsim.run`."""
    return [sys.executable, "-c", _OWN_STORES, served.folder / "stores", script, *map(str, words)]


def run(served: Ibsim, script: Path, *words: object, code: int = 0) -> str:
    """Run *script* and return what it said; its exit status is *code*."""
    done = served.run(command(served, script, *words), timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
