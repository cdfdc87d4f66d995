"""What an SMA answers to Get and Set. Oracle: IBA 14.2.5 as the Linux software SMAs (qib, hfi1) implement it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import AddressError, UsageError
from ibkeys.mad.attributes import GUIDInfo, NodeDescription, NodeInfo, PKeyTable, PortInfo, SMInfo, SwitchInfo
from ibkeys.mad.const import AttributeID, MadStatus, Method
from ibkeys.mad.smp import DirectedRouteSmp, build_smp, parse
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.fabricsim import set_enforcement_caps, set_p_key_capacity

DB01, SWITCH = "db01 mlx5_0", "MF0;ib-a:SB7780/U1"
GET, SET = Method.GET, Method.SET
OK, INVALID = MadStatus.OK, MadStatus.INVALID_FIELD
KEEP = {"m_key_violations": 0xFFFF, "p_key_violations": 0xFFFF, "q_key_violations": 0xFFFF}


@pytest.fixture
def subnet() -> Subnet:
    subnet = Subnet.from_file(DATA / "fabrics" / "dual-home.net")
    subnet.set_sm(DB01)
    return subnet


def ask(
    subnet: Subnet,
    method: int,
    attribute: int,
    modifier: int = 0,
    data: bytes = bytes(64),
    *,
    path: tuple[int, ...] = (),
    m_key: int = 0,
) -> tuple[int, bytes] | None:
    """Ask from db01's port 1; () is itself, (1,) the switch, (1, 2) db02."""
    replies = subnet.process(build_smp(method, attribute, modifier, path=path, data=data, m_key=m_key), DB01, 1)
    if not replies:
        return None
    smp = parse(replies[0].mad)
    assert isinstance(smp, DirectedRouteSmp)
    assert (smp.method, smp.d, smp.hop_pointer, smp.hop_count) == (0x81, 1, 0, len(path))
    return smp.status, smp.data


def written(port: SimPort, **values: int) -> bytes:
    """PortInfo as a careful tool writes it: read, states 0, counters kept, then *values*."""
    return PortInfo(bytes(port.info)).replace(port_state=0, port_physical_state=0, **KEEP).replace(**values).raw


def test_node_info_names_the_port_the_smp_came_in_by(subnet: Subnet) -> None:
    status, data = ask(subnet, GET, AttributeID.NODE_INFO, path=(1, 2)) or (-1, bytes(64))
    info = NodeInfo(data)
    assert (status, info.node_type, info.num_ports, info.local_port_num) == (OK, 1, 2, 1)
    assert (info.port_guid, info.partition_cap) == (0x248A070300B10201, 64)
    status, data = ask(subnet, GET, AttributeID.NODE_INFO, path=(1,)) or (-1, bytes(64))
    info = NodeInfo(data)
    assert (info.node_type, info.local_port_num, info.partition_cap) == (2, 1, 8)
    assert info.port_guid == info.node_guid == 0x248A070300F00100


def test_node_description(subnet: Subnet) -> None:
    _, data = ask(subnet, GET, AttributeID.NODE_DESCRIPTION, path=(1,)) or (-1, bytes(64))
    assert NodeDescription(data).node_description == SWITCH


@pytest.mark.parametrize(
    ("method", "attribute", "modifier", "path", "status"),
    [
        (GET, 0x0077, 0, (1,), MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED),
        (SET, AttributeID.NODE_INFO, 0, (1,), MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED),
        (GET, AttributeID.SWITCH_INFO, 0, (), MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED),
        (GET, AttributeID.LINEAR_FORWARDING_TABLE, 0, (), MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED),
        (0x12, AttributeID.NODE_INFO, 0, (1,), MadStatus.METHOD_NOT_SUPPORTED),
        (GET, AttributeID.NODE_INFO, 5, (1,), INVALID),
        (GET, AttributeID.PORT_INFO, 13, (1,), INVALID),
        (GET, AttributeID.PORT_INFO, 12, (1,), OK),
        (GET, AttributeID.PORT_INFO, 1 << 31 | 12, (1,), OK),
        (GET, AttributeID.PORT_INFO, 3, (), INVALID),
        (GET, AttributeID.P_KEY_TABLE, 1, (), OK),
        (GET, AttributeID.P_KEY_TABLE, 2, (), INVALID),
        (GET, AttributeID.P_KEY_TABLE, 9 << 16, (), OK),  # a CA does not look at the port
        (GET, AttributeID.P_KEY_TABLE, 1, (1,), INVALID),  # port 0: 8 entries
        (GET, AttributeID.P_KEY_TABLE, 5 << 16 | 1, (1,), OK),
        (GET, AttributeID.P_KEY_TABLE, 5 << 16 | 2, (1,), INVALID),
        (GET, AttributeID.P_KEY_TABLE, 13 << 16, (1,), INVALID),
        (SET, AttributeID.P_KEY_TABLE, 2, (), INVALID),
        (GET, AttributeID.GUID_INFO, 3, (), OK),
        (GET, AttributeID.GUID_INFO, 4, (), INVALID),
        (GET, AttributeID.LINEAR_FORWARDING_TABLE, 30720 // 64, (1,), INVALID),
        (GET, AttributeID.SL_TO_VL_MAPPING_TABLE, 0, (), OK),
        (GET, AttributeID.VL_ARBITRATION_TABLE, 0, (), INVALID),
    ],
)
def test_status(
    subnet: Subnet, method: int, attribute: int, modifier: int, path: tuple[int, ...], status: MadStatus
) -> None:
    answer = ask(subnet, method, attribute, modifier, path=path)
    assert answer is not None
    assert answer[0] == status


def test_class_version_is_looked_at_before_the_key(subnet: Subnet) -> None:
    subnet.port(DB01, 1).m_key, subnet.port(DB01, 1).protect_bits = 7, 3
    mad = bytearray(build_smp(GET, AttributeID.NODE_INFO, path=()))
    mad[2] = 2
    assert parse(subnet.process(bytes(mad), DB01, 1)[0].mad).status == MadStatus.BAD_VERSION


@pytest.mark.parametrize("method", [Method.SEND, Method.TRAP, Method.REPORT, Method.TRAP_REPRESS])
def test_methods_that_nobody_answers(subnet: Subnet, method: Method) -> None:
    assert ask(subnet, method, AttributeID.NOTICE) is None


# P_Keys


def test_p_keys_are_written_block_by_block_and_read_back(subnet: Subnet) -> None:
    keys = tuple(range(0x8001, 0x8021))
    assert ask(subnet, SET, AttributeID.P_KEY_TABLE, 1, PKeyTable.new(p_keys=keys).raw, path=(1, 2)) is not None
    assert subnet.port("db02 mlx5_0", 1).p_keys == [0xFFFF, *[0] * 31, *keys]
    status, data = ask(subnet, GET, AttributeID.P_KEY_TABLE, 1, path=(1, 2)) or (-1, bytes(64))
    assert (status, PKeyTable(data).p_keys) == (OK, keys)
    assert subnet.port("db02 mlx5_0", 2).p_keys[32:] == [0] * 32  # the other port has a table of its own


def test_entries_past_the_capacity_stay_zero(subnet: Subnet) -> None:
    full = PKeyTable.new(p_keys=(0x8001,) * 32).raw
    status, data = ask(subnet, SET, AttributeID.P_KEY_TABLE, 0, full, path=(1,)) or (-1, bytes(64))
    assert (status, PKeyTable(data).p_keys) == (OK, (0x8001,) * 8 + (0,) * 24)
    set_p_key_capacity(subnet.node(DB01), partition_cap=40)
    status, data = ask(subnet, SET, AttributeID.P_KEY_TABLE, 1, full) or (-1, bytes(64))
    assert PKeyTable(data).p_keys == (0x8001,) * 8 + (0,) * 24
    assert len(subnet.port(DB01, 1).p_keys) == 40


def test_an_external_port_has_a_table_of_its_own_size(subnet: Subnet) -> None:
    switch = subnet.node(SWITCH)
    set_p_key_capacity(switch, enforcement_cap=16)
    _, data = ask(subnet, GET, AttributeID.SWITCH_INFO, path=(1,)) or (-1, bytes(64))
    assert SwitchInfo(data).partition_enforcement_cap == 16
    subnet.port(SWITCH, 4).p_keys = [0x8001, 0x7FFF]
    _, data = ask(subnet, GET, AttributeID.P_KEY_TABLE, 4 << 16, path=(1,)) or (-1, bytes(64))
    assert PKeyTable(data).p_keys[:3] == (0x8001, 0x7FFF, 0)
    set_p_key_capacity(switch, enforcement_cap=0)
    answer = ask(subnet, GET, AttributeID.P_KEY_TABLE, 4 << 16, path=(1,))
    assert answer is not None
    assert answer[0] == INVALID
    with pytest.raises(UsageError):
        subnet.port(SWITCH, 4).p_keys = [0xFFFF]


# PortInfo


def test_a_get_shows_local_port_num_of_the_way_in(subnet: Subnet) -> None:
    _, data = ask(subnet, GET, AttributeID.PORT_INFO, 5, path=(1,)) or (-1, bytes(64))
    assert PortInfo(data).local_port_num == 1


def test_careful_write_back_changes_nothing(subnet: Subnet) -> None:
    for node, number, path in ((DB01, 1, ()), (SWITCH, 0, (1,)), (SWITCH, 5, (1,))):
        port = subnet.port(node, number)
        before = bytes(port.info)
        status, _ = ask(subnet, SET, AttributeID.PORT_INFO, number, written(port), path=path) or (-1, bytes(64))
        assert status == OK
        assert bytes(port.info) == before


def test_the_reply_to_a_set_shows_the_new_key_even_at_level_1(subnet: Subnet) -> None:
    port = subnet.port(DB01, 1)
    port.m_key = 5
    data = written(port, m_key=9, m_key_protect_bits=1, m_key_lease_period=60)
    status, shown = ask(subnet, SET, AttributeID.PORT_INFO, 0, data, m_key=5) or (-1, bytes(64))
    assert (status, PortInfo(shown).m_key) == (OK, 9)
    assert (port.m_key, port.protect_bits, port.lease_period) == (9, 1, 60)


@pytest.mark.parametrize(
    ("values", "status", "field", "stored"),
    [
        ({"lid": 0}, INVALID, "lid", None),
        ({"lid": 0xC000}, INVALID, "lid", None),
        ({"lid": 0xBFFF}, OK, "lid", 0xBFFF),
        ({"master_sm_lid": 0}, INVALID, "master_sm_lid", None),
        ({"master_sm_lid": 77}, OK, "master_sm_lid", 77),
        ({"link_width_enabled": 0}, OK, "link_width_enabled", None),
        ({"link_width_enabled": 2}, OK, "link_width_enabled", 2),
        ({"link_width_enabled": 255}, OK, "link_width_enabled", 31),
        ({"link_width_enabled": 32}, INVALID, "link_width_enabled", None),
        ({"link_speed_enabled": 1}, OK, "link_speed_enabled", 1),
        ({"link_speed_enabled": 15}, OK, "link_speed_enabled", 7),
        ({"link_speed_enabled": 8}, INVALID, "link_speed_enabled", None),
        ({"link_speed_ext_enabled": 30}, OK, "link_speed_ext_enabled", 0),
        ({"link_speed_ext_enabled": 31}, OK, "link_speed_ext_enabled", 7),
        ({"link_speed_ext_enabled": 8}, INVALID, "link_speed_ext_enabled", None),
        ({"neighbor_mtu": 0}, INVALID, "neighbor_mtu", None),
        ({"neighbor_mtu": 5}, INVALID, "neighbor_mtu", None),
        ({"neighbor_mtu": 2}, OK, "neighbor_mtu", 2),
        ({"operational_vls": 0}, OK, "operational_vls", None),
        ({"operational_vls": 5}, INVALID, "operational_vls", None),
        ({"operational_vls": 1}, OK, "operational_vls", 1),
        ({"link_down_default_state": 1}, OK, "link_down_default_state", 1),
        ({"link_down_default_state": 3}, INVALID, "link_down_default_state", None),
        ({"port_state": 2}, INVALID, "port_state", None),
        ({"port_state": 3}, INVALID, "port_state", None),  # Active does not step back
        ({"port_state": 4}, OK, "port_state", 4),
        ({"port_state": 5}, INVALID, "port_state", None),
        ({"port_physical_state": 5}, INVALID, "port_physical_state", None),
        ({"port_physical_state": 2, "port_state": 4}, INVALID, "port_physical_state", None),
        ({"m_key_violations": 0}, OK, "m_key_violations", 0),
        ({"m_key_violations": 3}, OK, "m_key_violations", None),
        ({"p_key_violations": 0}, OK, "p_key_violations", 0),
        ({"q_key_violations": 0}, OK, "q_key_violations", 0),
        ({"capability_mask": 0}, OK, "capability_mask", None),
        ({"guid_cap": 9}, OK, "guid_cap", None),
        ({"mtu_cap": 1}, OK, "mtu_cap", None),
        ({"gid_prefix": 0x1234}, OK, "gid_prefix", 0x1234),
        ({"subnet_timeout": 3}, OK, "subnet_timeout", 3),
        ({"client_reregister": 1}, OK, "client_reregister", 0),
        ({"partition_enforcement_inbound": 1}, OK, "partition_enforcement_inbound", 0),
        ({"lmc": 2}, OK, "lmc", 2),
    ],
)
def test_set_port_info_of_a_ca_port(
    subnet: Subnet, values: dict[str, int], status: MadStatus, field: str, stored: int | None
) -> None:
    """*stored* None: the field keeps its value."""
    port = subnet.port(DB01, 1)
    port.m_key_violations, port.p_key_violations, port.q_key_violations = 10, 11, 12
    before = getattr(PortInfo(bytes(port.info)), field)
    answer = ask(subnet, SET, AttributeID.PORT_INFO, 1, written(port, m_key_lease_period=99, **values))
    assert answer is not None
    assert answer[0] == status
    assert getattr(PortInfo(bytes(port.info)), field) == (before if stored is None else stored)
    assert port.lease_period == 99  # the valid fields of an invalid Set are applied


def test_client_reregister_comes_back_but_is_not_kept(subnet: Subnet) -> None:
    port = subnet.port(DB01, 1)
    _, data = ask(subnet, SET, AttributeID.PORT_INFO, 0, written(port, client_reregister=1)) or (-1, bytes(64))
    assert PortInfo(data).client_reregister == 1
    _, data = ask(subnet, GET, AttributeID.PORT_INFO) or (-1, bytes(64))
    assert PortInfo(data).client_reregister == 0


def test_another_port_of_a_ca_is_shown_but_not_set(subnet: Subnet) -> None:
    other = subnet.port(DB01, 2)
    before = bytes(other.info)
    status, data = ask(subnet, SET, AttributeID.PORT_INFO, 2, written(other, m_key=5)) or (-1, bytes(64))
    assert (status, PortInfo(data).lid, PortInfo(data).local_port_num) == (OK, other.lid, 1)
    assert bytes(other.info) == before


def test_a_get_for_another_port_passes_both_keys(subnet: Subnet) -> None:
    here, other = subnet.port(DB01, 1), subnet.port(DB01, 2)
    other.m_key, other.protect_bits = 5, 2
    assert ask(subnet, GET, AttributeID.PORT_INFO, 2) is None
    assert (here.m_key_violations, other.m_key_violations) == (0, 1)
    here.m_key, here.protect_bits = 6, 2
    assert ask(subnet, GET, AttributeID.PORT_INFO, 2, m_key=7) is None
    assert (here.m_key_violations, other.m_key_violations) == (1, 2)
    assert ask(subnet, GET, AttributeID.PORT_INFO, 2, m_key=5) is None  # right for the named port only
    assert (here.m_key_violations, other.m_key_violations) == (2, 2)


def test_port_0_guards_the_whole_switch(subnet: Subnet) -> None:
    port0 = subnet.port(SWITCH, 0)
    port0.m_key, port0.protect_bits = 5, 2
    assert subnet.port(SWITCH, 4).m_key == 5
    for attribute, modifier in ((0x15, 4), (0x16, 4 << 16), (0x12, 0), (0x11, 0), (0x10, 0), (0x19, 0)):
        assert ask(subnet, GET, attribute, modifier, path=(1,)) is None
        assert ask(subnet, GET, attribute, modifier, path=(1,), m_key=5) is not None
    assert port0.m_key_violations == 6
    _, data = ask(subnet, GET, AttributeID.PORT_INFO, 4, path=(1,), m_key=5) or (-1, bytes(64))
    assert (PortInfo(data).m_key, PortInfo(data).m_key_violations) == (0, 0)
    assert ask(subnet, GET, AttributeID.NODE_INFO, path=(1, 2)) is not None  # it forwards all the same


def test_enforcement_bits_are_kept_where_the_switch_has_the_capability(subnet: Subnet) -> None:
    port = subnet.port(SWITCH, 4)
    both = {"partition_enforcement_inbound": 1, "partition_enforcement_outbound": 1}
    ask(subnet, SET, AttributeID.PORT_INFO, 4, written(port, **both), path=(1,))
    assert (port.inbound_enforcement, port.outbound_enforcement) == (1, 1)
    set_enforcement_caps(subnet.node(SWITCH), inbound=False, outbound=True)
    ask(subnet, SET, AttributeID.PORT_INFO, 4, written(port, **both), path=(1,))
    assert (port.inbound_enforcement, port.outbound_enforcement) == (0, 1)
    port0 = subnet.port(SWITCH, 0)
    ask(subnet, SET, AttributeID.PORT_INFO, 0, written(port0, **both), path=(1,))
    assert (port0.inbound_enforcement, port0.outbound_enforcement) == (0, 0)
    ask(subnet, SET, AttributeID.PORT_INFO, 4, written(port, m_key=7, m_key_protect_bits=2, lid=9), path=(1,))
    assert PortInfo(bytes(port.info)).m_key == 0
    assert (port.protect_bits, port.lid) == (0, 0)


def test_port_state_steps_up_one_by_one_and_down_trains_again(subnet: Subnet) -> None:
    port, peer = subnet.port(DB01, 2), subnet.port(DB01, 2).peer
    assert peer is not None
    switch, number = peer.node, peer.number

    def set_state(state: int, physical: int = 0) -> int:
        data = written(peer, port_state=state, port_physical_state=physical)
        return subnet.process(build_smp(SET, 0x15, number, path=(), data=data), switch, 0)[0].mad[5]

    assert set_state(1) == OK
    assert (port.state, peer.state, port.physical_state) == (2, 2, 5)
    assert set_state(4) == INVALID
    assert set_state(3) == OK
    assert set_state(4) == OK
    assert (peer.state, port.state) == (4, 2)
    assert set_state(0, 3) == OK  # Disabled
    assert (peer.state, peer.physical_state, port.state, port.physical_state) == (1, 3, 1, 2)
    assert set_state(3) == INVALID
    assert set_state(0, 2) == OK  # Polling
    assert (peer.state, port.state) == (2, 2)


# The others


def test_guids_other_than_the_first_are_kept(subnet: Subnet) -> None:
    guids = tuple(range(100, 108))
    _, data = ask(subnet, SET, AttributeID.GUID_INFO, 0, GUIDInfo.new(guids=guids).raw) or (-1, bytes(64))
    assert GUIDInfo(data).guids == (0x248A070300B10101, *guids[1:])
    _, data = ask(subnet, GET, AttributeID.GUID_INFO) or (-1, bytes(64))
    assert GUIDInfo(data).guids[1:] == guids[1:]


def test_switch_info_set(subnet: Subnet) -> None:
    info = subnet.node(SWITCH).switch_info
    assert info is not None
    info[11] |= 0x04
    wanted = SwitchInfo(bytes(info)).replace(
        port_state_change=0, life_time_value=18, linear_fdb_top=200, linear_fdb_cap=1
    )
    _, data = ask(subnet, SET, AttributeID.SWITCH_INFO, 0, wanted.raw, path=(1,)) or (-1, bytes(64))
    shown = SwitchInfo(data)
    assert (shown.port_state_change, shown.life_time_value, shown.linear_fdb_top) == (1, 18, 200)
    assert (shown.linear_fdb_cap, shown.inbound_enforcement_cap, shown.outbound_enforcement_cap) == (30720, 1, 1)
    ask(subnet, SET, AttributeID.SWITCH_INFO, 0, wanted.replace(port_state_change=1).raw, path=(1,))
    assert SwitchInfo(bytes(info)).port_state_change == 0
    bad = wanted.replace(linear_fdb_top=30720).raw
    assert (ask(subnet, SET, AttributeID.SWITCH_INFO, 0, bad, path=(1,)) or (-1,))[0] == INVALID


def test_sm_info_is_answered_by_an_sm_only(subnet: Subnet) -> None:
    subnet.set_sm(DB01, None)
    assert ask(subnet, GET, AttributeID.SM_INFO) is None
    subnet.set_sm(DB01, state=2, priority=5, sm_key=0x77)
    assert subnet.port(DB01, 1).capability_mask & 2
    _, data = ask(subnet, GET, AttributeID.SM_INFO) or (-1, bytes(64))
    info = SMInfo(data)
    assert (info.guid, info.sm_state, info.priority, info.sm_key) == (0x248A070300B10101, 2, 5, 0x77)
    assert ask(subnet, GET, AttributeID.SM_INFO, path=(1,)) is None
    assert (ask(subnet, SET, AttributeID.SM_INFO, 4) or (-1,))[0] == INVALID
    assert (ask(subnet, SET, AttributeID.SM_INFO, 1) or (-1,))[0] == OK
    assert subnet.node(DB01).sm is not None
    _, data = ask(subnet, GET, AttributeID.SM_INFO) or (-1, bytes(64))
    assert SMInfo(data).sm_state == 3
    subnet.set_sm(DB01, None)
    assert not subnet.port(DB01, 1).capability_mask & 2


def test_a_forwarding_table_that_is_set_is_used(subnet: Subnet) -> None:
    lid = subnet.port("db02 mlx5_0", 1).lid
    _, block = ask(subnet, GET, AttributeID.LINEAR_FORWARDING_TABLE, path=(1,)) or (-1, bytes(64))
    assert block[lid] == 2
    to_db02 = build_smp(GET, AttributeID.NODE_INFO)
    assert subnet.process(to_db02, DB01, 1, dlid=lid)
    changed = block[:lid] + b"\xff" + block[lid + 1 :]
    ask(subnet, SET, AttributeID.LINEAR_FORWARDING_TABLE, 0, changed, path=(1,))
    assert subnet.send(to_db02, subnet.port(DB01, 1), lid) is Drop.NO_ROUTE


@pytest.mark.parametrize(("attribute", "modifier"), [(0x17, 0x0102), (0x18, 1 << 16 | 3), (0x1B, 0), (0x1B, 1)])
def test_tables_that_only_a_subnet_manager_reads(subnet: Subnet, attribute: int, modifier: int) -> None:
    data = bytes(range(64))
    assert ask(subnet, SET, attribute, modifier, data, path=(1,)) == (OK, data)
    assert ask(subnet, GET, attribute, modifier, path=(1,)) == (OK, data)


@given(
    data=st.binary(min_size=64, max_size=64),
    attribute=st.sampled_from([0x11, 0x12, 0x14, 0x15, 0x16, 0x19, 0x20]),
    modifier=st.integers(0, 3),
)
def test_a_set_changes_nothing_that_is_read_only(data: bytes, attribute: int, modifier: int) -> None:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    switch = subnet.node("MF0;switch-a:IS5023/U1")
    read_only = (
        "capability_mask",
        "diag_code",
        "link_width_supported",
        "link_speed_supported",
        "vl_cap",
        "vl_arbitration_high_cap",
        "init_type_reply",
        "mtu_cap",
        "guid_cap",
        "resp_time_value",
        "max_credit_hint",
        "capability_mask2",
        "link_speed_ext_supported",
    )

    def fixed() -> list[object]:
        ports = [port for node in subnet.nodes for port in node.all_ports]
        shown: list[object] = [[getattr(PortInfo(bytes(port.info)), name) for name in read_only] for port in ports]
        shown += [node.node_info(1) for node in subnet.nodes] + [port.guid_block(0)[:8] for port in ports]
        return shown + [bytes(node.switch_info or b"")[:6] for node in subnet.nodes]

    elsewhere = [port for node in subnet.nodes for port in node.all_ports if node is not switch and port.peer is None]
    before, others = fixed(), [bytes(port.info) for port in elsewhere]
    counters = [0x1234] * 3
    port0 = switch.ports[0]
    port0.m_key_violations, port0.p_key_violations, port0.q_key_violations = counters
    subnet.process(build_smp(SET, attribute, modifier, path=(), data=data), switch, 0)
    assert fixed() == before
    assert [bytes(port.info) for port in elsewhere] == others
    now = [port0.m_key_violations, port0.p_key_violations, port0.q_key_violations]
    for index, value in enumerate(now):
        cleared = attribute == 0x15 and modifier == 0 and data[44 + 2 * index : 46 + 2 * index] == b"\0\0"
        assert value == (0 if cleared else 0x1234)


def test_addresses_of_ports_that_are_not_there(subnet: Subnet) -> None:
    for node, number in ((DB01, 0), (DB01, 3), (SWITCH, 13), ("nobody", 1), (0x99, 1)):
        with pytest.raises(AddressError):
            subnet.port(node, number)
    assert subnet.node(0x248A070300B10102) is subnet.node("H-248a070300b10100") is subnet.node("0x248a070300b10100")
