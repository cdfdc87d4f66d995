"""The vendor's ExtendedPortInfo (attribute 0xFF90), which shows whether a link runs at FDR10.

It is not in the standard. But libibnetdisc, ibportstate and OpenSM query it at each port whose vendor and device ids
are known to have it, and report an error if it is refused. ibsim answers it too.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad.fields import Layout, field
from ibkeys.sim.agents.request import OK, AgentRequest, SmpAnswer
from ibkeys.sim.nodes import BLOCK_SIZE, EMPTY_BLOCK, SimPort

ATTRIBUTE: Final = 0xFF90
_FDR10: Final = 1


class ExtendedPortInfo(Layout):
    """ExtendedPortInfo as ibsim answers it (ibsim's sim_mad.c). AttributeModifier: port number."""

    size = BLOCK_SIZE
    # fmt: off
    #                            name                byte width
    state_change_enable  = field("StateChangeEnable",   3, 8)
    link_speed_supported = field("LinkSpeedSupported",  7, 8)
    link_speed_enabled   = field("LinkSpeedEnabled",   11, 8)
    link_speed_active    = field("LinkSpeedActive",    15, 8)
    # fmt: on


def run_at_fdr10(port: SimPort) -> None:
    """Let *port* show in ExtendedPortInfo that its link runs at FDR10."""
    info = ExtendedPortInfo.new(link_speed_supported=_FDR10, link_speed_enabled=_FDR10, link_speed_active=_FDR10)
    port.node.store_table((ATTRIBUTE, port.number), info.raw)


def get(request: AgentRequest) -> SmpAnswer:
    """Return the ExtendedPortInfo of the port in the modifier. Raises SmpRefused if there is no such port."""
    return OK, _stored(request.named_port())


def set_info(request: AgentRequest) -> SmpAnswer:
    """Apply a Set and return the resulting attribute: StateChangeEnable is stored, the speeds are not changed. Raises
    SmpRefused as `get`."""
    port = request.named_port()
    info = bytearray(_stored(port))
    ExtendedPortInfo.state_change_enable.copy(request.data, info)
    port.node.store_table((ATTRIBUTE, port.number), bytes(info))
    port.node.touch()
    return OK, bytes(info)


def _stored(port: SimPort) -> bytes:
    return (port.node.tables or {}).get((ATTRIBUTE, port.number), EMPTY_BLOCK)
