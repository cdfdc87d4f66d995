"""The SA client against the simulated SA: trust, tables of many segments, and what is lost on the way."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

import ibkeys
from ibkeys.client.gmp import default_pkey_index
from ibkeys.client.sa import SaClient
from ibkeys.client.smp import Timing
from ibkeys.errors import EncodeError, MadStatusError, NoReply, SendRefused, Unreachable, UsageError
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.const import QP1_Q_KEY, Method
from ibkeys.mad.records import MCMemberRecord, NodeRecord, PathRecord, PKeyTableRecord, PortInfoRecord
from ibkeys.mad.sa import SaHeader
from ibkeys.sim.agents.sa_records import MulticastGroup
from ibkeys.umad.port import Outgoing, SendFailure
from ibkeys.umad.sim_spec import parse_spec
from tests.client.sasim import SA_KEY, SM, Recorder, recorded, with_sm
from tests.fabricsim import subnet, tool


def test_the_nodes_of_the_sa_are_those_of_a_sweep() -> None:
    _, fabric = with_sm("ft648")
    swept = {(port.lid, port.node.guid, port.port_guid, port.node.description) for port in fabric.sweep().end_ports()}
    client = fabric.sa()
    records = client.get_table(NodeRecord)
    assert len(records) > 648
    listed = {(each.lid, each.node_info.node_guid, each.node_info.port_guid, each.node_description) for each in records}
    assert listed == {row for row in swept if row[0]}
    assert client.statistics.replies == -(-len(records) * 112 // 200), "one MAD for each segment"


def test_class_port_info_is_a_sign_of_life() -> None:
    _, fabric = with_sm()
    assert fabric.sa().class_port_info().class_version == 2


def test_components_select() -> None:
    net, fabric = with_sm()
    node = net.node(SM)
    record = fabric.sa().get(NodeRecord, port_guid=node.ports[1].guid)
    assert (record.lid, record.node_description) == (node.ports[1].lid, SM)
    records = fabric.sa().get_table(PortInfoRecord, endport_lid=net.port("MF0;ib-a:SB7780/U1", 0).lid, port_num=3)
    assert [each.port_num for each in records] == [3]
    assert records[0].port_info.port_state == net.port("MF0;ib-a:SB7780/U1", 3).state
    assert fabric.sa().get_table(NodeRecord, lid=999) == []


def test_a_name_that_is_no_component_is_refused_before_anything_is_sent() -> None:
    _, fabric = with_sm()
    client = fabric.sa()
    with pytest.raises(EncodeError, match="NodeRecord has no component 'guid'"):
        client.get(NodeRecord, guid=1)
    with pytest.raises(EncodeError, match="has no component 'm_key'"):
        client.get_table(PortInfoRecord, m_key=1)
    assert client.statistics.sent == 0


@pytest.mark.parametrize(
    ("ask", "status", "words"),
    [
        (lambda sa: sa.get(NodeRecord, lid=999), 0x0300, "no records"),
        (lambda sa: sa.get(NodeRecord), 0x0400, "too many records"),
        (lambda sa: sa.get_table(PKeyTableRecord), 0x0200, "sm_key="),
        (lambda sa: sa.get_table(PathRecord, slid=1), 0x000C, "not supported"),
    ],
)
def test_a_status_of_the_sa_is_told_in_words(ask: object, status: int, words: str) -> None:
    _, fabric = with_sm()
    with pytest.raises(MadStatusError, match=words) as caught:
        ask(fabric.sa())  # type: ignore[operator]
    assert caught.value.status == status


def test_the_next_question_after_silence_finds_the_new_master() -> None:
    net, fabric = with_sm()
    client = fabric.sa()
    assert client.class_port_info().class_version == 2
    net.set_sm(net.nodes[0], None)
    net.set_sm(net.nodes[1])
    with pytest.raises(NoReply):
        client.class_port_info()
    assert client.class_port_info().class_version == 2


def test_a_trusted_asker_sees_keys_and_tables() -> None:
    net, fabric = with_sm()
    port = net.port("db02 mlx5_0", 1)
    port.m_key = 0xFEED
    port.p_keys = [0xFFFF, 0x8007]
    trusted, untrusted = fabric.sa(SMKey(SA_KEY)), fabric.sa()
    assert trusted.get(PortInfoRecord, endport_lid=port.lid).port_info.m_key == 0xFEED
    assert untrusted.get(PortInfoRecord, endport_lid=port.lid).port_info.m_key == 0
    records = trusted.get_table(PKeyTableRecord, lid=port.lid)
    assert [key for each in records for key in each.p_keys] == port.p_keys


def test_a_wrong_sm_key_is_silence_and_the_message_says_so() -> None:
    net, fabric = with_sm()
    with pytest.raises(NoReply, match=r"a wrong SM_Key, no SA there(.|\n)*OpenSM drops") as caught:
        fabric.sa(0x123456789).class_port_info()
    assert caught.value.attempts == 3
    assert "123456789" not in str(caught.value)
    assert "123456789" not in repr(fabric.sa(0x123456789).__dict__)
    assert [event.kind for event in net.events].count("sm-key-dropped") == 3


def test_enhanced_trust_gives_no_bulk_to_strangers() -> None:
    net, fabric = with_sm()
    net.sa_of(net.nodes[0]).enhanced_trust = True
    with pytest.raises(MadStatusError) as caught:
        fabric.sa().get_table(NodeRecord)
    assert caught.value.status == 0x0200
    assert fabric.sa(SA_KEY).get_table(NodeRecord)


def test_only_ports_with_a_p_key_in_common_are_shown() -> None:
    net, fabric = with_sm()
    hidden = net.port("db02 mlx5_0", 1)
    hidden.p_keys = [0x8123]
    assert hidden.lid not in {each.lid for each in fabric.sa().get_table(NodeRecord)}


def test_groups_and_their_members() -> None:
    net, fabric = with_sm()
    asker = net.nodes[0].end_ports[0]
    asker.p_keys = [0xFFFF, 0x0007]
    members = [net.port(SM, 1), net.port("db02 mlx5_0", 1)]
    net.sa_of(net.nodes[0]).groups.append(
        MulticastGroup(mgid=0xFF12_601B << 96 | 5, mlid=0xC001, p_key=0x8007, members=members)
    )
    for client in (fabric.sa(), fabric.sa(SA_KEY)):
        assert [(each.mlid, each.p_key, each.port_gid) for each in client.groups()] == [
            (0xC000, 0xFFFF, 0),
            (0xC001, 0x8007, 0),
        ]
    records = fabric.sa(SA_KEY).get_table(MCMemberRecord, mgid=0xFF12_601B << 96 | 5)
    assert [each.port_gid & (1 << 64) - 1 for each in records] == [port.guid for port in members]
    assert [each.port_gid for each in fabric.sa().get_table(MCMemberRecord, mgid=0xFF12_601B << 96 | 5)] == [0]
    asker.p_keys = [0xFFFF]
    assert [each.mlid for each in fabric.sa().groups()] == [0xC000], "the others are not for a port without their P_Key"


def test_mcmember_rates_are_those_of_the_record() -> None:
    _, fabric = with_sm()
    record = fabric.sa().get(MCMemberRecord, mlid=0xC000)
    assert (record.q_key, record.mtu, record.rate) == (0x0B1B, 4, 3)


def test_a_simulated_backend_with_a_subnet_manager_has_an_sa(tmp_path: Path) -> None:
    backend = f"sim:,sm=login1 HCA-1,sa-key=0x77,sa-trust=enhanced,state={tmp_path / 'state'}"
    for _ in range(2):  # the second time from the saved state
        with ibkeys.open(backend) as fabric:
            assert len(fabric.sa(0x77).get_table(NodeRecord)) > 2
            with pytest.raises(NoReply):
                fabric.sa(1).class_port_info()
            with pytest.raises(MadStatusError):
                fabric.sa().get_table(NodeRecord)
    assert "<SM_Key not shown>" in repr(parse_spec(backend))


@pytest.mark.parametrize(
    "options", ["sa-key=1", "sm=a,sa-trust=much", "sa-trust=enhanced", "sm=a,sa-wildcards=no", "sa-wildcards=refused"]
)
def test_options_of_an_sa_that_is_not_there_are_refused(options: str) -> None:
    with pytest.raises(UsageError, match="sa-"):
        parse_spec(f"sim:,{options}")


# --- the way there ----------------------------------------------------------------------------------------------------


def test_requests_go_to_qp1_with_the_default_partition_and_the_sms_service_level() -> None:
    net, _ = with_sm()
    home = net.attach_port(net.nodes[0])
    home.p_keys = [0x8007, 0x7FFF, 0xFFFF]
    home.info[36] = home.info[36] & 0xF0 | 5
    port = recorded(net)
    SaClient(port).class_port_info()
    assert [tuple(each[1:]) for each in port.sent] == [(home.sm_lid, 1000, 1, QP1_Q_KEY, 5, 2)]
    SaClient(port, pkey_index=0).class_port_info()
    assert port.sent[-1].pkey_index == 0
    with pytest.raises(UsageError, match=r"no P_Key at index 7; it has 0: 0x8007.*1: 0x7fff"):
        SaClient(port, pkey_index=7).class_port_info()


def test_the_default_partition_is_found_by_its_base() -> None:
    assert default_pkey_index([0x8001, 0x7FFF, 0xFFFF]) == 2
    assert default_pkey_index([0x8001, 0x7FFF]) == 1
    with pytest.raises(Unreachable, match="pkey_index="):
        default_pkey_index([0x8001, 0])


def test_without_a_subnet_manager_there_is_nobody_to_ask() -> None:
    net = subnet("dual-home")
    for node in net.nodes:
        for each in node.end_ports:
            each.info[18:20] = b"\0\0"
    with tool(net) as fabric, pytest.raises(Unreachable, match="MasterSMLID is 0"):
        fabric.sa().class_port_info()


def test_acknowledgements_are_sent_without_a_timeout() -> None:
    net, _ = with_sm("ft648")
    port = recorded(net)
    SaClient(port).get_table(NodeRecord)
    request, *acks = port.sent
    assert request.timeout_ms == 1000
    assert {each.timeout_ms for each in acks} == {0}
    assert {SaHeader(each.mad[:56]).rmpp_type for each in acks} == {2}
    assert len({each.mad[12:16] for each in port.sent}) == 1


def test_a_repeated_last_segment_is_acknowledged_while_something_else_is_asked() -> None:
    net, _ = with_sm("ft648")

    class LosesTheLastAck(Recorder):
        lost = False

        def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
            header = SaHeader(batch[0].mad[:56])
            if header.rmpp_type == 2 and header.segment_number % 64 != 1 and not self.lost:
                self.lost = True
                return []
            return super().send(batch)

    port = LosesTheLastAck(net, net.nodes[0])
    port.sent, port.refuse = [], []
    client = SaClient(port)
    assert len(client.get_table(NodeRecord)) > 648
    assert port.lost
    sa = net.sa_of(net.nodes[0])
    assert sa.next_timer() is not None, "the sender waits for the acknowledgement"
    net.faults.lose_next("request", method=Method.GET, count=3)
    with pytest.raises(NoReply):
        client.class_port_info()
    assert sa.next_timer() is None, "it has it now"


def test_a_full_device_is_asked_again_and_a_refusal_is_not() -> None:
    net, _ = with_sm()
    port = recorded(net)
    port.refuse = [errno.EAGAIN, errno.ENOMEM]
    assert SaClient(port).class_port_info().class_version == 2
    port.refuse = [errno.EINVAL]
    with pytest.raises(SendRefused):
        SaClient(port).class_port_info()


@pytest.mark.parametrize("seed", range(8))
def test_losses_and_duplicates_do_not_change_the_table(seed: int) -> None:
    net, fabric = with_sm("ft648")
    whole = fabric.sa().get_table(NodeRecord)
    net.faults.random.seed(seed)
    net.faults.drop, net.faults.duplicate, net.faults.delay, net.faults.delay_seconds = 0.05, 0.05, 0.2, 0.5
    client = SaClient(fabric.umad, Timing(retries=10))
    assert client.get_table(NodeRecord) == whole
    assert client.get_table(PortInfoRecord, port_num=1), "what is left of the first answer does no harm"


def test_a_late_answer_to_an_earlier_attempt_is_an_answer() -> None:
    net, fabric = with_sm()
    net.faults.delay, net.faults.delay_seconds = 1.0, 2.9
    client = SaClient(fabric.umad, Timing(retries=3))
    assert client.class_port_info().class_version == 2
    assert net.now > 1
