"""A walk as text, one line for each hop, to write expected answers by hand."""

from __future__ import annotations

from tests.routes.walker import Check, Hop, Walk


def shown(walk: Walk) -> str:
    """Return the hops, such as ``1>S1>2  in 0:0x8001`` (by port 1 into S1 and by port 2 out of it, entry 0 lets the
    packet in), then the verdict. ``in none``: no entry does."""
    assert walk.verdict.hop == len(walk.hops) - 1
    verdict = f"{walk.verdict.outcome} {walk.verdict.reason}".strip()
    if walk.counted is not None:
        (node, port), counter = walk.counted
        verdict += f"; {node}[{port}] {counter}"
    return "\n".join([*map(_hop, walk.hops), verdict])


def _hop(hop: Hop) -> str:
    before = "" if hop.in_port is None else f"{hop.in_port}>"
    after = "" if hop.out_port is None else f">{hop.out_port}"
    return "  ".join([f"{before}{hop.node}{after}", *(_check(hop, check) for check in hop.checks)])


def _check(hop: Hop, check: Check) -> str:
    ports = {"in": hop.in_port, "out": hop.out_port, "end": check.place[1]}
    assert check.place == (hop.node, ports[check.direction])
    return f"{check.direction} none" if check.entry is None else f"{check.direction} {check.index}:{check.entry:#06x}"
