"""Every kind of false GUID: none of the victim's keys goes to the liar, both places are named, the owner is read."""

from __future__ import annotations

import pytest

from ibkeys.client.address import Address, DirectedAddress, GuidAddress, LidAddress, NameAddress
from ibkeys.errors import IbkeysError
from ibkeys.fabric.live import LiveFabric
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from tests.discovery.routes import route_to, sides
from tests.fabricsim import subnet, tool
from tests.lies import LIES, Lie, tell
from tests.protectedsim import keep_counters, link_end, listening, protect_all, provoked
from tests.sample import one_in


def told(found: Topology) -> str:
    return "\n".join([*found.notes, *(trouble.error for trouble in found.troubles)])


@pytest.fixture(params=[False, True], ids=["counters", "sa"])
def site(request: pytest.FixtureRequest) -> Subnet:
    net = subnet("ring-router")
    if request.param:
        net.set_sm("ibrouter01")
    return net


@pytest.mark.parametrize("lie", one_in(3, LIES), ids=str)
def test_a_lie_fetches_no_key(lie: Lie, site: Subnet, monkeypatch: pytest.MonkeyPatch) -> None:
    liar, victim = sides(site, lie)
    ring = protect_all(site)
    keep_counters(site, ring)
    with listening(site), tool(site, timeout=0.1) as fabric:
        tell(lie, site, liar, victim, ring, monkeypatch)
        fabric.ring = ring
        found = fabric.sweep(p_keys=True)
        # A switch that is taken for another one, because the SM believes its lie, may be asked once without its key.
        assert provoked(site, liar.node if lie.liar == "switch" else None) == []
        if lie.online:
            assert_owner_was_read(found, victim)
        if lie.kind != "system-image":
            assert_both_places_are_named(found, lie, liar, victim)
        for address in addresses(site, liar, victim):
            ask(fabric, address)
        assert provoked(site, liar.node if lie.liar == "switch" else None) == []


def assert_owner_was_read(found: Topology, victim: SimPort) -> None:
    [port] = [
        port
        for port in found.end_ports()
        if port.guid == victim.guid and port.node.guid == victim.node.guid and port not in found.doubtful
    ]
    assert port.m_key_state == "set"


def assert_both_places_are_named(found: Topology, lie: Lie, liar: SimPort, victim: SimPort) -> None:
    """A liar that was read: what it says is told, with where the one is whose GUID it says. One that was not, because
    a protected port may be there: the port before it. A host's NodeGUID opens nothing, for keys are kept by port GUID;
    that it is used twice is told where both are there to be compared."""
    read = [port for port in found.end_ports() if port.lid == liar.lid]
    nears = {link_end(port.peer) for port in liar.node.all_ports if port.peer is not None}
    if not read:
        assert nears & {(t.port.node.guid, t.port.num) for t in found.troubles}, told(found)
    elif (lie.kind == "node" and "host" in (lie.liar, lie.victim)) or (lie.liar, lie.victim) == ("switch", "host"):
        if lie.online and lie.victim == "host" and lie.kind != "port":
            assert f"node GUID 0x{victim.node.guid:016x} is used by 2 different nodes" in told(found)
    else:
        [why] = [why for port, why in found.doubtful.items() if port in read]
        assert f"0x{victim.guid:016x}" in why
        assert "which was found at route" in why or "which is known behind" in why or "which is known elsewhere" in why


def addresses(net: Subnet, liar: SimPort, victim: SimPort) -> list[Address]:
    return [
        LidAddress(liar.lid or 1),
        LidAddress(victim.lid),
        DirectedAddress(route_to(net, liar)),
        DirectedAddress(route_to(net, victim)),
        GuidAddress(victim.guid),
        GuidAddress(liar.guid),
        NameAddress(liar.node.description),
        NameAddress(victim.node.description),
    ]


def ask(fabric: LiveFabric, address: Address) -> None:
    """Read one port, from a fresh sweep, as a command does."""
    fabric.swept = None
    try:
        fabric.find_port(address).read_p_keys()
    except IbkeysError:
        return  # nothing has it, or nothing there may be asked: what matters is what was sent


@pytest.mark.parametrize("level", [1, 2])
def test_a_new_switch_that_says_it_is_one_that_was_found_is_no_other_link_of_it(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SA repeats the GUID, but with the liar's own LID."""
    net = subnet("ring-router")
    net.set_sm("ibrouter01")
    lie = next(each for each in LIES if str(each) == "both-switch-as-switch-new-online")
    liar, victim = sides(net, lie)
    ring = protect_all(net, level)
    ring.levels = dict.fromkeys(ring.by_guid, level)
    with listening(net), tool(net, timeout=0.1) as fabric:
        tell(lie, net, liar, victim, ring, monkeypatch)
        fabric.ring = ring
        found = fabric.sweep()
    true = [node for node in found.nodes if node.guid == victim.node.guid and node.port(0).lid == victim.lid]
    assert len(true) == 1
    nears = {link_end(port.peer) for port in liar.node.all_ports if port.peer is not None}
    joined = {
        (port.peer.node.guid, port.peer.num)
        for port in true[0].ports.values()
        if port.peer is not None and port.num != 12 and port.num != 11
    }
    assert not nears & joined
    assert nears & {(trouble.port.node.guid, trouble.port.num) for trouble in found.troubles}
