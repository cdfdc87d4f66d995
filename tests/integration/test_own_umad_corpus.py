"""Real fabrics served, brought up by OpenSM on our libibumad: all records of the SA are what the ports have.

Each as the file that there is of it, and as a snapshot of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ibkeys.sim.nodes import SimNode, SimPort
from tests.corpus import DATA, files
from tests.integration.hosted import Hosted
from tests.integration.ibsim import SIM_HOSTS, ibkeys
from tests.integration.policy_opensm import running_opensm

SA_KEY: Final = 0x5A5A_0000_1234_0001
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
    conf = f"sweep_interval 0\nsa_key {SA_KEY:#x}\n"
    with Hosted(served, sim_host=home, library="own", port_guids="file") as fabric, running_opensm(fabric, conf):
        yield fabric


Record = dict[str, str]


def records(fabric: Hosted, name: str) -> list[Record]:
    """Return the fields of all records that saquery prints; numbers and text are as printed."""
    printed = fabric.run(["saquery", "--smkey", hex(SA_KEY), name], LIMIT, check=True).stdout
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
