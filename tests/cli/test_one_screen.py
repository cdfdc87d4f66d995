"""On the topologies of real clusters what people look at first fits one screen, and every port is named on it.

Where many nodes have one name, as HCAs without a configured NodeDescription do, they get names by a node name map, as a
site would. Without it their GUIDs stand there: for fewer classes of ports that is one screen too.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.names.folded import natural
from tests import corpus
from tests.cli.conftest import run
from tests.cli.saved import save
from tests.sample import in_soak

COLUMNS, LINES = 80, 50
REAL = ("dgx-pod-2025", "psmn-x5-2020", "rocket-2014", "lab-loopback-2016", "isr9024-2007")
MADE = ("ft648", "torus444")


def files() -> list[Path]:
    """Return the net files of these topologies that are there; those of real clusters are in no repository."""
    found = {file.stem: file for file in corpus.files("fabrics/*.net")}
    return [found[name] for name in (*MADE, *REAL) if name in found]


class Cluster:
    """A topology with its hosts in as many groups as are asked for, in natural order."""

    def __init__(self, file: Path, folder: Path) -> None:
        self.net, self.folder, self.name = Subnet.from_file(file), folder, file.stem
        repeated = Counter(node.description for node in self.net.nodes)
        self.names = folder / "names"
        called: dict[int, str] = {}
        for node in sorted(self.net.nodes, key=lambda node: node.guid):
            if repeated[node.description] > 1 or "#" in node.description:
                called[node.guid] = f"{'sw' if node.is_switch else 'hca'}{len(called) + 1:03d}"
        self.names.write_text("".join(f'0x{guid:016x} "{name}"\n' for guid, name in called.items()))
        ports = [port for node in self.net.nodes if not node.is_switch for port in node.ports[1:] if port.peer]

        def order(port: SimPort) -> object:
            return natural(called.get(port.node.guid, port.node.description)), port.number

        self.hosts = sorted(ports, key=order)

    def groups(self, number: int) -> list[list[SimPort]]:
        """Return the hosts in groups of about one size; racks stay together where names tell them."""
        size, groups = -(-len(self.hosts) // number), [[self.hosts[0]]]
        for before, port in pairwise(self.hosts):
            is_cut = len(groups[-1]) >= size and len(groups) < number
            rack, previous = (host.node.description.rpartition("-")[0] for host in (port, before))
            if is_cut and (not rack or rack != previous):
                groups.append([])
            groups[-1].append(port)
        return groups

    def policy(self, name: str, number: int, shift: int = 0) -> Path:
        """Write a policy with a partition for each group; by *shift* each group gets that of another."""
        lines = ["Default=0x7fff : ALL=limited, SELF=full ;"]
        groups = self.groups(number)
        for at, ports in enumerate(groups):
            members = ",\n  ".join(f"0x{port.guid:x}=full" for port in ports)
            lines.append(f"p{at}={0x10 + (at + shift) % len(groups):#x} :\n  {members} ;")
        file = self.folder / f"{name}.conf"
        file.write_text("\n".join(lines) + "\n")
        return file

    def snapshot(self) -> Path:
        return save(self.net, self.folder / "a.db")

    def shown(self, *words: object, named: bool) -> list[str]:
        """Return what a command writes. *named*: with the names of the site."""
        result = run(*words, "--fold", *(["--node-name-map", self.names] if named else []))
        assert result.code in (0, 1), result.err
        return result.out.splitlines()


@pytest.fixture(params=files(), ids=lambda file: file.stem)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Cluster:
    return Cluster(request.param, tmp_path)


def screens(lines: list[str]) -> int:
    """Return how many screens the lines take, broken where a screen ends."""
    return -(-sum(max(1, -(-len(line) // COLUMNS)) for line in lines) // LINES)


@pytest.mark.parametrize("classes", [8, in_soak(5)])
def test_every_table_of_the_fabric(cluster: Cluster, classes: int) -> None:
    for at, ports in enumerate(cluster.groups(classes - 2)):  # and port 0 of switches, and their other ports
        for port in ports:
            assert port.peer is not None
            port.p_keys = port.peer.p_keys = [0x7FFF, 0x8010 + at]
    assert screens(cluster.shown("pkey-show", "--all", "--from", cluster.snapshot(), named=classes == 8)) == 1


@pytest.mark.parametrize("classes", [8, in_soak(5)])
def test_two_policies(cluster: Cluster, classes: int) -> None:
    a, b = cluster.policy("a", classes), cluster.policy("b", classes, 1)  # each group leaves a partition and joins one
    lines = cluster.shown("policy-diff", a, b, "--from", cluster.snapshot(), named=classes == 8)
    assert screens(lines) == 1


@pytest.mark.parametrize("classes", [8, in_soak(5)])
def test_a_plan(cluster: Cluster, classes: int) -> None:
    # tables of hosts and their leaf ports, of the switches, and enforcement
    policy = cluster.policy("a", classes - 2)
    lines = cluster.shown("plan", "--policy", policy, "--from", cluster.snapshot(), named=classes == 8)
    assert screens(lines) == 1
