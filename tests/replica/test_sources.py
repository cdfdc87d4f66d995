"""What a replica can be made of, and what is refused with a line."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

import ibkeys
from ibkeys.dumps.kinds import KINDS, DumpKind
from ibkeys.errors import FileFormatError, IbkeysError, StoreError
from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.mad.const import PortState
from ibkeys.replica.assumed import NET_FILE
from ibkeys.replica.sources import read_subnet
from ibkeys.sim.state.document import dump_state, load_state
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.dumps.bringing import M_KEY
from tests.dumps.synthetic import db_csv, swept
from tests.fabricsim import subnet, tool
from tests.protectedsim import end_ports
from tests.replica.comparing import know_keys, snapshot_of

DUMPS = DATA / "dumps"
NETDISCOVER = DUMPS / "ibnetdiscover.txt"
NAME = "node01 mlx4_0"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The snapshot of two switches; a table, an M_Key at level 2 and an SM are not those of power-up."""
    net = subnet("two-switch")
    port = net.port(NAME, 1)
    port.m_key, port.protect_bits, port.p_keys = 0x1234, 2, [0xFFFF, 0, 0x8022]
    net.set_sm("node02 mlx4_0")
    snapshot_of(net, tmp_path / "a.db")
    return tmp_path / "a.db"


def changed(path: Path, *statements: str) -> Path:
    """Change a snapshot file as somebody with an editor would."""
    with sqlite3.connect(path) as rows:
        for statement in statements:
            rows.execute(statement)
    rows.close()
    return path


def test_a_file_of_no_known_kind_is_told_which_kinds_there_are(tmp_path: Path) -> None:
    (tmp_path / "hostname").write_text("node01\n")
    with pytest.raises(FileFormatError, match="hostname: is no file about a fabric") as refused:
        read_subnet(tmp_path / "hostname")
    for kind in ("net file", "snapshot", *(each.name for each in KINDS)):
        assert kind in str(refused.value)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_reader_of_each_kind_of_file_is_there(kind: DumpKind, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with suppress(FileFormatError):
        assert kind.read(tmp_path / "empty", kind.limit) is not None


def test_a_net_file_needs_no_reader_of_another_kind() -> None:
    others = ["sqlite3", *(f"ibkeys.dumps.{kind.module}" for kind in KINDS)]
    program = "import sys, ibkeys; ibkeys.open(sys.argv[1]); print([each for each in sys.argv if each in sys.modules])"
    command = [sys.executable, "-c", program, f"sim:{DATA / 'fabrics' / 'two-switch.net'}", *others]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_m_key_is_its_fingerprint_in_every_replica_and_never_the_key(recorded: Path, tmp_path: Path) -> None:
    snapshot = ibkeys.load(recorded).snapshot
    shown = {port.guid: snapshot.fingerprint_number(port.info) for port in snapshot.fabric.end_ports() if port.info}
    net = read_subnet(recorded)
    assert {port.guid: port.m_key for port in end_ports(net)} == shown
    assert net.port(NAME, 1).m_key not in (0, 0x1234)
    assert net.port(NAME, 1).protect_bits == 2
    again = subnet("two-switch")
    again.port(NAME, 1).m_key = 0x1234
    assert snapshot_of(again, tmp_path / "keys.db", with_keys=True).about.has_keys
    assert read_subnet(tmp_path / "keys.db").port(NAME, 1).m_key == net.port(NAME, 1).m_key


def test_no_subnet_manager_runs_in_a_replica(recorded: Path) -> None:
    net = read_subnet(recorded)
    assert not [node for node in net.nodes if node.sm is not None]
    assert not [port for port in end_ports(net) if port.capability_mask & 2]
    assert net.port("node02 mlx4_0", 1).lid in {port.sm_lid for port in end_ports(net)}  # it ran there


@pytest.mark.parametrize(("links", "state"), [("initialize", PortState.INITIALIZE), ("active", PortState.ACTIVE)])
def test_links_can_be_set_back_to_another_state(recorded: Path, links: str, state: int) -> None:
    net = read_subnet(recorded, link_state=links)  # type: ignore[arg-type]
    cabled = [port for node in net.nodes for port in node.all_ports if port.peer is not None]
    assert {port.state for port in cabled} == {state}
    assert net.port(NAME, 1).p_keys[2] == 0x8022


def test_port_guids_can_be_those_of_ibsim(recorded: Path) -> None:
    changed(recorded, "UPDATE ports SET port_guid = '0x0000000000000abc' WHERE port_guid = '0x0002c903000a1011'")
    assert read_subnet(recorded).node(0xABC).description == NAME
    assert read_subnet(recorded, "ibsim").port(NAME, 1).guid == 0x0002C903000A1011


def test_a_state_file_fits_the_replica_of_the_same_snapshot_only(recorded: Path) -> None:
    net = read_subnet(recorded)
    net.port(NAME, 1).p_keys = [0x8033]
    document = dump_state(net)
    load_state(again := read_subnet(recorded), document)
    assert again.port(NAME, 1).p_keys[0] == 0x8033
    changed(recorded, "UPDATE ports SET p_key_table = NULL WHERE p_key_table IS NOT NULL")
    with pytest.raises(StoreError, match="belongs to another"):
        load_state(read_subnet(recorded), document)


def test_a_folder_of_snapshots_is_its_newest(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "nights").mkdir()
    recorded.rename(tmp_path / "nights" / "ibkeys-20261120T093000Z.db")
    assert read_subnet(tmp_path / "nights").port(NAME, 1).p_keys[2] == 0x8022
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="empty"):
        read_subnet(tmp_path / "empty")


@pytest.mark.parametrize(
    ("names", "has_p_keys"),
    [
        (["ibnetdiscover.txt"], False),
        (["plain.cache"], False),
        (["opensm-subnet.lst"], False),
        (["keyed.cache", "pir-keyed.txt", "pktr3.txt"], True),
        (["ibnetdiscover.txt", "nodeinfo.txt", "switchinfo.txt", "pktr3.txt"], False),
    ],
)
def test_files_of_other_tools_are_brought_up_and_swept(names: Sequence[str], has_p_keys: bool) -> None:
    net = read_subnet([DUMPS / name for name in names])
    assert net.assumed
    with tool(net) as fabric:
        know_keys(fabric, net)
        found = fabric.sweep(p_keys=True)
    assert found.troubles == []
    assert len(found.nodes) == len(net.nodes) == 8
    assert all(port.lid for port in found.end_ports())
    linked = [PortInfo(port.info) for port in found.ports() if port.info is not None and port.is_linked]
    assert all(info.link_width_active and info.mtu_cap and info.neighbor_mtu and info.vl_cap for info in linked)
    assert "keyed.cache" not in names or len({port.m_key for port in end_ports(net)} - {M_KEY}) == 1
    assert has_p_keys == any(port.occupied and port.occupied[0][1] == 0x7FFF for port in found.ports())


def test_files_of_other_tools_have_the_same_made_up_keys_each_time() -> None:
    first, again = (read_subnet([DUMPS / "keyed.cache", DUMPS / "pir-keyed.txt"]) for _ in range(2))
    assert first.fingerprint == again.fingerprint  # so that a state file fits
    assert [port.m_key for port in end_ports(first)] == [port.m_key for port in end_ports(again)]


def test_a_net_file_is_what_it_was_and_says_what_it_lacks() -> None:
    net, same = read_subnet(NETDISCOVER), Subnet.from_file(NETDISCOVER)
    assert net.fingerprint == same.fingerprint
    assert (net.assumed, same.assumed) == (NET_FILE, ())


ONE_SWITCH = "(SELECT id FROM nodes WHERE node_type = 'switch' LIMIT 1)"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE ports SET port = 77 WHERE port_guid = '0x0002c903000a1011'", "has ports 1 to .*a port 77"),
        (f"UPDATE ports SET port = 200 WHERE port = 3 AND node = {ONE_SWITCH}", "has ports 0 to .*a port 200"),
        ("UPDATE ports SET peer = NULL", "no link between them"),
        ("UPDATE ports SET peer = 9999 WHERE peer IS NOT NULL", "damaged"),
        ("UPDATE ports SET node = 9999 WHERE rowid = 3", "damaged"),
        ("DELETE FROM nodes WHERE id = 2", "damaged"),
        ("DELETE FROM nodes", "no node"),
        ("UPDATE nodes SET node_info = x'00'", "damaged"),
        ("UPDATE nodes SET node_info = zeroblob(64)", "NodeType 0"),
        ("UPDATE nodes SET switch_info = x'0102' WHERE switch_info IS NOT NULL", "damaged"),
        ("UPDATE ports SET port_info = x'01' WHERE port_info IS NOT NULL", "damaged"),
        ("UPDATE ports SET p_key_table = x'010203' WHERE p_key_table IS NOT NULL", "damaged"),
        ("UPDATE ports SET m_key_fingerprint = 'x; DROP' WHERE port_info IS NOT NULL", "damaged"),
        ("DROP TABLE ports", "snapshot"),
    ],
)
def test_a_damaged_snapshot_is_refused_in_one_line_that_names_it(recorded: Path, statement: str, says: str) -> None:
    with pytest.raises(IbkeysError, match=says) as caught:
        read_subnet(changed(recorded, statement))
    assert isinstance(caught.value, FileFormatError | StoreError)
    assert str(caught.value).startswith(str(recorded))
    assert "\n" not in str(caught.value)


def test_a_cable_to_port_0_of_a_switch_is_left_out_and_named(recorded: Path) -> None:
    """A switch that lies about the number of its port is recorded so."""
    before = sum(port.peer is not None for node in read_subnet(recorded).nodes for port in node.all_ports)
    own, linked = "(SELECT min(id) FROM ports WHERE port = 0)", "(SELECT max(id) FROM ports WHERE peer NOT NULL)"
    changed(recorded, f"UPDATE ports SET peer = NULL WHERE peer = {linked}")
    changed(recorded, f"UPDATE ports SET peer = {own} WHERE id = {linked}")
    changed(recorded, f"UPDATE ports SET peer = (SELECT id FROM ports WHERE peer = {own}) WHERE id = {own}")
    net = read_subnet(recorded)
    assert sum(port.peer is not None for node in net.nodes for port in node.all_ports) == before - 2
    assert {each.what: each.count for each in net.assumed}["cables that do not lead back"] == 2


def test_nodes_with_one_guid_are_two_nodes(tmp_path: Path) -> None:
    net = subnet("two-switch")
    one, other = net.node(NAME), net.node("node04 mlx4_0")
    other.guid, other.ports[1].guid = one.guid, one.ports[1].guid
    before = snapshot_of(net, tmp_path / "a.db")
    replica = read_subnet(tmp_path / "a.db")
    assert len(replica.nodes) == len(before.fabric.nodes) == 8
    twins = [node for node in replica.nodes if node.guid == one.guid]
    assert {node.description for node in twins} == {NAME, "node04 mlx4_0"}
    assert len({node.node_id for node in twins}) == 2


def test_what_no_fabric_has_is_refused_before_it_takes_memory(recorded: Path) -> None:
    changed(
        recorded,
        "WITH RECURSIVE more (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM more WHERE n < 6000) INSERT INTO nodes "
        "SELECT n, node_guid, node_desc, node_type, 254, system_image_guid, 64, 64, 1, 1, path, 1, "
        "CAST(substr(node_info, 1, 3) || x'fe' || substr(node_info, 5) AS BLOB), node_description, switch_info "
        "FROM nodes, more WHERE id = 1",
    )
    with pytest.raises(FileFormatError, match="which no fabric has"):
        read_subnet(recorded)


@pytest.mark.parametrize("names", [["pktr.txt"], ["dr.txt", "pktr.txt"]])
def test_files_without_nodes_name_what_is_missing(names: Sequence[str]) -> None:
    with pytest.raises(FileFormatError, match="no file names a node"):
        read_subnet([DUMPS / name for name in names])


def test_a_db_csv_is_brought_up_and_its_m_keys_are_fingerprints(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.port(NAME, 1).m_key = M_KEY
    (tmp_path / "a.csv").write_text(db_csv(swept(net)))
    replica = read_subnet(tmp_path / "a.csv")
    assert [port.guid for port in end_ports(replica) if port.m_key] == [net.port(NAME, 1).guid]
    assert replica.port(NAME, 1).m_key != M_KEY
    assert {each.what: each.count for each in replica.assumed}["widths, speeds, MTU or VLs"] == 24
    assert [port for port in swept(replica).ports() if port.info is None] == []


def test_a_switch_info_without_sizes_gets_those_that_opensm_needs(tmp_path: Path) -> None:
    text = db_csv(swept(subnet("two-switch"))).replace("LinearFDBCap", "Other")
    (tmp_path / "a.csv").write_text(text)
    replica = read_subnet(tmp_path / "a.csv")
    sizes = {bytes(node.switch_info[:6]) for node in replica.nodes if node.switch_info is not None}
    assert sizes == {SwitchInfo.new(linear_fdb_cap=30720, multicast_fdb_cap=1024).raw[:6]}
    assert {each.what: each.count for each in replica.assumed}["sizes of forwarding tables"] == 2


def test_files_without_links_name_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(db_csv(swept(subnet("two-switch")), leave_out=["LINKS"]))
    with pytest.raises(FileFormatError, match="no link between them: add a file that lists links"):
        read_subnet(tmp_path / "a.csv")


def test_what_is_no_description_of_a_fabric_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("nothing\n")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE a (b)").connection.close()
    for name in ("notes", "other.db", "none"):
        with pytest.raises(FileFormatError, match=str(tmp_path / name)):
            read_subnet(tmp_path / name)
