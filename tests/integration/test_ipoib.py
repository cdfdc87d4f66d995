"""compare --ipoib against a real OpenSM that read the same policy, or another one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import DATA
from tests.integration.ibsim import RUN_TIMEOUT, Ibsim
from tests.integration.policy_opensm import running_opensm
from tests.integration.served import Served

POLICIES = DATA / "policies"
HIDDEN = """Default=0x7fff, ipoib : ALL=limited, SELF=full ;
Mine=0x21, ipoib, mtu=5, scope=5 : SELF=limited, 0x2c903000a1031=full ;
Theirs=0x22, ipoib : 0x2c903000a1031=full ;
Nobodys=0x23, ipoib : 0xdeadbeef=full ;
"""


def check(fabric: Ibsim, policy: Path, node: str = "") -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "ibkeys", "compare", "--ipoib", "--policy", str(policy), "-f", "json", "-t", "500"],
        cwd=fabric.folder,
        env={**fabric.environment, **(fabric.at(node) if node else {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def states(document: dict[str, Any]) -> dict[str, str]:
    return {each["mgid"]: each["state"] for each in document["groups"]}


@pytest.mark.parametrize(
    ("name", "odd"),
    [("ipoib-flags", {"ff12:401b:8303::ffff:ffff": "missing"}), ("mgroups", {})],
)
def test_opensm_knows_the_groups_of_its_policy(serve: Callable[..., Served], name: str, odd: dict[str, str]) -> None:
    """That of mtu=9 is one that OpenSM refuses to make."""
    fabric, policy = serve(DATA / "fabrics" / "two-switch.net"), POLICIES / f"{name}.conf"
    with running_opensm(fabric, partitions=policy):
        code, document = check(fabric, policy)
    recorded = json.loads((POLICIES / "expected" / f"two-switch--{name}.mcgroups.json").read_text())["groups"]
    found = states(document)
    assert {mgid for mgid, state in found.items() if state == "as-planned"} == {each["mgid"] for each in recorded}
    assert {mgid: state for mgid, state in found.items() if state != "as-planned"} == odd
    assert (code, document["error"]) == (1 if odd else 0, None)


SCOPES = """Default=0x7fff, ipoib : ALL=full ;
One=0x1, ipoib : SELF=full
 mgid=ff15::3
 mgid=ff0e::4,sl=0
 mgid=ff15:401b::16
 mgid=ff15:401b::17,scope=5
 mgid=ff12:401b::18,scope=5,scope=2
 mgid=ff15:401b::ffff:ffff,scope=5
 mgid=ff12:401b::19,scope=5
 mgid=ff32::5
 mgid=ff12::6,mtu=9
 mgid=ff12::7,rate=1
 mgid=ff12::8,mtu=0
 mgid=ff12:a01b::9
 mgid=ff15:a01b::a,scope=5
 ALL ;
Two=0x2 : SELF=full
 mgid=ff12:401b::16
 ALL ;
Two=0x2, ipoib : SELF=full
 mgid=ff12:601b::16
 ALL ;
"""


def test_opensm_makes_the_scopes_and_ip_groups_that_are_predicted(serve: Callable[..., Served], tmp_path: Path) -> None:
    fabric, policy = serve(DATA / "fabrics" / "two-switch.net"), tmp_path / "scopes.conf"
    policy.write_text(SCOPES)
    with running_opensm(fabric, partitions=policy):
        code, document = check(fabric, policy)
    made = ["ff12:401b:ffff::ffff:ffff", "ff12::3", "ff02::4", "ff15:a01b::a"]
    made += [f"ff12:401b:8001::{each}" for each in ("ffff:ffff", "16", "18")]
    made += [f"ff15:401b:8001::{each}" for each in ("ffff:ffff", "19")]
    made += ["ff12:401b:8002::ffff:ffff", "ff12:601b:8002::16"]
    assert states(document) == dict.fromkeys(made, "as-planned")
    assert code == 0


def test_opensm_shows_a_group_to_limited_members_and_to_no_port_outside(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    fabric, policy = serve(DATA / "fabrics" / "two-switch.net"), tmp_path / "hidden.conf"
    policy.write_text(HIDDEN)
    with running_opensm(fabric, partitions=policy):
        code, document = check(fabric, policy)
        member = check(fabric, policy, "H-0002c903000a1030")
    assert states(document) == {
        "ff12:401b:ffff::ffff:ffff": "as-planned",
        "ff12:401b:8021::ffff:ffff": "as-planned",
        "ff12:401b:8022::ffff:ffff": "unknown",
        "ff12:401b:8023::ffff:ffff": "no-member",
    }
    assert code == 3
    assert states(member[1]) == {**states(document), "ff12:401b:8022::ffff:ffff": "as-planned"}
    assert member[0] == 0


def test_an_opensm_that_refused_the_policy_is_found_out(serve: Callable[..., Served], tmp_path: Path) -> None:
    fabric, policy = serve(DATA / "fabrics" / "two-switch.net"), tmp_path / "meant.conf"
    policy.write_text("Default=0x7fff : ALL=limited, SELF=full ;\nBlue=0x12, ipoib : ALL=full ;\n")
    with running_opensm(fabric, partitions=POLICIES / "syntax-bad-guid.conf"):
        code, document = check(fabric, policy)
    assert states(document) == {
        "ff12:401b:8012::ffff:ffff": "unknown",
        "ff12:401b:ffff::ffff:ffff": "unexpected",
    }
    assert "refused the one it has" in document["groups"][1]["message"]
    assert code == 3


_JOIN = """
import sys, ibkeys
from ibkeys.errors import MadStatusError
from ibkeys.mad.const import Method
from ibkeys.mad.records import MCMemberRecord

MGID, PORT_GID, Q_KEY, T_CLASS, P_KEY, SL, FLOW_LABEL, JOIN_STATE = (1 << bit for bit in (0, 1, 2, 6, 7, 12, 13, 16))
JOIN = MGID | PORT_GID | P_KEY | JOIN_STATE
MAKE = JOIN | Q_KEY | T_CLASS | SL | FLOW_LABEL
with ibkeys.open("umad") as fabric:
    local = fabric.local()
    gid = local.gid_prefix << 64 | local.port_guid
    for how, base in [(each[0], int(each[1:])) for each in sys.argv[1:]]:
        mgid = 0xFF12401B_00000000_00000000_FFFFFFFF | (base | 0x8000) << 80
        record = MCMemberRecord.new(mgid=mgid, port_gid=gid, p_key=base | 0x8000, join_state=1, q_key=0xB1B)
        try:
            fabric.sa()._ask(Method.SET, 0x38, MAKE if how == "+" else JOIN, record.raw, "join")
            print(how, hex(base), "joined")
        except MadStatusError as error:
            print(how, hex(base), hex(error.status))
"""


def test_opensm_refuses_the_ports_that_are_said_to_be_kept_out(serve: Callable[..., Served], tmp_path: Path) -> None:
    """Joins as an IPoIB driver makes them: of a group that the link can carry, of two that it cannot, of one that is
    not there; then with all that makes a group where there is none."""
    fabric, policy = serve(DATA / "fabrics" / "two-switch.net"), tmp_path / "joins.conf"
    policy.write_text(
        "Default=0x7fff, ipoib : ALL=full ;\n"
        "Open=0x21, ipoib, mtu=4, rate=3 : ALL_CAS=full ;\n"
        "Mtu=0x22, ipoib, mtu=5 : ALL_CAS=full ;\n"
        "Rate=0x23, ipoib, rate=10 : ALL_CAS=full ;\n"
        "None=0x24 : ALL_CAS=full ;\n"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=fabric.folder,
            env={**fabric.environment, **fabric.at("H-0002c903000a1030")},
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT,
            check=False,
        )

    with running_opensm(fabric, partitions=policy):
        done = run(
            "-m", "ibkeys", "compare", "--ipoib", "--policy", str(policy), "--members", "-f", "json", "-t", "500"
        )
        joined = run("-c", _JOIN, "=33", "=34", "=35", "=36", "+34", "+35", "+36")
    assert done.stdout, done.stderr
    kept_out = {each["partition"]: each["keeps_out"] for each in json.loads(done.stdout)["joins"]}
    assert kept_out == {"0x7fff": False, "0x0021": False, "0x0022": True, "0x0023": True, "0x0024": False}
    assert joined.stdout.splitlines() == [
        "= 0x21 joined",
        "= 0x22 0x200",
        "= 0x23 0x200",
        "= 0x24 0x600",  # a driver makes no group
        "+ 0x22 0x200",
        "+ 0x23 0x200",
        "+ 0x24 joined",  # whoever asks for one gets it
    ], joined.stderr
