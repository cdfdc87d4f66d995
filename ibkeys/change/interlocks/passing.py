"""Whether an enforcing switch port lets default-partition packets through to the SA, and which interlocks a change
triggers.

Members of the default partition talk to the SA with 0xffff or 0x7fff. A switch port that enforces partitions drops
packets that its own table does not match, by the rule of the end ports: two limited members do not talk (IBA 10.9.3,
18.2.4.2.1). So if the switch port at the SM has 0x7fff alone, no limited member reaches the SA, as if the SM's port
were limited itself. Inbound, a switch may let a limited P_Key pass a limited entry; this module does not rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.change.writer import ChangeWriter
from ibkeys.keys.pkey import PKey
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.nodes import Port

FarEnd = Literal["end port", "SM", "switch", "unknown"]
"""The far end of a switch port's link: an end port other than the SM's; the SM's port; a switch, behind which the SM
may be; unknown."""
Cut = Literal["SA", "limited by table", "limited by enforcement"]

INTERLOCK_OF: Final[dict[Cut, str]] = {
    "SA": "enforce-blind",
    "limited by table": "default-pkey",
    "limited by enforcement": "enforce-blind",
}
"""Cut → the interlock that objects: ``default-pkey`` if a P_Key is removed, else ``enforce-blind``."""
MEANING: Final[dict[Cut, str]] = {
    "SA": "enforcement without the default P_Key cuts the attached node off from the SA",
    "limited by table": "the SM is or may be behind an enforcing port that loses 0xffff and keeps 0x7fff: limited "
    "members can no longer reach the SA through it",
    "limited by enforcement": "the SM is or may be behind a port that has 0x7fff and no 0xffff: with enforcement "
    "limited members can no longer reach the SA through it",
}


@dataclass(frozen=True, slots=True)
class SaReachability:
    """Enforcement of a switch port, and its membership in the default partition: 0 none, 1 limited, 2 full."""

    bits: Enforcement
    level: int

    @classmethod
    def of(cls, bits: Enforcement, table: Iterable[PKey]) -> SaReachability:
        """Return the reachability that a table and the enforcement bits give."""
        return cls(bits, max((2 if key.is_full else 1 for key in table if key.is_default), default=0))


def new_cuts(before: SaReachability, after: SaReachability, find_far_end: Callable[[], FarEnd]) -> list[Cut]:
    """Return the connections to the SA that a change newly cuts. *find_far_end* is called only if the result depends on
    it."""
    is_enabled, loses = switches_on_enforcement(before.bits, after.bits), after.level < before.level
    if not any(after.bits.bits) or not (is_enabled or loses) or after.level == 2:
        return []
    if after.level == 0:
        return ["SA"]
    if find_far_end() == "end port":
        return []
    found: list[Cut] = ["limited by table"] if loses else []
    return [*found, "limited by enforcement"] if is_enabled else found


def switches_on_enforcement(before: Enforcement, after: Enforcement) -> bool:
    """Return whether enforcement is switched on in one direction or both."""
    return (after.inbound and not before.inbound) or (after.outbound and not before.outbound)


def far_end(writer: ChangeWriter, port: Port) -> FarEnd:
    """Return the far end of the link of *port*, an external port of a switch that a sweep found."""
    peer = port.peer
    if peer is None:
        return "unknown" if port.is_linked else "end port"
    if peer.is_external:
        return "switch"
    if peer.port_info is None:
        return "unknown"
    return "SM" if writer.holds_sm(peer) else "end port"


def far_end_by_sweep(writer: ChangeWriter, port: Port) -> FarEnd:
    """Return the far end of the link of a port that was read alone. Sweeps the fabric, so that the far end is read with
    its own M_Key. Raises the errors of `Fabric.sweep`."""
    found = port_in_sweep(writer, port)
    return "unknown" if found is None else far_end(writer, found)


def port_in_sweep(writer: ChangeWriter, port: Port) -> Port | None:
    """Return *port* as a sweep finds it, with its peer; None if no node, or more than one, has its GUID, or if the node
    has no such port. Raises the errors of `Fabric.sweep`."""
    same = [node for node in writer.fabric.sweep().nodes if node.guid == port.node.guid]
    return same[0].ports.get(port.num) if len(same) == 1 else None
