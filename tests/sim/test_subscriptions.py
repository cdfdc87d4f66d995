"""The simulated SA's subscriptions, rule by rule. Oracle: OpenSM 3.3.23 (osm_sa_informinfo.c, osm_inform.c), of which
`tests/integration/test_reports.py` shows the real one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import AddressError, UsageError
from ibkeys.mad.const import Method
from ibkeys.mad.inform import ALL_TRAPS, InformInfo, ReportNotice, inform_info
from ibkeys.mad.sa import SA_HEADER_SIZE, SaHeader, build_sa
from ibkeys.sim.deliveries import Delivery, Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.steering.commands import execute
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA

SM, ASKER, VICTIM, OTHER = "node01 mlx4_0", "node02 mlx4_0", "node03 mlx4_0", "node04 mlx4_0"
SA_KEY = 0x77
ALL_LIDS = 0xFFFF


@pytest.fixture
def net() -> Subnet:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    subnet.set_sm(SM)
    subnet.sa_of(SM).sa_key = SA_KEY
    return subnet


@pytest.fixture
def heard(net: Subnet) -> list[ReportNotice]:
    """The Reports that come to the asker, which answers none."""
    reports: list[ReportNotice] = []

    def take(delivery: Delivery) -> None:
        assert delivery.mad[3] == Method.REPORT
        reports.append(ReportNotice(delivery.mad[SA_HEADER_SIZE:][: ReportNotice.size]))

    net.attach(port(net, ASKER), take)
    return reports


def port(net: Subnet, name: str) -> SimPort:
    return net.port(name, 1)


def ask(net: Subnet, info: InformInfo, key: int = SA_KEY, asker: str = ASKER) -> int | None:
    """Send Set(InformInfo); returns the status, None for silence."""
    mad = build_sa(Method.SET, 3, data=info.raw, sm_key=key, transaction_id=5)
    outcome = net.send(mad, port(net, asker), port(net, SM).lid)
    if isinstance(outcome, Drop):
        assert outcome is Drop.SM_KEY
        return None
    (answer,) = outcome
    header = SaHeader(answer.mad[:SA_HEADER_SIZE])
    assert (header.method, header.attribute_id, header.sm_key) == (Method.GET_RESP, 3, 0)
    assert answer.mad[SA_HEADER_SIZE : SA_HEADER_SIZE + 36] == info.raw, "the data comes back"
    return header.status


def send_bad_packet(net: Subnet, victim: str = VICTIM) -> None:
    net.advance(5)
    net.packet(Packet(port(net, SM), port(net, victim), 0x0EAD))


def number_of(net: Subnet) -> int:
    return len(net.sa_of(SM).subscriptions)


#                   InformInfo, SM_Key, refuses wildcards -> status
RULES: list[tuple[str, InformInfo, int, bool, int | None]] = [
    ("an ordinary trap from a stranger", inform_info(144, True), 0, False, 0),
    ("256 from a stranger", inform_info(256, True), 0, False, 0x0200),
    ("257 from a stranger", inform_info(257, True), 0, False, 0x0200),
    ("258 from a stranger", inform_info(258, True), 0, False, 0x0200),
    ("259 from a stranger", inform_info(259, True), 0, False, 0x0200),
    ("255 from a stranger", inform_info(255, True), 0, False, 0),
    ("260 from a stranger", inform_info(260, True), 0, False, 0),
    ("256 from who is trusted", inform_info(256, True), SA_KEY, False, 0),
    ("256 with another SM_Key", inform_info(256, True), SA_KEY + 1, False, None),
    ("all from a stranger", inform_info(ALL_TRAPS, True), 0, False, 0),
    ("all security traps from a stranger", inform_info(ALL_TRAPS, True, kind=2), 0, False, 0),
    ("all from a stranger, where that is refused", inform_info(ALL_TRAPS, True), 0, True, 0x0200),
    ("all from who is trusted, where that is refused", inform_info(ALL_TRAPS, True), SA_KEY, True, 0),
    ("144 from a stranger, where all is refused", inform_info(144, True), 0, True, 0),
    ("Subscribe 2", inform_info(144, True).replace(subscribe=2), SA_KEY, False, 0x0200),
    ("Subscribe 255", inform_info(144, True).replace(subscribe=255), SA_KEY, False, 0x0200),
    ("the end of nothing", inform_info(144, False), SA_KEY, False, 0x0200),
    ("a GID that nobody has", inform_info(144, True).replace(gid=1), SA_KEY, False, 0x0200),
]


@pytest.mark.parametrize(
    ("info", "key", "refuses", "status"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_who_may_subscribe_to_what(net: Subnet, info: InformInfo, key: int, refuses: bool, status: int | None) -> None:
    execute(net, f'sa "{SM}" wildcards {"refused" if refuses else "accepted"}')
    assert ask(net, info, key) == status
    assert number_of(net) == (status == 0)


def test_the_same_subscription_twice_is_one_and_its_end_is_the_end(net: Subnet) -> None:
    for _ in range(3):
        assert ask(net, inform_info(257, True)) == 0
    assert number_of(net) == 1
    assert ask(net, inform_info(257, False)) == 0
    assert ask(net, inform_info(257, False)) == 0x0200
    assert number_of(net) == 0


def test_the_qpn_is_compared_at_the_end_only(net: Subnet) -> None:
    assert ask(net, inform_info(257, True, qpn=0x99)) == 0
    assert ask(net, inform_info(257, True, qpn=1)) == 0
    assert number_of(net) == 1
    assert ask(net, inform_info(257, False, qpn=0x99)) == 0x0200
    assert ask(net, inform_info(257, False, qpn=1)) == 0


def test_nobody_ends_the_subscription_of_another_port(net: Subnet) -> None:
    assert ask(net, inform_info(257, True)) == 0
    assert ask(net, inform_info(257, False), asker=OTHER) == 0x0200
    assert number_of(net) == 1


def lids(first: str, last: str) -> dict[str, Any]:
    numbers = {f"node0{number} mlx4_0": number for number in range(1, 7)}
    return {"lid_range_begin": numbers[first], "lid_range_end": numbers[last]}


GID_OF_VICTIM = 0xFE80 << 112 | 0x0002C903000A1031


@pytest.mark.parametrize(
    ("fields", "hears"),
    [
        ({}, True),
        ({"trap_number": ALL_TRAPS}, True),
        ({"trap_number": 258}, False),
        ({"type": 2}, True),
        ({"type": 1}, False),
        ({"producer_type": 1}, True),
        ({"producer_type": 2}, False),
        ({"is_generic": 0}, False),
        (lids(VICTIM, VICTIM), True),
        (lids(SM, VICTIM), True),
        (lids(SM, ASKER), False),
        ({"gid": GID_OF_VICTIM}, True),
        ({"gid": GID_OF_VICTIM, **lids(SM, ASKER)}, True),
        ({"gid": GID_OF_VICTIM + 0x10}, False),
    ],
)
def test_which_trap_a_subscription_is_for(
    net: Subnet, heard: list[ReportNotice], fields: dict[str, Any], hears: bool
) -> None:
    assert ask(net, inform_info(257, True).replace(**fields)) == 0
    send_bad_packet(net)
    assert [(each.trap_number, each.issuer_gid) for each in heard] == [(257, GID_OF_VICTIM)] * hears


def test_without_a_p_key_in_common_there_is_no_report(net: Subnet, heard: list[ReportNotice]) -> None:
    assert ask(net, inform_info(257, True)) == 0
    port(net, ASKER).p_keys = [0x8010]
    send_bad_packet(net)
    assert heard == []
    assert number_of(net) == 1, "of all LIDs: it stays"
    port(net, ASKER).p_keys = [0xFFFF]
    send_bad_packet(net)
    assert len(heard) == 1


def test_a_subscription_to_a_lid_without_a_p_key_in_common_is_deleted(net: Subnet, heard: list[ReportNotice]) -> None:
    assert ask(net, inform_info(257, True).replace(**lids(VICTIM, VICTIM))) == 0
    port(net, ASKER).p_keys = [0x7FFF]
    port(net, VICTIM).p_keys = [0x7FFF]
    send_bad_packet(net, OTHER)
    assert number_of(net) == 1, "not its trap"
    send_bad_packet(net)
    assert number_of(net) == 0
    assert heard == []
    assert ask(net, inform_info(257, True).replace(**lids(VICTIM, VICTIM))) == 0x0200, "nor can it be had again"


def test_a_new_sm_knows_of_no_subscription(net: Subnet, heard: list[ReportNotice]) -> None:
    assert ask(net, inform_info(257, True)) == 0
    net.set_sm(SM)
    send_bad_packet(net)
    assert heard == []


def test_a_report_goes_out_four_times_without_an_answer(net: Subnet, heard: list[ReportNotice]) -> None:
    assert ask(net, inform_info(257, True)) == 0
    send_bad_packet(net)
    for expected in (2, 3, 4, 4):
        due = net.managers.next_timer()
        assert due is not None
        net.advance(due - net.now)
        net.carrier.run_sa_timers()
        assert len(heard) == expected
    assert net.managers.next_timer() is None


@pytest.mark.parametrize(
    ("spoil", "again"),
    [
        (lambda mad: mad, False),
        (lambda mad: mad[:8] + b"\1" + mad[9:], True),
        (lambda mad: mad[:15] + b"\0" + mad[16:], True),
    ],
    ids=["whole", "another upper half", "another lower half"],
)
def test_an_answer_carries_the_whole_transaction_id(net: Subnet, spoil: Any, again: bool) -> None:
    mads: list[bytes] = []
    net.attach(port(net, ASKER), lambda delivery: mads.append(delivery.mad))
    assert ask(net, inform_info(257, True)) == 0
    send_bad_packet(net)
    answer = spoil(mads[0][:3] + bytes((Method.REPORT_RESP,)) + mads[0][4:])
    net.send(answer, port(net, OTHER), port(net, SM).lid)
    assert net.managers.next_timer() is not None, "nobody answers for another port"
    net.send(answer, port(net, ASKER), port(net, SM).lid)
    assert (net.managers.next_timer() is not None) == again


def test_a_trap_that_was_reported_is_not_repeated_by_its_port(net: Subnet, heard: list[ReportNotice]) -> None:
    assert ask(net, inform_info(257, True)) == 0
    send_bad_packet(net)
    assert net.traps.repeats.next_time() is None


@given(data=st.binary(min_size=36, max_size=36), key=st.sampled_from([0, SA_KEY]))
def test_any_inform_info_is_answered(data: bytes, key: int) -> None:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    subnet.set_sm(SM)
    subnet.sa_of(SM).sa_key = SA_KEY
    assert ask(subnet, InformInfo(data), key) in (0, 0x0200)
    send_bad_packet(subnet)


def test_the_word_sa_needs_a_master(net: Subnet) -> None:
    for line, error in (
        (f'sa "{ASKER}" wildcards refused', UsageError),
        ('sa "nobody" wildcards refused', AddressError),
    ):
        with pytest.raises(error):
            execute(net, line)
    for line in (f'sa "{SM}" wildcards', f'sa "{SM}" wildcards off', f'sa "{SM}" trust refused'):
        with pytest.raises(UsageError):
            execute(net, line)
    assert execute(net, f'sa "{SM}" wildcards refused').endswith("wildcard subscriptions without an SM_Key are refused")
