"""A fabric whose OpenSM runs, and a rehearsal on a snapshot of it, as on another host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.corpus import DATA
from tests.integration.hosted import Hosted, RunningOpensm, opensm
from tests.integration.ibsim import ibkeys, ibkeys_environment
from tests.integration.tenants import TENANTS

FABRIC: Final = DATA / "fabrics" / "two-switch.net"
KEYED: Final = "sweep_interval 3\nm_key 0x1122334455667788\nm_key_protection_level 2\nm_key_lease_period 60\n"
"""Options of an OpenSM that gives every port one M_Key at level 2."""
MOST: Final = 300.0
"""Seconds within which a rehearsal has ended, also where other tests run."""


class Site:
    """A fabric whose OpenSM runs, a snapshot of it, and a plan."""

    def __init__(self, served: Hosted, running: RunningOpensm) -> None:
        self.served, self.running = served, running
        self.snapshot = served.folder / "fabric.db"
        self.plan = served.folder / "plan.json"
        self.conf = served.folder / "opensm.conf"
        self.journal = served.folder / "noted.db"

    def take_snapshot(self, *words: str) -> None:
        folder = self.served.folder
        keys = ["--security-keys", folder] if (folder / "guid2mkey").exists() else []
        done = self.served.ibkeys("snapshot", self.snapshot, *keys, *words)
        assert done.returncode == 0, done.stderr

    def rehearse(self, *words: str | Path, opensm: str | None = None) -> tuple[int, dict[str, Any], str]:
        """Rehearse on the snapshot, as on another host; return the exit status, the document, and standard error."""
        command = opensm or f"opensm -F {self.conf} -P {self.running.policy}"
        done = ibkeys(
            *("rehearse", "--journal", self.journal, "--from", self.snapshot, "--opensm", command, "-f", "json"),
            *words,
            timeout=MOST,
            env={**ibkeys_environment(), "OSM_CACHE_DIR": str(self.served.folder)},
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else {"verdict": None}, done.stderr


@contextmanager
def site(policy: str = TENANTS, conf: str = "", fabric: Path = FABRIC) -> Iterator[Site]:
    with Hosted(fabric) as served, opensm(served, policy, conf) as running:
        made = Site(served, running)
        made.take_snapshot()
        yield made
