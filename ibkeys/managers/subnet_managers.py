"""The subnet managers of a fabric: the ports whose IsSM bit is set or that answered to SMInfo, with their SMInfo."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import SMState
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.subnet_manager import sm_state_name


@dataclass(frozen=True, slots=True)
class Manager:
    """A subnet manager. ``guid``: the GUID of its port; not the one in its SMInfo, in which an SM could put the GUID of
    another SM. ``state``: its SMState in words. ``state``, ``priority`` and ``act_count`` are None if the port has its
    IsSM bit set and did not answer to SMInfo.
    """

    port: Port
    guid: int
    state: str | None
    priority: int | None
    act_count: int | None

    @property
    def is_master(self) -> bool:
        """Whether its SMInfo has the state master."""
        return self.state == sm_state_name(SMState.MASTER)


def managers_of(found: Topology) -> tuple[Manager, ...]:
    """Return the subnet managers that a sweep with SMInfo found, the masters first.

    Source: IBA 14.2.5.6 (CapabilityMask.IsSM), 14.2.5.13 (SMInfo).
    """
    managers = [_manager_at(port) for port in found.end_ports() if port.is_sm or port.sm_info is not None]
    return tuple(sorted(managers, key=lambda each: (not each.is_master, each.state is None)))


def _manager_at(port: Port) -> Manager:
    if port.sm_info is None:
        return Manager(port, port.guid, None, None, None)
    info = SMInfo(port.sm_info)
    return Manager(port, port.guid, sm_state_name(info.sm_state), info.priority, info.act_count)
