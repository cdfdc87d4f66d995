"""A port of a sweep by the words of the command line: name, GUID, LID or route; one node, or all that may be meant."""

from __future__ import annotations

import pytest

import ibkeys
from ibkeys.errors import AddressError, Unreachable, UsageError
from ibkeys.topology.model import Topology
from tests.fabricsim import subnet


def swept(names: dict[int, str] | None = None) -> Topology:
    with ibkeys.open(subnet("two-switch"), node_names=names) as fabric:
        return fabric.sweep()


def test_every_word_for_a_port_means_the_same() -> None:
    found = swept()
    port = found.port_of("node02 mlx4_0")
    words = [port.lid, str(port.lid), f"0x{port.guid:016x}", f"0x{port.node.guid:016x}", "node02"]
    words.append(",".join(map(str, (0, *(port.path or ())))))
    assert [found.port_of(word) for word in words] == [port] * len(words)
    leaf = port.peer
    assert leaf is not None
    assert found.port_of(leaf.node.description, leaf.num) is leaf
    assert found.port_of(leaf.node.description).num == 0


def test_the_node_name_map_names_nodes() -> None:
    guid = swept().port_of("node02 mlx4_0").node.guid
    found = swept({guid: "login2"})
    assert found.port_of("login2").node.guid == guid
    with pytest.raises(Unreachable) as unknown:
        found.port_of("logn2")
    assert unknown.value.candidates == ("login2",)


def test_what_several_nodes_are_called_is_refused_and_each_candidate_finds_its_own() -> None:
    nodes = [swept().port_of(f"node0{number} mlx4_0").node for number in (2, 3)]
    for names in (["gpu mlx5_0", "gpu mlx5_1"], ["gpu", "gpu"]):
        found = swept(dict(zip([node.guid for node in nodes], names, strict=True)))
        with pytest.raises(AddressError) as several:
            found.port_of("gpu")
        assert [found.port_of(word).node.guid for word in several.value.candidates] == [node.guid for node in nodes]


def test_a_port_number_that_the_node_does_not_have() -> None:
    with pytest.raises(UsageError, match="there is no port 9"):
        swept().port_of("node02 mlx4_0", 9)
