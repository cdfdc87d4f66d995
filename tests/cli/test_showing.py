"""The showing commands: exact output in each format, the contract's keys, partial results."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import CapabilityMask
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import DUAL_HOME, KEY, TWO_SWITCH, Cli, run
from tests.fabricsim import change_each_subnet, subnet, tool

IDENTITY = ["node_guid", "port_guid", "node_desc", "node_type", "port", "lid"]
M_KEY = ["m_key_state", "m_key", "m_key_protect_bits", "m_key_lease_period", "m_key_violations"]
COUNTERS = ["m_key_violations", "p_key_violations", "q_key_violations"]
DROPPED = ["xmit_constraint_errors", "rcv_constraint_errors"]
SUPPRESSION = "multicast_p_key_trap_suppression_enabled"
CAPS = ["partition_cap", "partition_enforcement_cap", "inbound_enforcement_cap", "outbound_enforcement_cap"]
ENFORCE = ["partition_enforcement_inbound", "partition_enforcement_outbound"]

KEYS = {
    "pkey-show": ["capacity", "pkeys", "virtual_ports"],
    "mkey-show": M_KEY,
    "port-show --enforcement": [*ENFORCE, "peer"],
    "port-show --caps": [*CAPS, "is_m_key_nvram", "is_p_key_nvram"],
    "port-show --counters": [*COUNTERS, *DROPPED, SUPPRESSION],
    "port-show --caps --enforcement": [*ENFORCE, "peer", *CAPS, "is_m_key_nvram", "is_p_key_nvram"],
    "port-show": [
        "state",
        *ENFORCE,
        "peer",
        *CAPS,
        "is_m_key_nvram",
        "is_p_key_nvram",
        *COUNTERS,
        *DROPPED,
        SUPPRESSION,
    ],
}


def test_pkey_show_table_of_one_port(cli: Cli) -> None:
    result = cli("pkey-show", 2)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "node02 mlx4_0 (ca 0x0002c903000a1020) port 1, LID 2: 1 of 64 P_Key entries in use\n"
        "Index  P_Key   Partition  Membership\n"
        "    0  0xffff  0x7fff     full\n"
    )


def test_pkey_show_json_of_one_port(cli: Cli) -> None:
    assert cli("pkey-show", "-D", "0,1", 3, "-f", "json").json == {
        "schema": "ibkeys.pkey-show/1",
        "ports": [
            {
                "node_guid": "0x0002c90200401000",
                "port_guid": "0x0002c90200401000",
                "node_desc": "MF0;switch-a:IS5023/U1",
                "node_type": "switch",
                "port": 3,
                "lid": 7,
                "capacity": 64,
                "pkeys": [{"index": 0, "pkey": "0xffff", "partition": "0x7fff", "membership": "full"}],
                "virtual_ports": None,
            }
        ],
        "errors": [],
        "unreached": 0,
    }


def test_pkey_show_csv_has_one_row_for_each_entry(cli: Cli) -> None:
    cli("pkey-add", 2, "0x1:limited", "--yes")
    assert cli("pkey-show", 2, "--format", "csv").out == (
        "node_guid,port_guid,node_desc,node_type,port,lid,capacity,index,pkey,partition,membership\n"
        "0x0002c903000a1020,0x0002c903000a1021,node02 mlx4_0,ca,1,2,64,0,0xffff,0x7fff,full\n"
        "0x0002c903000a1020,0x0002c903000a1021,node02 mlx4_0,ca,1,2,64,1,0x0001,0x0001,limited\n"
    )


def test_mkey_show_table_of_one_port(cli: Cli) -> None:
    assert cli("mkey-show").out == (
        "node01 mlx4_0 (ca 0x0002c903000a1010) port 1, LID 1\n"
        "  M_Key:       not set (0): the port is not protected\n"
        "  ProtectBits: 0 (no effect while M_Key is 0)\n"
        "  LeasePeriod: 0 (never expires)\n"
        "  Violations:  0\n"
    )


def test_mkey_show_csv(cli: Cli) -> None:
    assert cli("mkey-show", 2, "-f", "csv").out == (
        ",".join([*IDENTITY, *M_KEY]) + "\n0x0002c903000a1020,0x0002c903000a1021,node02 mlx4_0,ca,1,2,zero,,0,0,0\n"
    )


def test_enforcement_of_one_port(cli: Cli) -> None:
    assert cli("port-show", "--enforcement", 7, 3).out == (
        "MF0;switch-a:IS5023/U1 (switch 0x0002c90200401000) port 3, LID 7\n  Inbound:  off\n  Outbound: off\n"
    )


def test_enforcement_says_what_is_at_the_far_end(cli: Cli) -> None:
    lines = cli("port-show", "--enforcement", "--all").out.splitlines()
    assert lines[0].split() == ["Node", "GUID", "Port", "LID", "Inbound", "Outbound", "Peer"]
    assert lines[1].endswith("  off      off       node01 mlx4_0 port 1")
    assert lines[4].endswith("  off      off       -")
    ports = cli("port-show", "--enforcement", "--all", "-f", "json").json["ports"]
    peers = {(port["node_desc"], port["port"]): port["peer"] for port in ports}
    own = {"node_guid": "0x0002c903000a1010", "node_desc": "node01 mlx4_0", "node_type": "ca", "port": 1}
    assert peers["MF0;switch-a:IS5023/U1", 1] == own
    assert peers["MF0;switch-a:IS5023/U1", 4] is None
    assert cli("port-show", "--enforcement", 7, 1, "-f", "json").json["ports"][0]["peer"] is None, (
        "one port does not know it"
    )


def test_enforcement_folds_ports_by_the_kind_of_node_behind_them(cli: Cli) -> None:
    lines = cli("port-show", "--enforcement", "--all", "--fold").out.splitlines()
    assert [line.split() for line in lines if line.split()[1] in ("off", "on")] == [
        ["6", "off", "off", "ca"],
        ["6", "off", "off", "-"],
        ["4", "off", "off", "switch"],
    ]


def dropping(monkeypatch: pytest.MonkeyPatch, nameless: bool = False) -> None:
    """Let port 3 of switch-a enforce and have dropped packets; *nameless*: the switch has no LID."""

    def counted(net: Subnet) -> None:
        port = net.port("MF0;switch-a:IS5023/U1", 3)
        port.inbound_enforcement = port.outbound_enforcement = 1
        port.count("port_xmit_constraint_errors", 7)
        port.count("port_rcv_constraint_errors", 2)
        if nameless:
            port.node.ports[0].lid = 0

    change_each_subnet(monkeypatch, counted)


def test_counters_have_the_constraint_errors_of_ports_that_enforce(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    dropping(monkeypatch)
    ports = cli("port-show", "--counters", "--all", "-f", "json").json["ports"]
    dropped = {(port["node_desc"], port["port"]): tuple(port[key] for key in DROPPED) for port in ports}
    assert dropped.pop(("MF0;switch-a:IS5023/U1", 3)) == (7, 2)
    assert set(dropped.values()) == {(None, None)}
    lines = cli("port-show", "--counters", "--all").out.splitlines()
    assert lines[0].split()[-2:] == ["XmitConstr", "RcvConstr"]
    cells = [tuple(line.split()[-7:]) for line in lines[1:]]
    assert [row for row in cells if row[-2:] != ("-", "-")] == [("3", "7", "0", "0", "0", "7", "2")]
    assert cli("port-show", "--counters", 7, 3, "-f", "csv").out.splitlines()[1].endswith(",3,7,0,0,0,7,2,")
    assert "  PortXmitConstraintErrors: 7\n" in cli("port-show", "--counters", 7, 3).out


def test_constraint_errors_that_nobody_tells_are_unknown_and_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    dropping(monkeypatch, nameless=True)
    result = cli("port-show", "--counters", "--all")
    assert result.code == 0
    assert [line for line in result.out.splitlines() if line.endswith("?")] != []
    assert "ibkeys: note: constraint errors of 1 switch port are not known; 'MF0;switch-a:IS5023/U1'" in result.err


def test_each_group_has_the_values_that_all_of_them_have(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    dropping(monkeypatch)
    whole = cli("port-show", "--all", "-f", "json").json["ports"]
    for command in ("port-show --enforcement", "port-show --caps", "port-show --counters"):
        ports = cli(*command.split(), "--all", "-f", "json").json["ports"]
        assert ports == [{name: port[name] for name in IDENTITY + KEYS[command]} for port in whole]


def test_the_table_of_many_ports_has_what_fits_a_screen(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    dropping(monkeypatch)
    lines = [line.split() for line in cli("port-show", "--all").out.splitlines()]
    enforcement, counters = ["Inbound", "Outbound"], ["M_KeyViol", "P_KeyViol", "Q_KeyViol", "XmitConstr", "RcvConstr"]
    assert lines[0] == ["Node", "GUID", "Port", "LID", "State", *enforcement, *counters]
    assert len(lines) == 1 + 24
    assert [" ".join(line[2:]) for line in lines if line[-2:] == ["7", "2"]] == ["3 7 Active on on 0 0 0 7 2"]
    of_one = cli("port-show", 7, 3).out
    assert all(f"  {title}:" in of_one for title in ("State", "PartitionCap", "InboundEnforcementCap", "IsP_KeyNVRAM"))
    assert "PortXmitConstraintErrors: 7\n" in of_one


@pytest.mark.parametrize(
    ("group", "switch_info", "port_counters"), [("--enforcement", 0, 0), ("--caps", 1, 0), ("--counters", 0, 1)]
)
def test_only_attributes_of_the_chosen_group_are_asked(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, group: str, switch_info: int, port_counters: int
) -> None:
    dropping(monkeypatch)
    result = cli("port-show", group, "-D", "0,1", 3, "-d")
    assert result.code == 0
    asked = [result.err.count(f"> Get({attribute},") for attribute in ("SwitchInfo", "PortCounters")]
    assert asked == [switch_info, port_counters]


def test_a_port_of_which_something_is_missing_exits_3(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(net: Subnet) -> None:
        net.faults.lose_next("reply", node=net.node("MF0;switch-a:IS5023/U1"), attribute=0x12, count=100)

    change_each_subnet(monkeypatch, silent)
    assert cli("port-show", "--caps", "-D", "0,1", 3, "-t", 10).code == 3
    assert cli("port-show", "-D", "0,1", 3, "-t", 10).code == 3
    assert cli("port-show", "--enforcement", "-D", "0,1", 3, "-t", 10).code == 0


def test_a_ca_has_no_capability_to_enforce(cli: Cli) -> None:
    port = cli("port-show", "--caps", 2, "-f", "json").json["ports"][0]
    assert [port[key] for key in CAPS] == [64, None, None, None]
    assert "  PartitionEnforcementCap: -\n" in cli("port-show", "--caps", 2).out


def test_capabilities_of_a_switch(cli: Cli) -> None:
    port = cli("port-show", "--caps", 7, 2, "-f", "json").json["ports"][0]
    assert [port[key] for key in CAPS] == [8, 64, 1, 1]
    assert (port["is_m_key_nvram"], port["is_p_key_nvram"]) == (False, False)


@pytest.mark.parametrize("command", KEYS)
def test_json_carries_the_keys_of_the_contract(cli: Cli, command: str) -> None:
    document = cli(*command.split(), "--all", "--each", "-f", "json").json
    assert list(document) == ["schema", "ports", "errors", "unreached"]
    assert document["schema"].startswith(f"ibkeys.{command.split()[0]}/")
    # two switches of 8 ports with their port 0, six CAs
    assert len(document["ports"]) == 2 * 9 + 6
    for port in document["ports"]:
        assert list(port) == IDENTITY + KEYS[command]


def test_mkey_show_lists_a_switch_once(cli: Cli) -> None:
    ports = cli("mkey-show", "--all", "-f", "json").json["ports"]
    assert len(ports) == 2 + 6
    assert [port["port"] for port in ports if port["node_type"] == "switch"] == [0, 0]
    every = cli("mkey-show", "--all", "--each", "-f", "json").json["ports"]
    assert [port for port in every if port["node_type"] != "switch" or port["port"] == 0] == ports
    assert cli("mkey-show", "--all", "--each").out == cli("mkey-show", "--all").out


def test_enforcement_is_yes_no_or_does_not_apply(cli: Cli) -> None:
    cli("enforce-set", 7, 3, "--inbound", "on", "--yes")
    ports = cli("port-show", "--enforcement", "--all", "-f", "json").json["ports"]
    said = {(port["node_type"], port["port"] == 0): set() for port in ports}
    for port in ports:
        said[port["node_type"], port["port"] == 0] |= {port[name] for name in ENFORCE}
    assert said == {("switch", False): {False, True}, ("switch", True): {None}, ("ca", False): {None}}
    assert cli("port-show", "--enforcement", 2).out.splitlines()[1:] == ["  Inbound:  -", "  Outbound: -"]


@pytest.mark.parametrize("command", KEYS)
def test_csv_has_the_columns_of_json(cli: Cli, command: str) -> None:
    rows = list(csv.DictReader(io.StringIO(cli(*command.split(), "--all", "--each", "-f", "csv").out)))
    assert len(rows) == 24
    entry = ["index", "pkey", "partition", "membership"]
    peer = ["peer_node_guid", "peer_node_desc", "peer_node_type", "peer_port"]
    parts = {"peer": peer, "pkeys": entry, "virtual_ports": []}
    expected = [column for name in KEYS[command] for column in parts.get(name, [name])]
    assert list(rows[0]) == IDENTITY + expected


@pytest.mark.parametrize(
    ("command", "listed"),
    [("pkey-show", 24), ("mkey-show", 8), ("port-show --enforcement", 16), ("port-show --caps", 8), ("port-show", 24)],
)
def test_table_of_all_lists_the_ports_that_have_something_to_say(cli: Cli, command: str, listed: int) -> None:
    lines = cli(*command.split(), "--all").out.splitlines()
    assert lines[0].split()[:4] == ["Node", "GUID", "Port", "LID"]
    assert len(lines) == 1 + listed


def test_counters_say_which_traps_a_port_holds_back(tmp_path: Path) -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    port.capability_mask |= CapabilityMask.IS_MULTICAST_P_KEY_TRAP_SUPPRESSION_SUPPORTED
    PortInfo.multicast_p_key_trap_suppression_enabled.patch(port.info, 2)
    other = net.port("node03 mlx4_0", 1)  # which does not say that it has the setting
    PortInfo.multicast_p_key_trap_suppression_enabled.patch(other.info, 1)
    with tool(net) as fabric:
        save_snapshot(tmp_path / "s.db", take_snapshot(fabric, Fingerprints.generate()))
    shown = run("port-show", "--counters", "--all", "--each", "--from", tmp_path / "s.db").out.splitlines()
    assert shown[0].endswith("TrapSuppr")
    assert {line.split()[0]: line.split()[-1] for line in shown if line.startswith("node0")} == {
        f"node0{number}": "2" if number == 2 else "-" for number in range(1, 7)
    }
    rows = run("port-show", "--counters", "--all", "--from", tmp_path / "s.db", "-f", "json").json["ports"]
    assert {row[SUPPRESSION] for row in rows if row["node_desc"] != "node02 mlx4_0"} == {None}
    assert [row[SUPPRESSION] for row in rows if row["node_desc"] == "node02 mlx4_0"] == [2]


def test_many_p_keys_go_on_below(cli: Cli) -> None:
    cli("pkey-set", 2, *(f"{index}={0x8000 + index:#06x}" for index in range(1, 10)), "--yes")
    lines = cli("pkey-show", "--all").out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("node02"))
    assert lines[at].endswith("10/64  0:0xffff 1:0x8001 2:0x8002 3:0x8003 4:0x8004 5:0x8005 6:0x8006 7:0x8007")
    assert lines[at + 1].split() == ["8:0x8008", "9:0x8009"]


def test_ports_that_are_not_linked_to_this_subnet_are_counted_by_discover_and_with_v(cli: Cli) -> None:
    count = "(1 CA or router port not read: not linked, or linked to another subnet)\n"
    for words in (("pkey-show", "--all", "-v"), ("mkey-show", "--all", "-v"), ("discover",)):
        assert cli(*words, "--backend", DUAL_HOME).out.endswith(count)
    assert count not in cli("pkey-show", "--all", "--backend", DUAL_HOME).out


def test_another_port_of_an_hca_is_found_by_its_own_route(cli: Cli) -> None:
    at = "H-248a070300b10100"
    port = cli("pkey-show", 1, 2, "--backend", DUAL_HOME, "--at", at, "-f", "json").json["ports"][0]
    assert (port["port"], port["port_guid"]) == (2, "0x248a070300b10102")


def test_a_silent_port_makes_the_result_partial(cli: Cli, key_file: Path) -> None:
    cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes")
    result = cli("mkey-show", "--all", "-f", "json", "--keystore", key_file.parent / "empty", "-t", 10)
    assert result.code == 3
    document = result.json
    assert len(document["ports"]) == 7
    (error,) = document["errors"]
    assert list(error) == [*IDENTITY, "error"]
    assert (error["node_type"], error["port"]) == ("switch", 2)
    assert result.err.splitlines()[-1].startswith("ibkeys: error: the result is partial: 1 ")


def test_m_key_is_shown_only_when_asked(cli: Cli, key_file: Path) -> None:
    cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 0, "--yes")
    for format in ("table", "json", "csv"):
        for args in (["mkey-show", 2], ["mkey-show", "--all"]):
            assert f"{KEY:x}" not in cli(*args, "-f", format).out
            assert f"0x{KEY:016x}" in cli(*args, "-f", format, "-K").out
    port = cli("mkey-show", 2, "-f", "json").json["ports"][0]
    assert (port["m_key_state"], port["m_key"]) == ("set", None)


def test_hidden_m_key_is_not_zero(cli: Cli, key_file: Path, tmp_path: Path) -> None:
    cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 1, "--yes")
    port = cli("mkey-show", 2, "-K", "-f", "json", "--keystore", tmp_path / "empty").json["ports"][0]
    assert (port["m_key_state"], port["m_key"], port["m_key_protect_bits"]) == ("hidden", None, 1)


def test_m_key_of_an_external_port_is_that_of_port_0(cli: Cli, key_file: Path) -> None:
    cli("mkey-set", 7, "--new-m-key", f"@{key_file}", "--protect", 1, "--yes")
    port = cli("mkey-show", 7, 3, "-f", "json", "-K").json["ports"][0]
    assert (port["port"], port["m_key"], port["m_key_protect_bits"]) == (3, f"0x{KEY:016x}", 1)


def test_discover_json_has_every_port() -> None:
    document = run("discover", "--backend", DUAL_HOME, "-f", "json").json
    assert list(document) == ["schema", "nodes", "replaced", "errors", "unreached"]
    assert (document["schema"], document["unreached"], document["errors"]) == ("ibkeys.discover/1", 1, [])
    for node in document["nodes"]:
        assert list(node) == [*IDENTITY, "num_ports", "ports"]
        assert len(node["ports"]) == node["num_ports"] + (node["node_type"] == "switch")
        for port in node["ports"]:
            assert list(port) == ["port", "lid", "state", "phys_state", "peer"]
    backup = next(node for node in document["nodes"] if node["node_desc"].startswith("backup01"))
    assert backup["ports"][0] == {"port": 1, "lid": None, "state": None, "phys_state": None, "peer": None}
    peer = backup["ports"][1]["peer"]
    assert list(peer) == ["node_guid", "node_desc", "node_type", "port"]
    assert (peer["node_guid"], peer["node_type"], peer["port"]) == ("0x248a070300f00300", "switch", 3)


def test_discover_links_name_each_other() -> None:
    nodes = run("discover", "--backend", TWO_SWITCH, "-f", "json").json["nodes"]
    ends = {
        (node["node_guid"], port["port"]): (port["peer"]["node_guid"], port["peer"]["port"])
        for node in nodes
        for port in node["ports"]
        if port["peer"]
    }
    assert len(ends) == 16
    assert all(ends[far] == near for near, far in ends.items())


def test_discover_table_leaves_out_ports_without_a_link() -> None:
    out = run("discover", "--backend", TWO_SWITCH).out
    assert "Down" not in out
    assert out.splitlines()[-1] == "8 nodes (6 ca, 2 switch), 8 links"
    more = run("discover", "-v", "--backend", TWO_SWITCH).out.splitlines()
    assert more == [*out.splitlines(), "(6 switch ports without a link not listed; -f json has all)"]


def test_verbose_says_what_was_sent(cli: Cli) -> None:
    assert "SMPs sent, 0 of them with an M_Key," in cli("pkey-show", "-v").err


def test_names_cannot_move_the_cursor(cli: Cli, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text('0x0002c903000a1010 "evil\x1b[2Jname"\n')
    assert "\x1b" not in cli("pkey-show", "--node-name-map", names).out
