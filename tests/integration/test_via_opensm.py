"""``apply --via opensm`` on the served simulator with the real OpenSM: the plan on the wire, and back."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.integration.test_served_mkeys import Subnet
from tests.integration.test_sm_policies import PAIRS, TENANTS, opensm, plan_of, tables

CONF = "sweep_interval 0\n"
CRASHES_OPENSM = "reused and moved on"
"""The way back moves a group from a partition that ends: OpenSM 3.3.23 dies of that."""
GREEN = TENANTS.replace("Red=0x10", "Green=0x11")
OVERRIDES = ("--override", "index-0", "--override", "index-move")


def via(served: Subnet, *words: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run ``apply --via opensm`` with all that a plan may need."""
    return served.ibkeys("apply", *words, "--via", "opensm", "--allow-removals", "--yes", *OVERRIDES, timeout=timeout)


def facts(path: Path) -> tuple[bytes, int, int, int]:
    """Bytes, mode and owner of a file."""
    status = path.stat()
    return path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


@pytest.mark.parametrize("name", PAIRS)
def test_the_wire_is_as_planned_and_after_undo_as_before(name: str) -> None:
    old, new, conf, _ = PAIRS[name]
    with Subnet(DATA / "fabrics" / "two-switch.net") as served, opensm(served, CONF + conf, old) as driven:
        driven.policy.chmod(0o640)
        os.chown(driven.policy, 12, 34)
        plan = plan_of(served, new, conf)
        before, file = tables(served), facts(driven.policy)
        done = via(served, served.folder / "plan.json", *(["--allow-break"] if name == "circle" else []))
        assert done.returncode == 0, done.stdout + done.stderr
        assert facts(driven.policy) == (new.encode(), *file[1:])
        assert tables(served) == {**before, **{each.port.key: dict(each.after) for each in plan.tables}}
        if name == CRASHES_OPENSM:
            return
        if name == "circle":
            refused = served.ibkeys("undo", "--yes", timeout=120)
            assert refused.returncode == 4
            assert "may cut the same pairs" in refused.stderr
        done = served.ibkeys("undo", "--yes", "--allow-break", *OVERRIDES, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tables(served), facts(driven.policy)) == (before, file)
