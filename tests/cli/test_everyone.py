"""All hosts or all switches of a fabric are called that, where their names would be long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.sim_spec import DEMO
from tests.cli.conftest import run
from tests.cli.saved import save

TENANT = [0x7FFF, 0x8010]


@pytest.fixture
def net() -> Subnet:
    return Subnet.from_file(DEMO)


def ports_of(net: Subnet, *names: str) -> Iterator[SimPort]:
    """Yield the ports of the hosts with these names."""
    for node in net.nodes:
        if node.description.split()[0] in names:
            yield from node.end_ports


def words(net: Subnet, folder: Path, command: str) -> list[str]:
    """Return the names under the rows of a folded table."""
    done = run(*command.split(), "--fold", "--from", save(net, folder / "saved.db"))
    assert done.code == 0
    return [line.strip() for line in done.out.splitlines() if line.startswith("    ")]


def test_one_word_stands_for_all_hosts_and_one_for_all_switches(net: Subnet, tmp_path: Path) -> None:
    assert words(net, tmp_path, "mkey-show --all") == ["all 40 hosts", "all 6 switches port 0"]
    assert words(net, tmp_path, "pkey-show --all") == [
        *("all 40 hosts", "all 6 switches port 1-40"),
        "all 6 switches port 0",
    ]


def test_a_few_hosts_are_exceptions(net: Subnet, tmp_path: Path) -> None:
    for port in ports_of(net, "gpu-a03", "gpu-a07", "stor02"):
        port.p_keys = TENANT
    assert words(net, tmp_path, "pkey-show --all --hosts") == [
        *("cn[001-016],gpu-a[01-02,04-06,08-16] mlx5_0", "login[1-2],mgmt[01-02] HCA-1"),
        "stor[01,03-04] mlx4_0 port 1-2",
        *("gpu-a[03,07] mlx5_0", "stor02 mlx4_0 port 1-2"),
    ], "two words would stand behind it"
    for port in ports_of(net, "stor02"):
        port.p_keys = [0xFFFF]
    assert words(net, tmp_path, "pkey-show --all --hosts") == [
        "all 40 hosts but 2: gpu-a[03,07] mlx5_0",
        "gpu-a[03,07] mlx5_0",
    ]


def test_a_host_of_which_one_port_differs_is_not_among_all(net: Subnet, tmp_path: Path) -> None:
    next(ports_of(net, "stor02")).p_keys = TENANT
    found = words(net, tmp_path, "pkey-show --all --hosts")
    assert "stor02 mlx4_0 port 1" in found
    assert "stor02 mlx4_0 port 2" in found
    assert not any(word.startswith("all") for word in found)


def test_where_many_differ_each_is_named(net: Subnet, tmp_path: Path) -> None:
    for port in ports_of(net, *(f"gpu-a{number:02d}" for number in range(1, 17))):
        port.p_keys = TENANT
    assert not any(word.startswith("all") for word in words(net, tmp_path, "pkey-show --all --hosts"))


def test_a_part_of_the_fabric_is_not_all_of_it(net: Subnet, tmp_path: Path) -> None:
    assert words(net, tmp_path, "pkey-show --all --node *")[0] == "all 40 hosts"
    for port in ports_of(net, "cn016", "login1"):
        port.p_keys = TENANT
    assert words(net, tmp_path, "pkey-show --all --p-key 0xffff --hosts") == [
        "cn[001-015],gpu-a[01-16] mlx5_0",
        "login2,mgmt[01-02] HCA-1",
        "stor[01-04] mlx4_0 port 1-2",
    ]


def test_hosts_without_names_of_their_own_are_counted_by_hcas(net: Subnet, tmp_path: Path) -> None:
    for node in net.nodes:
        if not node.is_switch:
            node.description_bytes = b"MT25408 ConnectX Mellanox Technologies"
    assert words(net, tmp_path, "mkey-show --all")[0] == "all 40 HCAs"


def test_the_audit_names_all_hosts(net: Subnet, tmp_path: Path) -> None:
    done = run("audit", "--check", "MK001", "--fold", "--from", save(net, tmp_path / "saved.db"))
    assert "         - all 40 hosts\n         - all 6 switches port 0\n" in done.out
