"""Edited policies given to a real OpenSM: it takes them, and programs the former tables plus the change."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.membership import resolve
from ibkeys.partitions.opensm_tables import place
from ibkeys.partitions.reader import read_policy
from tests.integration.ibsim import Ibsim
from tests.integration.reader import SM, TWO_SWITCH, tables
from tests.partitions.recordings import end_ports, subnet
from tests.sample import sampled

NODE05 = 0x2C903000A1051

POLICIES = {
    "one line": "X=0x21 : 0x2c903000a1021=full ;\n",
    "no final newline, no semicolon": "X=0x21 : 0x2c903000a1021=full",
    "two on a line": "X=0x21 : 0x2c903000a1021=full ; Y=0x22 : 0x2c903000a1031=full ; # both\n",
    "carriage returns in comments": "X=0x21 : # a\r\n 0x2c903000a1021=full, # b\r\n 0x2c903000a1031 ; # c\r\n",
    "several definitions": "X=0x21,indx0 : 0x2c903000a1021=full ;\nX=0x21 : 0x2c903000a1031 ;\n",
    "groups": "X=0x21, ipoib :\n mgid=ff12:401b::ffff:ffff:1,sl=0\n 0x2c903000a1021=full\n",
    "nobody": "X=0x21 : ;\n",
    "automatic": "A : 0x2c903000a1021 ;\nX=0x21 : NONE ; B : 0x2c903000a1031=full ;\n",
}


@pytest.mark.parametrize("name", sampled(POLICIES, ("automatic", "groups", "two on a line")))
def test_opensm_makes_of_an_edited_policy_what_it_made_before_and_the_change(name: str) -> None:
    ports = end_ports(subnet(TWO_SWITCH))
    with Ibsim(TWO_SWITCH) as fabric:
        path = fabric.folder / "p.conf"
        path.write_bytes(POLICIES[name].encode())
        fabric.opensm("", Path(path))
        before = tables(fabric)
        steps = [
            ("partition-add", "--policy", path, "X", "--full", "node05", "--limited", "node0[2,6]"),
            ("partition-remove", "--policy", path, "X", "node0[2-3]"),
            ("partition-add", "--policy", path, "Z=0x33", "--out-of", "X", "node05"),
        ]
        for step in steps:
            done = fabric.ibkeys(*step)
            assert done.returncode == 0, done.stderr
            found = resolve(read_policy(path), ports, SM)
            fabric.opensm("", Path(path))
            after = tables(fabric)
            assert after == {
                port.guid: place(
                    before[port.guid],
                    found.by_port[port.guid],
                    8 if port.kind == "switch" else 64,
                    found.index0.get(port.guid),
                ).entries
                for port in ports
            }, path.read_text()
            before = after
        assert PKey(0x8033) in before[NODE05].values()
        assert PKey(0x8021) not in before[NODE05].values()
