"""report DIR, as a user runs it."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from ibkeys.cli.audit.report_tables import what_changed
from tests.audit.looking import taken
from tests.audit.pages import Page
from tests.cli.conftest import KEY, Cli, run
from tests.fabricsim import subnet

ALWAYS = {"index.html", "audit.html", "matrix.html", "map-partition.svg", "map-level.svg", "map-finding.svg"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "report"


def names(place: Path) -> set[str]:
    return {each.name for each in place.iterdir()}


def shown(place: Path, name: str) -> str:
    return re.sub(r"\s+", " ", Page((place / name).read_text()).text["shown"])


def test_a_report_of_a_snapshot_has_every_page_and_the_first_leads_to_all(
    cli: Cli, tmp_path: Path, place: Path
) -> None:
    assert cli("snapshot", tmp_path / "a.db").code == 0
    done = run("report", place, "--from", tmp_path / "a.db")
    assert (done.code, done.err) == (1, "")  # as the audit ends
    assert names(place) == ALWAYS
    assert done.out == f"{place}: {', '.join(sorted(ALWAYS))}\n"
    links = [attrs["href"] for tag, attrs in Page((place / "index.html").read_text()).elements if tag == "a"]
    assert set(links) == ALWAYS - {"index.html"}
    assert "Failed" in shown(place, "index.html")
    assert "findings of the audit" in shown(place, "matrix.html")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_what_changed_and_what_was_done_are_pages_and_no_page_holds_a_key(
    cli: Cli, key_file: Path, tmp_path: Path, place: Path
) -> None:
    assert cli("snapshot", tmp_path / "a.db").code == 0
    assert cli("pkey-add", 3, "0x8021", "--yes").code == 0
    assert cli("pkey-add", 4, "0x8021", "--yes").code == 0
    assert cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 1, "--lease", 60, "--yes").code == 0
    assert cli("report", place, "--baseline", tmp_path / "a.db", "-K").code == 1
    assert names(place) == {*ALWAYS, "diff.html", "journal.html"}
    changed = shown(place, "diff.html")
    assert "P_Key 0x8021 added at index 12 portsnode[03-04] mlx4_0" in changed
    assert "M_Key: " in changed
    done = shown(place, "journal.html")
    assert done.count("pkey-add") == 2
    assert "pkey[1]: - -> 0x8021 1 portnode03 mlx4_0" in re.sub(r"(?<=-> 0x8021)", " ", done)
    assert "mkey-set" in done
    for page in place.iterdir():
        text = page.read_text().lower()
        assert f"{KEY:016x}" not in text
        assert str(KEY) not in text


def test_a_report_is_replaced_and_anything_else_stays(cli: Cli, tmp_path: Path, place: Path) -> None:
    assert cli("snapshot", tmp_path / "a.db").code == 0
    assert run("report", place, "--from", tmp_path / "a.db", "--fail-on", "never").code == 0
    assert run("report", place, "--from", tmp_path / "a.db", "--baseline", tmp_path / "a.db").code == 1
    assert names(place) == {*ALWAYS, "diff.html"}
    assert "Nothing changed" in shown(place, "diff.html")
    (place / "notes.txt").write_text("mine")
    refused = run("report", place, "--from", tmp_path / "a.db")
    assert refused.code == 3
    assert "exists and is not a report that ibkeys wrote" in refused.error
    assert (place / "notes.txt").read_text() == "mine"


def test_a_partial_sweep_is_written_said_and_ends_with_3(cli: Cli, key_file: Path, tmp_path: Path, place: Path) -> None:
    assert cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes").code == 0
    done = cli("report", place, "--keystore", tmp_path / "empty", "-t", 10)
    assert done.code == 3
    assert "incomplete" in shown(place, "index.html")
    assert "did not answer, behind port" in (place / "map-finding.svg").read_text()


def test_maps_are_drawn_by_matrix_too(cli: Cli, tmp_path: Path) -> None:
    assert cli("snapshot", tmp_path / "a.db").code == 0
    by = {
        each: run("matrix", "--from", tmp_path / "a.db", "-f", "map", "--color-by", each)
        for each in ("partition", "level")
    }
    assert all(each.out.startswith("<?xml") and each.code == 0 for each in by.values())
    assert "no M_Key: any host can set anything" in by["level"].out
    assert "0x7fff full" in by["partition"].out


def test_a_renamed_node_is_one_move_and_no_node_that_came_or_went() -> None:
    net = subnet("two-switch")
    before, after = taken(net), taken(net)
    (renamed,) = after.fabric.find_name("node02 mlx4_0")
    renamed.description_raw = b"node99 mlx4_0".ljust(64, b"\0")
    text, tables = what_changed(before, after)
    (moved,) = [table for table in tables if table.title == "Moved"]
    (line,) = moved.lines
    assert "node02 mlx4_0" in line[0]
    assert "node99 mlx4_0" in line[0]
    assert text.headline.startswith("1 move")
    assert not {"Nodes", "Links"} & {table.title for table in tables}
