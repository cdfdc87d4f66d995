"""Nodes that say of themselves what no node can be: each is named as an error, and nothing else is made of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.discovery.wanted import EVERYTHING
from ibkeys.errors import IbkeysError, ImpossibleValue
from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import AttributeID, NodeType
from ibkeys.scripting import Fabric
from ibkeys.topology.impossible_values import node_problems, port_problems
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port
from tests.cli.conftest import Result, run
from tests.hostile import LINKED, OWN_GUID, Answer, AnsweringPort, node_info

GUID = 0x2000
KINDS = [NodeType.CA, NodeType.ROUTER, NodeType.SWITCH]


def fabric_with(kind: int = NodeType.CA, port_info: dict[str, Any] | None = None, **fields: Any) -> Answer:
    """The own CA, a switch, and behind its port 2 one node of *kind* with these fields of NodeInfo and PortInfo."""
    odd = NodeInfo(node_info(kind, 1, GUID)).replace(**fields).raw
    odd_port = PortInfo(LINKED).replace(**{"lid": 9, **(port_info or {})}).raw
    lids = {(): 1, (1,): 2}

    def answer(path: tuple[int, ...], attribute: int, modifier: int) -> bytes | None:
        if path not in ((), (1,), (1, 2)):
            return None
        if attribute == AttributeID.NODE_INFO:
            straight = {(): node_info(NodeType.CA, 1, OWN_GUID), (1,): node_info(NodeType.SWITCH, 2, 0x1000)}
            return straight.get(path, odd)
        if attribute == AttributeID.PORT_INFO:
            return PortInfo(LINKED).replace(lid=lids[path]).raw if path in lids else odd_port
        return bytes(64)

    return answer


def swept(answer: Answer) -> Topology:
    with Fabric(AnsweringPort(answer)) as fabric:
        return fabric.sweep(wanted=EVERYTHING)


def errors_at_the_odd_node(found: Topology) -> list[str]:
    return [trouble.error for trouble in found.troubles if trouble.port.node.guid == GUID]


IMPOSSIBLE = [
    ({"num_ports": 0}, "NodeInfo says NumPorts 0"),
    ({"num_ports": 255}, "NodeInfo says NumPorts 255"),
    ({"local_port_num": 5}, "NodeInfo says LocalPortNum 5 of NumPorts 1"),
    ({"local_port_num": 0}, "NodeInfo says LocalPortNum 0"),
    ({"local_port_num": 0, "num_ports": 0}, "NodeInfo says NumPorts 0"),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("fields", "words"), IMPOSSIBLE, ids=str)
def test_port_numbers_that_no_node_has_are_errors_of_that_node(kind: int, fields: dict[str, int], words: str) -> None:
    found = swept(fabric_with(kind, **fields))
    assert any(words in error for error in errors_at_the_odd_node(found)), found.troubles
    assert found.unreached >= 0


@pytest.mark.parametrize(
    ("fields", "port_info", "words"),
    [
        ({"partition_cap": 0}, {}, "NodeInfo says PartitionCap 0"),
        ({"node_type": 0}, {}, "NodeInfo says NodeType 0"),
        ({"node_type": 9}, {}, "NodeInfo says NodeType 9"),
        ({"port_guid": 0}, {}, "NodeInfo says PortGUID 0"),
        ({}, {"lid": 0xC000}, "PortInfo says LID 49152"),
        ({}, {"lid": 0xFFFF}, "PortInfo says LID 65535"),
        ({}, {"lid": 9, "lmc": 3}, "PortInfo says LID 9 and LMC 3"),
        ({}, {"lid": 0xBFFF, "lmc": 7}, "PortInfo says LID 49151 and LMC 7"),
        ({}, {"port_state": 0}, "PortInfo says PortState 0"),
        ({}, {"port_state": 6}, "PortInfo says PortState 6"),
    ],
    ids=str,
)
def test_other_values_that_no_port_has_are_named_too(
    fields: dict[str, int], port_info: dict[str, int], words: str
) -> None:
    assert any(words in error for error in errors_at_the_odd_node(swept(fabric_with(port_info=port_info, **fields))))


def test_a_node_guid_of_zero_is_named() -> None:
    found = swept(fabric_with(node_guid=0))
    assert any("NodeInfo says NodeGUID 0" in trouble.error for trouble in found.troubles)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_an_honest_node_says_is_no_error(kind: int) -> None:
    found = swept(fabric_with(kind, port_info={"lid": 0xBFF8, "lmc": 3}))
    assert not errors_at_the_odd_node(found)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("where", ["0,1,2", f"0x{GUID:016x}"])
@pytest.mark.parametrize("fields", [{"num_ports": 0}, {"local_port_num": 5}], ids=str)
def test_a_single_port_of_such_a_node_is_an_error(kind: int, where: str, fields: dict[str, int]) -> None:
    with (
        Fabric(AnsweringPort(fabric_with(kind, **fields))) as fabric,
        pytest.raises(ImpossibleValue, match=r"0x0+2000 port \d+: NodeInfo says (NumPorts 0|LocalPortNum 5)"),
    ):
        fabric.find_port(where)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("fields", "words"), IMPOSSIBLE, ids=str)
def test_a_snapshot_keeps_the_error(kind: int, fields: dict[str, int], words: str, tmp_path: Path) -> None:
    with Fabric(AnsweringPort(fabric_with(kind, **fields))) as fabric:
        taken = take_snapshot(fabric, Fingerprints.generate())
    save_snapshot(tmp_path / "odd.db", taken)
    found = load_snapshot(tmp_path / "odd.db").fabric
    assert any(words in error for error in errors_at_the_odd_node(found))
    assert found.unreached >= 0


# --- on the command line ---------------------------------------------------------------------------------------------


def run_on(monkeypatch: pytest.MonkeyPatch, answer: Answer, *words: object) -> Result:
    monkeypatch.setattr("ibkeys.opening.fabric_at", lambda *arguments: Fabric(AnsweringPort(answer)))
    return run(*words, "--backend", "sim:")


COMMANDS = [
    ("discover",),
    ("discover", "-f", "json"),
    ("discover", "-f", "csv"),
    ("pkey-show", "--all"),
    ("pkey-show", "--all", "-f", "json"),
    ("pkey-show", "-D", "0,1,2"),
    ("pkey-show", "-G", hex(GUID)),
    ("mkey-show", "-D", "0,1,2"),
    ("port-show", "--caps", "--all"),
    ("port-show", "--counters", "--all"),
    ("audit",),
    ("audit", "-f", "json"),
    ("matrix",),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_names_it_and_exits_3(monkeypatch: pytest.MonkeyPatch, kind: int, words: tuple[str, ...]) -> None:
    for fields, text in IMPOSSIBLE:
        result = run_on(monkeypatch, fabric_with(kind, **fields), *words)
        assert result.code == 3, (fields, result)
        assert text in result.err + result.out, (fields, result)
        assert not re.search(r"[\s:,]-\d", result.out)


@pytest.mark.parametrize("command", ["pkey-show", "mkey-show", "port-show"])
def test_a_single_port_with_an_odd_value_is_shown_and_exits_3(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    answer = fabric_with(port_info={"lid": 0xFFFF})
    result = run_on(monkeypatch, answer, command, "-D", "0,1,2", "-f", "json")
    assert result.code == 3
    assert "PortInfo says LID 65535" in result.json["errors"][0]["error"]
    assert result.json["ports"][0]["lid"] == 0xFFFF


def test_no_entries_at_all_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_on(monkeypatch, fabric_with(partition_cap=0), "pkey-show", "-D", "0,1,2")
    assert result.code == 3
    assert "NodeInfo says PartitionCap 0" in result.err


# --- any value -------------------------------------------------------------------------------------------------------


@given(
    node=st.binary(min_size=64, max_size=64),
    port=st.binary(min_size=64, max_size=64),
    honest=st.sets(st.sampled_from(["node_type", "num_ports", "local_port_num"])),
)
def test_any_node_and_port_info_is_swept_and_shown_or_an_error(node: bytes, port: bytes, honest: set[str]) -> None:
    straight = NodeInfo(node_info(NodeType.CA, 1, GUID))
    odd = NodeInfo(node).replace(**{name: getattr(straight, name) for name in honest}).raw
    base = fabric_with()

    def answer(path: tuple[int, ...], attribute: int, modifier: int) -> bytes | None:
        if path != (1, 2):
            return base(path, attribute, modifier)
        return {AttributeID.NODE_INFO: odd, AttributeID.PORT_INFO: port}.get(AttributeID(attribute), bytes(64))

    with Fabric(AnsweringPort(answer)) as fabric:
        found = fabric.sweep(p_keys=True)
        assert found.unreached >= 0
        named = bool(found.troubles)
        try:
            handle = fabric.find_port("0,1,2")
            handle.read_port_info()
            handle.read_p_keys()
        except IbkeysError:
            return
        assert named or not (node_problems(handle.port.node.node_info) or port_problems(handle.port))


@given(st.binary(min_size=64, max_size=64), st.integers(0, 255))
def test_problems_are_one_line_each(info: bytes, num: int) -> None:
    port = Port(Node(info, ()), num)
    port.info = info
    for field, text in [*node_problems(NodeInfo(info)), *port_problems(port)]:
        assert field in text
        assert "\n" not in text
