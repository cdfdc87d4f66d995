"""``doctor --report`` on libibumad: beside OpenSM and infiniband-diags on our server, and on ibsim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ibkeys.hardware.checks import infiniband_diags
from tests.cli.conftest import key_argument
from tests.corpus import DATA
from tests.hardware.looking import held, unpacked
from tests.integration.hosted import Hosted, opensm
from tests.integration.ibsim import Ibsim

pytestmark = pytest.mark.integration
DUAL_HOME = DATA / "fabrics" / "dual-home.net"
KEY = 0xA94F13D02E7C5B68
BESIDE = {each.id for each in infiniband_diags.CHECKS}
FAST = ("-t", "200", "--retries", "1")


@pytest.fixture(scope="module")
def site() -> Iterator[Hosted]:
    """A host with two ports on one subnet, which an OpenSM with an M_Key at level 0 has brought up."""
    with Hosted(DUAL_HOME, sim_host="H-248a070300b10100") as served, opensm(served, None):
        yield served


def report(served: Ibsim, *words: str | Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Run ``doctor --report``; return its findings by id, and the files of the archive."""
    path = served.folder / "report.tar.gz"
    done = served.ibkeys("doctor", "--report", path, "-f", "json", *FAST, *words, timeout=120)
    assert done.returncode in (0, 1), done.stderr  # doctor may have found something about this host
    findings = json.loads(done.stdout)["report"]["findings"]
    return {row["id"]: row for row in findings}, unpacked(path)


def test_infiniband_diags_read_the_same_and_a_hashed_report_names_nobody(site: Hosted) -> None:
    found, contents = report(site, "--hash-guids")
    said = {id: row["outcome"] for id, row in found.items() if id in BESIDE}
    assert said == dict.fromkeys(BESIDE, "same")
    assert [id for id, row in found.items() if row["outcome"] == "differs"] == []  # our library is as the kernel
    assert json.loads(contents["report.json"])["simulated"] is False
    text = b"".join(contents.values()).decode().lower()
    assert not [node.description for node in site.net.nodes if node.description.lower() in text]
    assert not [node.guid for node in site.net.nodes if f"{node.guid:x}" in text]


def test_a_port_that_this_host_does_not_have_is_not_written(site: Hosted) -> None:
    before = site.wire()
    path = site.folder / "refused.tar.gz"
    ca = site.run(["ibstat", "-l"], check=True).stdout.split()[0]
    words = ("--write-loopback", f"{ca}/1,{ca}/3", "--yes", "--force")
    done = site.ibkeys("doctor", "--report", path, *FAST, *words, timeout=120)
    assert (done.returncode, path.exists(), site.wire()) == (2, False, before)
    assert f"this host has no port '{ca}/3'; its ports are {ca}/1" in done.stderr


def test_programs_that_would_be_counted_are_not_run_on_a_protected_fabric(tmp_path: Path) -> None:
    """They send no key, so each of their Gets would be a violation."""
    conf = f"m_key {KEY:#x}\nm_key_protection_level 2\nm_key_lease_period 60\n"
    with Hosted(DUAL_HOME, sim_host="H-248a070300b10100") as served, opensm(served, None, conf):
        found, contents = report(served, "-y", key_argument(tmp_path / "key", KEY))
        counted = [port.m_key_violations for node in served.net.nodes for port in node.end_ports]
    assert not any(counted)
    assert {row["outcome"] for id, row in found.items() if id in BESIDE} == {"not-checked"}
    assert found["nodes.m-key-state"]["outcome"] == "seen"
    assert held(contents, [KEY]) == []


@pytest.mark.soak
def test_on_ibsim() -> None:
    with Ibsim(DUAL_HOME) as ibsim:
        ibsim.opensm()
        found, contents = report(ibsim)
    assert {found[id]["outcome"] for id in ("smpquery.portinfo", "smpquery.pkeys", "ibnetdiscover.fabric")} == {"same"}
    assert found["sa.there"]["outcome"] == "not-checked"  # that OpenSM is gone
    assert "firmware" in found["host.adapters"]["said"]
    assert json.loads(contents["fabric.json"])["nodes"]
