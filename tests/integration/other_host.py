"""An OpenSM of another host."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.integration.hosted import RunningOpensm, plan_for
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.sshd import Sshd
from tests.integration.subnet import Subnet
from tests.integration.tenants import GREEN


class OtherHost:
    """The subnet, its OpenSM, and the way to the host that it runs on."""

    def __init__(self, served: Subnet, running: RunningOpensm, sshd: Sshd, folder: Path) -> None:
        self.served, self.running, self.sshd = served, running, sshd
        settings = folder / "sm.toml"
        settings.write_text('[here]\nunit = "no-such-unit"\n')
        settings.chmod(0o600)
        self.options = ("--sm-host", "smhost", "--ssh-config", sshd.config, "--sm-config", settings)
        plan_for(served, GREEN)
        self.plan = served.folder / "plan.json"

    def apply(self, *words: str | int | Path) -> list[str]:
        words = ("apply", self.plan, "--via", "opensm", "--allow-removals", "--yes", *self.options, *words)
        return self.served.ibkeys_command(*words)

    def start(self, *words: str | int | Path) -> subprocess.Popen[str]:
        return self.served.begin(self.apply(*words), stderr=subprocess.PIPE)

    def wait_for_policy(self, text: str) -> None:
        deadline = time.monotonic() + RUN_TIMEOUT
        while self.running.policy.read_text() != text:
            assert time.monotonic() < deadline, self.running.policy.read_text()
