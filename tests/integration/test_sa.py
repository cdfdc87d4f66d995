"""The SA client against a real OpenSM: on plain ibsim, which cuts its answers, and on our libibumad with RMPP."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad import offsets as at
from ibkeys.mad.const import Method
from ibkeys.sim import rmpp
from ibkeys.sim.deliveries import Delivery
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.receivers import Receivers
from tests.corpus import DATA
from tests.fattree import fat_tree
from tests.integration.hosted import Hosted
from tests.integration.ibsim import RUN_TIMEOUT, Ibsim
from tests.integration.policy_opensm import running_opensm
from tests.integration.served import Served

SA_KEY = 0x5A5A_0000_1234_0001
CONF = f"sa_key 0x{SA_KEY:016x}\n"

# What is asked in a process of its own, on libumad2sim: PROGRAM is the body of ask(fabric, records). It ends without
# closing its port, and without the end of libumad2sim: both free what its own thread still uses where segments come in
# after the last answer, and one in twenty such processes ended by SIGSEGV.
_CLIENT = """
import json, os, sys
import ibkeys
from ibkeys.errors import IbkeysError
from ibkeys.mad.records import *

def rows(found):
    return [each.to_json(True) for each in found]

def failed(call):
    try:
        return ["no error", repr(call())]
    except IbkeysError as error:
        return [type(error).__name__, str(error)]

with ibkeys.open(timing=ibkeys.Timing(0.5, 1)) as fabric:
{program}
    json.dump(result, sys.stdout)
    sys.stdout.flush()
    os._exit(0)
"""


def ask(fabric: Ibsim, program: str) -> Any:
    """Run *program* on the fabric; return its ``result``."""
    body = "".join(f"    {line}\n" for line in program.strip().splitlines())
    command = [sys.executable, "-X", "faulthandler", "-c", _CLIENT.format(program=body)]
    done = subprocess.run(
        fabric.arguments(command),
        cwd=fabric.folder,
        env=fabric.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_plain_ibsim_gives_short_answers_and_cut_ones_are_errors(ibsim: Callable[..., Ibsim]) -> None:
    fabric = ibsim(DATA / "fabrics" / "dual-home.net")
    with running_opensm(fabric):
        result = ask(
            fabric,
            """
sa = fabric.sa()
result = {
    "class_version": sa.class_port_info().class_version,
    "one": rows(sa.get_table(NodeRecord, lid=1)),
    "none": rows(sa.get_table(NodeRecord, lid=999)),
    "groups": rows(sa.groups()),
    "all": failed(lambda: sa.get_table(NodeRecord)),
}
""",
        )
    assert result["class_version"] == 2
    assert [each["lid"] for each in result["one"]] == [1]
    assert result["none"] == []
    assert result["groups"][0]["mgid"] == "0xff12401bffff000000000000ffffffff"
    kind, message = result["all"]
    assert kind == "TransferFailed"
    assert "is incomplete" in message


def answers_arrive(monkeypatch: pytest.MonkeyPatch, times: int, share: float) -> None:
    """Deliver a *share* of the segments that OpenSM sends so many *times*; lost ones are sent again after 50 ms."""
    deliver, chance = Receivers.deliver, random.Random(1)

    def as_told(receivers: Receivers, port: SimPort, delivery: Delivery) -> bool:
        is_it = delivery.mad[at.METHOD] == Method.GET_TABLE_RESP and chance.random() < share
        return all(deliver(receivers, port, delivery) for _ in range(times if is_it else 1))

    monkeypatch.setattr(Receivers, "deliver", as_told)
    monkeypatch.setattr(rmpp, "RESEND_AFTER", 0.05)


@pytest.mark.parametrize(("times", "share"), [(1, 1), (0, 0.1), (2, 0.3)], ids=["calm", "losses", "twice"])
def test_a_table_is_what_the_ports_themselves_say(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, times: int, share: float
) -> None:
    """NodeRecord, PortInfoRecord and P_KeyTableRecord of OpenSM against SMPs to every port."""
    fabric = stack.enter_context(Hosted(DATA / "fabrics" / "dual-home.net"))
    answers_arrive(monkeypatch, times, share)
    with running_opensm(fabric, CONF):
        result = ask(
            fabric,
            f"""
sa = fabric.sa({SA_KEY})
swept = fabric.sweep(p_keys=True)
ports = [port for port in swept.ports() if port.info and port.end_port.lid]
in_use = [port for port in ports if port.p_keys and (port.is_linked or port.is_end_port)]
nodes = sa.get_table(NodeRecord)
result = {{
    "nodes": sorted([r.lid, r.node_info.node_guid, r.node_info.port_guid, r.node_description] for r in nodes),
    "swept": sorted([p.lid, p.node.guid, p.port_guid, p.node.description] for p in swept.end_ports() if p.lid),
    "infos": sorted([r.endport_lid, r.port_num, r.port_info.m_key] for r in sa.get_table(PortInfoRecord)),
    "swept infos": sorted([p.end_port.lid, p.num, p.port_info.m_key] for p in ports),
    "keys": [[r.lid, r.port_num, r.block_num, list(r.p_keys)] for r in sa.get_table(PKeyTableRecord)],
    "swept keys": [[p.end_port.lid, p.num, [int(key) for key in p.p_keys]] for p in in_use],
}}
""",
        )
    assert len(result["nodes"]) >= 8
    assert result["nodes"] == result["swept"]
    assert result["infos"] == result["swept infos"]
    blocks = {(lid, port, block): keys for lid, port, block, keys in result["keys"]}
    for lid, port, keys in result["swept keys"]:
        first = blocks[lid, port, 0]
        assert first[: len(keys)] == keys[:32], (lid, port)


def test_trust(serve: Callable[..., Served]) -> None:
    fabric, log = serve(DATA / "fabrics" / "dual-home.net"), list[str]()
    with running_opensm(fabric, CONF + "m_key 0x1122334455667788\n", log):
        result = ask(
            fabric,
            f"""
trusted, stranger, wrong = fabric.sa({SA_KEY}), fabric.sa(), fabric.sa(0x666)
lid = fabric.local().base_lid
result = {{
    "lid": lid,
    "trusted": trusted.get(PortInfoRecord, endport_lid=lid, port_num=1).port_info.m_key,
    "stranger": stranger.get(PortInfoRecord, endport_lid=lid, port_num=1).port_info.m_key,
    "keys": list(trusted.get(PKeyTableRecord, lid=lid, block_num=0).p_keys),
    "no tables": failed(lambda: stranger.get_table(PKeyTableRecord, lid=lid)),
    "wrong": failed(wrong.class_port_info),
    "several": failed(lambda: stranger.get(NodeRecord)),
    "nothing": failed(lambda: stranger.get(NodeRecord, lid=999)),
    "node": stranger.get(NodeRecord, lid=lid).to_json(),
    "groups": rows(trusted.groups()),
}}
""",
        )
    assert (result["trusted"], result["stranger"]) == (0x1122334455667788, 0)
    assert result["keys"][0] == 0xFFFF
    assert result["no tables"][0] == "MadStatusError"
    assert "status 0x0200 (request invalid)" in result["no tables"][1]
    assert result["wrong"][0] == "NoReply"
    assert "a wrong SM_Key" in result["wrong"][1]
    assert "0x0400 (too many records)" in result["several"][1]
    assert "0x0300 (no records)" in result["nothing"][1]
    assert [(each["mlid"], each["q_key"], each["port_gid"]) for each in result["groups"]] == [
        (0xC000, "0x00000b1b", "0x" + 32 * "0")
    ]
    assert sum("1A04" in line for line in log) == 2, "one for each attempt with the wrong key"


def test_saquery_says_the_same(ibsim: Callable[..., Ibsim]) -> None:
    """Single records, which ibsim does not cut."""
    fabric = ibsim(DATA / "fabrics" / "dual-home.net")
    with running_opensm(fabric, CONF):
        mine = ask(
            fabric,
            f"""
result = {{
    "lid": fabric.local().base_lid,
    "node": fabric.sa().get(NodeRecord, lid=fabric.local().base_lid).to_json(),
    "info": fabric.sa().get(PortInfoRecord, endport_lid=fabric.local().base_lid, port_num=1).to_json(),
    "keys": fabric.sa({SA_KEY}).get_table(PKeyTableRecord, lid=fabric.local().base_lid, block_num=0)[0].to_json(),
}}
""",
        )
        lid = str(mine["lid"])
        node = fields_of(fabric.run(["saquery", "NodeRecord", lid], check=True).stdout)
        info = fields_of(fabric.run(["saquery", "PortInfoRecord", f"{lid}/1"], check=True).stdout)
        keys = fabric.run(["saquery", "--smkey", hex(SA_KEY), "PKeyTableRecord", f"{lid}/1/0"], check=True).stdout
    assert (node["lid"], node["node_guid"], node["port_guid"]) == (
        lid,
        mine["node"]["node_guid"],
        mine["node"]["port_guid"],
    )
    assert node["NodeDescription"] == mine["node"]["node_description"]
    assert (info["EndPortLid"], info["SMLid"]) == (lid, str(mine["info"]["master_sm_lid"]))
    assert (info["MkeyLeasePeriod"], int(info["CapMask"], 16)) == (
        str(mine["info"]["m_key_lease_period"]),
        mine["info"]["capability_mask"],
    )
    assert re.findall(r"0x[0-9A-Fa-f]{4}", keys.split("PKey Table:", 1)[1])[:32] == mine["keys"]["p_keys"]


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of what saquery prints: ``lid.....0x1`` with numbers in decimal, GUIDs as they are."""
    found = re.findall(r"^\s*(\w+):?\.{2,}(.*?)\s*$", text, re.MULTILINE)
    return {name: str(int(value, 16)) if re.fullmatch(r"0x[0-9A-Fa-f]{1,4}", value) else value for name, value in found}


def test_the_sa_of_a_served_subnet_answers_as_that_of_opensm(serve: Callable[..., Served]) -> None:
    """Where no OpenSM runs and the script said ``sm NODE on``."""
    fabric = serve(DATA / "fabrics" / "dual-home.net")
    fabric.opensm()
    fabric.steer("sm H-248a070300b10200 on")
    result = ask(
        fabric,
        """
sa = fabric.sa()
lid = fabric.local().base_lid
result = {
    "sm lid": fabric.local().sm_lid,
    "alive": sa.class_port_info().class_version,
    "node": sa.get(NodeRecord, lid=lid).to_json(),
    "one": rows(sa.get_table(NodeRecord, lid=lid)),
    "none": rows(sa.get_table(NodeRecord, lid=999)),
    "all": sorted(record.port_guid for record in sa.get_table(NodeRecord)),
    "swept": sorted(port.port_guid for port in fabric.sweep().end_ports() if port.lid),
    "wrong": failed(fabric.sa(0x666).class_port_info),
}
""",
    )
    told = fields_of(fabric.run(["saquery", "NodeRecord", str(result["node"]["lid"])], check=True).stdout)
    assert result["alive"] == 2
    assert result["one"] == [result["node"]]
    assert result["none"] == []
    assert result["all"] == result["swept"]
    assert len(result["all"]) >= 8
    assert result["wrong"][0] == "NoReply"
    assert told["node_guid"] == result["node"]["node_guid"]
    assert told["NodeDescription"] == result["node"]["node_description"]


def test_port_counters_are_those_of_perfquery(serve: Callable[..., Served]) -> None:
    fabric = serve(DATA / "fabrics" / "dual-home.net")
    fabric.opensm()
    for _ in range(3):
        fabric.steer("packet H-248a070300b10200 H-248a070300b10100")
    result = ask(
        fabric,
        """
ports = list(fabric.sweep().ports())
readings = [(p, c) for p, c in fabric.read_port_counters(ports) if p.lid]
result = [[p.end_port.lid, p.num, c.port_xmit_pkts, c.port_rcv_constraint_errors] for p, c in readings]
""",
    )
    assert len(result) > 30
    busy = [row for row in result if row[2]]
    assert {packets for _, _, packets, _ in busy} == {3}
    for lid, port, packets, errors in [*busy[:2], result[0], result[-1]]:
        told = fields_of(fabric.run(["perfquery", str(lid), str(port)], check=True).stdout)
        assert (told["PortXmitPkts"], told["PortRcvConstraintErrors"]) == (str(packets), str(errors))


def test_a_table_of_2048_hosts_arrives_whole(stack: ExitStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netfile = tmp_path / "ft2048.net"
    netfile.write_text(fat_tree(leaves=16, hosts=128, spines=1))
    fabric = stack.enter_context(Hosted(netfile))
    answers_arrive(monkeypatch, times=0, share=0.01)
    with running_opensm(fabric, CONF):
        result = ask(
            fabric,
            """
sa = fabric.sa()
rows = [[r.lid, r.node_info.node_guid, r.node_description] for r in sa.get_table(NodeRecord)]
result = {"rows": rows, "replies": sa.statistics.replies}
""",
        )
    rows = result["rows"]
    hosts = {guid: name for _, guid, name in rows if name.startswith("node")}
    assert len(rows) == 2048 + 17
    assert hosts == {0xB8CEF60300100000 + 0x10 * n: f"node{n + 1:05} mlx5_0" for n in range(2048)}
    assert len({lid for lid, _, _ in rows}) == len(rows)
    assert result["replies"] >= -(-len(rows) * 112 // 200)
