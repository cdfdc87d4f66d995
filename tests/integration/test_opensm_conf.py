"""A stock OpenSM after mkey-deploy: without m_key in its options it takes every key away; with it, it keeps all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.brought_up import brought_up, running_opensm
from tests.integration.subnet import END_PORT_LIDS, KEY, LEASE, SHOWN, Subnet

DIRECT = ("--via", "direct")
LEVEL_2 = ("--protect", 2, "--lease", LEASE, "--yes")


@pytest.fixture
def served() -> Iterator[Subnet]:
    with brought_up() as fabric:
        yield fabric


@pytest.fixture
def conf(served: Subnet) -> Path:
    """The options of a stock OpenSM, without a word of M_Keys."""
    path = served.folder / "stock.conf"
    path.write_text("# stock\nsm_priority 3\n")
    return path


def take_over(served: Subnet, folder: Path) -> None:
    """Put the key files of *folder* where OpenSM looks for them."""
    for name in ("guid2mkey", "neighbors"):
        (served.folder / name).write_bytes((folder / name).read_bytes())


def test_a_stock_opensm_takes_every_key_away_and_each_step_on_the_way_says_so(served: Subnet, conf: Path) -> None:
    done = served.ibkeys("mkey-deploy", *DIRECT, *LEVEL_2)
    assert (done.returncode, "--per-port for a key of its own" in done.stderr) == (2, True)
    named = ("--opensm-conf", conf)
    done = served.ibkeys("mkey-deploy", *DIRECT, "--per-port", *LEVEL_2, *named)
    assert (done.returncode, "refused by interlock sm-wipes-keys" in done.stderr) == (4, True)
    done = served.ibkeys("mkey-deploy", *DIRECT, "--per-port", *LEVEL_2)  # this is the consent
    assert done.returncode == 0, done.stderr
    assert "sets its one m_key (0 unless opensm.conf sets it) on every port" in done.stderr
    out = served.folder / "out"
    done = served.ibkeys("keystore", "export", out, *named)
    assert (done.returncode, "removes all of them (m_key is not set)" in done.stderr) == (1, True)
    assert "keys differ from port to port" in served.ibkeys("keystore", "export", out).stderr
    # whoever starts it all the same
    take_over(served, out)
    with running_opensm(served, conf.read_text()):
        for lid in END_PORT_LIDS:
            shown = served.portinfo(lid)
            assert (int(shown["Mkey"], 16), shown["ProtectBits"]) == (0, "0"), lid
    served.wait_until_no_sm()
    lost = json.loads(served.ibkeys("audit", "-f", "json", "--check", "MK009", "--fail-on", "never").stdout)
    assert {
        "a subnet manager whose m_key is not set" in each["message"] for each in lost["results"][0]["subjects"]
    } == {True}


def test_with_the_lines_written_opensm_keeps_every_key(served: Subnet, conf: Path) -> None:
    done = served.ibkeys("mkey-deploy", *DIRECT, "--same", "--new-m-key", f"@{served.folder / 'key'}", *LEVEL_2)
    assert done.returncode == 0, done.stderr
    out = served.folder / "out"
    done = served.ibkeys("keystore", "export", out, "--write-opensm-conf", conf)
    assert done.returncode == 0, done.stdout + done.stderr
    assert conf.read_text() == (
        f"# stock\nsm_priority 3\nm_key {SHOWN}\nm_key_protection_level 2\nm_key_lease_period {LEASE}\n"
    )
    take_over(served, out)
    with running_opensm(served, conf.read_text()):
        for lid, port in served.mkeys("-K").items():
            assert (port["m_key"], port["m_key_protect_bits"], port["m_key_lease_period"]) == (SHOWN, 2, LEASE), lid
            assert port["m_key_violations"] == 0
        # it reads its options again at each heavy sweep: to write them now would be to apply them
        running = served.folder / "opensm.conf"
        before = running.read_bytes()
        assert b"m_key 0x" in before
        done = served.ibkeys("keystore", "export", out, "--write-opensm-conf", running, "--lease", LEASE + 1)
        assert (done.returncode, "reads at each heavy sweep; nothing was written" in done.stderr) == (4, True)
        assert running.read_bytes() == before
        # a stranger on this host is told which keys open the ports
        done = served.ibkeys("mkey-show", "--all", "--keystore", served.folder / "none.db", "-t", 200)
        assert done.returncode == 3
        assert f"give --security-keys {served.folder}" in done.stderr
        assert f"{KEY:x}" not in done.stderr
        done = served.ibkeys(
            "mkey-show", "--all", "--keystore", served.folder / "none.db", "--security-keys", served.folder
        )
        assert done.returncode == 0, done.stderr
    served.wait_until_no_sm()
