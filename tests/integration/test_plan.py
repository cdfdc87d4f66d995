"""plan and apply on ibsim, then OpenSM with the same policy: it finds nothing to write. Then undo."""

from __future__ import annotations

import json
from csv import DictReader
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import DATA
from tests.integration.hosted import last_operation
from tests.integration.ibsim import Ibsim
from tests.integration.served import Served
from tests.sample import in_soak

SM_GUIDS = {"two-switch": 0x2C903000A1011, "dual-home": 0x248A070300B10101, "ring-router": 0x506B4B0300500021}
BOTH = "allow_both_pkeys TRUE\n"
MOVES = ("--allow-index-moves", "all")


@pytest.mark.parametrize(
    ("fabric", "policies", "conf"),
    [
        ("two-switch", ["merge-override", "churn-1", "churn-2"], ""),
        in_soak("two-switch", ["indx0", "no-default-rule"], ""),
        ("dual-home", ["both-members"], BOTH),
        in_soak("two-switch", ["overflow-switch0", "abbreviations"], BOTH),
        in_soak("ring-router", ["all-kinds", "default-limited"], BOTH),
        in_soak("two-switch", ["indx0-default", "missing-guids", "mgroups"], ""),
    ],
)
def test_after_apply_opensm_with_the_same_policy_writes_nothing(fabric: str, policies: list[str], conf: str) -> None:
    with Ibsim(DATA / "fabrics" / f"{fabric}.net") as ibsim:
        for name in policies:
            policy, plan = DATA / "policies" / f"{name}.conf", ibsim.folder / f"{name}.json"
            asked = (*MOVES, "--sm-guid", SM_GUIDS[fabric], *(["--allow-both-pkeys"] if conf else []))
            before = tables(ibsim)
            assert ibsim.ibkeys("plan", "--policy", policy, "--out", plan, *asked).returncode == 1
            apply(ibsim, plan)
            planned = tables(ibsim)
            assert planned != before
            log = ibsim.opensm(conf, policy, extra=("-D", "0x0f"))
            assert "pkey table" not in log
            assert tables(ibsim) == planned
            assert ibsim.ibkeys("plan", "--policy", policy, "--enforce", "off", *asked).returncode == 0
        done = ibsim.ibkeys("undo", last_operation(ibsim), "--yes", *overrides())
        assert done.returncode == 0, done.stderr
        assert tables(ibsim) == before


def apply(ibsim: Ibsim, plan: Path) -> None:
    done = ibsim.ibkeys("apply", plan, "--via", "direct", "--yes", "--allow-removals", *overrides())
    assert done.returncode == 0, done.stderr


def overrides() -> list[str]:
    return [word for name in ("index-0", "index-move", "default-pkey") for word in ("--override", name)]


def tables(ibsim: Ibsim) -> dict[tuple[str, int], dict[int, str]]:
    done = ibsim.ibkeys("pkey-show", "--all", "-f", "json")
    assert (done.returncode, done.stderr) == (0, "")
    ports: list[dict[str, Any]] = json.loads(done.stdout)["ports"]
    return {(port["node_guid"], port["port"]): {key["index"]: key["pkey"] for key in port["pkeys"]} for port in ports}


def test_enforcement_too_is_what_opensm_would_set() -> None:
    policy = DATA / "policies" / "merge-override.conf"
    with Served(DATA / "fabrics" / "two-switch.net") as served:
        plan = served.folder / "plan.json"
        asked = ("plan", "--policy", policy, "--out", plan, "--sm-guid", SM_GUIDS["two-switch"])
        assert served.ibkeys(*asked).returncode == 1
        apply(served, plan)
        planned, enforced = tables(served), served.ibkeys("port-show", "--enforcement", "--all", "-f", "csv").stdout
        told = [
            (row["partition_enforcement_inbound"], row["partition_enforcement_outbound"])
            for row in DictReader(enforced.splitlines())
        ]
        assert told.count(("1", "1")) == 6
        log = served.opensm(None, policy, extra=("-D", "0x0f"))
        assert "pkey table" not in log
        assert "pkey_mgr_enforce_partition: Set PortInfo" not in log
        assert tables(served) == planned
        assert served.ibkeys("port-show", "--enforcement", "--all", "-f", "csv").stdout == enforced
        assert served.ibkeys("plan", "--policy", policy).returncode == 0
