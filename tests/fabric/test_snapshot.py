"""Snapshots: what comes back from a file is what the sweep read, and no key is in it."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ibkeys
from ibkeys.errors import NotRecorded, StoreError, Unreachable
from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.fabric.snapshot import Snapshot, take_snapshot
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.port_text import common_of
from ibkeys.sim.subnet import Subnet
from ibkeys.store.fingerprint import load_fingerprints
from ibkeys.store.snapshot import TABLES, columns
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.corpus import fabrics
from tests.fabricsim import subnet, tool

KEY, OTHER = 0x1A2B3C4D5E6F7081, 0x0BADC0FFEE0DDF00


def taken(net: Subnet, **options: object) -> Snapshot:
    with tool(net, **options) as fabric:
        return take_snapshot(fabric, Fingerprints.generate())


def picture(fabric: Topology, with_keys: bool) -> list[object]:
    """Everything that a snapshot must bring back."""

    def of_port(port: Port) -> object:
        info = port.info
        if info is not None and not with_keys:
            info = bytes(8) + info[8:]
        peer = (port.peer.node.guid, port.peer.num) if port.peer else None
        seen = (port.num, port.port_guid, port.lid, port.path, info, port.p_key_raw, port.guid_info, port.sm_info)
        return (*seen, peer, port.m_key_state, port.capacity, port.m_key == NO_MKEY)

    return [
        (
            (node.info, node.description, node.description_raw, node.switch_info_raw, node.path, node.twin),
            [of_port(port) for _, port in sorted(node.ports.items())],
        )
        for node in fabric.nodes
    ]


@pytest.mark.parametrize("file", fabrics(400_000))
def test_what_is_read_back_is_what_was_read(file: Path, tmp_path: Path) -> None:
    net = Subnet.from_file(file)
    net.set_sm(next(node for node in net.nodes if not node.is_switch))
    with ibkeys.open(net) as fabric:
        snapshot = take_snapshot(fabric, Fingerprints.generate())
    save_snapshot(tmp_path / "a.db", snapshot)
    back = load_snapshot(tmp_path / "a.db")
    assert picture(back.fabric, False) == picture(snapshot.fabric, False)
    assert back.fabric.troubles == snapshot.fabric.troubles == []
    assert any(port.sm_info for port in back.fabric.ports())
    assert all(port.guid_info for port in back.fabric.end_ports())


@pytest.fixture
def locked() -> Subnet:
    """Two ports with one key, one with another, at every level; one node is silent."""
    net = subnet("two-switch")
    for number, (name, key, level) in enumerate(
        [("node04 mlx4_0", KEY, 0), ("node01 mlx4_0", KEY, 1), ("node02 mlx4_0", OTHER, 2), ("node03 mlx4_0", KEY, 0)]
    ):
        port = net.port(name, 1)
        port.m_key, port.protect_bits, port.lease_period = key, level, 60 + number
    net.silence("node05 mlx4_0")
    return net


def test_equal_keys_have_equal_fingerprints_and_no_key_is_in_the_file(locked: Subnet, tmp_path: Path) -> None:
    snapshot = taken(locked)
    save_snapshot(tmp_path / "a.db", snapshot)
    raw = (tmp_path / "a.db").read_bytes()
    for key in (KEY, OTHER):
        for text in (key.to_bytes(8), key.to_bytes(8, "little"), f"{key:016x}".encode(), str(key).encode()):
            assert text not in raw
    back = load_snapshot(tmp_path / "a.db")
    states = {port.node.description: port.m_key_state for port in back.fabric.end_ports()}
    assert states["node04 mlx4_0"] == "set"
    assert states["node01 mlx4_0"] == "hidden"
    assert "node02 mlx4_0" not in states  # level 2 without its key: it did not answer
    prints = {port.node.description: back.fingerprint_of(port) for port in back.fabric.end_ports()}
    assert prints["node04 mlx4_0"] == prints["node03 mlx4_0"] is not None
    assert prints["node04 mlx4_0"] != f"{KEY:016x}"


def test_readings_say_with_key_without_refused_or_silent(locked: Subnet, tmp_path: Path) -> None:
    with tool(locked, m_key=KEY) as fabric:
        save_snapshot(tmp_path / "a.db", take_snapshot(fabric, Fingerprints.generate()))
    rows = sqlite3.connect(tmp_path / "a.db")
    readings = dict(rows.execute("SELECT node_desc, port_info_reading FROM ports JOIN nodes ON node = nodes.id"))
    assert readings["node01 mlx4_0"] == "with-key"
    silent = list(rows.execute("SELECT attribute, reading FROM unread"))
    assert silent == [("NodeInfo", "silent")] * 2  # node05 is dead, node02 at level 2 has another key
    with tool(locked) as fabric:
        save_snapshot(tmp_path / "b.db", take_snapshot(fabric, Fingerprints.generate()))
    readings = dict(
        sqlite3.connect(tmp_path / "b.db").execute(
            "SELECT node_desc, port_info_reading FROM ports JOIN nodes ON node = nodes.id"
        )
    )
    assert readings["node01 mlx4_0"] == "without-key"


def test_the_m_key_columns_of_an_external_port_are_those_of_port_0(tmp_path: Path) -> None:
    """Its own PortInfo has zeros there: a query for keys without protection would find every port of the switch."""
    net = subnet("two-switch")
    switch = next(node for node in net.nodes if node.is_switch)
    own = switch.ports[0]
    own.m_key, own.protect_bits, own.lease_period, own.m_key_violations = KEY, 1, 60, 3
    switch.ports[1].p_key_violations = 7
    save_snapshot(tmp_path / "a.db", taken(net, m_key=KEY))
    rows = sqlite3.connect(tmp_path / "a.db").execute(
        "SELECT m_key_state, m_key_protect_bits, m_key_lease_period, m_key_violations, p_key_violations FROM ports "
        "JOIN nodes ON node = nodes.id WHERE node_guid = ? ORDER BY port",
        (f"0x{switch.guid:016x}",),
    )
    assert rows.fetchall() == [("set", 1, 60, 3, 7 * (number == 1)) for number in range(9)]


def test_with_keys_they_come_back(locked: Subnet, tmp_path: Path) -> None:
    snapshot = taken(locked)
    save_snapshot(tmp_path / "a.db", snapshot, with_keys=True)
    back = load_snapshot(tmp_path / "a.db")
    assert picture(back.fabric, True) == picture(snapshot.fabric, True)
    assert back.number_of(MKey(KEY)) == KEY


def test_a_snapshot_knows_a_key_of_the_store_only_with_its_secret(locked: Subnet, tmp_path: Path) -> None:
    snapshot = taken(locked)
    save_snapshot(tmp_path / "a.db", snapshot)
    [port] = [port for port in snapshot.fabric.end_ports() if port.node.description == "node04 mlx4_0"]
    shown = int(snapshot.fingerprint_of(port) or "", 16)
    mine = load_snapshot(tmp_path / "a.db", lambda: snapshot.fingerprints)
    assert mine.number_of(MKey(KEY)) == shown
    assert load_snapshot(tmp_path / "a.db").number_of(MKey(KEY)) is None
    assert load_snapshot(tmp_path / "a.db", Fingerprints.generate).number_of(MKey(KEY)) is None


def test_the_file_is_the_owners_alone_also_over_an_open_one(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.touch(0o644)
    save_snapshot(path, taken(subnet("two-switch")))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert load_snapshot(path).fabric.nodes  # it may be handed on


def test_tables_and_columns_are_as_documented() -> None:
    for table in TABLES:
        assert len(columns(table)) == len(set(columns(table)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an ibkeys snapshot"),
        (b"not a database, but long enough to look like one" * 20, "not a database"),
    ],
)
def test_what_is_no_snapshot_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=message):
        load_snapshot(path)
    with pytest.raises(StoreError, match="File name too long"):
        load_snapshot(tmp_path / ("a" * 300))
    with pytest.raises(StoreError, match="no such snapshot"):
        load_snapshot(tmp_path / "missing.db")


def test_what_errors_have_in_common_is_kept(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.silence("node03 mlx4_0")
    snapshot = taken(net, retries=0, timeout=0.01)
    save_snapshot(tmp_path / "a.db", snapshot)
    before, after = (
        [(each.error, common_of(each.error)) for each in each.troubles]
        for each in (snapshot.fabric, load_snapshot(tmp_path / "a.db").fabric)
    )
    assert before == after
    assert any(error != common for error, common in after)


def test_a_newer_schema_is_refused_and_the_file_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    save_snapshot(path, taken(subnet("two-switch")))
    with sqlite3.connect(path) as rows:
        rows.execute("PRAGMA user_version = 7")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="schema 7"):
        load_snapshot(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["started", "finished"])
def test_a_time_that_is_none_is_damage(tmp_path: Path, name: str) -> None:
    """Or it would stand in documents as a time."""
    path = tmp_path / "a.db"
    save_snapshot(path, taken(subnet("two-switch")))
    with sqlite3.connect(path) as rows:
        rows.execute("UPDATE about SET value = '0' WHERE name = ?", (name,))
    with pytest.raises(StoreError, match="damaged"):
        load_snapshot(path)


@pytest.mark.parametrize("lid", [-1, 65536])
def test_a_lid_that_has_more_than_16_bits_is_damage(tmp_path: Path, lid: int) -> None:
    path = tmp_path / "a.db"
    save_snapshot(path, taken(subnet("two-switch")))
    with sqlite3.connect(path) as rows:
        rows.execute("UPDATE ports SET lid = ?, port_info = NULL WHERE id = 1", (lid,))
    with pytest.raises(StoreError, match="damaged"):
        load_snapshot(path)


@pytest.mark.parametrize(
    "peer", ["(SELECT max(peer) FROM ports WHERE id != {0})", "(SELECT id FROM ports WHERE peer IS NULL)"]
)
def test_a_link_that_its_far_end_does_not_have_is_damage(tmp_path: Path, peer: str) -> None:
    """No sweep finds two ports at one end of a cable."""
    path = tmp_path / "a.db"
    save_snapshot(path, taken(subnet("two-switch")))
    with sqlite3.connect(path) as rows:
        [(port,)] = rows.execute("SELECT min(id) FROM ports WHERE peer IS NOT NULL")
        rows.execute(f"UPDATE ports SET peer = {peer.format(port)} WHERE id = {port}")
    with pytest.raises(StoreError, match="damaged"):
        load_snapshot(path)


def test_a_loopback_plug_is_a_link_of_a_port_with_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    save_snapshot(path, taken(subnet("two-switch")))
    with sqlite3.connect(path) as rows:
        [(port,)] = rows.execute("SELECT min(p.id) FROM ports p WHERE p.peer IS NULL AND p.port > 0")
        rows.execute("UPDATE ports SET peer = id WHERE id = ?", (port,))
    assert [each for each in load_snapshot(path).fabric.ports() if each.peer is each]


@given(data=st.data())
def test_a_damaged_snapshot_gives_a_snapshot_or_one_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = folder / "whole.db"
    if not whole.exists():
        save_snapshot(whole, taken(subnet("two-switch")))
    raw = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    damaged = folder / "damaged.db"
    damaged.write_bytes(raw[: data.draw(st.integers(1, len(raw)))] if data.draw(st.booleans()) else raw)
    with suppress(StoreError):
        load_snapshot(damaged)


# --- in the place of a fabric ----------------------------------------------------------------------------------------


def test_a_recorded_port_is_found_as_on_the_fabric(tmp_path: Path) -> None:
    net = subnet("dual-home")
    with tool(net) as fabric:
        snapshot = take_snapshot(fabric, Fingerprints.generate())
        recorded = RecordedFabric(snapshot)
        for port in snapshot.fabric.ports():
            if port.is_external:
                continue
            where = [port.lid, f"0x{port.guid:016x}"]
            if port.path is not None:
                where.append(",".join(map(str, (0, *port.path))))
            for each in where:
                assert str(recorded.find_port(each).port) == str(fabric.find_port(each).port), each
        assert recorded.find_port().port.path == ()
        with pytest.raises(Unreachable):
            recorded.find_port(4711)


def test_what_was_not_read_is_an_error_with_the_reason(locked: Subnet) -> None:
    locked.silence("node05 mlx4_0", False)
    locked.faults.lose_next("reply", node=locked.node("node05 mlx4_0"), attribute=0x16, count=100)
    recorded = RecordedFabric(taken(locked))
    port = recorded.find_port("node05 mlx4_0")
    assert port.read_port_info().lid
    with pytest.raises(NotRecorded, match=r"P_KeyTable was not read when the snapshot was taken .*no reply"):
        port.read_p_keys()
    assert [each.attribute for each in recorded.sweep().troubles] == ["NodeInfo"]
    assert [each.attribute for each in recorded.sweep(p_keys=True).troubles] == ["NodeInfo", "P_KeyTable"]


# --- the secret ------------------------------------------------------------------------------------------------------


def test_the_secret_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "made" / "secret"
    assert load_fingerprints(path, create=False) is None
    first, second = load_fingerprints(path), load_fingerprints(path)
    assert first is not None
    assert second is not None
    assert first.id == second.id
    assert first.of(MKey(KEY)) == second.of(MKey(KEY)) != Fingerprints.generate().of(MKey(KEY))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    with pytest.raises(StoreError, match="other users"):
        load_fingerprints(path)


def test_a_secret_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    with pytest.raises(StoreError, match="0 bytes instead of 32"):
        load_fingerprints(path)
