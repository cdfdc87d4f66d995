"""Packets that meet enforcement at ports between switches, and ports that were not read or corrupt."""

from __future__ import annotations

from typing import Final

from tests.routes.hand_worked.case import IN, LIMITED, OTHER, OUT, Case

BETWEEN_SWITCHES: Final = [
    Case(
        "inter-switch out",
        "a switch port that enforces checks the table of that very port",
        """
        A>1
        1>S1>2  out none
        stopped out; S1[2] PortXmitConstraintErrors
        """,
        changes={("S1", 2): {**OUT, **OTHER}},
    ),
    Case(
        "inter-switch out, limited against limited",
        "outbound it is the rule of section 1, at any port",
        """
        A>1
        1>S1>2  out none
        stopped out; S1[2] PortXmitConstraintErrors
        """,
        p_key=0x0001,
        changes={("S1", 2): {**OUT, **LIMITED}},
    ),
    Case(
        "inter-switch in",
        "on receipt from the link, which here comes from a switch",
        """
        A>1
        1>S1>2
        2>S2  in none
        stopped in; S2[2] PortRcvConstraintErrors
        """,
        changes={("S2", 2): {**IN, **OTHER}},
    ),
    Case(
        "inter-switch in, limited against limited, by partition",
        "either membership is taken to pass when the partition matches",
        """
        A>1
        1>S1>2
        2>S2>1  in 1:0x0001
        1>B  end 1:0x8001
        delivered
        """,
        p_key=0x0001,
        reading="partition",
        changes={("S2", 2): {**IN, **LIMITED}},
    ),
    Case(
        "inter-switch in, limited against limited, by membership",
        "the rule of section 1 inbound too",
        """
        A>1
        1>S1>2
        2>S2  in none
        stopped in; S2[2] PortRcvConstraintErrors
        """,
        p_key=0x0001,
        reading="membership",
        changes={("S2", 2): {**IN, **LIMITED}},
    ),
    Case(
        "every port on the way enforces",
        "at most the table of that very port: one check in and one out at each switch",
        """
        A>1
        1>S1>2  in 1:0x8001  out 0:0x8001
        2>S2>1  in 1:0x8001  out 2:0x8001
        1>B  end 1:0x8001
        delivered
        """,
        changes={
            ("S1", 1): {**IN, **OUT},
            ("S1", 2): {**IN, **OUT, "table": (0x8001,)},
            ("S2", 2): {**IN, **OUT},
            ("S2", 1): {**IN, **OUT, "table": (0xFFFF, 0, 0x8001)},
        },
    ),
    Case(
        "the other cable enforces",
        "the packet does not take it: LID 8 is even",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S1", 3): {**OUT, **OTHER}, ("S2", 3): {**IN, **OTHER}},
    ),
    Case(
        "the switch corrupts in",
        "dropped, or corrupted and passed on: the violation is counted at the switch port",
        """
        A>1
        1>S1>2
        2>S2  in none
        unknown corrupted in and passed on; S2[2] PortRcvConstraintErrors
        """,
        changes={("S2", 2): {**IN, **OTHER}, "S2": {"corrupts": True}},
    ),
    Case(
        "the switch corrupts out",
        "as inbound",
        """
        A>1
        1>S1>2  out none
        unknown corrupted out and passed on; S1[2] PortXmitConstraintErrors
        """,
        changes={("S1", 2): {**OUT, **OTHER}, "S1": {"corrupts": True}},
    ),
    Case(
        "enforcement not read",
        "a value that was not read is unknown",
        """
        A>1
        1>S1>2
        2>S2
        unknown enforcement not read
        """,
        changes={("S2", 2): {"inbound": None}},
    ),
    Case(
        "the table of a port that enforces not read",
        "a value that was not read is unknown",
        """
        A>1
        1>S1>2
        unknown P_Key table not read
        """,
        changes={("S1", 2): {**OUT, "table": None}},
    ),
    Case(
        "the table of a port that does not enforce not read",
        "what is not on does not need it",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S1", 2): {"table": None}, ("S2", 2): {"table": None}},
    ),
]
