"""New sm_key and sa_key on three made-up hosts: all get the same, and one SM stays master."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ibkeys.keys.smkey import SMKey
from ibkeys.mad.const import SMState
from tests.smkeys.madeup import CONF, POLLING, MadeUpSite
from tests.smkeys.outcomes import assert_done, state_of

A, B = SMKey(0xA1A2A3A4A5A6A7B8), SMKey(0xB1B2B3B4B5B6B7C8)
Patch = pytest.MonkeyPatch


def test_all_hosts_get_the_same_new_keys(three: MadeUpSite, monkeypatch: Patch) -> None:
    change = three.run(monkeypatch)
    assert_done(three)
    assert min(change.managers.takeover_seconds) == POLLING
    words = [step.split()[0] for step in three.steps]
    last = {word: len(words) - 1 - words[::-1].index(word) for word in words}
    assert max(last["stage"], last["close"]) < words.index("put")
    assert last["put"] < words.index("signal")
    assert [step for step in three.steps if step.startswith("signal")] == [
        "signal node05",
        "signal node06",
        "signal node01",
    ]
    for host in three.hosts:
        assert host.conf.read_bytes().startswith(CONF.format(host.priority).encode())
        assert (host.conf.stat().st_mode & 0o777, host.log.stat().st_mode & 0o777) == (0o600, 0o600)
    assert three.time > POLLING


def test_the_keys_are_in_the_store_before_any_file_and_never_in_the_journal(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    seen = []

    def look(step: str) -> None:
        if step.startswith("stage"):
            seen.append(state_of(three))

    three.before_each = look
    three.run(monkeypatch)
    assert seen[0][:2] == [("sm_key", "pending"), ("sa_key", "pending")]
    data = (three.folder / "journal.db").read_bytes()
    for key in (row.sm_key for row in three.stored()):
        assert key.hex().encode() not in data
        assert key.hex()[2:].encode() not in data
    with three.journal() as journal:
        [operation] = journal.list_operations()
        files = journal.files(operation.id)
        assert [(step.name, step.status) for step in journal.steps(operation.id)] == [("new SM keys", "done")]
    assert [bool(re.search(rb"sm_key @sm_key:[0-9a-f]{32}:x16l", entry.image.after or b"")) for entry in files] == [
        True
    ] * 3
    assert [entry.image.host for entry in files] == ["sm1", "sm2", ""]


def test_a_log_that_is_thrown_away_is_not_closed(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[0].words += ["-f", "/dev/null"]
    before = Path("/dev/null").stat().st_mode
    three.run(monkeypatch)
    assert_done(three)
    assert Path("/dev/null").stat().st_mode == before


def test_a_host_that_was_named_and_runs_no_opensm_is_named(three: MadeUpSite, monkeypatch: Patch) -> None:
    """It would come up with the former keys later, and become a second master."""
    three.hosts[2].runs = False
    three.net.set_sm(three.hosts[2].node, SMState.NOT_ACTIVE, 1, 1, 1)
    change = three.run(monkeypatch)
    assert [note for note in change.notes if note.startswith("host sm2: no OpenSM runs there: ")]


def test_a_second_change_replaces_the_keys_of_the_first(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.run(monkeypatch, {"sm_key": A, "sa_key": B})
    three.run(monkeypatch)
    assert_done(three)
    assert [(row.kind, row.state, row.sm_key) for row in three.stored()][:2] == [
        ("sm_key", "former", A),
        ("sa_key", "former", B),
    ]


def test_one_sm_alone_is_not_watched_for_long(three: MadeUpSite, monkeypatch: Patch) -> None:
    for host in three.hosts[1:]:
        host.runs = False
        three.net.set_sm(host.node, None)
    change = three.run(monkeypatch)
    assert change.managers.takeover_seconds == []
    assert three.time < 2
    assert len({row.sm_key for row in three.stored() if row.state == "current"}) == 2


def test_a_dry_run_changes_nothing(three: MadeUpSite, monkeypatch: Patch) -> None:
    change = three.run(monkeypatch, dry_run=True)
    assert [each["changes"] for each in change.to_json()["files"]] == [{"sm_key": "default", "sa_key": "default"}] * 3
    assert three.confs() == [CONF.format(9 - number).encode() for number in range(3)]
    assert not (three.folder / "keys.db").exists()
    assert not any(step.split()[0] in ("stage", "put", "signal", "close") for step in three.steps)
