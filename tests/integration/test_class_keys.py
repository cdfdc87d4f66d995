"""CC_Keys beside ibccquery and ibccconfig of infiniband-diags: on our simulator, and on ibsim, which has none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.corpus import DATA
from tests.integration.ibsim import Ibsim, tool
from tests.integration.served import Served

NET = DATA / "fabrics" / "two-switch.net"
NODE03 = 0x0002C903000A1031
KEY, OTHER = "0xa1a2a3a4a5a6a7a8", "0xb1b2b3b4b5b6b7b8"
FIELDS = {
    "CC_Key": "cc_key",
    "CC_KeyProtectBit": "cc_key_protect_bit",
    "CC_KeyLeasePeriod": "cc_key_lease_period",
    "CC_KeyViolations": "cc_key_violations",
}
Shown = dict[str, int]


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(NET, links="active") as served:
        yield served


def asked_by_ibccquery(fabric: Ibsim, lid: int, key: str | None = None) -> Shown | None:
    """Return the fields that ibccquery prints, None where it fails."""
    words = ["-c", key] if key else []
    done = fabric.run([tool("ibccquery"), *words, "CongestionKeyInfo", str(lid)])
    if done.returncode:
        return None
    pairs = re.findall(r"^(\w+):\.*(\S+)$", done.stdout, re.MULTILINE)
    return {FIELDS[name]: int(value, 0) for name, value in pairs}


def row(fabric: Ibsim, lid: int) -> dict[str, Any]:
    """Return what classkey-show says of the CC_Key of one port."""
    words = ("classkey-show", "--class", "cc", "--ask-unkeyed", lid, "-K", "-f", "json")
    (port,) = json.loads(fabric.ibkeys(*words).stdout)["ports"]
    return dict(port)


def fields(said: dict[str, Any]) -> Shown:
    return {name: int(str(value), 0) for name, value in said["key_info"].items()}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", "zero"),
        (f"key={KEY} lease=60 violations=7", "set"),
        (f"key={KEY} protect=1 lease=60 violations=7", "hidden"),
    ],
)
def test_what_ibccquery_prints_is_what_we_show(served: Served, state: str, expected: str) -> None:
    served.steer(f'classkey "node03 mlx4_0" cc on {state}')
    printed, said = asked_by_ibccquery(served, 3), row(served, 3)
    assert said["class_key_state"] == expected
    assert fields(said) == printed


@pytest.mark.integration
def test_what_ibccconfig_sets_is_read_by_both(served: Served) -> None:
    served.steer('classkey "node03 mlx4_0" cc on')
    for old, new in (("0", KEY), (KEY, OTHER)):
        change = [tool("ibccconfig"), "-c", old, "CongestionKeyInfo", "3", new, "1", "30", "0"]
        served.run(change, check=True)
        assert asked_by_ibccquery(served, 3, new) == dict(zip(FIELDS.values(), (int(new, 0), 1, 30, 0), strict=True))
        hidden = row(served, 3)
        assert (hidden["class_key_state"], hidden["lease_period"], hidden["violations"]) == ("hidden", 30, 0)
    wrong = [tool("ibccconfig"), "-c", KEY, "CongestionKeyInfo", "3", KEY, "0", "0", "0"]
    assert served.run(wrong).returncode != 0
    assert row(served, 3)["violations"] >= 1


@pytest.mark.integration
def test_a_key_goes_where_the_neighbors_of_opensm_place_its_port() -> None:
    """The folder has OpenSM's own file and a key file as ibdiagnet writes it; without the former nothing is sent."""
    with Served(NET, port_guids="file") as served:
        served.opensm()
        served.steer(f'classkey "node03 mlx4_0" cc on key={KEY} protect=1 lease=60')
        served.steer("classrule cc gets drops")
        keys = served.opensm_cache
        (keys / "guid2cckey").write_text(f"0x{NODE03:016x} {KEY}\n")
        (keys / "guid2cckey").chmod(0o600)
        words = ("classkey-show", "--class", "cc", "-G", hex(NODE03), "-f", "json", "--security-keys", keys)
        (said,) = json.loads(served.ibkeys(*words).stdout)["ports"]
        assert (said["class_key_state"], said["known_key"], said["violations"]) == ("set", True, 0)
        (keys / "neighbors").rename(keys / "elsewhere")
        (said,) = json.loads(served.ibkeys(*words).stdout)["ports"]
        assert (said["class_key_state"], said["known_key"]) == ("not-asked", None)
        assert f"port GUID 0x{NODE03:016x} has no known place" in said["detail"]


@pytest.mark.integration
def test_without_the_class_both_get_nothing_or_a_status(served: Served) -> None:
    assert asked_by_ibccquery(served, 3) is None
    assert row(served, 3)["class_key_state"] == "silent"
    served.steer("classrule cc absent status")
    assert asked_by_ibccquery(served, 3) is None
    assert row(served, 3)["class_key_state"] == "absent"


@pytest.mark.integration
def test_zeros_of_an_ibsim_switch_are_not_taken_for_no_key() -> None:
    """ibsim takes class 0x21 for subnet management; ibccquery shows its zeros as a key that is not set."""
    with Ibsim(NET) as ibsim:
        ibsim.opensm()
        lids = {
            each["node_type"]: each["lid"]
            for each in json.loads(ibsim.ibkeys("discover", "--names", "-f", "json").stdout)["ports"]
        }
        printed, said = asked_by_ibccquery(ibsim, lids["switch"]), row(ibsim, lids["switch"])
        assert printed == dict.fromkeys(FIELDS.values(), 0)
        assert (said["class_key_state"], fields(said)) == ("unconfirmed", printed)
        assert asked_by_ibccquery(ibsim, lids["ca"]) is None
        absent = row(ibsim, lids["ca"])
        assert (absent["class_key_state"], absent["key_info"]) == ("absent", None)
