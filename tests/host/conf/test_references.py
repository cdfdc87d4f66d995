"""What the journal keeps of an opensm.conf: no key, and every byte comes back."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, KeyGone, StoreError, StoreSealed
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.opensm.references import key_references, size_of_recorded, without_keys
from ibkeys.store.keystore.key_table import KeyTable
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.schema import KEYSTORE_SCHEMA
from ibkeys.store.keystore.sealing import Cost, Passphrase
from ibkeys.store.keystore.sm_keys import SmKeys

A, B, C = 0x83F1C05E9A2D7B46, 0x1122334455667788, 0x99AABBCCDDEEFF00
CONF = f"""\
# OpenSM of the first host; m_key was {C:#x} until May
m_key {A:#018x}
m_key_lease_period 60
sm_key "{B}"  # see above
sa_key 1
sm_priority 14
""".encode()


@pytest.fixture
def store() -> KeyStore:
    return KeyStore(None)


def numbered(kept: bytes, store: KeyStore) -> bytes:
    """Return what the journal keeps with the number of each row in place of its random name, for comparing."""
    names = {
        name: ref for ref, name in [*SmKeys(store).names().items(), *KeyTable(store, "subnet_keys").names().items()]
    }
    return re.sub(rb":([0-9a-f]{32}):", lambda found: b":%d:" % names[found[1].decode()], kept)


def test_keys_are_references_and_come_back(store: KeyStore) -> None:
    contents = key_references(store)
    kept = contents.record(CONF)
    assert numbered(kept, store).splitlines() == [
        b"# OpenSM of the first host; m_key was @other:1:x16l until May",
        b"m_key @m_key:1:x16l",
        b"m_key_lease_period 60",
        b'sm_key "@sm_key:2:d19"  # see above',
        b"sa_key 1",
        b"sm_priority 14",
    ]
    assert contents.restore(kept) == CONF
    assert contents.record(CONF) == kept
    assert store.subnet_keys() == [MKey(A)]
    assert [(row.kind, row.state, row.sm_key) for row in SmKeys(store).rows()] == [
        ("other", "imported", SMKey(C)),
        ("sm_key", "imported", SMKey(B)),
    ]


def test_a_person_sees_no_key(store: KeyStore) -> None:
    shown = key_references(store).mask(CONF)
    assert shown.count(b"(not shown)") == 3
    assert b"m_key_lease_period 60\n" in shown
    assert b"sa_key 1\nsm_priority 14\n" in shown
    assert without_keys(f"guid {B:#x}\n# older: {C:#x}, 2026\n".encode()) == (
        f"guid {B:#x}\n# older: (not shown), 2026\n".encode()
    )


@pytest.mark.parametrize("end", [b"-5566", b"+7_8", b"x12", b"-0x55-66"])
@pytest.mark.parametrize("start", [b"0x1122334455667788", b"1122334455667788", b"aabbccddeeff0011"])
def test_a_person_sees_nothing_of_a_malformed_key(start: bytes, end: bytes) -> None:
    shown = without_keys(b"m_key " + start + end + b" # new\nsm_key 0x99aabbccddeeff00\n")
    assert shown == b"m_key (not shown) # new\nsm_key (not shown)\n"


def test_rows_that_the_store_has_are_referred_to(store: KeyStore) -> None:
    keys = SmKeys(store)
    store.put_subnet_key(MKey(A), "new")
    refs = [keys.put_pending("sm_key", SMKey(B)), keys.put_pending("sa_key", SMKey(C))]
    data = f"sm_key {B:#x}\nsa_key {C:#x}\n# it was {A:#X}\n".encode()
    kept = key_references(store).record(data)
    assert (
        numbered(kept, store)
        == f"sm_key @sm_key:{refs[0]}:x16l\nsa_key @sa_key:{refs[1]}:x16l\n# it was @m_key:1:x16Uu\n".encode()
    )
    assert key_references(store).restore(kept) == data
    assert len(keys.rows()) == 2


def test_a_superseded_m_key_is_not_tried_on_ports(store: KeyStore) -> None:
    key_references(store).record(f"m_key {A}\nm_key {B}\n# m_key {C}\n".encode())
    assert store.subnet_keys() == [MKey(B)]
    key_references(store).record(f"m_key {A}\nm_key 0\n".encode())
    assert store.subnet_keys() == [MKey(B)]


SPELLED = [
    *(f"{A:#x}", f"{A:#X}", f"0x{A:X}", f"0X{A:x}", "0x83f1C05e9A2d7B46", f"0x000{A:x}", f"{A}", f"+{A}", f"0{A:o}"),
    *(f"00{A:o}", "-1", "-0x1", "-01", f"-{(1 << 64) - A}", f"+0x{A:x}", "5", "0x5", "05", "0x0005"),
]
LINES = ["m_key {}\n", 'sm_key "{}"', "\tsa_key\t'{}' # why\r\n", "cc_key {}", "# sm_key={}\n"]


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize("line", LINES)
def test_every_spelling_of_a_number_comes_back(store: KeyStore, spelled: str, line: str) -> None:
    data = line.format(spelled).encode()
    kept = key_references(store).record(data)
    assert key_references(store).restore(kept) == data
    assert size_of_recorded(kept) == len(data)
    if len(spelled) > 8 or not line.startswith("#"):
        assert b"@" in kept
        assert spelled.encode() not in numbered(kept, store)


PIECES = [
    *(b"m_key", b"sm_key", b"sa_key", b"cc_key", b"M_Key", b"@m_key:", b"@", b"@@sm_key:1:x16l", b":", b"x16"),
    *(f"{A:#x}".encode(), f"{A:#X}".encode(), str(B).encode(), f"0{C:o}".encode(), b"-1", b"5", b"0", b"09999999"),
    *(b" ", b" ", b"\t", b"\n", b"\n", b"\r\n", b"#", b'"', b"'", b"=", b"\0", b"x" * 600),
]
SECRETS = [f"{A:x}".encode(), str(B).encode(), f"{C:o}".encode()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=40).map(b"".join))
def test_any_file_comes_back_byte_for_byte_or_is_refused(data: bytes) -> None:
    with KeyStore(None) as store:
        contents = key_references(store)
        try:
            kept = contents.record(data)
        except FileFormatError:
            assert b"@" in data
            return
        assert contents.restore(kept) == data
        assert size_of_recorded(kept) == len(data)
        for name in (b"m_key", b"sm_key", b"sa_key"):
            for secret in SECRETS:
                line = name + b" 0x" + secret + b"\n"
                shown = contents.mask(b"\n" + line + data)
                assert line not in shown


@given(st.integers(2, (1 << 64) - 1), st.sampled_from(["{}", "{:#x}", "0x{:X}", "0{:o}"]), st.binary(max_size=40))
def test_no_key_that_opensm_reads_is_kept_or_shown(value: int, form: str, around: bytes) -> None:
    spelled = form.format(value).encode()
    data = b"sm_key " + spelled + b"\n" + around.replace(spelled, b"")
    with KeyStore(None) as store:
        contents = key_references(store)
        try:
            kept = contents.record(data)
        except FileFormatError:
            return
        first = numbered(kept, store).split(b"\n")[0]
        assert first.startswith(b"sm_key @sm_key:1:")
        assert spelled not in first or len(spelled) < 4
        assert contents.mask(data).startswith(b"sm_key (not shown)\n")


@pytest.mark.parametrize(
    "kept", [b"sm_key @sm_key:", b"sm_key @sm_key:9:x16l", b"sm_key @m_key:7:x16l", b"sm_key @sa_key:1:x16l"]
)
def test_a_reference_that_leads_nowhere_is_an_error(store: KeyStore, kept: bytes) -> None:
    SmKeys(store).put_pending("sm_key", SMKey(A))
    with pytest.raises((FileFormatError, StoreError)):
        key_references(store).restore(kept)


def test_a_sealed_store_gives_and_takes_no_key_but_masks(tmp_path: Path) -> None:
    with KeyStore(tmp_path / "keys.db") as store:
        kept = key_references(store).record(CONF)
        store.encrypt(Passphrase(lambda: "words"), Cost(n=4))
    with KeyStore(tmp_path / "keys.db") as store:
        contents = key_references(store)
        with pytest.raises(StoreSealed):
            contents.restore(kept)
        with pytest.raises(StoreSealed):
            contents.record(CONF)
        assert b"(not shown)" in contents.mask(CONF)
    with KeyStore(tmp_path / "keys.db", passphrase=Passphrase(lambda: "words")) as store:
        assert key_references(store).restore(kept) == CONF


def test_a_reference_never_leads_to_a_key_of_another_store(store: KeyStore) -> None:
    """Row 1 of a store that took the place of a lost one is another key: the journal's entry does not get it."""
    kept = key_references(store).record(CONF)
    with KeyStore(None) as other:
        key_references(other).record(f"m_key {C:#x}\nsm_key {A:#x}\n# m_key {B:#x}\n".encode())
        with pytest.raises(KeyGone, match="lost or replaced"):
            key_references(other).restore(kept)
        for earlier in (b"m_key @m_key:1:x16l\n", b"sm_key @sm_key:1:x16l\n"):
            with pytest.raises(KeyGone):
                key_references(other).restore(earlier)


def test_numbers_that_an_earlier_version_wrote_lead_to_the_rows_that_it_stored(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    path.touch(0o600)
    earlier = sqlite3.connect(path)
    steps = KEYSTORE_SCHEMA.steps[:7]
    for statement in (statement for step in steps for statement in step):
        earlier.execute(statement)
    row = (A.to_bytes(8), "2026-01-01T00:00:00Z")
    earlier.execute("INSERT INTO subnet_keys VALUES (NULL, ?, ?, '')", row)
    earlier.execute("INSERT INTO sm_keys VALUES (NULL, 'sm_key', ?, 'former', ?, '')", (B.to_bytes(8), row[1]))
    earlier.execute(
        "INSERT INTO keys (port_guid, m_key, state, since) VALUES ('0x0000000000000001', ?, 'current', ?)",
        (C.to_bytes(8), row[1]),
    )
    earlier.execute(f"PRAGMA application_id = {KEYSTORE_SCHEMA.application_id}")
    earlier.execute(f"PRAGMA user_version = {len(steps)}")
    earlier.commit()
    earlier.close()
    names = []
    for _ in range(2):  # opening it again changes nothing
        with KeyStore(path) as store:
            contents = key_references(store)
            assert (
                contents.restore(b"m_key @m_key:1:x16l\nsm_key @sm_key:1:d19\n")
                == f"m_key {A:#x}\nsm_key {B}\n".encode()
            )
            ref = SmKeys(store).put_imported("sm_key", SMKey(C))
            with pytest.raises(KeyGone):
                contents.restore(f"sm_key @sm_key:{ref}:x16l\n".encode())
            assert store.named("1").m_key == MKey(C)
            port_key = store.put_imported(2, MKey(A))
            assert store.named(store.name_of(port_key)).m_key == MKey(A)
            with pytest.raises(KeyGone):
                store.named(str(port_key))
            names.append(SmKeys(store).names())
    assert names[0] == names[1]
    assert len(set(names[0].values())) == 2
