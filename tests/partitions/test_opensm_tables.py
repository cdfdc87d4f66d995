"""The reference: index by index the tables that real OpenSM programmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.membership import EndPort, resolve
from ibkeys.partitions.opensm_tables import place, place_leaf
from ibkeys.partitions.reader import parse_policy
from ibkeys.sim.subnet import Subnet
from tests import corpus
from tests.partitions.recordings import Step, Table, end_ports, load, recordings, subnet

POWER_ON = {0: PKey(0xFFFF)}


@pytest.mark.parametrize("file", recordings())
def test_tables_are_those_that_opensm_programmed(file: Path) -> None:
    recording = load(file)
    net = subnet(recording.fabric)
    ends: dict[int, dict[int, PKey]] = {}
    leaves: dict[tuple[int, int], dict[int, PKey]] = {}
    for step in recording.steps:
        resolution = resolve(
            step.policy, end_ports(net), recording.sm_port_guid, recording.allow_both, emulate_fallback=True
        )
        for node in net.nodes:
            for port in node.end_ports:
                if node.is_switch or port.peer is not None:
                    ends[port.guid] = place(
                        ends.get(port.guid, POWER_ON),
                        resolution.by_port[port.guid],
                        recording.capacity["sw0" if node.is_switch else "ca"],
                        resolution.index0.get(port.guid),
                        allow_both=recording.allow_both,
                        keep_indexes=recording.options["keep_pkey_indexes"] == "TRUE",
                    ).entries
                if not node.is_switch and port.peer is not None and port.peer.node.is_switch:
                    where = (port.peer.node.guid, port.peer.number)
                    before = leaves.get(where, POWER_ON)
                    leaves[where] = before
                    if recording.options["part_enforce"] != "off":
                        leaves[where] = place_leaf(before, ends[port.guid], recording.capacity["sw_ext"]).entries
        check(step, ends, leaves)


def check(step: Step, ends: dict[int, Any], leaves: dict[tuple[int, int], Any]) -> None:
    assert ends == step.end_ports
    recorded: dict[tuple[int, int], Table] = {where: {0: 0xFFFF} for where in leaves}
    assert leaves == {**recorded, **step.switch_ports}


VECTORS = [vector for file in corpus.files("vectors/opensm_partitions.json") for vector in corpus.load(file)["vectors"]]
VECTOR_PORTS = {
    "SM CA port": EndPort(0x200001, "ca"),
    "switch 1 port 0": EndPort(0x100000, "switch"),
    "CA b port": EndPort(0x200011, "ca"),
    "switch 2 port 0": EndPort(0x100001, "switch"),
    "CA c port": EndPort(0x200021, "ca"),
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_vectors(vector: dict[str, Any]) -> None:
    text, options = vector["partitions_conf"], vector["opensm_options"]
    policy = parse_policy(text) if text is not None else None
    allow_both = "-W" in options
    found = resolve(policy, VECTOR_PORTS.values(), 0x200001, allow_both, emulate_fallback=True)
    tables: dict[str, dict[int, PKey]] = {}
    for name, port in VECTOR_PORTS.items():
        capacity = 8 if port.kind == "switch" else 64
        placed = place(POWER_ON, found.by_port[port.guid], capacity, found.index0.get(port.guid), allow_both=allow_both)
        tables[name] = placed.entries
    for name, end in (("1, cable to SM CA", "SM CA port"), ("2, cable to CA b", "CA b port")):
        off = "off" in options
        tables[f"switch 1 port {name}"] = POWER_ON if off else place_leaf(POWER_ON, tables[end], 64).entries
    tables["switch 1 port 3, cable to switch 2"] = POWER_ON
    assert {name: first_block(table) for name, table in tables.items()} == vector["tables"]


def first_block(table: dict[int, PKey]) -> list[str]:
    last = max(index for index in table if index < 32)
    return [str(table.get(index, PKey(0))) for index in range(last + 1)]


def keys(*values: int) -> dict[int, PKey]:
    return {index: PKey(value) for index, value in enumerate(values) if value}


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        (keys(0xFFFF, 0x8005, 0x8006), [0x8006, 0xFFFF], {0: 0xFFFF, 2: 0x8006}),
        (keys(0xFFFF, 0x8005), [0x8006, 0xFFFF], {0: 0xFFFF, 1: 0x8006}),
        (keys(0xFFFF, 0x8005), [0x0005, 0xFFFF], {0: 0xFFFF, 1: 0x0005}),
        (keys(0x8005, 0xFFFF), [0x8005, 0xFFFF], {0: 0xFFFF, 1: 0x8005}),
        (keys(0, 0x8005), [0x8005, 0xFFFF], {0: 0xFFFF, 1: 0x8005}),
        (keys(0xFFFF, 0x0005, 0x8005), [0x0005, 0xFFFF], {0: 0xFFFF, 1: 0x0005}),
        (keys(0xFFFF, 0x0005, 0x8005), [0x8005, 0xFFFF], {0: 0xFFFF, 1: 0x8005}),
        (keys(0xFFFF, 1, 2, 3), [0x0004, 0x0003, 0xFFFF], {0: 0xFFFF, 1: 0x0004, 3: 0x0003}),
    ],
)
def test_what_the_table_has_stays_and_new_keys_come_behind(
    before: dict[int, PKey], wanted: list[int], after: dict[int, int]
) -> None:
    assert place(before, [PKey(key) for key in wanted], 4).entries == after


def test_an_opensm_that_goes_on_remembers_where_a_key_was() -> None:
    before, now = keys(0xFFFF, 0x8005, 0x8006), keys(0xFFFF, 0, 0x8006)
    wanted = [PKey(key) for key in (0x8005, 0x8006, 0x8007, 0xFFFF)]
    assert place(now, wanted, 64, remembered=before).entries == {0: 0xFFFF, 1: 0x8005, 2: 0x8006, 3: 0x8007}
    assert place(now, wanted, 64).entries == {0: 0xFFFF, 2: 0x8006, 3: 0x8005, 4: 0x8007}


def test_a_leaf_port_that_is_filled_to_the_last_block_does_not_enforce() -> None:
    full = {index: PKey(0x8000 | index + 1) for index in range(64)}
    assert place_leaf({}, full, 64).enforces is False
    del full[5]
    assert place_leaf({}, full, 64).enforces is True
    assert place_leaf({}, full, 32).enforces is False
    assert len(place_leaf({}, full, 32).entries) == 32


def test_a_leaf_port_keeps_the_blocks_that_opensm_does_not_write() -> None:
    before = {0: PKey(1), 40: PKey(2)}
    assert place_leaf(before, keys(0xFFFF), 64).entries == {0: 0xFFFF, 40: 2}


def test_the_subnet_of_the_recordings_has_ibsims_port_guids() -> None:
    net: Subnet = subnet(load(recordings()[0].values[0]).fabric)
    assert all(port.guid == node.guid + port.number for node in net.nodes for port in node.end_ports if port.number)
