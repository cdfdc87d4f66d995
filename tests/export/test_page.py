"""What the metrics say: nothing of what was not read, no series twice, and no line that a name could spoil."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.audit.engine import audit
from ibkeys.export.family import Family
from ibkeys.export.of_sweep import SweepAttempt, sweep_families
from ibkeys.export.page import fabric_families, render
from ibkeys.mad.const import AttributeID
from ibkeys.sim.subnet import Subnet
from tests.audit.looking import KEY, end_ports, enforce, look, protect
from tests.audit.reports import NASTY
from tests.export.exposition import parse, total, value
from tests.export.pages import EVERYTHING, page, page_of
from tests.fabricsim import subnet

LAST = "node06 mlx4_0"
GUID = "0x0002c903000a1021"


def losing(attribute: AttributeID, *names: str) -> Callable[[Subnet], object]:
    def lose(net: Subnet) -> None:
        for name in names or [node.description for node in net.nodes[1:]]:
            net.faults.lose_next("request", node=net.node(name), attribute=attribute, count=1000)

    return lose


def test_m_keys_by_state_and_level() -> None:
    def some(net: Subnet) -> None:
        hidden, closed, read = (net.port(f"node0{number} mlx4_0", 1) for number in (2, 3, 4))
        hidden.m_key, hidden.protect_bits, hidden.lease_period = KEY, 1, 0
        closed.m_key, closed.protect_bits, closed.lease_period = KEY, 2, 60
        read.m_key, read.protect_bits, read.lease_period = KEY, 0, 30

    found = page(some)
    assert value(found, "ibkeys_mkey_ports", m_key_state="hidden", protect_level="1") == 1
    assert value(found, "ibkeys_mkey_ports", m_key_state="set", protect_level="0") == 1
    assert value(found, "ibkeys_mkey_ports", m_key_state="zero", protect_level="0") == 5
    assert total(found, "ibkeys_mkey_ports") == 7, "one did not say who it is"
    assert value(found, "ibkeys_coverage_ports", reading="silent") == 1
    assert {labels[0][1]: count for labels, count in found["ibkeys_mkey_lease_ports"].items()} == {
        "none": 1,
        "finite": 0,
        "unknown": 0,
    }
    assert "ibkeys_mkey_lease_min_seconds" not in found


def test_the_shortest_lease_of_those_that_run_out() -> None:
    def leases(net: Subnet) -> None:
        protect(net, 2, 60)
        net.port(LAST, 1).lease_period = 7
        net.port("node05 mlx4_0", 1).lease_period = 0

    found = page(leases, key=KEY)
    assert value(found, "ibkeys_mkey_lease_min_seconds") == 7
    assert value(found, "ibkeys_mkey_lease_ports", lease="none") == 1
    assert value(found, "ibkeys_mkey_lease_ports", lease="finite") == 7


def test_of_what_was_not_read_there_is_no_number() -> None:
    found = page(losing(AttributeID.P_KEY_TABLE), losing(AttributeID.PORT_INFO, LAST))
    assert value(found, "ibkeys_mkey_ports", m_key_state="unreadable", protect_level="unknown") == 1
    assert value(found, "ibkeys_mkey_lease_ports", lease="unknown") == 1
    assert total(found, "ibkeys_coverage_ports", reading="unreadable") > 1
    assert total(page(losing(AttributeID.P_KEY_TABLE, LAST)), "ibkeys_partition_members", membership="full") == 7


def test_without_any_table_no_partition_is_counted() -> None:
    net = subnet("two-switch")
    data = look(net)
    for port in data.fabric.ports():
        port.p_key_raw = None
    found = page_of(data)
    assert not [name for name in found if "partition" in name or "pkey" in name]


def test_without_any_port_info_there_is_no_sum_and_no_count_of_violations() -> None:
    data = look(subnet("two-switch"))
    for port in data.fabric.ports():
        if not port.node.is_switch:
            port.info = None
    found = page_of(data)
    assert value(found, "ibkeys_violations", kind="m_key", node_type="ca") is None
    assert value(found, "ibkeys_violations", kind="m_key", node_type="switch") == 0
    assert value(found, "ibkeys_violations", kind="m_key", node_type="router") == 0, "there is none: that was read"
    for port in data.fabric.ports():
        port.info = None
    found = page_of(data)
    assert "ibkeys_violation_ports" not in found
    assert {labels[1][1] for labels in found["ibkeys_violations"]} == {"router"}
    assert total(found, "ibkeys_enforcement_ports", state="unknown") == 32
    assert total(found, "ibkeys_enforcement_ports") == 32


def test_violations_of_ports_and_their_sums() -> None:
    def count(net: Subnet) -> None:
        net.port("node02 mlx4_0", 1).p_key_violations = 65535
        net.port("node03 mlx4_0", 1).q_key_violations = 3
        net.port(LAST, 1).p_key_violations = 1

    found = page(count)
    assert value(found, "ibkeys_violations", kind="p_key", node_type="ca") == 65536
    assert value(found, "ibkeys_violation_ports", kind="p_key", level="nonzero") == 2
    assert value(found, "ibkeys_violation_ports", kind="p_key", level="saturated") == 1
    assert value(found, "ibkeys_port_violations", guid=GUID, port="1", kind="p_key") == 65535
    assert len(found["ibkeys_port_violations"]) == 3
    every = page(count, choice=EVERYTHING)["ibkeys_port_violations"]
    assert len(every) == 24 + 24 + 8, "P_Keys and Q_Keys at every port, M_Keys at end ports"


def test_enforcement_tables_and_partitions() -> None:
    def full_table(net: Subnet) -> None:
        port = net.port(LAST, 1)
        port.p_keys = [0xFFFF, *range(1, len(port.p_keys))]

    found = page(enforce, full_table)
    assert value(found, "ibkeys_enforcement_ports", direction="inbound", state="on") == 6
    assert value(found, "ibkeys_enforcement_ports", direction="outbound", state="off") == 10
    assert value(found, "ibkeys_pkey_tables_full") == 1
    assert value(found, "ibkeys_pkey_table_fill_max_ratio") == 1
    assert value(found, "ibkeys_partitions") == len(found["ibkeys_partition_members"]) / 2
    assert value(found, "ibkeys_partition_members", partition="0x0001", membership="limited") == 1


def test_two_ports_with_one_guid_make_one_series() -> None:
    def twins(net: Subnet) -> None:
        a, b = net.port("node02 mlx4_0", 1), net.port("node03 mlx4_0", 1)
        b.guid = a.guid
        a.p_key_violations, b.p_key_violations = 2, 3

    found = page(twins, choice=EVERYTHING)
    assert value(found, "ibkeys_port_violations", guid=GUID, port="1", kind="p_key") == 5
    named = [dict(labels) for labels in found["ibkeys_port_info"]]
    assert len([each for each in named if (each["guid"], each["port"]) == (GUID, "1")]) == 1


def test_no_key_and_no_fingerprint_is_in_it() -> None:
    net = subnet("two-switch")
    protect(net, 2)
    data = look(net, KEY)
    text = render(fabric_families(data, audit(data), EVERYTHING)).decode()
    shown = {f"{KEY:x}"} | {data.snapshot.fingerprint_of(port) or "-" for port in data.end_ports}
    assert len(shown) == 2
    assert not [key for key in shown if key in text.lower()]


NAMES = st.one_of(st.text(max_size=64), st.sampled_from([NASTY, '"} 1\nibkeys_up 1\n', "\\", "\\n", "\ud800", "a\rb"]))


@given(NAMES, NAMES)
def test_no_name_spoils_a_line_or_a_label(name: str, kind: str) -> None:
    data = look(subnet("two-switch"))
    for node in data.fabric.nodes:
        node.description = name
    text = render(fabric_families(data, audit(data), EVERYTHING)).decode()
    lines = text.splitlines()
    assert all(line.startswith(("# HELP ibkeys_", "# TYPE ibkeys_", "ibkeys_")) for line in lines)
    named = parse(text)["ibkeys_port_info"]
    assert len(named) == 24
    assert len({dict(labels)["node_desc"] for labels in named}) == 1
    assert all(dict(labels)["node_desc"].isprintable() for labels in named)


@given(st.binary(min_size=64, max_size=64))
def test_64_bytes_of_rubbish_as_a_name_spoil_no_line(raw: bytes) -> None:
    net = subnet("two-switch")
    net.node(LAST).description_bytes = raw
    data = look(net)
    text = render(fabric_families(data, audit(data), EVERYTHING)).decode()
    assert len(parse(text)["ibkeys_port_info"]) == 24
    assert text.count("\nibkeys_port_info{") == 24


def test_a_series_given_twice_is_one() -> None:
    family = Family("ibkeys_x", "X.", ("a", "b"))
    family.add("1", "2")
    family.add("1", "2", value=2)
    family.put("1\n", "2")
    assert list(family.series()) == [(("1", "2"), 3), (("1 ", "2"), 1)]
    with pytest.raises(TypeError, match="has the labels"):
        family.add("1")
    with pytest.raises(AssertionError):
        render([family, Family("ibkeys_x", "again")])


def test_of_a_failed_sweep_only_the_sweep_is_told() -> None:
    found = parse(render(sweep_families(SweepAttempt(run=2000.0, success=False, last_success=1000.0))).decode())
    assert sorted(found) == [
        "ibkeys_build_info",
        "ibkeys_sweep_last_run_timestamp_seconds",
        "ibkeys_sweep_last_success_timestamp_seconds",
        "ibkeys_sweep_success",
    ]
    assert value(found, "ibkeys_sweep_success") == 0
    assert value(found, "ibkeys_sweep_last_run_timestamp_seconds") == 2000


def test_every_end_port_is_counted_once_whatever_it_is() -> None:
    net = subnet("dual-home")
    assert total(page(name="dual-home"), "ibkeys_mkey_ports") == len(
        [port for port in end_ports(net) if port.peer is not None or port.node.is_switch]
    )
