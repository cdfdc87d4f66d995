"""Files that the real tools write on ibsim, imported, say the same as a live snapshot of that ibsim; what they do not
have is named as unknown, and nothing else differs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ibkeys.fabric.snapshot_file import load_snapshot
from tests.corpus import DATA
from tests.integration.ibsim import Ibsim
from tests.integration.policy_opensm import running_opensm
from tests.integration.served import Served
from tests.sample import in_soak

FABRICS = DATA / "fabrics"
POLICY = """Default=0x7fff: ALL=limited, SELF=full;
blue=0x12: 0x0002c903000a1011=full, 0x0002c903000a1021=full, 0x0002c903000a1041=limited;
"""
SA_KEY = "0x5a5a000012340001"
M_KEY = 0x6B2F90C1D4E5A387


class Dumped:
    """A fabric that OpenSM runs, its live snapshot ``live.db``, and what the tools wrote there."""

    def __init__(self, fabric: Ibsim) -> None:
        self.fabric = fabric
        done = fabric.ibkeys("snapshot", "live.db")
        assert done.returncode == 0, done.stderr
        self.live = load_snapshot(fabric.folder / "live.db")
        (fabric.folder / "net.txt").write_text(fabric.run(["ibnetdiscover"], check=True).stdout)
        fabric.run(["ibnetdiscover", "--cache", "net.cache"], check=True)

    def import_(self, *files: str | Path, tables: dict[str, str] | None = None) -> dict[str, Any]:
        words = [word for port, file in (tables or {}).items() for word in ("--pkeys-of", port, file)]
        done = self.fabric.ibkeys("import", *files, *words, "--out", "imported.db", "-f", "json")
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def diff(self) -> dict[str, Any]:
        done = self.fabric.ibkeys("diff", "imported.db", "live.db", "-f", "json")
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def unknown(self) -> set[str]:
        """What the import does not say, where nothing else may differ from the live snapshot."""
        document = self.diff()
        assert document["nodes"] == {"added": [], "removed": []}
        assert document["links"] == {"added": [], "removed": []}
        assert document["changes"] == []
        return {each["what"] for each in document["unknown"]}

    def write(self, name: str, *command: str) -> str:
        (self.fabric.folder / name).write_text(self.fabric.run(command, check=True).stdout)
        return name


@pytest.fixture(scope="module", params=[in_soak("two-switch"), in_soak("dual-home"), "ring-router"])
def dumped(request: pytest.FixtureRequest) -> Iterator[Dumped]:
    ibsim = Ibsim(FABRICS / f"{request.param}.net")
    with ibsim as fabric, running_opensm(fabric, f"sa_key {SA_KEY}\n", partitions=POLICY):
        yield Dumped(fabric)


def test_text_of_ibnetdiscover_has_nodes_and_links_alone(dumped: Dumped) -> None:
    dumped.import_("net.txt")
    assert dumped.unknown() == {"PortInfo", "P_KeyTable"}
    mine, live = load_snapshot(dumped.fabric.folder / "imported.db"), dumped.live
    ends = {port.guid: (port.lid, port.path, port.node.description) for port in live.fabric.end_ports()}
    assert {port.guid: (port.lid, port.path, port.node.description) for port in mine.fabric.end_ports()} == ends


def test_a_cache_lacks_p_key_tables_alone(dumped: Dumped) -> None:
    dumped.import_("net.cache")
    assert dumped.unknown() == {"P_KeyTable"}
    mine, live = load_snapshot(dumped.fabric.folder / "imported.db"), dumped.live
    infos = {(port.node.guid, port.num): port.info for port in live.fabric.ports()}
    assert {(port.node.guid, port.num): port.info for port in mine.fabric.ports()} == infos
    assert [node.info for node in mine.fabric.nodes] == [node.info for node in live.fabric.nodes]
    assert mine.about.lid == live.about.lid


def test_the_lst_of_opensm_has_nodes_and_links_alone(dumped: Dumped) -> None:
    dumped.import_("opensm-subnet.lst")
    assert dumped.unknown() == {"PortInfo", "P_KeyTable"}


def test_smpquery_of_every_port_makes_the_cache_whole(dumped: Dumped) -> None:
    fabric, tables, files = dumped.fabric, {}, ["net.txt"]
    for port in dumped.live.fabric.ports():
        place = f"{port.lid}:{port.num}"
        name = place.replace(":", "-")
        if port.capacity:
            words = [str(port.lid)] if port.is_end_port else [str(port.lid), str(port.num)]
            tables[place] = dumped.write(f"pkeys-{name}", "smpquery", "pkeys", *words)
        words = [str(port.lid), str(port.num)] if port.node.is_switch else [str(port.lid)]
        files.append(dumped.write(f"portinfo-{name}", "smpquery", "-K", "portinfo", *words))
        if port.is_end_port:
            files.append(dumped.write(f"nodeinfo-{name}", "smpquery", "nodeinfo", str(port.lid)))
        if port.num == 0:
            files.append(dumped.write(f"switchinfo-{name}", "smpquery", "switchinfo", str(port.lid)))
    document = dumped.import_(*files, tables=tables)
    assert (document["port_info_unknown"], document["pkeys_unknown"]) == (0, 0)
    assert dumped.unknown() == set()
    assert fabric.ibkeys("diff", "imported.db", "live.db").returncode == 0


def test_records_of_the_sa_are_the_words_of_the_sm(dumped: Dumped) -> None:
    """ibsim has no RMPP, so saquery is asked for one port at a time, and cuts after the records of one MAD."""
    words: list[str] = []
    for port in dumped.live.fabric.end_ports():
        for block in range(-(-(port.capacity or 0) // 32)):
            ask = ["saquery", "--smkey", SA_KEY, "PKTR", f"{port.lid}/{port.num}/{block}"]
            words.append(dumped.write(f"pktr-{port.lid}-{block}", *ask))
        words.append(dumped.write(f"pir-{port.lid}", "saquery", "PIR", f"{port.lid}/{port.num}"))
    document = dumped.import_("net.cache", *words)
    assert dumped.unknown() == {"P_KeyTable"}  # of external ports of switches
    mine = load_snapshot(dumped.fabric.folder / "imported.db")
    for port in mine.fabric.end_ports():
        assert port.p_key_raw is not None
        assert mine.files[mine.origins[port, "P_KeyTable"]].is_sm
        assert not mine.files[mine.origins[port, "PortInfo"]].is_sm  # the cache has what the port answered
    assert {each["sm_word"] for each in document["files"] if each["kind"] == "saquery"} == {True}
    assert "as the SM reported it" in dumped.fabric.ibkeys("pkey-show", "--all", "--from", "imported.db").stderr


def test_keys_of_a_cache_become_the_fingerprints_of_a_live_snapshot() -> None:
    """At level 1 ibnetdiscover -y writes the key into a file that all may read."""
    with Served(FABRICS / "two-switch.net") as fabric:
        fabric.opensm(f"m_key {M_KEY:#x}\nm_key_protection_level 1\nm_key_lease_period 60\n", POLICY)
        fabric.run(["ibnetdiscover", "-y", hex(M_KEY), "--cache", "net.cache"], check=True)
        live = fabric.ibkeys("snapshot", "live.db", "--security-keys", fabric.opensm_cache)
        assert live.returncode == 0, live.stderr
        done = fabric.ibkeys("import", "net.cache", "--out", "imported.db")
        assert "net.cache holds the M_Keys of 8 ports in clear" in done.stderr
        said = json.loads(fabric.ibkeys("diff", "imported.db", "live.db", "-f", "json").stdout)
        assert said["changes"] == []
        assert said["m_keys_comparable"] is True
        assert M_KEY.to_bytes(8) in (fabric.folder / "net.cache").read_bytes()
        data = (fabric.folder / "imported.db").read_bytes()
        for form in (M_KEY.to_bytes(8), M_KEY.to_bytes(8, "little"), b"%x" % M_KEY, b"%d" % M_KEY):
            assert form not in data
