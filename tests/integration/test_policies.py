"""P_Key tables that a real OpenSM made of partition files: ibkeys, smpquery and the recorded tables agree."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests import corpus
from tests.integration.ibsim import Ibsim, parse_pkeys

SOAK = os.environ.get("IBKEYS_SOAK") == "1"
POWER_ON = {"0": "0xffff"}
Table = dict[str, str]


def recordings() -> list[Any]:
    """Return the recorded runs of all corpora; those that are not committed, and those of large fabrics, are soak."""
    files = {file.name: file for file in reversed(corpus.files("policies/expected/*.json"))}
    return [
        pytest.param(file, id=file.stem, marks=() if is_sampled(file) else pytest.mark.soak)
        for _, file in sorted(files.items())
        if not file.name.endswith(".mcgroups.json")
    ]


def is_sampled(file: Path) -> bool:
    return corpus.DATA in file.parents and not file.name.startswith(("torus444", "ft648"))


@pytest.mark.parametrize("file", recordings())
def test_tables_are_those_that_opensm_made(file: Path) -> None:
    expected = corpus.load(file)
    meta = expected["meta"]
    netfile = next(path for path in corpus.files("fabrics/*.net") if path.name == meta["fabric"])
    conf = "".join(f"{name} {value}\n" for name, value in meta["opensm_conf"].items())
    with Ibsim(netfile, sim_host=meta["sim_host"] or first_node(netfile)) as fabric:
        for step in expected.get("steps") or [{**expected, "policy": meta["policy"]}]:
            policy = file.parents[1] / step["policy"] if step["policy"] else fabric.folder / "missing.conf"
            fabric.opensm(conf, policy)
            done = fabric.ibkeys("pkey-show", "--all", "-f", "json")
            assert (done.returncode, done.stderr) == (0, "")
            ports = json.loads(done.stdout)["ports"]
            check_tables(ports, step["end_ports"], step["switch_ports"])
        check_capacities(ports, meta["capacity"])
        for port in ports[:: stride(len(ports))]:
            shown = parse_pkeys(fabric.smpquery("pkeys", port["lid"], port["port"]))
            assert len(shown) == port["capacity"]
            assert {str(index): f"0x{key:04x}" for index, key in enumerate(shown) if key & 0x7FFF} == table_of(port)


def first_node(netfile: Path) -> str:
    """Return the id of the file's first node: where a client sits without SIM_HOST, which makes it say so."""
    found = re.search(r'^(?:Switch|Ca|Hca|Rt)[^"\n]*"([^"]+)"', netfile.read_text(errors="replace"), re.MULTILINE)
    assert found, netfile
    return found[1]


def stride(count: int) -> int:
    """How many ports to go on before smpquery is asked again: a few of each fabric in a test, nearly all in a soak."""
    if SOAK:
        return 1 if count <= 1000 else 7
    return max(1, count // 6)


def table_of(port: dict[str, Any]) -> Table:
    assert all(key["partition"] != "0x0000" for key in port["pkeys"])
    return {str(key["index"]): key["pkey"] for key in port["pkeys"]}


def is_external(port: dict[str, Any]) -> bool:
    return bool(port["node_type"] == "switch" and port["port"])


def check_tables(ports: list[dict[str, Any]], end_ports: dict[str, Table], switch_ports: dict[str, Table]) -> None:
    """Every end port has its recorded table, and there is no other; external ports not recorded are as at power-on."""
    assert {port["port_guid"]: table_of(port) for port in ports if not is_external(port)} == end_ports
    external = {f"{port['node_guid']}/{port['port']}": table_of(port) for port in ports if is_external(port)}
    assert switch_ports.keys() <= external.keys()
    assert external == {name: switch_ports.get(name, POWER_ON) for name in external}


def check_capacities(ports: list[dict[str, Any]], capacity: dict[str, int]) -> None:
    for port in ports:
        kind = {"ca": "ca", "router": "rt", "switch": "sw_ext" if port["port"] else "sw0"}[port["node_type"]]
        assert port["capacity"] == capacity[kind]


def test_the_soak_has_all_real_clusters() -> None:
    names = {parameter.values[0].stem.partition("--")[0] for parameter in recordings()}
    assert {"two-switch", "dual-home", "ring-router", "torus444", "ft648"} <= names
    if os.environ.get("IBKEYS_CORPUS"):
        assert {"psmn-x5-2020", "rocket-2014", "dgx-pod-2025", "lab-loopback-2016", "isr9024-2007", "ft2048"} <= names
