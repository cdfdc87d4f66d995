"""Checks of virtual ports: their public description was never confirmed on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ibkeys.errors import MadStatusError
from ibkeys.hardware.check import CheckAnswer, as_assumed, check, not_checked, seen
from ibkeys.hardware.reading import FabricReading
from ibkeys.mad.attributes import Attribute, NodeInfo
from ibkeys.mad.virtualization import VirtualizationInfo, VNodeInfo, VPortInfo, VPortState


def _virtualization_info(reading: FabricReading) -> VirtualizationInfo | None:
    """Return VirtualizationInfo of the local port, None if the port does not have the attribute."""
    reading.handle.read_port_info()
    if not reading.handle.port.can_have_virtual_ports:
        return None
    try:
        return VirtualizationInfo(reading.handle.get(VirtualizationInfo))
    except MadStatusError:
        return None


@check("virtual-ports.local", "unknown", "VirtualizationInfo of the local port is recorded")
def local(reading: FabricReading) -> CheckAnswer:
    """Return whether the local port has virtual ports, and how many."""
    info = _virtualization_info(reading)
    if info is None:
        return not_checked("the local port does not say that it has virtual ports")
    return seen(
        f"enabled {info.virtualization_enable}, up to {info.vport_cap}, highest index {info.vport_index_top}",
        **info.to_json(),
    )


@check("virtual-ports.index-0", "guess", "VPortInfo with AttributeModifier 0 is that of the port itself")
def index_0(reading: FabricReading) -> CheckAnswer:
    """Compare the GUID in VPortInfo with that of the port."""
    return _query_first(reading, VPortInfo, lambda port: port.vport_guid == reading.local.port_guid, "GUID of the port")


@check("virtual-ports.node", "guess", "VNodeInfo with AttributeModifier 0 is that of the node itself")
def node(reading: FabricReading) -> CheckAnswer:
    """Compare the GUID in VNodeInfo with that of the node."""
    return _query_first(
        reading,
        VNodeInfo,
        lambda info: info.vnode_guid == NodeInfo(reading.handle.get(NodeInfo)).node_guid,
        "GUID of the node",
    )


@check("virtual-ports.states", "guess", "VPortState with AttributeModifier 0 has the states from index 0 on")
def states(reading: FabricReading) -> CheckAnswer:
    """Compare the state of virtual port 0 with that of the port."""
    return _query_first(
        reading, VPortState, lambda block: block.vport_states[0] == reading.own_info.port_state, "state of the port"
    )


_A = TypeVar("_A", bound=Attribute)


def _query_first(
    reading: FabricReading, attribute: type[_A], is_own: Callable[[_A], bool], compared: str
) -> CheckAnswer:
    """Query *attribute* with AttributeModifier 0, and return whether it is about the port itself.

    *is_own*: returns this from the attribute. *compared*: the name of the value that it compares.
    """
    info = _virtualization_info(reading)
    if info is None or not info.virtualization_enable:
        return not_checked("the local port has no virtual ports")
    try:
        answer = attribute(reading.handle.get(attribute, 0))
    except MadStatusError as error:
        return as_assumed(False, f"status 0x{error.status:04x}")
    fits = is_own(answer)
    return as_assumed(fits, f"it has the {compared}" if fits else f"it does not have the {compared}")
