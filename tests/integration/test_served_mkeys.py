"""M_Keys on the served simulator: OpenSM sets them, smpquery, ibportstate and ibkeys read, set and lose them.

Nothing here sleeps: OpenSM is heard through its log, and the simulator's time is moved on by steering.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.corpus import DATA
from tests.integration.ibsim import parse_dump
from tests.integration.opensms import Log
from tests.integration.subnet import END_PORT_LIDS, KEY, LEASE, SHOWN, Subnet, opensm

VICTIM = 2  # the LID of node02


@pytest.fixture
def served() -> Iterator[Subnet]:
    with Subnet(DATA / "fabrics" / "two-switch.net") as fabric:
        (fabric.folder / "key").write_text(f"{SHOWN}\n")
        (fabric.folder / "key").chmod(0o600)
        yield fabric


@pytest.fixture
def keyed(served: Subnet) -> Iterator[Callable[[int], Log]]:
    with ExitStack() as stack:
        yield lambda level: stack.enter_context(opensm(served, level))


def test_level_2_is_refused_without_the_key_and_answered_with_it(served: Subnet, keyed: Callable[[int], Log]) -> None:
    keyed(2)
    for lid in END_PORT_LIDS:
        assert served.query(lid).returncode != 0
        shown = served.portinfo(lid, "-y", SHOWN)
        assert (int(shown["Mkey"], 16), shown["ProtectBits"], shown["MkeyLeasePeriod"]) == (KEY, "2", str(LEASE))
    refused = served.ibkeys("mkey-show", "--all", "-f", "json")
    assert refused.returncode == 3
    assert f"{KEY:x}" not in refused.stdout + refused.stderr
    ports = served.mkeys("-K", "--security-keys", served.folder)
    assert set(ports) == set(END_PORT_LIDS)
    for port in ports.values():
        assert (port["m_key"], port["m_key_protect_bits"], port["m_key_lease_period"]) == (SHOWN, 2, LEASE)


def test_level_1_hides_the_key_from_those_without_it(served: Subnet, keyed: Callable[[int], Log]) -> None:
    keyed(1)
    for lid in END_PORT_LIDS:
        blinded, shown = served.portinfo(lid), served.portinfo(lid, "-y", SHOWN)
        assert (int(blinded["Mkey"], 16), blinded["ProtectBits"]) == (0, "1")
        assert (int(shown["Mkey"], 16), shown["MkeyViolations"]) == (KEY, "0")
    blind, seeing = served.mkeys("-K"), served.mkeys("-K", "--security-keys", served.folder)
    assert set(blind) == set(seeing) == set(END_PORT_LIDS)
    assert {port["m_key"] for port in seeing.values()} == {SHOWN}
    assert SHOWN not in {port["m_key"] for port in blind.values()}
    assert {port["m_key_state"] for port in blind.values()}.isdisjoint({"set", "none"})


def test_the_files_that_opensm_writes_name_every_end_port_and_link(served: Subnet, keyed: Callable[[int], Log]) -> None:
    keyed(2)
    keys = dict(re.findall(r"^(0x[0-9a-f]{16}) (0x[0-9a-f]{16})$", (served.folder / "guid2mkey").read_text(), re.M))
    ports = served.mkeys("-K", "--security-keys", served.folder)
    assert {port["port_guid"]: port["m_key"] for port in ports.values()} == keys
    links = re.findall(r"^(\S+:\d+) (\S+:\d+)$", (served.folder / "neighbors").read_text(), re.M)
    assert len(links) == 2 * 8
    assert {(far, near) for near, far in links} == set(links)


def test_ibportstate_and_ibkeys_read_what_the_other_set(served: Subnet) -> None:
    with opensm(served, 1):
        pass
    served.run(
        ["ibportstate", "-y", SHOWN, str(VICTIM), "1", "mkey", "0x77", "mkeylease", "77", "mkeyprot", "2"], check=True
    )
    (served.folder / "new").write_text("0x77\n")
    (served.folder / "new").chmod(0o600)
    done = served.ibkeys("mkey-show", VICTIM, "1", "-f", "json", "-K", "-y", f"@{served.folder / 'new'}")
    (port,) = json.loads(done.stdout)["ports"]
    assert (int(port["m_key"], 16), port["m_key_protect_bits"], port["m_key_lease_period"]) == (0x77, 2, 77)
    done = served.ibkeys(
        *("mkey-set", VICTIM, "1", "--yes", "-y", f"@{served.folder / 'new'}"),
        *("--new-m-key", f"@{served.folder / 'key'}", "--protect", 1, "--lease", 33),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = served.portinfo(VICTIM, "-y", SHOWN)
    assert (int(shown["Mkey"], 16), shown["ProtectBits"], shown["MkeyLeasePeriod"]) == (KEY, "1", "33")


def test_leases_run_out_when_opensm_is_gone_and_keys_are_back_with_it(served: Subnet) -> None:
    with opensm(served, 2):
        pass
    for lid in END_PORT_LIDS:
        assert served.query(lid).returncode != 0  # refused; this starts the lease
    served.steer(f"time +{LEASE - 30}")
    assert served.query(VICTIM).returncode != 0
    served.steer("time +30")
    for lid in END_PORT_LIDS:
        shown = served.portinfo(lid)
        assert (int(shown["Mkey"], 16), shown["ProtectBits"]) == (KEY, "0"), lid
    with opensm(served, 2):
        for lid in END_PORT_LIDS:
            assert served.query(lid).returncode != 0
            assert served.portinfo(lid, "-y", SHOWN)["ProtectBits"] == "2"


def test_a_lease_does_not_run_while_opensm_knows_the_key(served: Subnet, keyed: Callable[[int], Log]) -> None:
    log = keyed(2)
    before = len(log.lines)
    assert served.query(VICTIM, "-y", "0x99").returncode != 0
    log.wait("num:256", before)
    assert served.portinfo(VICTIM, "-y", SHOWN)["ProtectBits"] == "2"  # as OpenSM's TrapRepress, this stops the lease
    served.steer(f"time +{10 * LEASE}")
    assert served.query(VICTIM).returncode != 0


def test_a_wrong_key_is_counted_and_trap_256_tells_opensm(served: Subnet, keyed: Callable[[int], Log]) -> None:
    log = keyed(2)
    before = len(log.lines)
    assert served.portinfo(VICTIM, "-y", SHOWN)["MkeyViolations"] == "0"
    assert served.query(VICTIM, "-y", "0x99").returncode != 0
    # libibmad asks again, up to three times, only if the kernel's timeout comes before its own, which is as long.
    sent = served.steer("events 200").count("m-key-violation node02 mlx4_0 port 1")
    assert 1 <= sent <= 3
    assert served.portinfo(VICTIM, "-y", SHOWN)["MkeyViolations"] == str(sent)
    notice = log.wait("Reporting Security Notice", before)
    for part in ("Bad M_Key", f"LID {VICTIM},", "Method 0x1,", "Attribute 0x15,", "AttrMod 0x1,"):
        assert part in notice
    served.wait_for_event("trap-repressed node02 mlx4_0 port 1 number=256")
    assert served.steer("events 200").count("trap node02 mlx4_0 port 1 number=256") == 1


def test_one_request_with_a_wrong_key_counts_one(served: Subnet) -> None:
    with opensm(served, 1):
        pass
    set_lease = ["ibportstate", "-y", SHOWN, str(VICTIM), "1", "mkeyprot", "2"]
    served.run(set_lease, check=True)
    before = int(served.portinfo(VICTIM, "-y", SHOWN)["MkeyViolations"])
    done = served.ibkeys("mkey-show", VICTIM, "1", "--retries", "0", "-t", "500", "-y", "0x99")
    assert done.returncode == 3
    assert int(served.portinfo(VICTIM, "-y", SHOWN)["MkeyViolations"]) == before + 1


def test_other_traps_reach_opensm(served: Subnet, keyed: Callable[[int], Log]) -> None:
    log = keyed(1)
    for line, heard in (
        ('packet "node02 mlx4_0" "node04 mlx4_0" pkey=0x8001', r"num:259 .* from LID:7"),
        ('packet "node02 mlx4_0" "node04 mlx4_0" qkey=1 expects=2', r"num:258 .* from LID:4"),
        ('describe "node03 mlx4_0" "a new name"', "Trap 144 Node description update"),
        ('link "node05 mlx4_0"[1] down', r"num:128 .* from LID:8"),
    ):
        before = len(log.lines)
        served.steer(line)
        log.wait(heard, before)
    log.wait("GID out of service.*:1051", before)
    before = len(log.lines)
    served.steer('link "node05 mlx4_0"[1] up')
    log.wait("GID in service.*:1051", before)
    assert int(served.portinfo(5, "-y", SHOWN)["Mkey"], 16) == KEY
    counters = parse_dump(served.run(["perfquery", "7", "2"], check=True).stdout)
    assert counters["PortRcvConstraintErrors"] == "1"
