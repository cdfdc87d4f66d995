"""The performance agent: PortCounters as perfquery asks for them, by bytes.

Expected layouts: libibmad's field table as perfquery prints it (`PortRcvConstraintErrors` is byte 17 of the data).
"""

from __future__ import annotations

import pytest

from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.performance import PortCounters, PortCountersExtended
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.state.document import dump_state, load_state
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA

SM, LEAF = "node01 mlx4_0", "MF0;switch-a:IS5023/U1"
GET, SET = 1, 2


@pytest.fixture
def subnet() -> Subnet:
    return Subnet.from_file(DATA / "fabrics" / "two-switch.net")


def request_for(method: int, attribute: int, data: bytes = b"", modifier: int = 0, version: int = 1) -> bytes:
    head = bytes([1, 4, version, method]) + bytes(8) + b"\0\0\0\x42" + attribute.to_bytes(2) + bytes(2)
    return (head + modifier.to_bytes(4)).ljust(64, b"\0") + data.ljust(192, b"\0")


def ask(
    subnet: Subnet, method: int, attribute: int, data: bytes = b"", lid: int = 7, modifier: int = 0, version: int = 1
) -> tuple[int, bytes]:
    mad = request_for(method, attribute, data, modifier, version)
    (delivery,) = subnet.process(mad, SM, 1, lid)
    reply = delivery.mad
    assert (reply[3], reply[12:16], delivery.slid) == (0x81, b"\0\0\0\x42", lid)
    return int.from_bytes(reply[4:6]), reply[64:]


def test_class_port_info(subnet: Subnet) -> None:
    status, data = ask(subnet, GET, 1)
    info = ClassPortInfo(data[:72])
    assert (status, info.base_version, info.class_version, info.capability_mask) == (0, 1, 1, 0x1200)


def test_counters_that_never_counted_are_0(subnet: Subnet) -> None:
    assert ask(subnet, GET, 0x12, b"\0\3") == (0, (b"\0\3").ljust(192, b"\0"))
    assert subnet.port(LEAF, 3).counters is None


def test_counters_stick_at_their_largest_value_and_are_cleared_one_by_one(subnet: Subnet) -> None:
    port = subnet.port(LEAF, 2)
    for name in ("port_rcv_constraint_errors", "port_xmit_constraint_errors"):
        port.count(name, 300)
    port.count("port_xmit_data", 1 << 33)
    data = ask(subnet, GET, 0x12, b"\0\2")[1]
    assert (data[16], data[17], data[24:28]) == (0xFF, 0xFF, b"\xff\xff\xff\xff")
    status, data = ask(subnet, SET, 0x12, b"\0\2" + (1 << 8).to_bytes(2))
    shown = PortCounters(data[:44])
    assert (status, shown.port_rcv_constraint_errors, shown.port_xmit_constraint_errors) == (0, 0, 0xFF)
    ask(subnet, SET, 0x12, b"\0\2\xff\xff")
    extended = PortCountersExtended(ask(subnet, GET, 0x1D, b"\0\2")[1][:72])
    assert extended.port_xmit_data == 1 << 33  # each attribute has counters of its own
    ask(subnet, SET, 0x1D, b"\0\2\0\1")
    assert PortCountersExtended(ask(subnet, GET, 0x1D, b"\0\2")[1][:72]).port_xmit_data == 0


def test_counter_select_2_clears_port_xmit_wait(subnet: Subnet) -> None:
    port = subnet.port(LEAF, 2)
    port.count("port_xmit_wait", 5)
    assert ask(subnet, SET, 0x12, b"\0\2\xff\xff")[1][40:44] == b"\0\0\0\5"
    assert ask(subnet, SET, 0x12, b"\0\2".ljust(18, b"\0") + b"\1")[1][40:44] == bytes(4)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"method": GET, "attribute": 0x12, "data": b"\0\x09"}, 0x1C),
        ({"method": GET, "attribute": 0x12, "data": b"\0\xff"}, 0x1C),
        ({"method": GET, "attribute": 0x12, "data": b"\0\0", "lid": 2}, 0x1C),
        ({"method": GET, "attribute": 0x12, "data": b"\0\1", "modifier": 1}, 0x1C),
        ({"method": SET, "attribute": 1}, 0x0C),
        ({"method": GET, "attribute": 0x15}, 0x0C),
        ({"method": 3, "attribute": 0x12}, 0x08),
        ({"method": GET, "attribute": 0x12, "version": 2}, 0x04),
    ],
)
def test_what_it_refuses(subnet: Subnet, request_: dict[str, int | bytes], status: int) -> None:
    assert ask(subnet, **request_)[0] == status  # type: ignore[arg-type]


def test_no_m_key_guards_it_and_links_must_be_active(subnet: Subnet) -> None:
    subnet.port(LEAF, 0).m_key, subnet.port(LEAF, 0).protect_bits = 5, 3
    assert ask(subnet, GET, 0x12, b"\0\1")[0] == 0
    subnet.port(SM, 1).state = 2
    assert subnet.send(request_for(GET, 0x12, b"\0\1"), subnet.port(SM, 1), subnet.port(LEAF, 0).lid) is Drop.NO_ROUTE


def test_counters_are_part_of_the_state(subnet: Subnet) -> None:
    subnet.port(LEAF, 2).count("port_rcv_constraint_errors", 4)
    fresh = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    load_state(fresh, dump_state(subnet))
    assert fresh.port(LEAF, 2).counter("port_rcv_constraint_errors") == 4


def test_counters_that_a_reset_cleared_stay_cleared_in_the_state(subnet: Subnet) -> None:
    subnet.port(LEAF, 2).count("port_rcv_constraint_errors", 4)
    document = dump_state(subnet)
    subnet.reset(subnet.node(LEAF))
    fresh = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    load_state(fresh, document)
    load_state(fresh, dump_state(subnet))
    assert fresh.port(LEAF, 2).counter("port_rcv_constraint_errors") == 0
