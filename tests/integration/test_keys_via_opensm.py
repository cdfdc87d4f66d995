"""The M_Key through a real OpenSM: first key, rotation, off, and back, by its options file and SIGHUP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.corpus import DATA
from tests.integration.keyed_opensm import CLOSED, CONF, KeyedOpensm, keyed

NET = DATA / "fabrics" / "two-switch.net"


@pytest.fixture
def opensm() -> Iterator[KeyedOpensm]:
    with keyed(NET) as running:
        yield running


def only(found: set[tuple[int, int, int]]) -> tuple[int, int, int]:
    assert len(found) == 1, found
    return found.pop()


def test_no_key_then_one_then_another_then_none(opensm: KeyedOpensm) -> None:
    code, said = opensm.ibkeys("mkey-deploy", *CLOSED)
    assert code == 0, said
    first, level, lease = only(opensm.keys())
    assert (level, lease) == (2, 60)
    assert first.bit_length() > 32
    code, said = opensm.ibkeys("mkey-rotate")
    assert code == 0, said
    assert "whether OpenSM" not in said, "that it has read what mkey-deploy wrote was proven"
    second, level, lease = only(opensm.keys())
    assert (level, lease) == (2, 60)
    assert second not in (0, first)
    code, said = opensm.ibkeys("mkey-remove", "--leave-open")
    assert code == 0, said
    assert only(opensm.keys()) == (0, 0, 0)
    opensm.assert_nothing_was_lost()
    text = opensm.conf.read_text()
    assert text.startswith("sweep_interval 0\n" + CONF)
    assert text.endswith("m_key 0x0000000000000000\nm_key_protection_level 0\nm_key_lease_period 0\n")
    assert opensm.mode(opensm.conf) == 0o600


def test_it_says_through_whom_and_in_which_steps(opensm: KeyedOpensm) -> None:
    asked = ("mkey-deploy", *CLOSED, "--via", "opensm", "--dry-run")
    done = opensm.served.ibkeys(*asked)
    assert done.returncode == 1, done.stdout + done.stderr
    first, *_ = done.stdout.splitlines()
    assert first == "8 ports to change, OpenSM sets all of them"
    assert f"  through the master, OpenSM (process {opensm.running.process.pid}): {opensm.conf}\n" in done.stdout
    assert "step 4 of 4: level 2" in done.stderr
    done = opensm.served.ibkeys(*asked, "-f", "json")
    assert json.loads(done.stdout.splitlines()[-1])["summary"]["via"] == "opensm"
    assert opensm.keys() == {(0, 0, 0)}


def test_by_own_sets_it_names_the_command_that_lasts(opensm: KeyedOpensm) -> None:
    done = opensm.served.ibkeys("mkey-deploy", "--via", "direct", "--same", *CLOSED, "--yes")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "`ibkeys mkey-deploy --via opensm --protect 2 --lease 60`" in done.stderr
    code, said = opensm.ibkeys("mkey-deploy", *CLOSED)
    assert code == 0, said
    done = opensm.served.ibkeys("mkey-remove", "--via", "direct", "--yes")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "`ibkeys mkey-remove --via opensm`" in done.stderr


def test_what_another_administrator_rotated_since_is_not_taken_back(opensm: KeyedOpensm) -> None:
    """Each has a key store of his own; the second one takes the keys that OpenSM has given."""
    folder = opensm.served.folder
    other = ("--keystore", folder / "other" / "keys.db", "--journal", folder / "other" / "journal.db")
    code, said = opensm.ibkeys("mkey-deploy", *CLOSED)
    assert code == 0, said
    done = opensm.served.ibkeys("keystore", "import", folder, "--keystore", folder / "other" / "keys.db")
    assert done.returncode == 0, done.stdout + done.stderr
    code, said = opensm.ibkeys("mkey-rotate", *other)
    assert code == 0, said
    before = opensm.keys(), opensm.conf.read_bytes(), opensm.running.heavy_sweeps
    code, said = opensm.ibkeys("undo", "1")
    assert code == 4, said
    assert "says another M_Key, level 2, lease 60 s (changed 20" in said
    assert "nothing to change" not in said
    for words, why in {("resume", "1"): "is not open", ("resume", "1", "--overtaken"): "has ended"}.items():
        code, said = opensm.ibkeys(*words)
        assert (code in (2, 3), why in said) == (True, True), said
    assert (opensm.keys(), opensm.conf.read_bytes(), opensm.running.heavy_sweeps) == before
    opensm.assert_nothing_was_lost()
