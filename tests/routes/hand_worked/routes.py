"""Packets that the forwarding tables lose, and tables that leave the way unknown."""

from __future__ import annotations

from typing import Final

from tests.routes.hand_worked.case import IN, OTHER, OUT, S1, Case
from tests.routes.plain import ARMED, DOWN, INITIALIZE

ROUTES: Final = [
    Case(
        "no entry",
        "255 = none",
        """
        A>1
        1>S1
        lost no entry
        """,
        changes={"S1": {"entry": {8: 255}}},
    ),
    Case(
        "no entry, after the inbound check",
        "on receipt from the link, before the table is looked up",
        """
        A>1
        1>S1  in none
        stopped in; S1[1] PortRcvConstraintErrors
        """,
        changes={"S1": {"entry": {8: 255}}, ("S1", 1): {**IN, **OTHER}},
    ),
    Case(
        "at LinearFDBTop",
        "LinearFDBTop: highest LID with an entry",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={"S1": {"top": 8}, "S2": {"top": 8}},
    ),
    Case(
        "above LinearFDBTop",
        "LinearFDBTop: highest LID with an entry, so LID 8 has none",
        """
        A>1
        1>S1>2
        2>S2
        lost above LinearFDBTop
        """,
        changes={"S2": {"top": 7}},
    ),
    Case(
        "a loop of two switches",
        "entry = egress port: S1 sends it to S2, S2 back to S1 by its port 3",
        """
        A>1
        1>S1>2
        2>S2>3
        3>S1
        lost loop
        """,
        changes={"S2": {"entry": {8: 3}}},
    ),
    Case(
        "a loop, stopped when it comes back in",
        "inbound check: on receipt from the link, also for a packet that was here before",
        """
        A>1
        1>S1>2
        2>S2>3
        3>S1  in none
        stopped in; S1[3] PortRcvConstraintErrors
        """,
        changes={"S2": {"entry": {8: 3}}, ("S1", 3): {**IN, **OTHER}},
    ),
    Case(
        "a loop to the switch that sends",
        "S1 sends it to S2, S2 back to S1",
        """
        S1>2
        2>S2>3
        3>S1
        lost loop
        """,
        source=S1,
        changes={"S2": {"entry": {8: 3}}},
    ),
    Case(
        "no link",
        "the entry leads to a port without a link",
        """
        A>1
        1>S1>2
        2>S2>1
        lost link down
        """,
        changes={("S2", 1): {"state": DOWN}},
    ),
    Case(
        "no link, after the outbound check",
        "outbound: before sending to the link",
        """
        A>1
        1>S1>2
        2>S2>1  out none
        stopped out; S2[1] PortXmitConstraintErrors
        """,
        changes={("S2", 1): {"state": DOWN, **OUT, **OTHER}},
    ),
    Case(
        "an Initialize link at the sender",
        "data packets need an Active port to be sent",
        """
        A>1
        lost link down
        """,
        changes={("A", 1): {"state": INITIALIZE}},
    ),
    Case(
        "an Armed port sends nothing",
        "data packets need an Active port to be sent",
        """
        A>1
        1>S1>2
        lost link down
        """,
        changes={("S1", 2): {"state": ARMED}},
    ),
    Case(
        "an Armed port receives",
        "Armed receives, and only sends nothing",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S2", 2): {"state": ARMED}},
    ),
    Case(
        "an Initialize port receives nothing",
        "Initialize is for SMPs",
        """
        A>1
        1>S1>2
        lost link down
        """,
        changes={("S2", 2): {"state": INITIALIZE}},
    ),
    Case(
        "an entry that is no port",
        "the switch has 4 ports",
        """
        A>1
        1>S1
        lost no such port
        """,
        changes={"S1": {"entry": {8: 9}}},
    ),
    Case(
        "to the wrong host",
        "a port answers to its own LIDs",
        """
        A>1
        1>S1>4
        1>C
        lost LID of another port
        """,
        changes={"S1": {"entry": {8: 4}}},
    ),
    Case(
        "to the other port of the CA",
        "each port answers to its own LIDs: LID 6 is that of port 2",
        """
        A>1
        1>S1>4
        1>C
        lost LID of another port
        """,
        to=6,
        changes={"S1": {"entry": {6: 4}}},
    ),
    Case(
        "from port 1 to port 2 of a CA",
        "a packet for another port goes over the fabric",
        """
        C>1
        4>S1>2
        2>S2>5
        2>C  end 1:0x8001
        delivered
        """,
        source=("C", 1),
        to=6,
    ),
    Case(
        "from port 2 of a CA, back",
        "both directions may differ: here by S2 port 2",
        """
        C>2
        5>S2>2
        2>S1>4
        1>C  end 1:0x8001
        delivered
        """,
        source=("C", 2),
        to=5,
    ),
    Case(
        "to a router",
        "routers: same as CA",
        """
        A>1
        1>S1>2
        2>S2>4
        1>R  end 1:0x8001
        delivered
        """,
        to=4,
    ),
    Case(
        "through a router",
        "what is behind it is not known",
        """
        A>1
        1>S1>2
        2>S2>4
        1>R
        unknown router
        """,
        to=4,
        packet={"leaves_subnet": True},
    ),
    Case(
        "through a router, stopped before",
        "the leaf port of a router checks as any",
        """
        A>1
        1>S1>2
        2>S2>4  out none
        stopped out; S2[4] PortXmitConstraintErrors
        """,
        to=4,
        changes={("S2", 4): {**OUT, **OTHER}},
        packet={"leaves_subnet": True},
    ),
    Case(
        "RandomForwardingTable",
        "LinearFDBCap 0 says so: then unknown",
        """
        A>1
        1>S1>2
        2>S2
        unknown RandomForwardingTable
        """,
        changes={"S2": {"is_linear": False}},
    ),
    Case(
        "adaptive routing",
        "where it is on, a path is a set, or unknown",
        """
        A>1
        1>S1
        unknown adaptive routing
        """,
        changes={"S1": {"is_adaptive": True}},
    ),
    Case(
        "adaptive routing not excluded",
        "or it is not known",
        """
        A>1
        1>S1
        unknown adaptive routing
        """,
        changes={"S1": {"is_adaptive": None}},
    ),
    Case(
        "the forwarding table not read",
        "a value that was not read is unknown",
        """
        A>1
        1>S1>2
        2>S2
        unknown forwarding table not read
        """,
        changes={"S2": {"routes": None}},
    ),
    Case(
        "no LID at all",
        "LID 0 is none; the tables begin with block 0, but nobody has it",
        """
        A
        unknown no unicast LID
        """,
        to=0,
    ),
    Case(
        "a multicast LID",
        "MLIDs from 0xC000",
        """
        A
        unknown no unicast LID
        """,
        to=0xC000,
    ),
    Case(
        "the last unicast LID",
        "MLIDs from 0xC000, so 0xBFFF is a LID; it has no entry",
        """
        A>1
        1>S1
        lost above LinearFDBTop
        """,
        to=0xBFFF,
    ),
]
