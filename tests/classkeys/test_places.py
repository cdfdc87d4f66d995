"""A key of a class goes to the known place of its port only: what is refused, why, and what a lying node gets."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ibkeys.classkeys.reading import ClassKeyReading
from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.classkey import ClassKey
from ibkeys.mad.classes.gmp import KEY_CLASS_OF, KEY_CLASSES
from ibkeys.mkeys.sa_keys import SaKeys
from ibkeys.scripting import Fabric
from ibkeys.sim import routing
from ibkeys.sim.agents.class_keys import place
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.discovery.protecting import SWITCH_A, SWITCH_B
from tests.discovery.routes import sides
from tests.fabricsim import move_cable, subnet, swap_cables, tool
from tests.lies import LIES, Lie, tell
from tests.protectedsim import keep_counters, link_end, protect_all, ring_of, sm_sweeps

KEY = 0xA1A2A3A4A5A6A7A8
OF = KEY_CLASSES["cc"]
OWN, HOST, OTHER = "node01 mlx4_0", "node03 mlx4_0", "node04 mlx4_0"


@pytest.fixture
def net() -> Subnet:
    return subnet("two-switch")


@pytest.fixture
def host(net: Subnet) -> SimPort:
    return net.port(HOST, 1)


def heard(net: Subnet) -> list[SimPort]:
    """Return a list that gets each port at which `KEY` arrives from now on, whatever that port says of itself."""
    reached: list[SimPort] = []
    gmp = net.carrier.gmp

    def listening(mad: bytes, origin: SimPort, dlid: int):  # type: ignore[no-untyped-def]
        if mad[1] in KEY_CLASS_OF and KEY.to_bytes(8) in mad:
            end = routing.hops(origin, dlid)[1]
            reached.extend([end] if end is not None else [])
        return gmp(mad, origin, dlid)

    net.carrier.gmp = listening  # type: ignore[method-assign]
    return reached


def know(ring: KeyRing, victims: Iterable[SimPort]) -> KeyRing:
    """Let *ring* have a CC_Key of each of *victims*, and return it."""
    ring.class_keys = {"cc": {port.guid: ClassKey(KEY) for port in victims}}
    return ring


def ask_all(fabric: Fabric) -> dict[int, ClassKeyReading]:
    """Sweep, and ask every port that a key is known for; return what was learned by LID."""
    found = fabric.sweep(p_keys=True)
    ports = [port for port in found.end_ports() if port.guid in fabric.ring.class_keys["cc"]]
    readings = fabric.ask_class_keys(fabric.class_key_questions(ports, [OF]))
    return {reading.port.lid or 0: reading for reading in readings}


def look(net: Subnet, ring: KeyRing) -> tuple[dict[int, ClassKeyReading], list[SimPort]]:
    """Return what the ports of *net* say to a user with *ring*, and where the key arrived."""
    reached = heard(net)
    with tool(net, timeout=0.1) as fabric:
        fabric.ring = ring
        return ask_all(fabric), reached


def refusal(net: Subnet, ring: KeyRing) -> str:
    """Return why the one port that has the victim's GUID got no key. Nobody did."""
    readings, reached = look(net, ring)
    assert reached == []
    (reading,) = readings.values()
    assert reading.state == "not-asked"
    assert reading.not_asked == "withheld"
    return reading.detail


@pytest.mark.parametrize("with_sm", [False, True])
def test_at_its_known_place_a_port_gets_its_key(net: Subnet, host: SimPort, with_sm: bool) -> None:
    if with_sm:
        net.set_sm(net.nodes[0])
    place(host, OF, key=KEY, protect_bit=1)
    readings, reached = look(net, know(ring_of(net), [host]))
    assert [(each.state, each.is_the_known_key) for each in readings.values()] == [("set", True)]
    assert set(reached) == {host}


def test_without_a_known_place_a_port_gets_none_and_is_told_what_is_missing(net: Subnet, host: SimPort) -> None:
    detail = refusal(net, know(KeyRing(), [host]))
    assert host.peer is not None
    assert f"port GUID 0x{host.guid:016x} has no known place" in detail
    assert f"found behind GUID 0x{host.peer.node.guid:016x} port {host.peer.number}" in detail
    assert "put this link into the file neighbors in the directory of security_keys=" in detail
    assert "use trust_topology=True" in detail


def test_a_topology_that_the_user_trusts_needs_no_known_place(net: Subnet, host: SimPort) -> None:
    place(host, OF, key=KEY, protect_bit=1)
    ring = know(KeyRing(trust_topology=True), [host])
    readings, reached = look(net, ring)
    assert [each.state for each in readings.values()] == ["set"]
    assert set(reached) == {host}


def test_the_local_port_needs_no_known_place(net: Subnet) -> None:
    own = net.port(OWN, 1)
    place(own, OF, key=KEY, protect_bit=1)
    readings, reached = look(net, know(KeyRing(), [own]))
    assert [each.state for each in readings.values()] == ["set"]
    assert set(reached) == {own}


def test_a_switch_gets_its_key_by_a_known_link_only(net: Subnet) -> None:
    switch = net.node(SWITCH_B).ports[0]
    place(switch, OF, key=KEY, protect_bit=1)
    ring = know(ring_of(net), [switch])
    assert [each.state for each in look(net, ring)[0].values()] == ["set"]
    between = {
        near for near, far in ring.neighbors.items() if {near[0], far[0]} == {switch.guid, net.node(SWITCH_A).guid}
    }
    ring.neighbors = {near: far for near, far in ring.neighbors.items() if near not in between}
    assert ring.is_placed(switch.guid)
    assert f"port GUID 0x{switch.guid:016x} has no known place" in refusal(net, ring)


def test_a_switch_that_says_the_port_guid_of_a_host_gets_no_key_of_it(
    net: Subnet, host: SimPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own node GUID is where it is known, and a key goes by port GUID."""
    ring, switch = know(ring_of(net), [host]), net.node(SWITCH_B)
    tell(Lie("port", "switch", "host", True, False), net, switch.ports[0], host, ring, monkeypatch)
    assert "is reported by a switch with another node GUID" in refusal(net, ring)


def test_what_the_files_say_in_one_direction_only_counts_and_a_contradiction_does_not(
    net: Subnet, host: SimPort
) -> None:
    place(host, OF, key=KEY)
    assert host.peer is not None
    near, far = link_end(host.peer), link_end(host)
    for links in ({near: far}, {far: near}):
        assert [each.state for each in look(net, know(KeyRing(neighbors=links), [host]))[0].values()] == ["set"]
    contradiction = {far: near, near: (0x99, 1)}
    assert "could" not in refusal(net, know(KeyRing(neighbors=contradiction), [host]))


def test_a_link_that_nothing_proves_carries_no_key(net: Subnet, host: SimPort) -> None:
    """No SA answers, and the link was down since the files were written."""
    ring = know(ring_of(net), [host])
    assert host.peer is not None
    host.peer.count("link_downed_counter", 3)
    detail = refusal(net, ring)
    assert f"could not be verified that port GUID 0x{host.guid:016x} is behind" in detail
    assert "LinkDownedCounter of the port before it is 3, not 0" in detail
    assert detail.endswith("trust_topology=True sends the key anyway")


# --- lying nodes ------------------------------------------------------------------------------------------------------


def test_two_hosts_that_swap_guids_get_no_keys(net: Subnet, host: SimPort) -> None:
    other = net.port(OTHER, 1)
    ring = know(ring_of(net), [host, other])
    host.guid, other.guid = other.guid, host.guid
    readings, reached = look(net, ring)
    assert reached == []
    assert [("is known behind" in each.detail) for each in readings.values()] == [True, True]


def test_of_two_ports_with_one_guid_neither_gets_the_key(net: Subnet, host: SimPort) -> None:
    ring = know(ring_of(net), [host])
    net.port(OTHER, 1).guid = host.guid
    readings, reached = look(net, ring)
    assert reached == []
    why = f"not queried, because its key is not sent there: another node also has port GUID 0x{host.guid:016x}"
    assert [(each.not_asked, each.detail) for each in readings.values()] == [("withheld", why)] * 2


def test_a_lid_that_two_ports_have_gets_no_key(net: Subnet, host: SimPort) -> None:
    ring = know(ring_of(net), [host])
    host.lid = net.port(OTHER, 1).lid
    assert f"another port also has LID {host.lid}, to which the key of port GUID" in refusal(net, ring)


def test_a_guid_behind_another_port_fetches_no_key(net: Subnet, host: SimPort) -> None:
    ring, liar = know(ring_of(net), [host]), net.port(OTHER, 1)
    liar.guid, host.guid = host.guid, 0x99
    assert host.peer is not None
    assert liar.peer is not None
    detail = refusal(net, ring)
    assert f"is known behind GUID 0x{host.peer.node.guid:016x} port {host.peer.number}" in detail
    assert f"was found behind GUID 0x{liar.peer.node.guid:016x} port {liar.peer.number}" in detail


def test_a_port_that_moved_gets_no_key_until_its_place_is_known(net: Subnet, host: SimPort) -> None:
    place(host, OF, key=KEY)
    ring = know(ring_of(net), [host])
    move_cable(host, net.port(SWITCH_A, 6), net)
    sm_sweeps(net)
    assert "is known behind" in refusal(net, ring)
    keep_counters(net, ring := know(ring_of(net), [host]))
    assert [each.state for each in look(net, ring)[0].values()] == ["set"]


@pytest.mark.parametrize("with_sm", [False, True])
def test_a_liar_on_the_cable_of_its_victim_gets_no_key(net: Subnet, host: SimPort, with_sm: bool) -> None:
    """It took the victim's place and says its GUID. The SM has not looked yet, or there is none."""
    if with_sm:
        net.set_sm(net.nodes[0])
    ring, liar = know(ring_of(net), [host]), net.port(OTHER, 1)
    keep_counters(net, ring)
    swap_cables(host, liar, net)
    liar.guid, host.guid = host.guid, 0x99
    assert "could not be verified" in refusal(net, ring)
    if not with_sm:
        sm_sweeps(net)
        assert "LinkDownedCounter" in refusal(net, ring)


def test_a_switch_that_says_the_guid_of_another_one_makes_no_known_place(net: Subnet, host: SimPort) -> None:
    """The liar has its own switch, and both say what is known of the victim."""
    ring = know(ring_of(net), [host])
    assert host.peer is not None
    true, false = host.peer.node, net.node(SWITCH_A if host.peer.node is net.node(SWITCH_B) else SWITCH_B)
    liar = next(port.peer for port in false.ports[1:] if port.peer and port.number == host.peer.number)
    net.silence(host.node)
    liar.guid = host.guid
    false.guid = false.ports[0].guid = true.guid
    assert f"the node before it shares its node GUID 0x{true.guid:016x} with another one" in refusal(net, ring)


def test_behind_a_switch_whose_guid_is_not_believed_no_place_is_known(net: Subnet, host: SimPort) -> None:
    with tool(net) as fabric:
        fabric.ring = know(ring_of(net), [host])
        found = fabric.sweep()
        (port,) = found.find_guid(host.guid)
        assert port.peer is not None
        found.doubtful[port.peer.end_port] = "it moved"
        (question,) = fabric.class_key_questions([port], [OF])
    assert question.key.is_zero
    assert question.why_not is not None
    assert question.why_not.why.endswith("before it, is not trusted: it moved")


@pytest.mark.parametrize("with_sm", [False, True], ids=["counters", "sa"])
@pytest.mark.parametrize("protected", [False, True], ids=["open", "m-keys"])
@pytest.mark.parametrize("lie", [each for each in LIES if each.kind in ("port", "both")], ids=str)
def test_no_lie_fetches_a_key(lie: Lie, protected: bool, with_sm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    net = subnet("ring-router")
    if with_sm:
        net.set_sm("ibrouter01")
    liar, victim = sides(net, lie)
    ring = know(protect_all(net) if protected else ring_of(net), [victim])
    keep_counters(net, ring)
    tell(lie, net, liar, victim, ring, monkeypatch)
    assert [port for port in look(net, ring)[1] if port is not victim] == []


# --- the word of the SA -----------------------------------------------------------------------------------------------


def test_the_sa_places_no_key_of_a_class(net: Subnet, host: SimPort) -> None:
    """It names a new port for a GUID of which no M_Key is known."""
    assert host.peer is not None
    near, far = link_end(host.peer), link_end(host)
    ring = know(KeyRing(), [host])
    SaKeys(links={near: far, far: near}).add_to(ring)
    assert ring.expected_behind(near) == far, "the SA's own M_Keys may go there"
    assert f"only the SA reports port GUID 0x{host.guid:016x} behind" in refusal(net, ring)


def test_what_the_files_know_of_a_link_counts_where_the_sa_says_it_too(net: Subnet, host: SimPort) -> None:
    place(host, OF, key=KEY)
    ring = know(ring_of(net), [host])
    SaKeys(links=dict(ring.neighbors)).add_to(ring)
    assert [each.state for each in look(net, ring)[0].values()] == ["set"]
