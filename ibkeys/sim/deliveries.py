"""The outcome for a MAD in a simulated subnet: it is delivered somewhere, or dropped without a reply."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

LATENCY: Final = 0.0
"""Seconds from a request to its reply without faults. It is 0, so the clock moves only while a program waits."""


class Delivery(NamedTuple):
    """A MAD that arrives ``delay`` seconds from now. ``slid``: the sender's LID, 0xFFFF for a directed route."""

    delay: float
    mad: bytes
    slid: int


class Drop(Enum):
    """Why a MAD got no answer. The value is the reason in words."""

    MALFORMED = "malformed"
    NO_ROUTE = "no route"
    NO_ROUTE_BACK = "no route back"
    SILENT = "silent"
    """The node answers nothing: a test made it silent."""
    FAULT = "fault"
    """Lost on its route, by chance or by order (see `ibkeys.sim.faults`)."""
    M_KEY = "m_key"
    """The port refused the M_Key."""
    CLASS_KEY = "class key"
    """The agent of a class with a key of its own sends no reply, because of a wrong key or an unknown MAD."""
    SM_KEY = "sm_key"
    """The SA ignores a requester with a wrong SM_Key."""
    NOT_ANSWERED = "not answered"
    """The agent accepts a MAD of this method and sends no reply."""
    NO_P_KEY = "no P_Key"
    """There is no P_Key at the sender's index."""
    P_KEY = "p_key"
    """A switch or the receiver dropped it: no entry of its table matches the P_Key."""
    NO_SM = "no SM"
    """SMInfo was requested from a port without a subnet manager."""
    NO_PORT = "no port there"
    """The MAD is for a program, and no program is attached to the port where it arrives."""


DeliveryOutcome = list[Delivery] | Drop
"""The replies to the sender of a MAD, or why there are none. An empty list: a program received it, or it needs no
answer."""
