"""What a real OpenSM made of policies: the runs in ``policies/expected`` of all corpora."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ibkeys.partitions.membership import EndPort
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import read_policy
from ibkeys.sim.nodes import SimNode
from ibkeys.sim.subnet import Subnet
from tests import corpus

Table = dict[int, int]
"""Index → P_Key; empty entries are left out."""


@dataclass(frozen=True)
class Step:
    """One run of OpenSM: the policy it read (None: there was no file) and the tables that it left behind."""

    policy: Policy | None
    end_ports: dict[int, Table]
    switch_ports: dict[tuple[int, int], Table]


@dataclass(frozen=True)
class Recording:
    """One recorded fabric and its steps. ``options`` are OpenSM's."""

    fabric: Path
    options: dict[str, str]
    sm_port_guid: int
    accepted: bool
    capacity: dict[str, int]
    steps: list[Step]

    @property
    def allow_both(self) -> bool:
        return self.options["allow_both_pkeys"] == "TRUE"


SAMPLE = (
    "dual-home--both-members--both-pkeys",
    "dual-home--default-limited",
    "ring-router--all-kinds",
    "two-switch--abbreviations",
    "two-switch--churn-1+churn-2--keep-indexes",
    "two-switch--comments-only",
    "two-switch--indx0--both-pkeys",
    "two-switch--merge-override--enforce-in",
    "two-switch--mgroups",
    "two-switch--missing-guids",
    "two-switch--none",
    "two-switch--overflow-64",
    "two-switch--overflow-switch0",
    "two-switch--syntax-bad-guid",
    "two-switch--syntax-semicolon-in-comment",
    "two-switch--syntax-wide-pkey",
)
"""Recorded runs of each kind of policy. `make test` runs OpenSM, and applies, on these.

The prediction is held against all of them."""


def recordings() -> list[Any]:
    """Return every recorded run as a test parameter: those of large fabrics only in a soak."""
    files = {file.name: file for file in reversed(corpus.files("policies/expected/*.json"))}
    return [
        pytest.param(file, id=file.stem, marks=pytest.mark.soak if file.name.startswith("ft2048") else ())
        for _, file in sorted(files.items())
        if not file.name.endswith(".mcgroups.json")
    ]


def load(file: Path) -> Recording:
    document = corpus.load(file)
    meta = document["meta"]
    steps = [
        Step(
            read_policy(file.parents[1] / step["policy"]) if step["policy"] else None,
            {int(guid, 16): _table(table) for guid, table in step["end_ports"].items()},
            {_port(name): _table(table) for name, table in step["switch_ports"].items()},
        )
        for step in document.get("steps") or [{**document, "policy": meta["policy"]}]
    ]
    fabric = next(path for path in corpus.files("fabrics/*.net") if path.name == meta["fabric"])
    return Recording(
        fabric, meta["opensm_conf"], int(meta["sm_port_guid"], 16), meta["accepted"], meta["capacity"], steps
    )


@functools.cache
def subnet(fabric: Path) -> Subnet:
    """Return the subnet of a net file with ibsim's port GUIDs. It is shared: look, do not change."""
    return Subnet.from_file(fabric, "ibsim")


def end_ports(net: Subnet) -> list[EndPort]:
    """Return the ports that OpenSM knows: port 0 of each switch, and each CA or router port with a cable."""
    return [
        EndPort(port.guid, kind(node))
        for node in net.nodes
        for port in node.end_ports
        if node.is_switch or port.peer is not None
    ]


def kind(node: SimNode) -> Any:
    return {1: "ca", 2: "switch", 3: "router"}[int(node.node_type)]


def _table(table: dict[str, str]) -> Table:
    return {int(index): int(key, 16) for index, key in table.items()}


def _port(name: str) -> tuple[int, int]:
    guid, _, number = name.partition("/")
    return int(guid, 16), int(number)
