"""A simulated fabric with a trusted subscriber on it, and a watch whose turns are scripted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import ibkeys
from ibkeys.client.report_port import TrapReport
from ibkeys.client.reports import Subscriber
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.const import SECURITY_TRAPS, Method
from ibkeys.mad.smp import build_smp
from ibkeys.scripting import Fabric
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.subnet import Subnet
from ibkeys.watch.event import Event
from ibkeys.watch.names import Names
from ibkeys.watch.watching import Watch, WatchSettings
from tests.client.sasim import SA_KEY
from tests.fabricsim import subnet

OFFERED = 0x5EC2_E7A1_0FF3_12ED
"""A wrong M_Key that somebody offers."""
START = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)


def watched_subnet() -> Subnet:
    """Two switches and six hosts; node01 is the SM, with an SA that trusts `SA_KEY`."""
    net = subnet("two-switch")
    net.set_sm(net.nodes[0])
    net.sa_of(net.nodes[0]).sa_key = SA_KEY
    return net


def host(net: Subnet, number: int) -> SimPort:
    """The port of ``node0N mlx4_0``, whatever that is called now."""
    return net.port(f"H-0002c903000a10{number}0", 1)


@contextmanager
def subscribed(net: Subnet, traps: tuple[int, ...] = SECURITY_TRAPS) -> Iterator[tuple[Fabric, Subscriber]]:
    """A fabric opened through the port of a subscriber that has subscribed."""
    port = ibkeys.open_port(net, ibkeys.Local(at="node04 mlx4_0"))
    subscriber = Subscriber(port, traps, SMKey(SA_KEY))
    with ibkeys.open(subscriber.port) as fabric, subscriber:
        subscriber.subscribe()
        yield fabric, subscriber


def wrong_p_key(net: Subnet, p_key: int = 0x8123, sender: int = 2, receiver: int = 3) -> None:
    """Send a packet whose P_Key the receiver does not have; traps of one port have to be some seconds apart."""
    net.advance(5)
    net.packet(Packet(host(net, sender), host(net, receiver), p_key))


def wrong_q_key(net: Subnet) -> None:
    """Send a packet from node02 to a QP of node03 that has another Q_Key."""
    net.advance(5)
    net.packet(Packet(host(net, 2), host(net, 3), 0xFFFF, 0x11), 0x22)


def wrong_m_key(net: Subnet, route: tuple[int, ...] | None = None) -> None:
    """Let node01 set PortInfo of node02 with a wrong M_Key: by LID, or by the directed route 0,1,2."""
    net.advance(5)
    victim = host(net, 2)
    victim.m_key = 0x1234
    if route is None:
        assert net.send(build_smp(Method.SET, 0x15, 1, m_key=OFFERED), host(net, 1), victim.lid) is Drop.M_KEY
    else:
        mad = build_smp(Method.SET, 0x15, 1, m_key=OFFERED, path=route)
        assert net.send(mad, host(net, 1), 0xFFFF) is Drop.M_KEY


def names_of(net: Subnet) -> Names:
    """The names that a sweep from node04 gives."""
    names = Names()
    with ibkeys.open(net, local=ibkeys.Local(at="node04 mlx4_0")) as fabric:
        names.learn(fabric.sweep())
    return names


def reports(net: Subnet, act: Callable[[], None], traps: tuple[int, ...] = SECURITY_TRAPS) -> list[TrapReport]:
    """The Reports that come of what *act* does."""
    with subscribed(net, traps) as (_, subscriber):
        act()
        return subscriber.poll(1.0)


@dataclass
class Told:
    """An outlet that keeps what it is told. ``script``: what to do at each turn of the loop, by its number from 1."""

    script: dict[int, Callable[[], object]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    turns: int = 0

    def tell(self, event: Event) -> None:
        self.events.append(event)

    def say(self, text: str) -> None:
        self.said.append(text)

    def turn(self) -> None:
        self.turns += 1
        self.script.pop(self.turns, lambda: None)()


def watch(net: Subnet, told: Told, settings: WatchSettings, **more: Any) -> Watch:
    """Run a watch with a subscription until its settings say that it is over, and finish it."""
    with subscribed(net) as (fabric, subscriber):
        watching = Watch(fabric, told, settings, subscriber, clock=lambda: START, **more)
        watching.start()
        watching.run()
        watching.finish()
    return watching
