"""The master SM and its port: a policy's ``SELF`` names that port, and the SM would undo a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import MAX_UNICAST_LID, SM_STATE_NAMES, SMState
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

Presence = Literal["active", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class SubnetManager:
    """The facts about the master SM.

    ``lid``: its LID by MasterSMLID, 0 when no port has one. ``presence``: ``active``, ``none``, or ``unknown``, which
    counts as active. ``evidence``: the reading that shows this, in words. ``port_guid``: its port, None if it is not
    known. ``sm_key``: its SM_Key as SMInfo shows it, 0 where it is not shown.
    """

    lid: int
    presence: Presence
    evidence: str
    port_guid: int | None = None
    sm_key: int = field(default=0, repr=False)

    @property
    def may_be_master(self) -> bool:
        """Whether a master SM may be present."""
        return self.presence != "none"


def shown_subnet_manager(found: Topology) -> SubnetManager:
    """Return the facts about the master SM by a sweep with SMInfo. Its port is the one that answers as master, else the
    one with the MasterSMLID; of two masters the first, and the evidence names both.
    """
    masters = [port for port in found.end_ports() if _state(port) == SMState.MASTER]
    if masters:
        where = " and ".join(f"the SM of {_at(port)} is master" for port in masters)
        return _manager(masters[0], "active", where)
    silent = [port for port in found.end_ports() if port.is_sm and port.sm_info is None]
    port = find_sm_port(found)
    if silent:
        where = f"an SM may run at {_at(silent[0])}: its IsSM bit is set, and it did not answer"
        return _manager(port, "unknown", where)
    others = [port for port in found.end_ports() if port.sm_info is not None]
    if others:
        states = ", ".join(f"that of {_at(port)} says {sm_state_name(_state(port) or 0)}" for port in others)
        return _manager(port, "unknown", f"no SM is master: {states}")
    where = (
        f"MasterSMLID is still that of {_at(port)}" if port is not None else "and MasterSMLID says that none ever was"
    )
    return _manager(port, "none", f"no SM runs on any port that was read; {where}")


def _manager(port: Port | None, presence: Presence, evidence: str) -> SubnetManager:
    guid, lid = (port.guid or None, port.lid or 0) if port is not None else (None, 0)
    return SubnetManager(lid, presence, evidence, guid)


def find_sm_port(found: Topology) -> Port | None:
    """Return the end port that the fabric's PortInfo names as the SM's: by the local port's MasterSMLID, else by the
    most frequent MasterSMLID.

    None when no port has one, or no end port has that LID.
    """
    lids: Counter[int] = Counter()
    own = 0
    for port in found.end_ports():
        info = port.port_info
        if info is None or not 1 <= info.master_sm_lid <= MAX_UNICAST_LID:
            continue
        lids[info.master_sm_lid] += 1
        if port.path == () and not own:
            own = info.master_sm_lid
    if not lids:
        return None
    return found.find_lid(own or lids.most_common(1)[0][0])


def _state(port: Port) -> int | None:
    return SMInfo(port.sm_info).sm_state if port.sm_info is not None else None


def sm_state_name(state: int) -> str:
    """Return the name of an SMState; ``state N`` for a number N that the standard does not name."""
    return SM_STATE_NAMES.get(state, f"state {state}")


def _at(port: Port) -> str:
    return f"{port} (GUID 0x{port.guid:016x}, LID {port.lid if port.lid is not None else '?'})"
