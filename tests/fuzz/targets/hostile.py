"""A fabric that answers anything, met by a sweep and all that is asked after it: nothing but the errors of the tree,
within the limits, and no key goes to a port that is not its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from ibkeys.client.limits import Limits
from ibkeys.discovery.keyring import KeyRing
from ibkeys.errors import IbkeysError
from ibkeys.fabric.probes import probe_sa
from ibkeys.fabric.sa_view import ask_sa_view
from ibkeys.keys.classkey import ClassKey
from ibkeys.keys.mkey import MKey
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.scripting import Fabric
from ibkeys.sim.nodes import SimNode
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.port import Incoming, Outgoing, SendFailure, UmadPort
from ibkeys.umad.wrapped_port import WrappedPort
from tests.fabricsim import subnet, tool
from tests.fuzz.target import Choices, Target
from tests.protectedsim import keep_counters, listening, protect_all

_FABRICS = ("two-switch", "dual-home")
_LIMITS = Limits(nodes=100, ports=600, smps=20_000, time=120.0, node_smps=600, node_time=20.0, sa_time=20.0, sa_size=1)
_KEY = 0x5EC2E7C0DEC0FFEE
_BOUNDS: Any = {"largest": 300, "share": 3, "sample": 4, "operations": 20_000_000, "memory": 96 << 20}


def ask_everything(fabric: Fabric) -> None:
    """Ask what commands ask of a fabric, one after the other whatever came of the former."""
    with suppress(IbkeysError):
        found = fabric.take_snapshot(make_secret=False).fabric
        for question in (
            lambda: ask_sa_view(fabric.sa(), found),
            lambda: probe_sa(fabric),
            lambda: fabric.ask_class_keys(fabric.class_key_questions(found.end_ports(), KEY_CLASSES.values())),
            lambda: fabric.read_port_counters(list(found.ports())[:20]),
            lambda: fabric.sa().groups(),
        ):
            with suppress(IbkeysError):
                question()
        for port in list(found.end_ports())[:6]:
            with suppress(IbkeysError):
                fabric.handle(port).read_p_keys()


# --- one node that lies -----------------------------------------------------------------------------------------------


def _node(data: bytes) -> None:
    """One node of a fabric in which every port is protected answers what the input says, the others the truth."""
    choices = Choices(data)
    net, level = subnet(_FABRICS[choices.number() % 2]), 1 + choices.number() % 2
    ring = protect_all(net, level)
    keep_counters(net, ring)
    liar = net.nodes[1 + choices.number() % (len(net.nodes) - 1)]
    with listening(net):
        answer = net.carrier.ask

        def ask(mad: bytes, node: SimNode, ingress: int, slid: int) -> Any:
            said = answer(mad, node, ingress, slid)
            return _changed(choices, *said) if node is liar and isinstance(said, tuple) and choices else said

        net.carrier.ask = ask  # type: ignore[method-assign]
        with tool(net, timeout=0.1, limits=_LIMITS) as fabric:
            fabric.ring = ring
            ask_everything(fabric)


def _changed(choices: Choices, status: int, data: bytes) -> tuple[int, bytes]:
    """Return an answer with some bytes of its attribute changed, or another status."""
    what = choices.number()
    if what < 0x40:
        return status, data
    if what >= 0xF0:
        return choices.number(2), data
    return status, _overwritten(data, choices, 1 + what % 4, 64)


def _overwritten(data: bytes, choices: Choices, times: int, size: int) -> bytes:
    """Return the first *size* bytes of *data* with up to 8 bytes overwritten, so many *times*."""
    changed = bytearray(data)
    for _ in range(times):
        at, most = choices.number() % size, 1 + choices.number() % 8
        new = choices.take(most)
        changed[at : at + len(new)] = new
    return bytes(changed[:size])


# --- a whole fabric that lies -----------------------------------------------------------------------------------------


class LyingPort(WrappedPort):
    """A port around *inner* whose answers are changed, lost, doubled, cut or made up, as *choices* say."""

    def __init__(self, inner: UmadPort, choices: Choices) -> None:
        super().__init__(inner)
        self._choices = choices
        self.sent: list[bytes] = []
        self._before: list[Incoming] = []

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        self.sent += [each.mad for each in batch]
        return self.inner.send(batch)

    def recv(self, timeout: float) -> list[Incoming]:
        came = []
        for each in self.inner.recv(timeout):
            came += self._lied(each) if self._choices else [each]
        return came

    def _lied(self, came: Incoming) -> list[Incoming]:
        choices = self._choices
        what = choices.number()
        self._before = [*self._before[-7:], came]
        if what < 0x60:
            return [came]
        if what < 0xB0:
            return [came._replace(mad=_overwritten(came.mad, choices, 1 + what % 4, len(came.mad)))]
        match what % 6:
            case 0:
                return []
            case 1:
                return [came, came]
            case 2:
                return [came._replace(mad=came.mad[: choices.number()])]
            case 3:  # the data of another answer under this one's header
                other = self._before[choices.number() % len(self._before)]
                return [came._replace(mad=came.mad[:24] + other.mad[24:])]
            case 4:
                return [came, came._replace(mad=came.mad + choices.take(64))]
        return [came._replace(lid=choices.number(2)), came]


def _fabric(data: bytes) -> None:
    """Every answer may be a lie. What is known are the keys of ports of another fabric: none of them is sent."""
    choices = Choices(data)
    net = subnet(_FABRICS[choices.number() % 2])
    with_sm(net)
    ports: list[LyingPort] = []

    def lying(inner: UmadPort) -> UmadPort:
        ports.append(LyingPort(inner, choices))
        return ports[0]

    with tool(net, timeout=0.1, wrap=lying, limits=_LIMITS) as fabric:
        fabric.ring = _elsewhere()
        ask_everything(fabric)
    key = _KEY.to_bytes(8)
    assert not [mad for mad in ports[0].sent if key in mad], "a key was sent to a fabric that is not its own"


def with_sm(net: Subnet) -> None:
    """Let the first host be the subnet manager, so that there is an SA that answers."""
    net.set_sm(next(node for node in net.nodes if not node.is_switch))


@cache
def _elsewhere() -> KeyRing:
    """Return what is known of a fabric that is not there: the key of each port is one that is seen if it is sent."""
    ring = protect_all(subnet("ring-router"))
    ring.by_guid = dict.fromkeys(ring.by_guid, MKey(_KEY))
    ring.class_keys = {name: dict.fromkeys(ring.by_guid, ClassKey(_KEY)) for name in KEY_CLASSES}
    return ring


def _seeds(change: Callable[[int], bytes]) -> Iterator[bytes]:
    for fabric in (0, 1):
        for liar in (0, 3, 6):
            head = bytes((fabric, 0, liar))
            yield head
            for skip in (0, 1, 2, 5, 12):
                for kind in (0, 1, 2):
                    yield head + bytes(skip) + change(kind) * 3


def _of_node(kind: int) -> bytes:
    return (bytes((0x40, 12, 7)) + bytes(8), bytes((0x40, 2, 0, 254)), bytes((0xF0, 0, 0x1C)))[kind]


def _of_fabric(kind: int) -> bytes:
    return (bytes((0x60, 80, 7)) + bytes(8), bytes((0xB0 + 1, 0xB3)), bytes((0xB4, 40)))[kind]


TARGETS = (
    Target("hostile-node", _node, lambda: _seeds(_of_node), **_BOUNDS),
    Target("hostile-fabric", _fabric, lambda: _seeds(_of_fabric), **_BOUNDS),
)
