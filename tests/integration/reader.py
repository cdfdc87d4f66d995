"""Tables of a policy on the fabric of two switches."""

from __future__ import annotations

import json
from typing import Any

from ibkeys.keys.pkey import PKey
from tests.corpus import DATA
from tests.integration.ibsim import Ibsim

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"


SM = 0x2C903000A1011


Tables = dict[int, dict[int, PKey]]


def tables(fabric: Ibsim) -> Tables:
    done = fabric.ibkeys("pkey-show", "--all", "-f", "json")
    assert (done.returncode, done.stderr) == (0, "")
    ports: list[dict[str, Any]] = json.loads(done.stdout)["ports"]
    return {
        int(port["port_guid"], 16): {key["index"]: PKey(int(key["pkey"], 16)) for key in port["pkeys"]}
        for port in ports
        if port["node_type"] != "switch" or port["port"] == 0
    }
