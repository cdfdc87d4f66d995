"""Which port the subnet manager runs on, as far as a sweep tells: ``SELF`` of a policy, and who would undo a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from ibkeys.fabric.model import Fabric, Port
from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import MAX_UNICAST_LID, SM_STATE_NAMES, SMState

Presence = Literal["active", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class Manager:
    """The subnet manager's port, None where it is not known.

    ``presence``: whether one is master; ``unknown`` counts as active. ``evidence``: what this rests on, in words.
    """

    port_guid: int | None
    presence: Presence = "none"
    evidence: str | None = None


def find_manager(fabric: Fabric) -> Manager:
    """Return what a sweep with SMInfo says of the master: the port that answers as one, else the one that MasterSMLID
    names. Of two masters the first; the evidence names both."""
    masters = [port for port in fabric.end_ports() if _state(port) == SMState.MASTER]
    if masters:
        return Manager(
            masters[0].guid or None, "active", " and ".join(f"the SM of {_at(port)} is master" for port in masters)
        )
    silent = [port for port in fabric.end_ports() if port.is_sm and port.sm_info is None]
    port = find_sm_port(fabric)
    guid = port.guid or None if port is not None else None
    if silent:
        return Manager(
            guid, "unknown", f"an SM may run at {_at(silent[0])}: its IsSM bit is set, and it did not answer"
        )
    others = [port for port in fabric.end_ports() if port.sm_info is not None]
    if others:
        states = ", ".join(f"that of {_at(port)} says {_state_name(port)}" for port in others)
        return Manager(guid, "unknown", f"no SM is master: {states}")
    where = f"MasterSMLID is still that of {_at(port)}" if port is not None else "and none ever was, says MasterSMLID"
    return Manager(guid, "none", f"no SM runs on any port that was read; {where}")


def find_sm_port(fabric: Fabric) -> Port | None:
    """Return the end port that the fabric's PortInfo names as the SM's: by the own port's MasterSMLID, else by the one
    that most ports have. None when there is none, or nobody has that LID."""
    lids: Counter[int] = Counter()
    own = 0
    for port in fabric.end_ports():
        info = port.port_info
        if info is None or not 1 <= info.master_sm_lid <= MAX_UNICAST_LID:
            continue
        lids[info.master_sm_lid] += 1
        if port.path == () and not own:
            own = info.master_sm_lid
    if not lids:
        return None
    return fabric.find_lid(own or lids.most_common(1)[0][0])


def _state(port: Port) -> int | None:
    return SMInfo(port.sm_info).sm_state if port.sm_info is not None else None


def _state_name(port: Port) -> str:
    state = _state(port)
    return SM_STATE_NAMES[SMState(state)] if state is not None and state <= SMState.MASTER else f"state {state}"


def _at(port: Port) -> str:
    return f"{port} (GUID 0x{port.guid:016x}, LID {port.lid if port.lid is not None else '?'})"
