"""Packets to and from port 0 of a switch."""

from __future__ import annotations

from typing import Final

from tests.routes.hand_worked.case import IN, LIMITED, OTHER, OUT, S1, S2_LID, Case

PORT_0: Final = [
    Case(
        "to port 0",
        "packets that end in port 0 pass the inbound check of the port that they came in by; then port 0's table",
        """
        A>1
        1>S1>2
        2>S2>0  in 1:0x8001  end 1:0x8001
        delivered
        """,
        to=S2_LID,
        changes={("S2", 2): IN, ("S2", 0): {**IN, **OUT}},
    ),
    Case(
        "to port 0, stopped in",
        "the inbound check of the port that they came in by",
        """
        A>1
        1>S1>2
        2>S2  in none
        stopped in; S2[2] PortRcvConstraintErrors
        """,
        to=S2_LID,
        changes={("S2", 2): {**IN, **OTHER}},
    ),
    Case(
        "to port 0, stopped there",
        "checked against port 0's table; P_KeyViolations: kept by switch port 0",
        """
        A>1
        1>S1>2
        2>S2>0  end none
        stopped port 0; S2[0] P_KeyViolations
        """,
        to=S2_LID,
        changes={("S2", 0): OTHER},
    ),
    Case(
        "to port 0, limited against limited",
        "at port 0 it is the rule of section 1",
        """
        A>1
        1>S1>2
        2>S2>0  end none
        stopped port 0; S2[0] P_KeyViolations
        """,
        p_key=0x0001,
        to=S2_LID,
        changes={("S2", 0): LIMITED},
    ),
    Case(
        "to port 0, an entry past PartitionCap",
        "the size of the table of switch port 0 is NodeInfo.PartitionCap, not PartitionEnforcementCap",
        """
        A>1
        1>S1>2
        2>S2>0  end none
        stopped port 0; S2[0] P_KeyViolations
        """,
        to=S2_LID,
        changes={"S2": {"partition_cap": 1}},
    ),
    Case(
        "to port 0, the entries of external ports do not matter",
        "PartitionEnforcementCap 0 is about external ports",
        """
        A>1
        1>S1>2
        2>S2>0  end 1:0x8001
        delivered
        """,
        to=S2_LID,
        changes={"S2": {"enforcement_cap": 0}, ("S2", 2): {**IN, **OTHER}},
    ),
    Case(
        "from port 0",
        "outbound = switch -> link: what port 0 sends too; nothing came in",
        """
        S1>2  out 1:0x8001
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        source=S1,
        changes={("S1", 2): OUT, ("S1", 0): {**IN, **OUT, "table": ()}},
    ),
    Case(
        "from port 0, stopped at its own switch",
        "outbound: before sending to the link",
        """
        S1>2  out none
        stopped out; S1[2] PortXmitConstraintErrors
        """,
        source=S1,
        changes={("S1", 2): {**OUT, **OTHER}},
    ),
    Case(
        "port 0 to itself",
        "no link is passed; QP1 of port 0 checks its table",
        """
        S1  end none
        stopped port 0; S1[0] P_KeyViolations
        """,
        source=S1,
        to=2,
        changes={("S1", 0): OTHER},
    ),
    Case(
        "the own LID of a switch, but its entry is not 0",
        "port 0 = the switch itself; what a switch does with its own LID otherwise is not said",
        """
        A>1
        1>S1>2
        2>S2
        unknown own LID not at port 0
        """,
        to=S2_LID,
        changes={"S2": {"entry": {3: 1}}},
    ),
    Case(
        "port 0, but the LID of another port",
        "a port answers to its own LIDs",
        """
        A>1
        1>S1>0
        lost LID of another port
        """,
        changes={"S1": {"entry": {8: 0}}},
    ),
]
