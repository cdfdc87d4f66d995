"""Finding and asking single ports, on the simulator."""

from __future__ import annotations

import pytest

from ibkeys.client.address import DirectedAddress, GuidAddress, LidAddress, NameAddress, as_address
from ibkeys.errors import AddressError, ClosedError, NoReply, SendRefused, Unreachable, UsageError
from ibkeys.keys.mkey import MKey
from tests.discovery.sweeping import KEY, protect, ring_for
from tests.fabricsim import set_p_key_capacity, subnet, tool
from tests.protectedsim import violations

SWITCH_A = 0x248A070300F00100


@pytest.mark.parametrize(
    ("where", "address"),
    [
        (None, DirectedAddress(())),
        ("0", DirectedAddress(())),
        ("0,1,4", DirectedAddress((1, 4))),
        (5, LidAddress(5)),
        ("5", LidAddress(5)),
        ("0x10", LidAddress(16)),
        ("0x248a070300f00100", GuidAddress(SWITCH_A)),
        ("248a:0703:00f0:0100", GuidAddress(SWITCH_A)),
        ("db01 mlx5_0", NameAddress("db01 mlx5_0")),
    ],
)
def test_what_a_script_may_write_as_an_address(where: str | int | None, address: object) -> None:
    assert as_address(where) == address


@pytest.mark.parametrize(
    "where", [0, 0xFFFF, 0xC000, 0x10000, -1, "010", "0,0", "0,255", "1,2", "0," + "1," * 63 + "1", "0x"]
)
def test_what_no_port_can_have_is_refused(where: str | int) -> None:
    with pytest.raises(AddressError):
        as_address(where)


def test_a_route_of_63_hops_is_an_address() -> None:
    assert len(as_address("0" + ",1" * 63).path) == 63  # type: ignore[union-attr]


def test_the_same_port_by_all_kinds_of_address() -> None:
    net = subnet("dual-home")
    net.port("db02 mlx5_0", 1).p_keys = [0xFFFF, 0x8007]
    with tool(net) as fabric:
        for where in ("0,1,2", 3, "0x248a070300b10201", "db02 mlx5_0"):
            assert [str(key) for key in fabric.find_port(where).read_p_keys()[:2]] == ["0xffff", "0x8007"], where


def test_a_switch_port_has_the_table_size_of_its_kind() -> None:
    net = subnet("dual-home")
    set_p_key_capacity(net.node("MF0;ib-a:SB7780/U1"), 16, 40)
    with tool(net) as fabric:
        assert len(fabric.find_port("0,1").read_p_keys()) == 16
        table = fabric.find_port("0,1", 4).read_p_keys()
        assert len(table) == 40
        assert list(fabric.find_port("0,1", 4).read_p_key_block(1).p_keys[:8]) == [int(key) for key in table[32:]]
        set_p_key_capacity(net.node("MF0;ib-a:SB7780/U1"), 16, 0)
        assert fabric.find_port("0,1", 4).read_p_keys() == ()


def test_the_other_port_of_an_hca_is_read_by_its_own_route() -> None:
    net = subnet("dual-home")
    net.port("db01 mlx5_0", 2).p_keys = [0xFFFF, 0x8002]
    net.port("db02 mlx5_0", 2).p_keys = [0xFFFF, 0x8003]
    with tool(net) as fabric:
        assert fabric.find_port(None, 2).read_p_keys()[1] == 0x8002
        assert fabric.find_port(3, 2).read_p_keys()[1] == 0x8003
        assert fabric.find_port(3, 2).port.lid == 4


def test_a_port_that_no_route_reaches_names_the_lid_to_use() -> None:
    net = subnet("dual-home")
    net.silence("MF0;ib-b:SB7780/U1")
    with tool(net) as fabric, pytest.raises(Unreachable, match="LID 4"):
        fabric.find_port(3, 2)


def test_a_port_without_a_link_is_unreachable() -> None:
    net = subnet("dual-home")
    with tool(net) as fabric, pytest.raises(Unreachable, match="no link"):
        fabric.find_port(13, 1)


def test_a_route_that_meanwhile_leads_elsewhere_is_noticed_before_the_table_is_read() -> None:
    net = subnet("dual-home")
    with tool(net) as fabric:
        handle = fabric.find_port("0,1,2")
        net.unplug("db02 mlx5_0", 1)
        net.unplug("db02 mlx5_0", 2)
        net.plug("db02 mlx5_0", 2, "MF0;ib-a:SB7780/U1", 2)
        with pytest.raises(Unreachable, match="now leads to port 2"):
            handle.read_p_keys()


@pytest.mark.parametrize(("where", "port"), [("0,1", 13), ("0", 3), (3, 99)])
def test_a_port_number_past_the_nodes_ports_is_a_usage_error(where: str | int, port: int) -> None:
    with tool(subnet("dual-home")) as fabric, pytest.raises(UsageError, match="there is no port"):
        fabric.find_port(where, port)


def test_names_and_guids_of_several_nodes_list_the_candidates() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric:
        for node in fabric.sweep().nodes:
            node.description = "same"
        with pytest.raises(AddressError, match=r"8 nodes: 0x"):
            fabric.find_port(NameAddress("same"))


def test_nobody_at_that_lid_guid_or_name() -> None:
    with tool(subnet("dual-home")) as fabric:
        with pytest.raises(NoReply, match="LID 99"):
            fabric.find_port(99)
        with pytest.raises(Unreachable):
            fabric.find_port("0x248a070300b1ffff")
        with pytest.raises(Unreachable):
            fabric.find_port("nobody")
        with pytest.raises(NoReply, match="route 0,1,9"):
            fabric.find_port("0,1,9")


def test_a_refused_request_to_the_own_port_ends_by_our_own_deadline() -> None:
    net = subnet("dual-home")
    protect(net, "db01 mlx5_0", 2)
    with tool(net, retries=0) as fabric:
        fabric.umad.local_refusal = "silent"  # type: ignore[attr-defined]
        with pytest.raises(NoReply):
            fabric.find_port()
        assert fabric.client.statistics.lost_by_kernel == 1


def test_einval_from_a_request_to_the_own_port_is_a_refusal_and_said_so() -> None:
    net = subnet("dual-home")
    protect(net, "db01 mlx5_0", 2)
    with tool(net) as fabric:
        fabric.umad.local_refusal = "einval"  # type: ignore[attr-defined]
        with pytest.raises(SendRefused, match="wrong M_Key"):
            fabric.find_port()


def test_a_lid_with_a_key_in_the_ring_is_found_by_proof_not_asked_without_key() -> None:
    net = subnet("two-switch")
    protect(net, "node05 mlx4_0", 2)
    with tool(net) as fabric:
        fabric.ring = ring_for(net, "node05 mlx4_0")
        assert fabric.find_port(5).read_p_keys()[0] == 0xFFFF
        assert fabric.find_port("0,1,7,2").read_p_keys()[0] == 0xFFFF
    assert violations(net) == 0


def test_the_own_key_goes_with_a_single_request() -> None:
    net = subnet("two-switch")
    protect(net, "node05 mlx4_0", 3)
    with tool(net, m_key=KEY) as fabric:
        assert fabric.find_port(5).read_port_info().m_key == KEY


def test_closed_is_closed() -> None:
    fabric = tool(subnet("two-switch"))
    fabric.close()
    fabric.close()
    with pytest.raises(ClosedError):
        fabric.sweep()


def test_an_interrupt_in_the_middle_leaves_a_session_that_still_works() -> None:
    net = subnet("dual-home")
    with tool(net) as fabric:
        receive, calls = fabric.umad.recv, [0]

        def interrupted(timeout: float):  # type: ignore[no-untyped-def]
            calls[0] += 1
            if calls[0] == 5:
                raise KeyboardInterrupt
            return receive(timeout)

        fabric.umad.recv = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            fabric.sweep()
        assert len(fabric.sweep().nodes) == 10


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("name", ["node01 mlx4_0", "node05 mlx4_0"])
def test_a_port_whose_set_was_never_confirmed_is_opened_by_either_key(level: int, name: str) -> None:
    """The store holds the old key as current and the new one as pending; the port has the new one."""
    net = subnet("two-switch")
    protect(net, name, level)
    with tool(net) as fabric:
        fabric.ring = ring_for(net, name)
        guid = net.port(name, 1).guid
        fabric.ring.by_guid[guid], fabric.ring.spares[guid] = MKey(0xDEAD), (MKey(KEY),)
        handle = fabric.find_port(net.port(name, 1).lid)
        assert handle.read_p_keys()[0] == 0xFFFF
        found = {port.node.description: port for port in fabric.sweep(p_keys=True).end_ports()}
        assert found[name].m_key_state == "set"
        assert found[name].p_keys is not None


def test_the_occupied_entries_of_a_table_are_those_with_a_partition() -> None:
    net = subnet("two-switch")
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0, 0x8000, 0x8001]
    with tool(net) as fabric:
        handle = fabric.find_port(2)
        assert handle.port.occupied is None
        handle.read_p_keys()
        assert handle.port.occupied == [(0, 0xFFFF), (3, 0x8001)]
