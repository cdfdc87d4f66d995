"""What doctor says of a host's key files and of OpenSM's configuration."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ibkeys.doctor.host_facts import check_host, check_key_files, check_steps
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.managers.host_facts import key_files_in
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import Cost, Passphrase
from ibkeys.umad.probe import ProbeResult
from tests.host.facts import KEY, facts, made

GOOD = f"m_key {KEY:#x}\nm_key_protection_level 2\nm_key_lease_period 60\nsm_key 7\nsa_key 8\n"


def checks(tmp_path: Path, conf: str) -> list[ProbeResult]:
    made(tmp_path / "etc" / "opensm.conf", conf)
    found = list(check_host(facts(tmp_path)))
    assert not [check for check in found if f"{KEY:x}" in repr(check)]
    return found


def test_a_configuration_as_it_should_be(tmp_path: Path) -> None:
    found = checks(tmp_path, GOOD)
    assert {check.ok for check in found} == {True}
    assert "m_key is set, level 2, lease 60 s" in found[-1].detail


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("m_key 0xffffffffffffffff", "all ones"),
        ("m_key 0x", "m_key: the value is not a number"),
        ("m_key 0", "no effect while m_key is 0"),
        ("m_key_protection_level 0", "every host can read it"),
        ("m_key_lease_period 0", "stays locked"),
        ("m_key_lookup FALSE", "uses no guid2mkey"),
    ],
)
def test_each_mistake_is_a_problem_of_its_own(tmp_path: Path, line: str, words: str) -> None:
    problems = [check for check in checks(tmp_path, f"{GOOD}{line}\n") if check.ok is False]
    assert words in problems[0].detail
    assert problems[0].advice


def test_well_known_sm_key_and_sa_key_are_notes(tmp_path: Path) -> None:
    found = checks(tmp_path, "m_key 0\nsa_key 5\n")
    assert [(check.name, check.ok) for check in found] == [("opensm.conf", True)] * 2 + [("opensm.conf", None)]
    assert "sm_key is OpenSM's default 1" in found[-1].detail
    assert not [check for check in found if check.ok is False]


def test_files_that_others_may_read_or_replace(shared: Path) -> None:
    made(shared / "a" / "guid2mkey", f"0x1 {KEY:#x}\n\n", 0o640)
    made(shared / "b" / "guid2mkey", f"0x1 {KEY:#x}\n\n")
    (shared / "b").chmod(0o777)
    made(shared / "c" / "guid2mkey", f"0x1 {KEY:#x}\n\n")
    made(shared / "d" / "guid2mkey", "0x1 0x0\n\n", 0o644)
    made(shared / "e" / "guid2mkey", " x\n", 0o644)
    found = list(check_key_files(key_files_in([shared / name for name in "abcde"])))
    assert [check.ok for check in found] == [False, False, True, False]
    assert "other users may read it (mode 0640)" in found[0].detail
    assert "other users can replace it" in found[1].detail
    assert "it is not known whether it holds a key" in found[3].detail
    (shared / "b").chmod(0o755)
    shared.chmod(0o700)  # as the folder of OpenSM's key files is after a deployment
    assert {check.ok for check in check_key_files(key_files_in([shared / name for name in "abcde"]))} == {True, None}


def test_devices_that_everybody_may_open_and_the_kernels_switch(tmp_path: Path) -> None:
    made(tmp_path / "dev" / "umad0", mode=0o666)
    made(tmp_path / "dev" / "umad1", mode=0o660)
    found = list(check_host(facts(tmp_path, run=lambda command: "privileged-qkey on")))
    assert [(check.name, check.ok) for check in found] == [("device modes", False), ("privileged Q_Keys", False)]
    assert "umad1" not in found[0].detail


# --- in step with the key store ---------------------------------------------------------------------------------------

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
A, B = MKey(KEY), MKey(5)


def steps(store: KeyStore, folder: Path, written: int, *records: tuple[int, MKey]) -> list[tuple[bool | None, str]]:
    file = made(folder / "guid2mkey", "".join(f"0x{guid:016x} {key.hex()}\n\n" for guid, key in records))
    os.utime(file, (NOON.timestamp() + written,) * 2)
    return [(check.ok, check.detail) for check in check_steps(store, [folder])]


def test_key_files_and_key_store_out_of_step(tmp_path: Path) -> None:
    store = KeyStore(None, clock=lambda: NOON)
    for guid in (1, 2):
        store.promote(store.put_pending(guid, guid, 0, KeySetting(A, 2, 60), None))
    assert steps(store, tmp_path, 60, (1, A), (2, A), (3, B))[0][0] is True
    [(ok, text)] = steps(store, tmp_path, 60, (1, A))
    assert (ok, "no key for 1 port" in text) == (False, True)
    [(ok, text)] = steps(store, tmp_path, 60, (1, A), (2, MKey(0)))
    assert (ok, "no key for 1 port with one in the key store, and an older one for 0:" in text) == (False, True)
    [(ok, text)] = steps(store, tmp_path, -60, (1, A), (2, B))
    assert (ok, "older one for 1:" in text) == (False, True)
    [(ok, text)] = steps(store, tmp_path, 60, (1, A), (2, B))
    assert (ok, "another key for 1 port, written after" in text) == (False, True)


def test_an_encrypted_key_store_is_not_compared_and_a_damaged_file_is_a_problem(tmp_path: Path) -> None:
    with KeyStore(tmp_path / "keys.db") as store:
        store.put_imported(1, A)
        store.encrypt(Passphrase(lambda: "x"), Cost(n=4))
    with KeyStore(tmp_path / "keys.db") as store:
        [(ok, text)] = steps(store, tmp_path, 0, (1, A))
        assert (ok, "encrypted" in text) == (None, True)
    made(tmp_path / "guid2mkey", " broken\n")
    assert [check.ok for check in check_steps(KeyStore(None), [tmp_path])] == [False]
