"""SMInfo of a node's subnet manager: the answer to a Get, and its control by another subnet manager (IBA 14.4.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import SMState
from ibkeys.sim.agents.request import INVALID, OK, AgentRequest, SmpAnswer, SmpRefused
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.nodes import SimSubnetManager


def _manager(request: AgentRequest) -> SimSubnetManager:
    """Return the subnet manager at the port of the request. Raises SmpRefused if none runs there."""
    sm = request.node.sm
    if sm is None or sm.port is not request.port:
        raise SmpRefused(Drop.NO_SM)
    return sm


def get(request: AgentRequest) -> SmpAnswer:
    """Count a Get(SMInfo) in ActCount, and return its answer. Raises SmpRefused if no subnet manager runs at the port,
    and for a modifier other than 0."""
    sm = _manager(request)
    if request.modifier:
        raise SmpRefused(INVALID)
    sm.act_count = sm.act_count + 1 & 0xFFFF_FFFF
    info = SMInfo.new(
        guid=sm.port.guid,
        sm_key=0 if request.key_hidden else sm.sm_key,
        act_count=sm.act_count,
        priority=sm.priority,
        sm_state=sm.state,
    )
    return OK, info.raw


# AttributeModifier -> the states in which it is valid, and the state after it, None for no change (IBA 14.4.1).
_SM_CONTROL: Final = {
    1: ((SMState.STANDBY,), SMState.MASTER),  # handover
    2: ((SMState.MASTER, SMState.STANDBY), None),  # acknowledge
    3: ((SMState.STANDBY,), SMState.NOT_ACTIVE),  # disable
    4: ((SMState.NOT_ACTIVE, SMState.DISCOVERING), SMState.STANDBY),  # standby
    5: ((SMState.STANDBY,), SMState.DISCOVERING),  # discover
}


def set_state(request: AgentRequest) -> SmpAnswer:
    """Change the state of the subnet manager as the AttributeModifier of a Set requests, and return the answer. Raises
    SmpRefused if no subnet manager runs at the port."""
    sm = _manager(request)
    before, after = _SM_CONTROL.get(request.modifier, ((), None))
    status = OK if sm.state in before else INVALID
    if status == OK and after is not None:
        sm.state = int(after)
        request.node.touch()
    return status, get(replace(request, modifier=0))[1]
