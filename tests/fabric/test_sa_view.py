"""What the SA says of every port, kept and read again; and an SA that says too much, too little, or two things."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.client.sa import SaClient
from ibkeys.errors import MalformedMad, StoreError
from ibkeys.fabric.sa_view import SaView, ask_sa_view
from ibkeys.fabric.snapshot import Snapshot, take_snapshot
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.records import PKeyTableRecord, SaRecord
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.umad.port import Incoming
from tests.client.sasim import SA_KEY, Recorder, with_sm
from tests.fabric.older import SINCE_3
from tests.fabricsim import tool

KEY = 0x8F3C_91D7_E2A6_5B40


class Lying:
    """An SA that gives what a test puts there, in the place of what the true one says."""

    def __init__(self, true: SaClient, lie: Callable[[type[SaRecord], list[Any]], list[Any]]) -> None:
        self.true, self.lie = true, lie

    def get_table(self, record: type[SaRecord], **components: Any) -> list[Any]:
        return self.lie(record, self.true.get_table(record, **components))


def view_of(lie: Callable[[type[SaRecord], list[Any]], list[Any]]) -> tuple[Topology, SaView]:
    _, fabric = with_sm()
    found = fabric.sweep(p_keys=True)
    return found, ask_sa_view(cast(SaClient, Lying(fabric.sa(SA_KEY), lie)), found)


def same_as_nodes(found: Topology, view: SaView) -> set[Port]:
    return {port for port in found.ports() if port.p_key_raw and view.of(port).p_key_raw == port.p_key_raw}


def test_the_simulated_sa_says_what_the_ports_say() -> None:
    net, fabric = with_sm()
    net.port("db02 mlx5_0", 1).p_keys = [0xFFFF, 0x8010, 0, 0x0020]
    found = fabric.sweep(p_keys=True)
    view = ask_sa_view(fabric.sa(SA_KEY), found)
    assert {name: each.outcome for name, each in view.answers.items()} == {
        "PortInfoRecord": "answered",
        "P_KeyTableRecord": "answered",
    }
    assert not any(each.detail for each in view.answers.values())
    assert same_as_nodes(found, view) == {port for port in found.ports() if port.p_key_raw}
    for port in found.ports():
        if port.info is not None:
            shown = view.of(port).port_info or b""
            # LocalPortNum says by which port it was asked
            assert (shown[:28], shown[29:]) == (bytes(8) + port.info[8:28], port.info[29:])


def test_a_stranger_gets_no_tables() -> None:
    _, fabric = with_sm()
    found = fabric.sweep(p_keys=True)
    view = ask_sa_view(fabric.sa(), found)
    assert (view.answers["PortInfoRecord"].outcome, view.answers["P_KeyTableRecord"].outcome) == ("answered", "refused")
    assert "sm_key=" in view.answers["P_KeyTableRecord"].detail
    assert not same_as_nodes(found, view)


def test_a_wrong_sm_key_is_silence_and_is_waited_for_once() -> None:
    _, fabric = with_sm()
    found = fabric.sweep(p_keys=True)
    client = fabric.sa(0x666)
    view = ask_sa_view(client, found)
    assert {each.outcome for each in view.answers.values()} == {"failed"}
    assert client.statistics.sent == client.timing.retries + 1
    assert "a wrong SM_Key" in view.answers["P_KeyTableRecord"].detail


def test_no_m_key_is_kept() -> None:
    net, _ = with_sm()
    for node in net.nodes:
        for port in node.end_ports:
            port.info[:8] = KEY.to_bytes(8)
    with tool(net, m_key=KEY) as fabric:
        view = ask_sa_view(fabric.sa(SA_KEY), fabric.sweep(p_keys=True))
    assert view.ports
    assert not any(KEY.to_bytes(8) in (said.port_info or b"") for said in view.ports.values())


# --- what is not believed --------------------------------------------------------------------------------------------


def test_records_of_nobodys_ports_are_counted_and_dropped() -> None:
    def flood(record: type[SaRecord], true: list[Any]) -> list[Any]:
        lid = "lid" if record is PKeyTableRecord else "endport_lid"
        return [record.new(**{lid: 1 + number % 0xBFFF, "port_num": 200}) for number in range(100_000)] + true

    found, view = view_of(flood)
    assert same_as_nodes(found, view)
    assert view.answers["P_KeyTableRecord"].detail.startswith("100000 for no port")
    assert len(view.ports) <= len(list(found.ports()))


def test_of_two_things_neither_is_believed() -> None:
    def twice(record: type[SaRecord], true: list[Any]) -> list[Any]:
        other = {"p_keys": [0x8666] * 32} if record is PKeyTableRecord else {"port_state": 1}
        return [*true, true[0].replace(**other), true[0]]

    _, view = view_of(twice)
    [contradicted] = [port for port in view.ports if view.of(port).port_info is None]
    assert view.of(contradicted).p_key_raw is None
    assert "1 ports with contradictory records" in view.answers["PortInfoRecord"].detail
    assert "1 ports with contradictory records" in view.answers["P_KeyTableRecord"].detail


def test_a_part_of_a_table_is_not_taken_for_the_whole() -> None:
    def cut(record: type[SaRecord], true: list[Any]) -> list[Any]:
        return [each for each in true if record is not PKeyTableRecord or each.block_num == 0]

    found, view = view_of(cut)
    small = {port for port in found.ports() if port.p_key_raw and (port.capacity or 0) <= 32}
    assert same_as_nodes(found, view) == small
    assert "only in part" in view.answers["P_KeyTableRecord"].detail


def test_blocks_are_numbered_in_either_byte_order() -> None:
    """OpenSM 3.3.23 gives 256 for block 1."""

    def swapped(record: type[SaRecord], true: list[Any]) -> list[Any]:
        if record is not PKeyTableRecord:
            return true
        return [each.replace(block_num=int.from_bytes(each.block_num.to_bytes(2), "little")) for each in true]

    found, view = view_of(swapped)
    assert max(port.capacity or 0 for port in found.ports()) > 32
    assert same_as_nodes(found, view) == {port for port in found.ports() if port.p_key_raw}


def test_blocks_past_the_table_are_dropped() -> None:
    def more(record: type[SaRecord], true: list[Any]) -> list[Any]:
        return true + [each.replace(block_num=0x1717) for each in true if record is PKeyTableRecord]

    found, view = view_of(more)
    assert same_as_nodes(found, view) == {port for port in found.ports() if port.p_key_raw}
    assert "past the end of its table" in view.answers["P_KeyTableRecord"].detail


def test_two_ports_with_one_lid_are_not_told_apart() -> None:
    net, fabric = with_sm()
    one, other = net.port("db02 mlx5_0", 1), net.port("db03 mlx5_0", 1)
    other.info[16:18] = one.info[16:18]
    found = fabric.sweep(p_keys=True)
    view = ask_sa_view(fabric.sa(SA_KEY), found)
    twins = [port for port in found.end_ports() if port.guid in (one.guid, other.guid)]
    assert len(twins) == 2
    assert all(view.of(port).p_key_raw is None for port in twins)


class CutShort(Recorder):
    """An SA whose answers end *after* bytes, segment by segment."""

    after = 0

    def recv(self, timeout: float) -> list[Incoming]:
        came = super().recv(timeout)
        return [each._replace(mad=each.mad[: self.after]) if each.mad[1] == 3 else each for each in came]


@pytest.mark.parametrize("after", [0, 24, 40, 56, 60, 255])
def test_answers_that_are_cut_break_nothing(after: int) -> None:
    net, fabric = with_sm()
    found = fabric.sweep(p_keys=True)
    port = CutShort(net, net.nodes[0])
    port.sent, port.refuse, port.after = [], [], after
    view = ask_sa_view(SaClient(port, sm_key=SMKey(SA_KEY)), found)
    assert {each.outcome for each in view.answers.values()} == {"failed"}
    assert not view.ports


@given(data=st.data())
def test_no_answer_of_any_records_breaks_it(data: st.DataObject) -> None:
    _, fabric = with_sm("two-switch")
    found = fabric.sweep(p_keys=True)
    lids = st.sampled_from([port.lid or 0 for port in found.end_ports()]) | st.integers(0, 0xFFFF)

    def any_records(record: type[SaRecord], _true: list[Any]) -> Sequence[Any]:
        heads = data.draw(st.lists(st.tuples(lids, st.integers(0, 3), st.integers(0, 255)), max_size=30))
        return [
            record((lid.to_bytes(2) + block.to_bytes(2) + bytes([num, 0, 0, 0])).ljust(record.size, b"\x81"))
            for lid, block, num in heads
        ]

    view = ask_sa_view(cast(SaClient, Lying(fabric.sa(SA_KEY), cast(Any, any_records))), found)
    for port in view.ports:
        assert len(view.of(port).p_key_raw or b"") in (0, 2 * (port.capacity or 0))


def test_an_answer_that_is_no_table_is_a_failure() -> None:
    def broken(record: type[SaRecord], _true: list[Any]) -> list[Any]:
        raise MalformedMad("not a table of complete records")

    _, view = view_of(broken)
    assert {each.outcome for each in view.answers.values()} == {"failed"}


# --- in a snapshot ---------------------------------------------------------------------------------------------------


def with_view(key: int = SA_KEY) -> Snapshot:
    _, fabric = with_sm()
    taken = take_snapshot(fabric, Fingerprints.generate())
    taken.sa_view = ask_sa_view(fabric.sa(key), taken.fabric)
    return taken


def said(taken: Snapshot) -> dict[str, tuple[bytes | None, bytes | None]]:
    assert taken.sa_view is not None
    return {str(port): (each.port_info, each.p_key_raw) for port, each in taken.sa_view.ports.items()}


@pytest.mark.parametrize("key", [SA_KEY, 0])
def test_a_snapshot_keeps_the_word_of_the_sa(tmp_path: Path, key: int) -> None:
    taken = with_view(key)
    save_snapshot(tmp_path / "a.db", taken)
    again = load_snapshot(tmp_path / "a.db")
    assert taken.sa_view is not None
    assert again.sa_view is not None
    assert again.sa_view.answers == taken.sa_view.answers
    assert said(again) == said(taken)


def test_where_nobody_asked_there_is_no_word(tmp_path: Path) -> None:
    _, fabric = with_sm()
    save_snapshot(tmp_path / "a.db", take_snapshot(fabric, Fingerprints.generate()))
    assert load_snapshot(tmp_path / "a.db").sa_view is None


def test_a_snapshot_of_the_first_version_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    path, taken = tmp_path / "a.db", with_view()
    save_snapshot(path, taken)
    with sqlite3.connect(path) as rows:
        rows.executescript(f"{SINCE_3} DROP TABLE sa_answers; DROP TABLE sa_ports; PRAGMA user_version = 1")
    rows.close()
    before = path.read_bytes()
    old = load_snapshot(path)
    assert old.sa_view is None
    assert [str(port) for port in old.fabric.ports()] == [str(port) for port in taken.fabric.ports()]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE sa_answers SET outcome = 'certainly'",
        "UPDATE sa_ports SET port = port + 100000",
        "UPDATE sa_ports SET p_key_table = x'80'",
        "UPDATE sa_ports SET port_info = x'80'",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 1",
    ],
)
def test_a_word_that_no_sa_can_say_is_damage(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.db"
    save_snapshot(path, with_view())
    with sqlite3.connect(path) as rows:
        rows.execute(damage)
    rows.close()
    with pytest.raises(StoreError):
        load_snapshot(path)
