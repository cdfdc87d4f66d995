"""P_Key tables that a real OpenSM made of partition files: ibkeys, smpquery and the recorded tables agree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import corpus
from tests.integration.ibsim import Ibsim, parse_pkeys
from tests.integration.recordings import check_tables, first_node, recordings, stride, table_of


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


def check_capacities(ports: list[dict[str, Any]], capacity: dict[str, int]) -> None:
    for port in ports:
        kind = {"ca": "ca", "router": "rt", "switch": "sw_ext" if port["port"] else "sw0"}[port["node_type"]]
        assert port["capacity"] == capacity[kind]


def test_the_soak_has_all_real_clusters() -> None:
    names = {parameter.values[0].stem.partition("--")[0] for parameter in recordings()}
    assert {"two-switch", "dual-home", "ring-router", "torus444", "ft648"} <= names
    if os.environ.get("IBKEYS_CORPUS"):
        assert {"psmn-x5-2020", "rocket-2014", "dgx-pod-2025", "lab-loopback-2016", "isr9024-2007", "ft2048"} <= names
