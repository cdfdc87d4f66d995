"""Policies of two tenants, and what OpenSM makes of them."""

from __future__ import annotations

import json

from tests.integration.strangers import NODES
from tests.integration.subnet import Subnet

SM = 0x2C903000A1011


TENANTS = """Default=0x7fff, ipoib : ALL=limited, SELF=full ;
Red=0x10, ipoib, mtu=5 : 0x2c903000a1021=full, 0x2c903000a1031=full ;
Blue=0x20 : mgid=ff15::20,sl=1
    0x2c903000a1041=full, 0x2c903000a1051 ;
"""


SWAP = TENANTS.replace("Red=0x10", "X=0x30").replace("Blue=0x20", "Red=0x10").replace("X=0x30", "Blue=0x20")


GREEN = TENANTS.replace("Red=0x10", "Green=0x11")


BY_GUID = TENANTS.replace("SELF=full", ", ".join(f"{guid:#x}=full" for guid in NODES.values()))
"""TENANTS as it means the same through an OpenSM of each of NODES."""


BY_GUID_GREEN = BY_GUID.replace("Red=0x10", "Green=0x11")


PAIRS = {
    "replaced": (TENANTS, TENANTS.replace("Red=0x10", "Green=0x11"), "", 2),
    "full and limited": (TENANTS, TENANTS.replace("a1041=full", "a1041").replace("a1051", "a1051=full"), "", 2),
    "reused and moved on": (TENANTS, SWAP.replace("0x20", "0x40"), "", 4),
    "circle": (TENANTS, SWAP, "", 4),
    "first policy": ("", TENANTS, "", 2),
    "only more": (TENANTS, TENANTS + "All=0x50 : ALL_CAS, ALL_SWITCHES=full, SELF=full ;\n", "", 1),
    "index 0 and automatic": (
        TENANTS.replace("Red=0x10", "Red=0x10, indx0"),
        TENANTS.replace("Red=0x10", "Auto, indx0"),
        "",
        2,
    ),
    "both forms": (
        TENANTS + "S=0x60 : 0x2c903000a1021=both, 0x2c903000a1061=limited ;\n",
        TENANTS.replace("Red=0x10", "Green=0x11") + "S=0x60 : 0x2c903000a1021, 0x2c903000a1061=both ;\n",
        "allow_both_pkeys TRUE\n",
        2,
    ),
}


def tables(served: Subnet) -> dict[tuple[int, int], dict[int, int]]:
    done = served.ibkeys("pkey-show", "--all", "-f", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return {
        (int(port["node_guid"], 16), port["port"]): {key["index"]: int(key["pkey"], 16) for key in port["pkeys"]}
        for port in json.loads(done.stdout)["ports"]
    }
