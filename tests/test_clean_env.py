"""The environment that ``make test`` gives to the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

CLEAN_ENV = Path(__file__).parents[1] / ".ci" / "clean-env"


def test_only_what_programs_and_package_clients_need_is_kept() -> None:
    kept = {
        "HOME": "/a b",
        "PATH": "/bin:/usr/bin",
        "TERM": "vt100",
        "PIP_INDEX_URL": 'it\'s "one" $word',
        "https_proxy": "",
        "CI": "1",
    }
    dropped = {"PYTHONUNBUFFERED": "1", "IBKEYS_BACKEND": "sim:", "PYTHONPATH": "/x", "MAKEFLAGS": "-k"}
    done = subprocess.run(
        [CLEAN_ENV, "IBKEYS_SOAK=1", "env", "-0"], env=kept | dropped, capture_output=True, text=True, check=True
    )
    seen = dict(line.split("=", 1) for line in done.stdout.removesuffix("\0").split("\0"))
    assert seen == kept | {"IBKEYS_SOAK": "1", "PATH": "/bin:/usr/bin:/usr/sbin:/sbin"}
