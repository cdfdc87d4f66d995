"""``ibkeys sim run`` on a host that seems to have an adapter, as root and as another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.ibsim import ROOT, RUN_TIMEOUT, ibkeys_environment

STAND_IN = Path(__file__).with_name("stand_in_adapters.sh")
SIM = [sys.executable, "-m", "ibkeys", "sim"]
NOBODY = 65534
AS_NOBODY = ("sh", str(Path(__file__).with_name("as_nobody.sh")), str(ROOT))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
"""For a test that is run as root and as another user; without root only the other user's part can be run."""


def beside_adapter(
    command: Sequence[str | Path], mode: str = "666", etc: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run *command* where this host seems to have an adapter, whose devices have these permissions.

    *etc*: a folder that is /etc there.
    """
    unshare = shutil.which("unshare")
    assert unshare is not None, "no unshare: apt-get install util-linux"
    namespaces = ["-m"] if os.geteuid() == 0 else ["-Urm"]
    return subprocess.run(
        [unshare, *namespaces, "sh", str(STAND_IN), *map(str, command)],
        env={**ibkeys_environment(), "STAND_IN_MODE": mode, "STAND_IN_ETC": str(etc or "")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
        cwd=ROOT,
    )


def sim(*words: str | Path, timeout: float = RUN_TIMEOUT, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run ``ibkeys sim`` with further environment variables."""
    return subprocess.run(
        [*SIM, *map(str, words)],
        env={**ibkeys_environment(), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
