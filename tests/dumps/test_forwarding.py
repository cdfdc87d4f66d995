"""Forwarding tables that other programs wrote: the routes of a snapshot that is made of files."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.dumps.forwarding import read_forwarding
from ibkeys.dumps.kinds import kind_of
from ibkeys.errors import FileFormatError
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.topology.forwarding import NO_PORT, ForwardingRoute, follow
from tests.dumps.bringing import DUMPS, bring, write

FILES = ("dump_fts.txt", "opensm-lfts.dump", "opensm.fdbs")
SWITCH = "0x0002c90200401000"
HEADING = f"Unicast lids [0x0-0x8] of switch Lid 7 guid {SWITCH} (a switch):\n"
ROWS = "".join(f"0x{lid:04x} 001\n" for lid in range(1, 9))


def route(snapshot: Snapshot, start: int = 1, end: int = 4) -> ForwardingRoute:
    source = snapshot.fabric.find_lid(start)
    assert source is not None
    return follow(source, end)


def table_of(*files: str | Path) -> dict[int, bytes] | None:
    switch = bring("keyed.cache", *files).fabric.find_lid(7)
    assert switch is not None
    return switch.node.forwarding


@pytest.mark.parametrize("file", FILES)
def test_packets_are_followed_by_the_tables_of_a_file(file: str, tmp_path: Path) -> None:
    save_snapshot(tmp_path / "s", bring("keyed.cache", file))
    for snapshot in (bring("keyed.cache", file), load_snapshot(tmp_path / "s")):
        found = route(snapshot)
        assert found.end == "arrives"
        assert [hop.out_port.num for hop in found.hops if hop.out_port is not None] == [1, 7, 1]


def test_all_files_have_the_same_tables() -> None:
    assert (
        table_of("dump_fts.txt") == table_of("opensm-lfts.dump") == table_of("opensm.fdbs") == table_of("ibroute.txt")
    )


def test_ibroute_of_one_switch_leaves_the_others_unread() -> None:
    assert route(bring("keyed.cache", "ibroute.txt")).end == "table not read"


@pytest.mark.parametrize("file", ["opensm-lfts.dump", "opensm.fdbs"])
def test_a_file_of_opensm_is_marked_and_a_switch_is_believed_first(file: str, tmp_path: Path) -> None:
    assert kind_of(DUMPS / file).is_sm
    assert any(
        "2 forwarding tables as OpenSM computed them" in each for each in bring("keyed.cache", file).fabric.notes
    )
    changed = write(tmp_path, (DUMPS / "dump_fts.txt").read_text().replace("0x0004 007", "0x0004 008"))
    table = table_of(file, changed)
    assert table is not None
    assert table[0][4] == 8


def test_lids_without_a_row_are_forwarded_nowhere(tmp_path: Path) -> None:
    table = table_of(write(tmp_path, f"{HEADING}0x0002 002 : (Channel Adapter)\n1 valid lids dumped \n"))
    assert table == {0: bytes([NO_PORT, NO_PORT, 2, *[NO_PORT] * 61])}
    ports = (f"0x{lid:04X} : {'002  : 01   : yes' if lid == 2 else 'UNREACHABLE'}\n" for lid in range(1, 9))
    unreachable = f"dump_ucast_routes: Switch {SWITCH}\n{''.join(ports)}"
    assert table_of(write(tmp_path, unreachable)) == table


def test_of_a_range_only_what_is_surely_whole_is_taken(tmp_path: Path) -> None:
    assert table_of(write(tmp_path, HEADING.replace("0x8", "0x5") + "0 valid lids dumped\n")) == {}
    later = bring("keyed.cache", write(tmp_path, HEADING.replace("0x0-", "0x3-") + "0 valid lids dumped\n"))
    assert route(later).end == "table not read"
    assert any("does not begin at LID 0" in note for note in later.fabric.notes)


def test_a_table_that_was_read_later_than_switch_info_may_be_longer(tmp_path: Path) -> None:
    rows = "".join(f"0x{lid:04x} 001\n" for lid in range(1, 0x46))
    files = ("keyed.cache", write(tmp_path, HEADING.replace("0x8", "0x45") + rows + "69 valid lids dumped \n"))
    switch = bring(*files).fabric.find_lid(7)
    assert switch is not None
    assert switch.node.switch_info is not None
    assert switch.node.switch_info.linear_fdb_top == 0x45
    assert switch.node.forwarding is not None
    assert set(switch.node.forwarding) == {0, 1}


def test_tables_of_switches_without_switch_info_are_left_out() -> None:
    notes = bring("ibnetdiscover.txt", "dump_fts.txt").fabric.notes
    assert any("2 forwarding tables left out: no file has the SwitchInfo of these switches" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (HEADING + ROWS, "cut off"),
        (HEADING + ROWS + HEADING, "cut off"),
        (HEADING + ROWS + "7 valid lids dumped \n", "another number of rows"),
        (HEADING + ROWS + "0x0008 001\n", "that it cannot have"),
        (HEADING + "0x0009 001\n", "that it cannot have"),
        (HEADING + "0x0001 256\n", "that it cannot have"),
        (HEADING.replace("0x8", "0xc000") + ROWS, "range of LIDs is more than"),
        (
            "".join(f"dump_ucast_routes: Switch 0x{each}\n{rows}" for each, rows in ((1, ROWS), (2, ROWS[:11]))),
            "cut off",
        ),
    ],
)
def test_what_is_no_whole_table_is_refused(text: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=error):
        bring("keyed.cache", write(tmp_path, text))


def test_headings_without_rows_do_not_fill_the_memory(tmp_path: Path) -> None:
    heading = HEADING.replace("0x8", "0xbfff") + "0 valid lids dumped\n"
    with pytest.raises(FileFormatError, match="more forwarding entries than any fabric has"):
        bring("keyed.cache", write(tmp_path, heading * 12_000))


@given(st.text(st.sampled_from("0x1fU [-]:()\n"), max_size=40), st.integers(0, len(HEADING + ROWS)))
def test_no_text_is_anything_but_read_or_refused(part: str, at: int) -> None:
    text = HEADING + ROWS + "8 valid lids dumped\n"
    with TemporaryDirectory() as folder:
        path = write(Path(folder), text[:at] + part + text[at:])
        try:
            found = read_forwarding(path, len(text) + 100).forwarding
        except FileFormatError:
            return
    assert all(len(table) <= 0xC000 for _, table in found)
