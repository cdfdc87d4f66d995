"""Asking ports for keys of classes: four different answers, what it costs, which key goes where, what is retried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ibkeys.classkeys.asking import PortQueries, PortQuestion, path_to
from ibkeys.classkeys.reading import NO_KEY_KNOWN, ClassKeyReading
from ibkeys.errors import IbkeysError, LimitReached, MalformedMad, NoReply, SendRefused
from ibkeys.keys.classkey import ClassKey
from ibkeys.mad.classes.gmp import KEY_CLASS_OF, KEY_CLASSES, ClassName
from ibkeys.mad.classes.key_info import KeySettings
from ibkeys.scripting import Fabric
from ibkeys.sim.agents.class_keys import place
from ibkeys.sim.nodes import ClassAgent
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd
from tests.fabricsim import move_cable, subnet, tool
from tests.spy import spy

HOST, OTHER = "node03 mlx4_0", "node04 mlx4_0"
KEY, WRONG = 0xA1A2A3A4A5A6A7A8, 0x0102030405060708
NAMES: tuple[ClassName, ...] = ("cc", "vs", "n2n", "b")
COSTLY: tuple[ClassName, ...] = ("cc", "vs", "n2n")


@pytest.fixture
def net() -> Subnet:
    return subnet("two-switch")


def given(net: Subnet, name: ClassName, host: str = HOST, **state: int) -> ClassAgent:
    return place(net.port(host, 1), KEY_CLASSES[name], **state)


def links_of(found: Topology) -> dict[LinkEnd, LinkEnd]:
    return {port.link_end: port.peer.link_end for port in found.ports() if port.peer is not None}


def read(
    fabric: Fabric, name: ClassName, host: str = HOST, *, ask_unkeyed: bool = True, key: int | None = None
) -> ClassKeyReading:
    """Return what one port says of one class, asked with *key*. Every port is known to be where the sweep found it."""
    found = fabric.swept or fabric.sweep(p_keys=True)
    fabric.ring.neighbors = links_of(found)
    port = next(port for node in found.find_name(host) for port in node.ports.values() if port.is_end_port)
    fabric.ring.class_keys = {name: {port.guid: ClassKey(key)}} if key is not None else {}
    (reading,) = fabric.ask_class_keys(fabric.class_key_questions([port], [KEY_CLASSES[name]], ask_unkeyed=ask_unkeyed))
    return reading


def violations(agent: ClassAgent) -> int:
    return KeySettings(bytes(agent.info)).violations


@pytest.mark.parametrize("name", NAMES)
def test_four_different_answers(net: Subnet, name: ClassName) -> None:
    rules = net.carrier.class_rules[int(KEY_CLASSES[name].mgmt_class)]
    with tool(net) as fabric:
        assert read(fabric, name).state == "silent"
        rules.absent = "status"
        absent = read(fabric, name)
        assert (absent.state, absent.info) == ("absent", None)
        assert "0x000c" in absent.detail
        rules.gets = "answers"
        given(net, name, key=KEY, protect_bit=1, lease_period=60, violations=5)
        hidden = read(fabric, name)
        assert (hidden.state, hidden.settings) == (
            "hidden",
            KeySettings.new(protect_bit=1, lease_period=60, violations=5),
        )
        given(net, name, key=KEY)
        shown = read(fabric, name)
        assert shown.state == "set"
        assert shown.settings is not None
        assert shown.settings.key == KEY
        given(net, name)
        assert read(fabric, name).state == "zero"


@pytest.mark.parametrize("name", COSTLY)
def test_without_a_key_nothing_is_sent_unless_it_is_wanted(net: Subnet, name: ClassName) -> None:
    agent = given(net, name, key=KEY, protect_bit=1, lease_period=60)
    with tool(net) as fabric:
        fabric.sweep(p_keys=True)
        sent = spy(fabric)
        reading = read(fabric, name, ask_unkeyed=False)
        assert (reading.state, reading.not_asked, reading.detail) == ("not-asked", "no-key", NO_KEY_KNOWN.why)
        assert sent == []
    assert violations(agent) == 0
    assert agent.deadline is None


def test_a_b_key_is_asked_for_without_being_wanted_for_it_costs_nothing(net: Subnet) -> None:
    agent = given(net, "b", key=KEY, protect_bit=1)
    with tool(net) as fabric:
        assert read(fabric, "b", ask_unkeyed=False).state == "hidden"
    assert violations(agent) == 0


@pytest.mark.parametrize("name", COSTLY)
def test_the_worst_port_counts_one_violation_and_no_more(net: Subnet, name: ClassName) -> None:
    """It drops what comes without its key; ClassPortInfo too, or not."""
    rules = net.carrier.class_rules[int(KEY_CLASSES[name].mgmt_class)]
    rules.gets = "drops"
    for portinfo in ("open", "checked"):
        rules.portinfo = portinfo  # type: ignore[assignment]
        agent = given(net, name, key=KEY, protect_bit=1, lease_period=60)
        with tool(net) as fabric:
            assert read(fabric, name).state == "silent"
        assert violations(agent) == 1
        assert agent.deadline is not None


@pytest.mark.parametrize("name", NAMES)
def test_with_the_right_key_all_is_shown_and_nothing_counted(net: Subnet, name: ClassName) -> None:
    rules = net.carrier.class_rules[int(KEY_CLASSES[name].mgmt_class)]
    rules.gets, rules.portinfo = "drops", "checked"
    agent = given(net, name, key=KEY, protect_bit=1, lease_period=60)
    with tool(net) as fabric:
        reading = read(fabric, name, ask_unkeyed=False, key=KEY)
    assert (reading.state, reading.with_key, reading.is_the_known_key) == ("set", True, True)
    assert violations(agent) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_key_is_said_where_the_port_answers_it(net: Subnet, name: ClassName) -> None:
    net.carrier.class_rules[int(KEY_CLASSES[name].mgmt_class)].gets = "answers"
    given(net, name, key=KEY)
    with tool(net) as fabric:
        shown = read(fabric, name, key=WRONG)
        given(net, name, key=KEY, protect_bit=1)
        hidden = read(fabric, name, key=WRONG)
    assert (shown.state, shown.is_the_known_key) == ("set", False)
    assert (hidden.state, hidden.is_the_known_key) == ("hidden", False)
    assert "is not the" in shown.detail
    assert "not the port's" in hidden.detail


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_answer_is_asked_for_again_only_where_that_costs_nothing(net: Subnet, name: ClassName) -> None:
    net.carrier.class_rules[int(KEY_CLASSES[name].mgmt_class)].gets = "answers"
    given(net, name, key=KEY, protect_bit=1)
    with tool(net) as fabric:
        fabric.sweep(p_keys=True)
        net.faults.lose_next("reply", attribute=KEY_CLASSES[name].key_info.attribute_id)
        assert read(fabric, name).state == ("hidden" if name == "b" else "silent")
        net.faults.clear()
        net.faults.lose_next("reply", attribute=KEY_CLASSES[name].key_info.attribute_id)
        assert read(fabric, name, key=KEY).state == "set"


def test_zeros_without_class_port_info_are_not_taken_for_no_key(net: Subnet) -> None:
    """A switch of ibsim answers class 0x21 as if it were subnet management: zeros, and silence for ClassPortInfo."""
    given(net, "cc")
    with tool(net) as fabric:
        fabric.sweep(p_keys=True)
        net.faults.lose_next("reply", attribute=1, count=3)
        reading = read(fabric, "cc")
    assert reading.state == "unconfirmed"
    assert "may not" not in reading.detail
    assert "a port without this class may answer so too" in reading.detail


def test_a_port_of_class_0x0a_without_the_capability_has_no_vs_key(net: Subnet) -> None:
    given(net, "vs", key=KEY).capability_mask = 0
    with tool(net) as fabric:
        sent = spy(fabric)
        reading = read(fabric, "vs")
        asked = [mad for mad in sent if mad[1] == 0x0A]
    assert reading.state == "absent"
    assert "lacks 0x0100" in reading.detail
    assert [int.from_bytes(mad[16:18]) for mad in asked] == [1]


def test_another_status_is_no_answer_about_the_key(net: Subnet) -> None:
    given(net, "cc", key=KEY)
    with tool(net) as fabric:
        port = fabric.sweep(p_keys=True).find_name(HOST)[0].ports[1]
        (reading,) = fabric.ask_class_keys([PortQuestion(port, replace(KEY_CLASSES["cc"], class_version=3))])
    assert reading.state == "refused"
    assert reading.info is None


@pytest.mark.parametrize(
    ("error", "state", "detail"),
    [
        (MalformedMad("8 bytes"), "refused", "8 bytes"),
        (SendRefused("no agent"), "not-asked", "not queried: no agent"),
        (LimitReached("too many SMPs", "smps"), "not-asked", "not queried: too many SMPs"),
        (NoReply("no reply", attempts=1), "silent", "no reply"),
    ],
)
def test_only_what_was_not_sent_is_said_to_be_no_query(
    net: Subnet, error: IbkeysError, state: str, detail: str
) -> None:
    with tool(net) as fabric:
        port = fabric.sweep(p_keys=True).find_name(HOST)[0].ports[1]
        question = PortQuestion(port, KEY_CLASSES["cc"])
        reading = PortQueries(fabric.client, question, path_to(fabric.local(), port)).failed(error)
    assert (reading.state, reading.detail) == (state, detail)


def test_a_key_goes_to_its_own_port_and_class_and_to_no_other(net: Subnet) -> None:
    for name in NAMES:
        for host in (HOST, OTHER):
            given(net, name, host, key=KEY, protect_bit=1)
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
        own = found.find_name(HOST)[0].ports[1]
        fabric.ring.neighbors = links_of(found)
        fabric.ring.class_keys = {"cc": {own.guid: ClassKey(KEY)}}
        sent = spy(fabric)
        fabric.ask_class_keys(fabric.class_key_questions(found.end_ports(), KEY_CLASSES.values(), ask_unkeyed=True))
        keyed = [(mad[1], mad[24:32]) for mad in sent if any(mad[24:32]) and mad[1] in KEY_CLASS_OF]
    assert keyed == [(0x21, KEY.to_bytes(8))]


def test_a_key_does_not_go_to_a_port_whose_guid_another_node_says_too(net: Subnet) -> None:
    given(net, "cc", key=KEY)
    net.port(OTHER, 1).guid = net.port(HOST, 1).guid
    with tool(net) as fabric:
        reading = read(fabric, "cc", key=KEY)
    assert reading.state == "not-asked"
    assert "its key is not sent there" in reading.detail


def test_a_key_does_not_go_to_a_port_whose_link_changed_since_the_sweep(net: Subnet) -> None:
    given(net, "cc", key=KEY)
    with tool(net) as fabric:
        fabric.sweep(p_keys=True)
        net.advance(60)
        move_cable(net.port(HOST, 1), net.port("MF0;switch-a:IS5023/U1", 6), net)
        sent = spy(fabric)
        reading = read(fabric, "cc", key=KEY)
    assert reading.state == "not-asked"
    assert "its key is not sent there" in reading.detail
    assert not [mad for mad in sent if mad[1] in KEY_CLASS_OF]


def test_the_users_window_holds_for_these_mads_too(net: Subnet) -> None:
    batches: list[int] = []
    with tool(net, outstanding=3) as fabric:
        found = fabric.sweep(p_keys=True)
        questions = fabric.class_key_questions(found.end_ports(), KEY_CLASSES.values(), ask_unkeyed=True)
        inner = fabric.umad.send

        def send(batch):  # type: ignore[no-untyped-def]
            batches.append(len(batch))
            return inner(batch)

        fabric.umad.send = send  # type: ignore[method-assign]
        assert len(fabric.ask_class_keys(questions)) == 32
    assert max(batches) <= 3
    assert sum(batches) == 24 + 8 * 3, "one try for each of three classes, three for B_Keys, of 8 silent ports"


def test_the_p_key_is_one_that_the_port_takes(net: Subnet) -> None:
    given(net, "b")
    net.port("node01 mlx4_0", 1).p_keys = [0x7FFF, 0x8005]
    net.port(HOST, 1).p_keys = [0x7FFF, 0x0005]
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
        port = found.find_name(HOST)[0].ports[1]
        sent: list[int] = []
        inner = fabric.umad.send

        def send(batch):  # type: ignore[no-untyped-def]
            sent.extend(out.pkey_index for out in batch if out.qpn == 1)
            return inner(batch)

        fabric.umad.send = send  # type: ignore[method-assign]
        (reading,) = fabric.ask_class_keys(fabric.class_key_questions([port], [KEY_CLASSES["b"]]))
        assert set(sent) == {1}
        assert reading.state == "zero"
        net.port(HOST, 1).p_keys = [0x7FFF]
        port = fabric.sweep(p_keys=True).find_name(HOST)[0].ports[1]
        (reading,) = fabric.ask_class_keys(fabric.class_key_questions([port], [KEY_CLASSES["b"]]))
    assert reading.state == "not-asked"
    assert "none of its P_Keys matches" in reading.detail


def test_a_port_without_a_lid_is_not_asked() -> None:
    net = subnet("two-switch")
    net.port(HOST, 1).lid = 0
    with tool(net) as fabric:
        reading = read(fabric, "b")
    assert (reading.state, "no LID" in reading.detail) == ("not-asked", True)


def test_a_silent_class_does_not_keep_another_class_of_the_port_from_being_asked(net: Subnet) -> None:
    given(net, "b")
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
        port = found.find_name(HOST)[0].ports[1]
        questions = fabric.class_key_questions([port], KEY_CLASSES.values(), ask_unkeyed=True)
        states = {each.of: each.state for each in fabric.ask_class_keys(questions)}
    assert states == {"cc": "silent", "vs": "silent", "n2n": "silent", "b": "zero"}
