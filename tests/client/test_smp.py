"""What the SMP client does between two runs: waiting, and SMPs that nobody answers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress

import pytest

from ibkeys.client.address import DirectedAddress
from ibkeys.client.smp import UNAWAITED_PER_SECOND, SmpClient, Task, Timing
from ibkeys.errors import NoReply
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import Method
from ibkeys.mad.notice import Notice
from ibkeys.umad.port import Incoming, Outgoing, SendFailure
from ibkeys.umad.simulated import port_on
from tests.fabricsim import subnet
from tests.sample import in_soak

NAME = "node02 mlx4_0"
PATH = (1, 2)


@pytest.mark.parametrize("seconds", [0.0, 0.1, 15.0, 65535.3])
def test_waiting_lets_the_ports_clock_pass_and_sends_nothing(seconds: float) -> None:
    net = subnet("two-switch")
    with port_on(net) as port:
        client = SmpClient(port)
        before = port.now()
        client.wait(seconds)
        assert port.now() == before + seconds
        assert client.statistics.sent == 0


def test_what_comes_in_while_waiting_is_a_stray_and_does_not_end_the_wait() -> None:
    net = subnet("two-switch")
    with port_on(net) as port:
        client = SmpClient(port)
        late = client.request(Method.GET, NodeInfo, 0, DirectedAddress(PATH)).mad
        port.push(net.now + 1, Incoming(late[:3] + b"\x81" + late[4:]))
        client.wait(5)
        assert port.now() == 5
        assert client.statistics.strays == 1


def test_gets_and_sets_along_one_route_are_for_one_node() -> None:
    """A limit on the SMPs of one node counts both."""
    with port_on(subnet("two-switch")) as port:
        client, route = SmpClient(port), DirectedAddress(PATH)
        asked = [client.request(method, NodeInfo, 0, route) for method in (Method.GET, Method.SET)]
        asked.append(client.gets_to(PATH, None, NO_MKEY).ask(NodeInfo))
    assert len({each.envelope.node for each in asked}) == 1


def test_what_is_told_is_paced_counted_and_not_waited_for() -> None:
    net = subnet("two-switch")
    victim = net.port(NAME, 1)
    victim.m_key, victim.protect_bits, victim.lease_period = 7, 2, 15
    with port_on(net) as port:
        client = SmpClient(port)
        request = client.request(Method.TRAP_REPRESS, Notice, 0, DirectedAddress(PATH), m_key=NO_MKEY)
        assert client.send_unawaited([request] * 200) == []
        assert port.now() == pytest.approx(200 / UNAWAITED_PER_SECOND)
        assert (client.statistics.sent, client.statistics.by_attribute) == (200, {2: 200})
    assert victim.m_key_violations == 200
    assert victim.lease_deadline == pytest.approx(15)


@pytest.mark.parametrize(
    ("outstanding", "least", "most"), [in_soak(None, 0.9 * UNAWAITED_PER_SECOND, UNAWAITED_PER_SECOND), (8, 8, 8)]
)
def test_probes_of_silent_nodes_are_paced_and_do_not_hold_their_places(
    outstanding: int | None, least: float, most: float
) -> None:
    """With a window of the user's a silent one counts until its timeout, whoever it is."""
    net = subnet("two-switch")
    victim = net.port(NAME, 1)
    victim.m_key, victim.protect_bits, victim.lease_period = 7, 2, 15
    with port_on(net) as port:
        client = SmpClient(port, Timing(outstanding=outstanding))
        sent: list[float] = []
        send = port.send

        def watched(batch: Sequence[Outgoing]) -> list[SendFailure]:
            sent.extend([port.now()] * len(batch))
            return send(batch)

        port.send = watched  # type: ignore[method-assign]

        def ask(path: tuple[int, ...]) -> Task:
            route = DirectedAddress(path)
            with suppress(NoReply):
                yield client.request(Method.GET, NodeInfo, 0, route, node=object(), m_key=NO_MKEY, retries=0)

        # an open node first: the window is wide then, as after a survey
        client.run([ask(()) for _ in range(200)])
        sent.clear()
        count = 20 if outstanding else 3 * UNAWAITED_PER_SECOND
        client.run([ask(PATH) for _ in range(count)], probing=True)
    assert victim.m_key_violations == min(count, 0xFFFF)
    spread = [bisect_right(sent, start + 1.0 - 1e-6) - number for number, start in enumerate(sent)]
    assert least <= spread[0] <= max(spread) <= most
