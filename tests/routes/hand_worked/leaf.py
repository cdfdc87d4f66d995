"""Packets that meet enforcement at the switch ports of hosts, inbound and outbound."""

from __future__ import annotations

from typing import Final

from tests.routes.hand_worked.case import IN, LIMITED, OTHER, OUT, Case

LEAF: Final = [
    Case(
        "leaf in, its entry",
        "inbound = link -> switch; compared with its own table for that port",
        """
        A>1
        1>S1>2  in 1:0x8001
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S1", 1): IN},
    ),
    Case(
        "leaf in, limited against limited, by partition",
        "inbound either membership is taken to pass when the partition matches",
        """
        A>1
        1>S1>2  in 1:0x0001
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        p_key=0x0001,
        reading="partition",
        changes={("S1", 1): {**IN, **LIMITED}},
    ),
    Case(
        "leaf in, limited against limited, by membership",
        "that rule would drop a limited member at its own leaf port; inbound drops count in PortRcvConstraintErrors",
        """
        A>1
        1>S1  in none
        stopped in; S1[1] PortRcvConstraintErrors
        """,
        p_key=0x0001,
        reading="membership",
        changes={("S1", 1): {**IN, **LIMITED}},
    ),
    Case(
        "leaf in, limited against both forms, by partition",
        "the first entry of the partition is the limited one, and lets the packet in",
        """
        A>1
        1>S1>2  in 0:0x0001
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        p_key=0x0001,
        reading="partition",
        changes={("S1", 1): {**IN, "table": (0x0001, 0x8001)}},
    ),
    Case(
        "leaf in, limited against both forms, by membership",
        "the limited entry does not match, the full one does",
        """
        A>1
        1>S1>2  in 1:0x8001
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        p_key=0x0001,
        reading="membership",
        changes={("S1", 1): {**IN, "table": (0x0001, 0x8001)}},
    ),
    Case(
        "leaf in, full against limited",
        "packet full, entry limited: pass, by both readings",
        """
        A>1
        1>S1>2  in 1:0x0001
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S1", 1): {**IN, **LIMITED}},
    ),
    Case(
        "leaf in, no entry",
        "no entry of the partition: dropped by both readings",
        """
        A>1
        1>S1  in none
        stopped in; S1[1] PortRcvConstraintErrors
        """,
        changes={("S1", 1): {**IN, **OTHER}},
    ),
    Case(
        "leaf in, the invalid key",
        "0x0000 and 0x8000 match nothing, inbound as well",
        """
        A>1
        1>S1  in none
        stopped in; S1[1] PortRcvConstraintErrors
        """,
        p_key=0x8000,
        changes={("S1", 1): {**IN, "table": (0x0000, 0x8000)}},
    ),
    Case(
        "leaf in, an empty table",
        "enforcement bits set with an all-zero table cut the node off from everything but SMPs",
        """
        A>1
        1>S1  in none
        stopped in; S1[1] PortRcvConstraintErrors
        """,
        p_key=0xFFFF,
        changes={("S1", 1): {**IN, "table": (0, 0, 0)}},
    ),
    Case(
        "the leaf checks only in the other direction",
        "outbound = switch -> link: the port does not look at what comes in",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S1", 1): {**OUT, **OTHER}, ("S2", 1): {**IN, **OTHER}},
    ),
    Case(
        "leaf out, its entry",
        "outbound: before sending to the link",
        """
        A>1
        1>S1>2
        2>S2>1  out 1:0x8001
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S2", 1): OUT},
    ),
    Case(
        "leaf out, limited against limited",
        "either membership passes only inbound: outbound the rule of section 1; counts in PortXmitConstraintErrors",
        """
        A>1
        1>S1>2
        2>S2>1  out none
        stopped out; S2[1] PortXmitConstraintErrors
        """,
        p_key=0x0001,
        changes={("S2", 1): {**OUT, **LIMITED}},
    ),
    Case(
        "leaf out, full against limited",
        "packet full, entry limited: pass",
        """
        A>1
        1>S1>2
        2>S2>1  out 1:0x0001
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S2", 1): {**OUT, **LIMITED}},
    ),
    Case(
        "leaf out, the invalid key",
        "0x0000 and 0x8000 match nothing",
        """
        A>1
        1>S1>2
        2>S2>1  out none
        stopped out; S2[1] PortXmitConstraintErrors
        """,
        p_key=0x8000,
        changes={("S2", 1): {**OUT, "table": (0x8000,)}},
    ),
    Case(
        "both leaves, both directions",
        "the packet meets its own leaf inbound and the other leaf outbound",
        """
        A>1
        1>S1>2  in 0:0xffff
        2>S2>1  out 0:0xffff
        1>B  end 0:0xffff
        delivered
        """,
        p_key=0x7FFF,
        changes={("S1", 1): {**IN, **OUT}, ("S2", 1): {**IN, **OUT}},
    ),
    Case(
        "PartitionEnforcementCap 0",
        "0 = the switch has no enforcement tables",
        """
        A>1
        1>S1>2
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={
            ("S1", 1): {**IN, **OTHER},
            "S1": {"enforcement_cap": 0},
            ("S2", 1): {**OUT, **OTHER},
            "S2": {"enforcement_cap": 0},
        },
    ),
    Case(
        "no InboundEnforcementCap",
        "the switch cannot filter packets coming in from the link; it can outbound",
        """
        A>1
        1>S1>2  out 1:0x8001
        2>S2>1
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S1", 1): {**IN, **OTHER}, ("S1", 2): OUT, "S1": {"inbound_cap": False}},
    ),
    Case(
        "no OutboundEnforcementCap",
        "the switch cannot filter packets going out to the link; it can inbound",
        """
        A>1
        1>S1>2
        2>S2>1  in 1:0x8001
        1>B  end 1:0x8001
        delivered
        """,
        changes={("S2", 1): {**OUT, **OTHER}, ("S2", 2): IN, "S2": {"outbound_cap": False}},
    ),
    Case(
        "leaf in, an entry past PartitionEnforcementCap",
        "the size of the table is SwitchInfo.PartitionEnforcementCap: entry 1 is not in it",
        """
        A>1
        1>S1  in none
        stopped in; S1[1] PortRcvConstraintErrors
        """,
        changes={("S1", 1): IN, "S1": {"enforcement_cap": 1}},
    ),
    Case(
        "leaf out, an entry past PartitionEnforcementCap",
        "as inbound",
        """
        A>1
        1>S1>2
        2>S2>1  out none
        stopped out; S2[1] PortXmitConstraintErrors
        """,
        changes={("S2", 1): OUT, "S2": {"enforcement_cap": 1}},
    ),
    Case(
        "a QP above 1 is checked on its way as any",
        "the switch compares the packet's key with its own table, all entries of it",
        """
        A>1
        1>S1  in none
        stopped in; S1[1] PortRcvConstraintErrors
        """,
        changes={("S1", 1): {**IN, **OTHER}},
        packet={"qp": 72, "index": 1},
    ),
]
