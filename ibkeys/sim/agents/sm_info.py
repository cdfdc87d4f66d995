"""SMInfo: what the subnet manager of a node answers, and how another one controls it (IBA 14.4.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import SMState
from ibkeys.sim.agents.request import INVALID, OK, Answer, Request
from ibkeys.sim.nodes import EMPTY_BLOCK


def get(request: Request) -> Answer | None:
    """Return what the subnet manager behind the port answers; None if none runs: then nobody answers."""
    sm = request.node.sm
    if sm is None or sm.port is not request.port:
        return None  # SMInfo is the business of a subnet manager; where none runs nobody answers
    if request.modifier:
        return INVALID, EMPTY_BLOCK
    sm.act_count = sm.act_count + 1 & 0xFFFF_FFFF
    info = SMInfo.new(
        guid=sm.port.guid,
        sm_key=0 if request.key_hidden else sm.sm_key,
        act_count=sm.act_count,
        priority=sm.priority,
        sm_state=sm.state,
    )
    return OK, info.raw


#                 AttributeModifier -> state before, state after (IBA 14.4.1)
_SM_CONTROL: Final = {
    1: ((SMState.STANDBY,), SMState.MASTER),  # handover
    2: ((SMState.MASTER, SMState.STANDBY), None),  # acknowledge
    3: ((SMState.STANDBY,), SMState.NOT_ACTIVE),  # disable
    4: ((SMState.NOT_ACTIVE, SMState.DISCOVERING), SMState.STANDBY),  # standby
    5: ((SMState.STANDBY,), SMState.DISCOVERING),  # discover
}


def set_state(request: Request) -> Answer | None:
    """Let the AttributeModifier of a Set control the subnet manager; None if none runs."""
    sm = request.node.sm
    if sm is None or sm.port is not request.port:
        return None
    before, after = _SM_CONTROL.get(request.modifier, ((), None))
    status = OK if sm.state in before else INVALID
    if status == OK and after is not None:
        sm.state = int(after)
        request.node.touch()
    shown = get(replace(request, modifier=0))
    return None if shown is None else (status, shown[1])
