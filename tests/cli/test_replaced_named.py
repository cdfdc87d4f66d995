"""discover, diff and audit name an adapter that was likely replaced, and the command for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.corpus import DATA

LINE = "HCA replaced: 'node02 mlx4_0', the name is the same, 0x0002c903000a1020 -> 0x0002c903000a6020 at MF0;switch-a"
NOTE = "1 adapter took the place and the name of another: if it was replaced, `ibkeys replace --baseline {}` gives"


@pytest.fixture
def monday(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a snapshot from before the adapter of node02 was replaced."""
    path, net = tmp_path / "monday.db", tmp_path / "replaced.net"
    assert cli("snapshot", path).code == 0
    net.write_text((DATA / "fabrics" / "two-switch.net").read_text().replace("c903000a102", "c903000a602"))
    monkeypatch.setenv("IBKEYS_BACKEND", f"sim:{net}")
    return path


def test_the_likely_pair_is_named_with_its_command(cli: Cli, monday: Path) -> None:
    tuesday = monday.with_name("tuesday.db")
    assert cli("snapshot", tuesday).code == 0
    for words in (
        ("discover", "--baseline", monday),
        ("discover", "--baseline", monday, "--from", tuesday),
        ("diff", monday, tuesday),
        ("audit", "--baseline", monday),
    ):
        result = cli(*words)
        assert LINE in result.out, words
        assert NOTE.format(monday) in " ".join(result.err.split("\n")), words
    [pair] = cli("discover", "--baseline", monday, "-f", "json").json["replaced"]
    assert (pair["before"]["node_guid"], pair["node_guid"]) == ("0x0002c903000a1020", "0x0002c903000a6020")


def test_without_a_pair_nothing_is_said(cli: Cli, monday: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = monday.with_name("renamed.net")
    renamed.write_text((monday.with_name("replaced.net")).read_text().replace("node02 mlx4_0", "spare mlx4_0"))
    monkeypatch.setenv("IBKEYS_BACKEND", f"sim:{renamed}")
    result = cli("discover", "--baseline", monday)
    assert "HCA replaced" not in result.out
    assert "ibkeys replace" not in result.err
    assert cli("discover", "-f", "json").json["replaced"] is None
    assert cli("discover", "--names", "--baseline", monday).error == "--baseline and --names exclude each other"
