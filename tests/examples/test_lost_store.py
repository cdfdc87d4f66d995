"""docs/howto/lost-store.md, typed through: each of its ways ends in a tool that works and reads every port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.sample import in_soak

PAGE = DATA.parents[1] / "docs" / "howto" / "lost-store.md"
NET = DATA / "fabrics" / "two-switch.net"
KEYS = ("--per-port", "--override", "links-initialize", "--yes")
PLACES = "/var/backups/ibkeys.backup", "/var/cache/opensm"


def command_under(heading: str, home: Path) -> list[str]:
    """Return the words of the command that the page shows under *heading*, with its files in *home*."""
    [shown] = re.findall(rf"^## {heading}\n.*?```sh\nibkeys (.*?)\n```", PAGE.read_text(), re.S | re.M)
    return [str(home / Path(word).name) if word in PLACES else word for word in shown.split()]


def typed(home: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run ``ibkeys WORDS`` as a user would."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "IBKEYS_BACKEND": f"sim:{NET},state={home}/fabric"}
    command = [Path(sys.executable).with_name("ibkeys"), *map(str, words)]
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a fabric whose ports have keys, key files and a backup."""
    for words in (
        ("mkey-deploy", "--protect", 2, "--lease", 60, *KEYS),
        ("mkey-rotate", *KEYS),
        ("keystore", "export", tmp_path / "opensm"),
        command_under("Save both in time", tmp_path),
    ):
        done = typed(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.mark.parametrize(
    ("heading", "lost"),
    [
        in_soak("The key store is lost", ["fabric.keys"]),
        in_soak("The journal is lost", ["fabric.journal"]),
        ("Both are lost", ["fabric.keys", "fabric.journal"]),
        ("There is no backup", ["fabric.keys"]),
        in_soak("There is no backup", ["fabric.keys", "fabric.journal"]),
    ],
)
def test_each_way_leaves_a_working_tool(home: Path, heading: str, lost: list[str]) -> None:
    for name in lost:
        (home / name).unlink()
    done = typed(home, *command_under(heading, home))
    assert done.returncode == 0, done.stderr
    for words in (command_under("Check it", home), ["mkey-rotate", *KEYS], ["mkey-show", "--all"]):
        done = typed(home, *words)
        assert done.returncode == 0, done.stderr


def test_a_journal_is_lost_and_the_key_store_has_later_keys(home: Path) -> None:
    """Going on without the former journal, as the page says."""
    assert typed(home, "mkey-rotate", *KEYS).returncode == 0
    (home / "fabric.journal").unlink()
    assert typed(home, *command_under("The journal is lost", home)).returncode == 4
    for words in (["mkey-show", "--all"], ["mkey-rotate", *KEYS], ["mkey-show", "--all"]):
        done = typed(home, *words)
        assert done.returncode == 0, done.stderr
