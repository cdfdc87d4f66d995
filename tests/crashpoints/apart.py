"""A fabric that outlives the tool, as a real one does: it stays in this process, and the tool works in a child.

Points are each system call that writes, and each MAD, before it leaves and after its reply.
"""

from __future__ import annotations

import marshal
import os
import socket
import traceback
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from ibkeys.sim.deliveries import Delivery, DeliveryOutcome, Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.crashpoints import shim

Work = Callable[[Callable[[], None]], int]
"""What the tool does. It calls what it gets where the points begin, and returns the exit code."""
_STARTED: Final = b"started"
_COUNT_SIZE: Final = 4
_ROUTE_SIZE: Final = 6


class Ended(NamedTuple):
    """How the child ended: its exit code, negative for a signal, and the points that it passed, 0 if it was killed."""

    code: int
    points: int


def run_apart(
    net: Subnet,
    work: Work,
    mode: str,
    point: int,
    on_start: Callable[[], None] = lambda: None,
    hear: Callable[[bytes], None] = lambda mad: None,
) -> Ended:
    """Do *work* on *net* in a child, to which at *point* happens what *mode* says (`shim.MODES`).

    *on_start*: called here when the points begin. *hear*: called here with each MAD before it gets to the fabric.
    """
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        near.close()
        _be_the_tool(net, work, mode, point, far)
    far.close()
    with near:
        points = _be_the_fabric(net, near, on_start, hear)
    return Ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), points)


def _be_the_tool(net: Subnet, work: Work, mode: str, point: int, far: socket.socket) -> NoReturn:
    def send(mad: bytes, origin: SimPort, dlid: int = 0xFFFF) -> DeliveryOutcome:
        shim.pass_point()
        far.send(_route(origin, dlid) + mad)
        drop, arrivals = marshal.loads(far.recv(1 << 16))
        shim.pass_point()
        return Drop(drop) if drop else [Delivery(*arrival) for arrival in arrivals]

    def started() -> None:
        far.send(_STARTED)
        shim.begin(mode, point)

    net.send = send  # type: ignore[method-assign]
    try:
        code = work(started)
        far.send(shim.passed().to_bytes(_COUNT_SIZE))
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


def _be_the_fabric(
    net: Subnet, near: socket.socket, on_start: Callable[[], None], hear: Callable[[bytes], None]
) -> int:
    """Answer MADs until the tool is gone; return how many points it says that it passed."""
    points = 0
    while message := near.recv(1 << 16):
        if message == _STARTED:
            on_start()
            continue
        if len(message) == _COUNT_SIZE:
            points = int.from_bytes(message)
            continue
        mad = message[_ROUTE_SIZE:]
        hear(mad)
        outcome = net.send(mad, *_origin(net, message))
        drop, arrivals = (outcome.value, []) if isinstance(outcome, Drop) else ("", outcome)
        near.send(marshal.dumps((drop, [tuple(arrival) for arrival in arrivals])))
    return points


def _route(origin: SimPort, dlid: int) -> bytes:
    """Return the bytes before a MAD: the port that sends it, and the LID that it is sent to."""
    return origin.node.index.to_bytes(2) + origin.number.to_bytes(2) + dlid.to_bytes(2)


def _origin(net: Subnet, message: bytes) -> tuple[SimPort, int]:
    index, number, dlid = (int.from_bytes(message[at : at + 2]) for at in range(0, _ROUTE_SIZE, 2))
    return net.nodes[index].ports[number], dlid
