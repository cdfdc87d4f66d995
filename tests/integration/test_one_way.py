"""Reach that is one way, on the served subnet: real OpenSM, packets by ``sim ctl``, and what ibkeys says of them."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from ibkeys.fabric.snapshot_file import load_snapshot
from ibkeys.keys.pkey import INBOUND_CHECKS, InboundCheck
from ibkeys.reach.reach import Reach
from tests.corpus import DATA
from tests.integration.served import Served

POLICY = "Default=0x7fff : ALL=limited, SELF=full ;\nOne=0x1 : ALL_CAS=limited ;\n"
LIAR, VICTIM = "node02 mlx4_0", "node05 mlx4_0"


@pytest.mark.parametrize("check", INBOUND_CHECKS)
def test_packets_arrive_as_why_and_diff_say_after_a_host_helped_itself(check: InboundCheck) -> None:
    options = ["--inbound-check", check]
    with Served(DATA / "fabrics" / "two-switch.net", port_guids="file", extra=options) as fabric:
        fabric.opensm(partitions=POLICY)
        fabric.ibkeys("snapshot", "before.db", check=True)
        fabric.ibkeys("pkey-set", "-N", LIAR, "1=0x8001", "--yes", check=True)
        fabric.ibkeys("snapshot", "after.db", check=True)

        def arrives(source: str, destination: str, key: int) -> bool:
            return fabric.steer(f'packet "{source}" "{destination}" pkey=0x{key:04x}').endswith("received")

        assert arrives(LIAR, VICTIM, 0x8001)
        assert not arrives(VICTIM, LIAR, 0x0001)
        done = fabric.ibkeys("why", LIAR, VICTIM, "-f", "json", *options)
        assert done.returncode == 1
        document = json.loads(done.stdout)
        assert (document["can_talk"], document["a_to_b"], document["b_to_a"]) == (False, True, False)
        diff = json.loads(fabric.ibkeys("diff", "--reach", "before.db", "after.db", "-f", "json", *options).stdout)
        # to the manager too where no limited P_Key passes: else the two can talk in the default partition
        assert diff["reach"]["one_way_gained"] == (4 if check == "partition" else 5)

        found = load_snapshot(fabric.folder / "after.db", lambda: None).fabric
        reach = Reach(found, inbound_check=check)
        hosts = [port for port in found.end_ports() if not port.node.is_switch]
        for a, b in permutations(hosts, 2):
            assert a.node.description is not None
            assert b.node.description is not None
            keys = [key for _, key in a.occupied or ()]
            sent = any(arrives(a.node.description, b.node.description, key) for key in keys)
            assert reach.why(a, b).a_to_b == sent
