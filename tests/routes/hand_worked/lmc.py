"""Packets to ports with several LIDs."""

from __future__ import annotations

from typing import Final

from tests.routes.hand_worked.case import IN, OTHER, OUT, Case

LMC: Final = [
    Case(
        "LMC 0, the LID after",
        "2^0 LIDs: 9 is not one of them",
        """
        A>1
        1>S1>3
        3>S2>1
        1>B
        lost LID of another port
        """,
        to=9,
    ),
    Case(
        "LMC 0, the LID before",
        "from its base LID: 7 is before it",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B
        lost LID of another port
        """,
        to=7,
        changes={"S1": {"entry": {7: 2}}, "S2": {"entry": {7: 1}}},
    ),
    Case(
        "LMC 1, each LID its own path",
        "each may have its own path: 9 is odd",
        """
        A>1
        1>S1>3
        3>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        to=9,
        changes={("B", 1): {"lmc": 1}, ("S1", 2): {**OUT, **OTHER}},
    ),
    Case(
        "LMC 1, the base LID is stopped",
        "the same destination by its other LID",
        """
        A>1
        1>S1>2  out none
        stopped out; S1[2] PortXmitConstraintErrors
        """,
        to=8,
        changes={("B", 1): {"lmc": 1}, ("S1", 2): {**OUT, **OTHER}},
    ),
    Case(
        "LMC 1, one LID too far",
        "2^1 LIDs: 8 and 9",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B
        lost LID of another port
        """,
        to=10,
        changes={("B", 1): {"lmc": 1}},
    ),
    Case(
        "LMC 2, the last LID",
        "2^2 LIDs: 8 to 11",
        """
        A>1
        1>S1>3
        3>S2>1  in 1:0x8001
        1>B  end 1:0x8001
        delivered
        """,
        to=11,
        changes={("B", 1): {"lmc": 2}, ("S2", 3): IN},
    ),
    Case(
        "LMC 2, one LID too far",
        "2^2 LIDs: 8 to 11",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B
        lost LID of another port
        """,
        to=12,
        changes={("B", 1): {"lmc": 2}},
    ),
    Case(
        "LMC 3, the last LID",
        "2^3 LIDs: 8 to 15",
        """
        A>1
        1>S1>3
        3>S2>1
        1>B  end none
        stopped end port; B[1] P_KeyViolations
        """,
        to=15,
        changes={("B", 1): {"lmc": 3, **OTHER}},
    ),
    Case(
        "LMC 1 at port 0",
        "port 0 answers to 2^n LIDs too",
        """
        A>1
        1>S1>2
        2>S2>0  end 1:0x8001
        delivered
        """,
        to=4,
        changes={("S2", 0): {"lmc": 1}, "S2": {"entry": {4: 0}}},
    ),
    Case(
        "a source LID with path bits",
        "the way depends on the destination LID alone",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={("A", 1): {"lid": 4, "lmc": 2}},
        packet={"source_lid": 7},
    ),
    Case(
        "to itself by another of its LIDs",
        "a port answers to all its LIDs",
        """
        A  end 1:0x8001
        delivered
        """,
        to=7,
        changes={("A", 1): {"lid": 4, "lmc": 2}},
    ),
]
