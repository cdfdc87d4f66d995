"""Real fabrics served, brought up by OpenSM on our libibumad: all records of the SA are what the ports have.

Each as the file that there is of it, and as a snapshot of that.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, Final

import pytest

from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import AttributeID
from ibkeys.mad.link_rates import link_rate
from ibkeys.sim.agents.kept_tables import SL_TO_VL, VL_ARBITRATION_HIGH, VL_ARBITRATION_LOW
from ibkeys.sim.nodes import SimNode, SimPort
from tests.corpus import DATA, files
from tests.integration.hosted import Hosted, opensm
from tests.integration.ibsim import SIM_HOSTS, ibkeys

SA_KEY: Final = 0x5A5A_0000_1234_0001
SM_KEY: Final = 0x5A5A_0000_1234_0002
POLICY: Final = "Default=0x7fff, ipoib, mtu=1, rate=2 : ALL=full ;\n"
BROADCAST: Final = 0xFF12401B_FFFF0000_00000000_FFFFFFFF
"""The MGID of the group that POLICY makes, which every link can carry; then its MLID."""
FIRST_MLID: Final = 0xC000
JOIN: Final = """
import sys, ibkeys
from ibkeys.mad.const import Method
from ibkeys.mad.records import MCMemberRecord

mgid, mask = int(sys.argv[1]), 1 << 0 | 1 << 1 | 1 << 7 | 1 << 16  # MGID, PortGID, P_Key, JoinState
with ibkeys.open("umad") as fabric:
    local = fabric.local()
    gid = local.gid_prefix << 64 | local.port_guid
    record = MCMemberRecord.new(mgid=mgid, port_gid=gid, p_key=0xFFFF, join_state=1)
    fabric.sa()._ask(Method.SET, 0x38, mask, record.raw, "join")
    print(local.port_guid)
"""
"""Lets the first port of a host join a group, as its IPoIB driver does, and prints its port GUID."""
MOST_ASKED: Final = 6
"""Switches, and CAs, of which the large tables are asked for: those of one have up to 4,356 records."""
RATES: Final = {2: 2.5, 3: 10, 4: 30, 5: 5, 6: 20, 7: 40, 8: 60, 9: 80, 10: 120, 11: 14, 12: 56, 13: 112, 14: 168}
RATES_ABOVE: Final = {15: 25, 16: 100, 17: 200, 18: 300, 19: 28, 20: 50, 21: 400, 22: 600}
"""The Rate of a PathRecord → Gb/s (IBA 15.2.5.16)."""
LIMIT: Final = 600.0
NAMES: Final = ("two-switch", "isr9024-2007", "psmn-x5-2020", "dgx-pod-2025")
"""The first is committed; without IBKEYS_CORPUS it is the only one."""


def netfiles() -> list[Path]:
    named = {path.stem: path for path in reversed(files("fabrics/*.net"))}  # the committed one of several
    return [named[name] for name in NAMES if name in named]


def cases() -> list[Any]:
    return [
        pytest.param((path, source), id=f"{path.stem}-{source}", marks=() if DATA in path.parents else pytest.mark.soak)
        for path in netfiles()
        for source in ("file", "snapshot")
    ]


@pytest.fixture
def managed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hosted]:
    """The fabric, with an OpenSM that goes on."""
    netfile, source = request.param
    served = netfile
    if source == "snapshot":
        served = tmp_path / "snapshot.db"
        done = ibkeys("snapshot", served, "--backend", f"sim:{netfile},links=active", timeout=LIMIT)
        assert done.returncode == 0, done.stderr
    home = SIM_HOSTS[netfile.name]
    fabric = Hosted(served, sim_host=home, port_guids="file")
    conf = f"sweep_interval 10\nqos TRUE\nforce_log_flush TRUE\nsm_key {SM_KEY:#x}\nsa_key {SA_KEY:#x}\n"
    with fabric, opensm(fabric, POLICY, conf, policy=tmp_path / "partitions.conf"):
        yield fabric


Record = dict[str, str]


def records(fabric: Hosted, *words: str) -> list[Record]:
    """Return the fields of all records that saquery prints; numbers and text are as printed."""
    printed = fabric.run(["saquery", "--smkey", hex(SA_KEY), *words], LIMIT, check=True).stdout
    texts = re.split(r"^\w[\w ]*Record dump:\n", printed, flags=re.M)[1:]
    return [dict(re.findall(r"^\s*(\w[\w ]*?):?\.{2,}(.*?)\s*$", text, re.M)) | {"text": text} for text in texts]


def reached(fabric: Hosted) -> list[SimNode]:
    """Return the nodes that OpenSM reaches: they have a LID now."""
    return [node for node in fabric.net.nodes if any(port.lid for port in node.end_ports)]


def lid_of(port: SimPort) -> int:
    return port.node.ports[0].lid if port.node.is_switch else port.lid


def ports(fabric: Hosted) -> list[SimPort]:
    """Return the ports of which the SA has records."""
    return [
        port
        for node in reached(fabric)
        for port in node.all_ports
        if node.is_switch or (port.number and port.lid and port.is_up)
    ]


@pytest.mark.parametrize("managed", cases(), indirect=True)
def test_the_records_of_the_sa_are_what_the_ports_have(managed: Hosted) -> None:
    found = {(int(each["EndPortLid"]), int(each["PortNum"])): each for each in records(managed, "PIR")}
    assert found.keys() == {(lid_of(port), port.number) for port in ports(managed)}
    for port in ports(managed):
        shown = found[lid_of(port), port.number]
        assert shown["PhysLinkState"] == ("LinkUp" if port.is_up or not port.number else shown["PhysLinkState"])
        assert (int(shown["Lid"]) == port.lid) or (port.node.is_switch and port.number)

    nodes = {(int(each["lid"], 0), each["node_guid"], each["NodeDescription"]) for each in records(managed, "NR")}
    ends = [port for node in reached(managed) for port in node.end_ports if port.lid]
    assert nodes == {(port.lid, f"0x{port.node.guid:016x}", port.node.description) for port in ends}

    assert ends
    guids = {int(each["LID"]): each["GUID 0"] for each in records(managed, "GIR") if each["Block"] == "0"}
    assert guids == {port.lid: f"0x{port.guid:016x}" for port in ends}
    switches = {int(each["LID"]) for each in records(managed, "SWIR")}
    assert switches == {node.ports[0].lid for node in reached(managed) if node.is_switch}
    [manager] = records(managed, "SMIR")
    [its_port] = {program.port for program in managed.server.attached() if program.is_sm}
    assert (int(manager["LID"]), manager["GUID"]) == (its_port.lid, f"0x{its_port.guid:016x}")

    links = {
        tuple(int(each[name]) for name in ("FromLID", "FromPort", "ToPort", "ToLID")) for each in records(managed, "LR")
    }
    assert links == {
        (lid_of(port), port.number, port.peer.number, lid_of(port.peer))
        for port in ports(managed)
        if port.peer is not None and port.number
    }

    tables: dict[tuple[int, int], list[int]] = {}
    for each in records(managed, "PKTR"):
        keys = [int(key, 16) for key in re.findall(r"0x[0-9a-f]{4}\b", each["text"])]
        place = tables.setdefault((int(each["LID"]), int(each["Port"])), [])
        start = 32 * int(each["Block"])
        place[start : start + 32] = keys
    for port in ports(managed):
        if (lid_of(port), port.number) in tables:
            shown_keys = tables[lid_of(port), port.number]
            assert [key for key in shown_keys if key] == [key for key in port.p_keys if key], port
    assert {(port.lid, port.number) for port in ends} <= tables.keys()

    routes: dict[int, dict[int, int]] = {}
    for each in records(managed, "LFTR"):
        rows = re.findall(r"^\s*(\d+)\t(\d+)$", each["text"], re.M)
        routes.setdefault(int(each["LID"]), {}).update({int(lid): int(out) for lid, out in rows})
    for node in reached(managed):
        if node.is_switch:
            shown_routes = routes[node.ports[0].lid]
            assert {lid: out for lid, out in shown_routes.items() if out != 0xFF} == {
                lid: out for lid, out in enumerate(node.routes) if out != 0xFF
            }
    assert managed.server.counts().get("internal errors", 0) == 0


def asked(nodes: list[SimNode]) -> list[SimNode]:
    """Return some of *nodes*, from everywhere in the list."""
    return nodes[:: max(1, len(nodes) // MOST_ASKED)][:MOST_ASKED]


def hosts(fabric: Hosted) -> list[SimPort]:
    """Return the ports of CAs that OpenSM reaches."""
    return [
        port for node in reached(fabric) if not node.is_switch for port in node.end_ports if port.lid and port.is_up
    ]


def kept(node: SimNode, attribute: int, modifier: int, at_power_up: bytes) -> bytes:
    """Return a table that a node only keeps; *at_power_up*: what it is until it is set."""
    return (node.tables or {}).get((attribute, modifier), at_power_up.ljust(64, b"\0"))


@pytest.mark.parametrize("managed", cases(), indirect=True)
def test_the_tables_of_lanes_are_what_the_nodes_keep(managed: Hosted) -> None:
    switches = [node for node in reached(managed) if node.is_switch]
    for node in asked(switches):
        lid, numbers = node.ports[0].lid, range(node.num_ports + 1)
        found = {(int(each["InPort"]), int(each["OutPort"])): each for each in records(managed, "SL2VL", str(lid))}
        assert found.keys() == {(inward, outward) for inward in numbers for outward in numbers}
        for (inward, outward), each in found.items():
            if not is_set_up(node.ports[outward]):
                continue
            table = kept(node, AttributeID.SL_TO_VL_MAPPING_TABLE, inward << 8 | outward, SL_TO_VL)
            assert lanes(each["text"], "VL:") == [int(digit, 16) for digit in table[:8].hex()], (node, inward, outward)
    for port in [node.ports[1] for node in asked([port.node for port in hosts(managed)]) if node.ports[1].lid]:
        [each] = records(managed, "SL2VL", str(port.lid))
        table = kept(port.node, AttributeID.SL_TO_VL_MAPPING_TABLE, port.number, SL_TO_VL)
        assert lanes(each["text"], "VL:") == [int(digit, 16) for digit in table[:8].hex()], port

    by_place = {(port.lid, port.number): port for port in hosts(managed)}
    by_place |= {
        (node.ports[0].lid, number): node.ports[number] for node in switches for number in range(len(node.ports))
    }
    arbitration = records(managed, "VLAR")
    assert {(int(each["LID"]), int(each["Port"])) for each in arbitration} == by_place.keys()
    for each in arbitration:
        port, part = by_place[int(each["LID"]), int(each["Port"])], int(each["Block"])
        if not is_set_up(port):
            continue
        start = {1: VL_ARBITRATION_LOW, 3: VL_ARBITRATION_HIGH}.get(part, b"")
        table = kept(port.node, AttributeID.VL_ARBITRATION_TABLE, part << 16 | port.number, start)
        shown = zip(lanes(each["text"], "VL    :"), lanes(each["text"], "Weight:"), strict=True)
        assert list(shown) == [(table[at] & 0xF, table[at + 1]) for at in range(0, 64, 2)], (port, part)


def is_set_up(port: SimPort) -> bool:
    """Whether OpenSM surely reads and sets the tables of lanes of a port: not without a link, and those of port 0 only
    if it is an enhanced one.
    """
    return port.is_up


def lanes(text: str, name: str) -> list[int]:
    """Return the numbers of all lines of a table that begin with *name*."""
    rows = re.findall(rf"^\s*{name} *([\d| ]+)$", text, re.M)
    return [int(number) for row in rows for number in row.split("|") if number.strip()]


@pytest.mark.parametrize("managed", cases(), indirect=True)
def test_groups_and_their_routes_are_what_was_joined(managed: Hosted) -> None:
    by_guid, joined = {port.guid: port for port in hosts(managed)}, set[SimPort]()
    for node in asked([port.node for port in hosts(managed)]):
        done = managed.run([sys.executable, "-c", JOIN, str(BROADCAST)], env=managed.at(node.node_id), check=True)
        joined.add(by_guid[int(done.stdout)])
    assert len(joined) > 1
    found = [each for each in records(managed, "MCMR") if int(IPv6Address(each["MGID"])) == BROADCAST]
    gids = {int(IPv6Address(each["PortGid"])): each for each in found}
    assert gids.keys() == {port.gid for port in joined}
    assert {(int(each["mlid"], 16), int(each["pkey"], 16)) for each in found} == {(FIRST_MLID, 0xFFFF)}

    deadline = time.monotonic() + LIMIT
    while any(receivers(port) != joined - {port} for port in joined):  # OpenSM routes after it has answered
        assert time.monotonic() < deadline, [receivers(port) for port in joined]
    by_lid = {node.ports[0].lid: node for node in reached(managed) if node.is_switch}
    tables = records(managed, "MFTR")
    assert tables
    for each in tables:
        position, block = int(each["Position"]), int(each["Block"])
        modifier = position << 28 | block
        table = kept(by_lid[int(each["LID"])], AttributeID.MULTICAST_FORWARDING_TABLE, modifier, b"")
        rows = {int(lid, 16): int(mask, 16) for lid, mask in re.findall(r"^\s*(0x\w+)\t(0x\w+)$", each["text"], re.M)}
        assert rows == {FIRST_MLID + 32 * block + at: int.from_bytes(table[2 * at : 2 * at + 2]) for at in range(32)}


def receivers(port: SimPort) -> set[SimPort]:
    """Return the ports that get what *port* sends to the group, by the tables of the switches."""
    found, entered = set(), [port.peer]
    for near in entered:
        if near is None or not near.node.is_switch:
            found |= {near} if near is not None else set()
            continue
        assert len(entered) < 10_000, "the group has a loop"
        for far in near.node.ports[1:]:
            table = kept(near.node, AttributeID.MULTICAST_FORWARDING_TABLE, (far.number // 16) << 28, b"")
            if int.from_bytes(table[:2]) >> far.number % 16 & 1 and far is not near:
                entered.append(far.peer)
    return found


@pytest.mark.parametrize("managed", cases(), indirect=True)
def test_paths_have_what_their_links_can_carry(managed: Hosted) -> None:
    ends = {port.lid: port for node in reached(managed) for port in node.end_ports if port.lid and lid_of(port)}
    sources = [port for node in asked(reached(managed)) for port in node.end_ports if port.lid in ends]
    for source in sources:
        found = {int(each["dlid"]): each for each in records(managed, "PR", "--slid", str(source.lid))}
        assert found.keys() == ends.keys()
        for lid, each in found.items():
            assert int(IPv6Address(each["dgid"])) == ends[lid].gid
            assert int(IPv6Address(each["sgid"])) == source.gid
            if lid == source.lid or source.node.is_switch or ends[lid].node.is_switch:
                continue  # it passes no link, or what port 0 of a switch can carry counts
            passed = links(source, ends[lid])
            assert int(each["mtu"], 16) & 0x3F == min(PortInfo(bytes(port.info)).neighbor_mtu for port in passed), (
                source,
                ends[lid],
            )
            rate = {**RATES, **RATES_ABOVE}[int(each["rate"], 16) & 0x3F]
            assert rate == min(link_rate(PortInfo(bytes(port.info))) or 0 for port in passed), (source, ends[lid])


def links(source: SimPort, destination: SimPort) -> list[SimPort]:
    """Return the ports that a packet passes, by the routes of the switches."""
    passed, here = list[SimPort](), source
    while here.node is not destination.node or here is source:
        if here.node.is_switch:
            here = here.node.ports[here.node.routes[destination.lid]]
        assert here.peer is not None
        passed += [here, here.peer]
        here = here.peer
        assert len(passed) < 100, "the route has a loop"
    return passed


@pytest.mark.parametrize("managed", cases(), indirect=True)
def test_partitions_and_m_keys_are_changed_through_opensm(managed: Hosted) -> None:
    first, second = hosts(managed)[0], hosts(managed)[-1]
    before = managed.wire()
    new = managed.folder / "new.conf"
    new.write_text(f"{POLICY}blue=0x10 : {first.guid:#x}=full, {second.guid:#x}=limited ;\n")
    assert managed.ibkeys("plan", new, "--out", managed.folder / "plan", timeout=LIMIT).returncode == 1
    run(managed, "apply", managed.folder / "plan")
    members = {port: key for port in hosts(managed) for key in port.p_keys if key & 0x7FFF == 0x10}
    assert members == {first: 0x8010, second: 0x0010}
    run(managed, "undo", "1")
    assert managed.wire() == before

    run(managed, "mkey-deploy", "--protect", "2", "--lease", "60")
    ends = [port for node in reached(managed) for port in node.end_ports if port.lid]
    deployed = {port.m_key for port in ends}
    assert (len(deployed), {port.protect_bits for port in ends}) == (1, {2})
    assert deployed != {0}
    run(managed, "mkey-rotate")
    assert len({port.m_key for port in ends} | deployed) == 2
    assert {port.m_key for port in ends} != deployed
    assert not [port for port in ends if port.m_key_violations]
    assert managed.server.counts().get("internal errors", 0) == 0


def run(fabric: Hosted, *words: str | Path) -> None:
    """Run a change through OpenSM."""
    through = () if words[0] == "undo" else ("--via", "opensm")
    done = fabric.ibkeys(*words, *through, "--yes", timeout=LIMIT)
    assert done.returncode == 0, done.stderr + done.stdout
