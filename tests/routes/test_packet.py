"""The packets of `why` against the walker, which imports nothing of ibkeys."""

from __future__ import annotations

import pytest

from ibkeys.keys.pkey import PKey
from ibkeys.reach.packet import PacketPath, follow_packet
from ibkeys.topology.forwarding import follow
from ibkeys.topology.nodes import Port
from tests.routes import plain, swept, walker
from tests.routes.hand_worked import CASES
from tests.routes.hand_worked.case import Case, fabric

DIRECTIONS = {"in": "inbound", "out": "outbound", "end": "received"}
ENDS = {"link down": "link not active", "forwarding table not read": "table not read"}
"""Ends of a route that the walker names otherwise."""
NOT_OF_WHY = (
    "QP0",
    "adaptive routing",
    "P_Key index of the QP not known",
    "router",
    "no unicast LID",
    "enforcement not read",
)
"""Reasons of verdicts about packets that `why` does not follow: SMPs, packets of one QP or to another subnet. No
attribute tells of adaptive routing. Where enforcement was not read, PortInfo was not, and so not the link either."""


def of_why() -> list[object]:
    found = []
    for case in CASES:
        for reading in case.readings:
            verdict = walker.walk(fabric(case.changes), case.sent(), reading).verdict
            if verdict.reason not in NOT_OF_WHY and case.sent().qp == plain.QP1:
                found.append(pytest.param(case, reading, id=f"{case.name}, {reading}"))
    return found


def walked(fabric: plain.Fabric, packet: plain.Packet, reading: plain.Reading) -> tuple[object, ...]:
    """Return what the walker says, in the words of `follow_packet`."""
    walk = walker.walk(fabric, packet, reading)
    outcome, _, reason = walk.verdict
    is_checked = outcome == "stopped" or reason.startswith("corrupted")
    is_unread = reason == "P_Key table not read"
    hops = [(hop.node, hop.in_port, hop.out_port or None) for hop in walk.hops]
    checks = [(check.place, DIRECTIONS[check.direction], check.index) for hop in walk.hops for check in hop.checks]
    return (
        hops,
        checks,
        "stopped" if is_checked else outcome,
        None if is_checked or is_unread or outcome == "delivered" else ENDS.get(reason, reason),
        None if walk.counted is None else walk.counted[1],
    )


def followed(ports: dict[plain.Place, Port], packet: plain.Packet, reading: plain.Reading) -> tuple[object, ...]:
    """Return what `follow_packet` says."""
    path = follow_packet(follow(ports[packet.source], packet.destination_lid), PKey(packet.p_key), reading)
    stop = path.stopped_by
    return hops_of(path), checks_of(path), path.outcome, path.lost_by, None if stop is None else stop.counter


def hops_of(path: PacketPath) -> list[tuple[str, int | None, int | None]]:
    hops = path.route.hops[: path.last_hop + 1]
    found = [(hop.node.description or "", number(hop.in_port), number(hop.out_port)) for hop in hops]
    if path.checks and path.checks[-1] == path.stopped_by and path.checks[-1].direction == "inbound":
        # the walker looks up no port for a packet that is stopped
        found[-1] = (*found[-1][:2], None)
    return found


def number(port: Port | None) -> int | None:
    return None if port is None else port.num


def checks_of(path: PacketPath) -> list[tuple[plain.Place, str, int | None]]:
    return [
        ((check.port.node.description or "", check.port.num), check.direction, check.index) for check in path.checks
    ]


@pytest.mark.parametrize(("case", "reading"), of_why())
def test_a_packet_goes_the_way_worked_out_by_hand(case: Case, reading: plain.Reading) -> None:
    plain_fabric = fabric(case.changes)
    assert followed(swept.topology(plain_fabric), case.sent(), reading) == walked(plain_fabric, case.sent(), reading)
