"""Packets that nothing on their way checks: the end port decides."""

from __future__ import annotations

from typing import Final

from tests.routes.hand_worked.case import IN, LIMITED, OUT, Case
from tests.routes.plain import INITIALIZE

END_PORT: Final = [
    Case(
        "full to full",
        "no port enforces; at the end: accepted when it matches ANY entry of the port's table",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
    ),
    Case(
        "limited to full",
        "packet limited, entry full: pass",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        p_key=0x0001,
    ),
    Case(
        "full to limited",
        "packet full, entry limited: pass",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x0001
        delivered
        """,
        changes={("B", 1): LIMITED},
    ),
    Case(
        "limited to limited",
        "two limited members cannot talk to each other; P_KeyViolations: kept by CA",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end none
        stopped end port; B[1] P_KeyViolations
        """,
        p_key=0x0001,
        changes={("B", 1): LIMITED},
    ),
    Case(
        "limited, both forms at the end",
        "a port holding both forms of one base acts as full",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 2:0x8001
        delivered
        """,
        p_key=0x0001,
        changes={("B", 1): {"table": (0xFFFF, 0x0001, 0x8001)}},
    ),
    Case(
        "the invalid key matches nothing",
        "0x0000, 0x8000: an empty table entry. Neither matches anything",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end none
        stopped end port; B[1] P_KeyViolations
        """,
        p_key=0x8000,
        changes={("B", 1): {"table": (0x8000, 0x0000)}},
    ),
    Case(
        "other partition",
        "two keys match when both bases are equal",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end none
        stopped end port; B[1] P_KeyViolations
        """,
        p_key=0x8002,
    ),
    Case(
        "the last entry within PartitionCap",
        "the size of the table is NodeInfo.PartitionCap: entry 1 is the last of 2",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={"B": {"partition_cap": 2}},
    ),
    Case(
        "an entry past PartitionCap",
        "the size of the table is NodeInfo.PartitionCap: entry 1 is not in it",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end none
        stopped end port; B[1] P_KeyViolations
        """,
        changes={"B": {"partition_cap": 1}},
    ),
    Case(
        "a QP above 1, its own entry",
        "the QP holds one table INDEX; packets are compared with the key now at that index",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        packet={"qp": 72, "index": 1},
    ),
    Case(
        "a QP above 1, an entry that is not its own",
        "compared with the key at its index, 0xffff, although entry 1 matches",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end none
        stopped end port; B[1] P_KeyViolations
        """,
        packet={"qp": 72, "index": 0},
    ),
    Case(
        "a QP above 1, its index not known",
        "what it is compared with is not known",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B
        unknown P_Key index of the QP not known
        """,
        packet={"qp": 72},
    ),
    Case(
        "QP0 is never checked",
        "SMPs are never checked: neither by the ports that enforce nor at the end",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B
        delivered QP0
        """,
        p_key=0x8005,
        changes={("S1", 1): IN, ("S2", 1): OUT, ("S1", 2): {**OUT, "state": INITIALIZE}},
        packet={"qp": 0},
    ),
    Case(
        "the table of the end port not read",
        "a value that was not read is unknown",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B
        unknown P_Key table not read
        """,
        changes={("B", 1): {"table": None}},
    ),
    Case(
        "to itself",
        "no link is passed; QP1 of the port checks its table",
        """
        A  end 1:0x8001
        delivered
        """,
        to=1,
        changes={("S1", 1): {**IN, "table": ()}},
    ),
]
