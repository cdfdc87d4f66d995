"""A subnet with an SA for tests, a port that keeps what is sent to it, and an answer as OpenSM gives it."""

from __future__ import annotations

from collections.abc import Sequence

from ibkeys.fabric.live import LiveFabric
from ibkeys.mad.sa import SaHeader
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.port import Outgoing, SendFailure
from ibkeys.umad.simulated import SimulatedPort
from tests.fabricsim import subnet, tool

SM = "db01 mlx5_0"
SA_KEY = 0x0F00_BA5E_0000_0001


def with_sm(name: str = "dual-home") -> tuple[Subnet, LiveFabric]:
    """Return a subnet whose first node runs an SM, with an SA whose key is `SA_KEY`, and a tool that sits there too."""
    net = subnet(name)
    net.set_sm(net.nodes[0])
    net.sa_of(net.nodes[0]).sa_key = SA_KEY
    return net, tool(net)


class Recorder(SimulatedPort):
    """Keeps what was sent; *refuse* makes the kernel refuse that many sends."""

    sent: list[Outgoing]
    refuse: list[int]

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        if self.refuse:
            return [SendFailure(0, self.refuse.pop(0))]
        self.sent += batch
        return super().send(batch)


def recorded(net: Subnet) -> Recorder:
    """Return the port of the first node, with nothing sent yet and no refusal to come."""
    port = Recorder(net, net.nodes[0])
    port.sent, port.refuse = [], []
    return port


def opensm_answer(data: bytes, length: int) -> bytes:
    """An answer as OpenSM gives it to the umad layer: RMPPFlags Active and nothing else (captured on ibsim)."""
    header = SaHeader.new(
        base_version=1,
        mgmt_class=3,
        class_version=2,
        method=0x92,
        attribute_id=0x11,
        rmpp_flags=1,
        attribute_offset=14,
    )
    return (header.raw + data)[:length]
