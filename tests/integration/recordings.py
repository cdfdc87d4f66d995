"""Tables that an OpenSM wrote for a policy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests import corpus
from tests.partitions.recordings import SAMPLE
from tests.sample import SOAK

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
    return corpus.DATA in file.parents and file.stem in SAMPLE


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
