"""The key store and OpenSM's files: what comes in, what goes out, what is refused."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, Refused, StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.managers.key_files import export_key_files, import_key_files, import_opensm_config
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.mkeys.key_sources import Keys, load_ring
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.opensm import KEY_FILES, KeyFiles, read_key_files, write_key_files
from ibkeys.store.paths import StorePaths
from tests.fabricsim import subnet, tool
from tests.protectedsim import protect_all

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
A, B, C = MKey(0xA1A2A3A4A5A6A7A8), MKey(0xB1B2B3B4B5B6B7B8), MKey(0xC1C2C3C4C5C6C7C8)


@pytest.fixture
def store() -> KeyStore:
    return KeyStore(None, clock=lambda: NOON)


def folder(path: Path, files: KeyFiles, written: int = 0) -> Path:
    """Make a folder as OpenSM left it *written* seconds after noon."""
    write_key_files(path, files, KEY_FILES)
    for file in path.iterdir():
        os.utime(file, (NOON.timestamp() + written,) * 2)
    return path


def test_import_takes_keys_links_and_lids(store: KeyStore, tmp_path: Path) -> None:
    near, far = (0x10, 1), (0x20, 2)
    done = import_key_files(store, folder(tmp_path, KeyFiles({1: A, 2: B}, {near: far, far: near}, {1: (4, 5)})))
    assert (done.results, done.links, done.lids) == ({1: "new", 2: "new"}, 1, 1)
    assert (done.warnings, done.one_key_for_changed) == ([], False)
    assert (store.all_keys().get(1, []), store.all_keys().get(2, [])) == ([A], [B])
    assert (store.links(), store.lids()) == ({near: far, far: near}, {1: (4, 5)})


def test_import_after_a_subnet_manager_has_set_its_own_key_tells_it(store: KeyStore, tmp_path: Path) -> None:
    for guid, key in ((1, A), (2, B), (3, C)):
        store.promote(store.put_pending(guid, guid, 0, KeySetting(key, 2, 60), None))
    done = import_key_files(store, folder(tmp_path / "new", KeyFiles({1: C, 2: C, 3: C}), written=60))
    assert (done.ports("changed"), done.ports("known"), done.one_key_for_changed) == ([1, 2], [3], True)
    assert (store.all_keys().get(1, []), store.all_keys().get(2, [])) == ([C, A], [C, B])
    done = import_key_files(store, folder(tmp_path / "old", KeyFiles({3: A}), written=-60))
    assert (done.ports("older"), done.one_key_for_changed) == ([3], False)
    assert store.all_keys().get(3, []) == [C, A]


def test_import_warns_of_files_that_others_read(store: KeyStore, shared: Path) -> None:
    (folder(shared, KeyFiles({1: A})) / "guid2mkey").chmod(0o644)
    [warning] = import_key_files(store, shared).warnings
    assert "mode 0644" in warning
    assert A.hex()[2:] not in warning


def test_a_damaged_file_changes_nothing(store: KeyStore, tmp_path: Path) -> None:
    folder(tmp_path, KeyFiles({1: A}))
    (tmp_path / "neighbors").write_text(" no record\n")
    with pytest.raises(FileFormatError):
        import_key_files(store, tmp_path)
    assert store.rows() == []


@pytest.mark.parametrize(
    ("text", "found"), [(f"m_key {A.hex()}\n", True), ("# nothing\n", False), ("m_key 0\n", False)]
)
def test_the_m_key_of_an_opensm_conf(store: KeyStore, tmp_path: Path, text: str, found: bool) -> None:
    (tmp_path / "opensm.conf").write_text(text)
    assert import_opensm_config(store, tmp_path / "opensm.conf") is found
    assert store.subnet_keys() == ([A] if found else [])


@pytest.mark.parametrize("text", [f"m_key {A.hex()}0\n", f"m_key {A.hex()[2:]}\n", None])
def test_an_m_key_that_is_none_is_not_repeated(store: KeyStore, tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "opensm.conf").write_text(text)
    with pytest.raises(FileFormatError) as error:
        import_opensm_config(store, tmp_path / "opensm.conf")
    assert A.hex()[2:] not in str(error.value)


# --- out --------------------------------------------------------------------------------------------------------------


def test_export_writes_the_key_that_is_tried_first(store: KeyStore, tmp_path: Path) -> None:
    store.promote(store.put_pending(1, 1, 0, KeySetting(A, 2, 60), KeySetting(B, 2, 60)))
    store.put_imported(2, C)
    store.put_links([(1, 1, 2, 1)])
    done = export_key_files(store, tmp_path / "out")
    assert (done.keys, done.links, done.lids) == (2, 1, None)
    assert read_key_files(tmp_path / "out") == KeyFiles({1: A, 2: C}, store.links())
    assert not (tmp_path / "out" / "guid2lid").exists()


def test_what_an_export_cannot_promise_is_noted(store: KeyStore, tmp_path: Path) -> None:
    store.promote(store.put_pending(1, 1, 0, KeySetting(A, 2, 60), None))
    notes = "\n".join(export_key_files(store, tmp_path).notes)
    assert "the links of 1 of 1 port with a key are not known" in notes
    assert "all ports have one key" in notes
    assert not (tmp_path / "neighbors").exists()
    store.put_pending(2, 2, 0, KeySetting(B, 2, 60), None)
    notes = "\n".join(export_key_files(store, tmp_path).notes)
    assert "1 port may have a different key from the one written" in notes
    assert "keys differ from port to port" in notes


def test_the_directory_of_a_running_opensm_is_refused_by_any_name(store: KeyStore, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "link").symlink_to("cache")
    running = OpensmProcess(4711, tmp_path / "cache", True, None)
    for name in ("cache", "link", "x/../cache"):
        with pytest.raises(Refused, match="4711"):
            export_key_files(store, tmp_path / name, processes=[running])
    gone = OpensmProcess(4711, tmp_path / "not yet", True, None)
    with pytest.raises(Refused):
        export_key_files(store, tmp_path / "not yet", processes=[gone])
    assert list((tmp_path / "cache").iterdir()) == []
    export_key_files(store, tmp_path / "elsewhere", processes=[running])


def test_keys_that_only_the_files_have_are_never_overwritten(store: KeyStore, tmp_path: Path) -> None:
    folder(tmp_path, KeyFiles({1: A, 2: B, 3: NO_MKEY}))
    store.put_imported(1, A)
    before = (tmp_path / "guid2mkey").read_bytes()
    with pytest.raises(Refused, match="keystore import") as error:
        export_key_files(store, tmp_path)
    assert B.hex()[2:] not in str(error.value)
    assert (tmp_path / "guid2mkey").read_bytes() == before
    import_key_files(store, tmp_path)
    assert export_key_files(store, tmp_path).keys == 3


@pytest.mark.parametrize("text", ["0x1 0x2 0x3\n", "what\n\n", " 0x1 0x2\n"])
def test_a_file_that_cannot_be_understood_is_not_overwritten(store: KeyStore, tmp_path: Path, text: str) -> None:
    (tmp_path / "guid2mkey").write_text(text)
    with pytest.raises((Refused, FileFormatError)):
        export_key_files(store, tmp_path)
    assert (tmp_path / "guid2mkey").read_text() == text


def test_where_nothing_can_be_written(store: KeyStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        export_key_files(store, tmp_path / "file")


guids = st.integers(1, 2**64 - 1)


@given(
    keys=st.dictionaries(guids, st.integers(0, 2**64 - 1).map(MKey), max_size=10),
    ends=st.lists(st.tuples(guids, st.integers(1, 64)), max_size=10, unique=True),
)
def test_what_was_imported_is_exported_byte_by_byte(keys: dict[int, MKey], ends: list[tuple[int, int]]) -> None:
    links = {}
    for near, far in zip(ends[::2], ends[1::2], strict=False):
        links |= {near: far, far: near}
    with TemporaryDirectory() as directory:
        came, went = Path(directory) / "in", Path(directory) / "out"
        write_key_files(came, KeyFiles(keys, links), ["guid2mkey", "neighbors"])
        with KeyStore(None) as store:
            import_key_files(store, came)
            export_key_files(store, went)
        for name in ["guid2mkey", "neighbors"][: 2 if links else 1]:
            assert (went / name).read_bytes() == (came / name).read_bytes()


# --- a fabric's topology, and the ring --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two-switch", "dual-home", "ring-router", "dualport64"])
def test_what_one_sweep_remembers_opens_every_port_in_the_next_run(name: str, tmp_path: Path) -> None:
    net = subnet(name)
    with tool(net) as fabric, KeyStore(tmp_path / "keys.db") as store:
        found = fabric.sweep()
        remember_topology(fabric, store, found)
        protect_all(net)
        for node in net.nodes:
            for port in node.end_ports:
                store.promote(
                    store.put_pending(node.guid, port.guid, port.number, KeySetting(MKey(port.m_key), 2, 60), None)
                )
    with tool(net, keystore=tmp_path / "keys.db") as fabric:
        again = fabric.sweep()
        assert not again.troubles
        with KeyStore(tmp_path / "keys.db") as store:
            done = export_key_files(store, tmp_path / "out", again)
    assert done.lids == sum(bool(port.lid) for port in again.end_ports())
    assert sum(port.m_key_violations for node in net.nodes for port in node.end_ports) == 0
    with tool(net, security_keys=tmp_path / "out") as fabric:
        assert not fabric.sweep().troubles
    assert sum(port.m_key_violations for node in net.nodes for port in node.end_ports) == 0


def test_a_sweep_that_could_not_read_all_writes_no_lids(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.silence("node05 mlx4_0")
    with tool(net, timeout=0.1) as fabric, KeyStore(None) as store:
        store.put_imported(1, A)
        done = export_key_files(store, tmp_path, fabric.sweep())
    assert done.lids is None
    assert any("guid2lid was not written" in note for note in done.notes)
    assert {file.name for file in tmp_path.iterdir()} == {"guid2mkey", "neighbors"}


def test_the_ring_tries_an_imported_key_that_came_later_and_keeps_the_other(tmp_path: Path) -> None:
    with KeyStore(tmp_path / "keys.db", clock=lambda: NOON) as store:
        store.promote(store.put_pending(1, 1, 0, KeySetting(A, 2, 60), None))
        store.put_subnet_key(C)
        import_key_files(store, folder(tmp_path / "in", KeyFiles({1: B}), written=60))
    ring, _ = load_ring(Keys(), StorePaths(tmp_path / "keys.db", None))
    assert (ring.by_guid[1], tuple(ring.spares[1]), ring.fallback) == (B, (A,), C)
    ring, _ = load_ring(Keys(default=A), StorePaths(tmp_path / "keys.db", None))
    assert ring.fallback == A


def test_a_key_of_the_files_comes_before_a_zero_of_the_store(tmp_path: Path) -> None:
    """Key 0 is what the store has after mkey-remove. A port without a key accepts the other one."""
    with KeyStore(tmp_path / "keys.db", clock=lambda: NOON) as store:
        store.promote(store.put_pending(1, 1, 0, KeySetting(A, 2, 60), None))
        store.promote(store.put_pending(1, 1, 0, KeySetting(MKey(0), 0, 0), KeySetting(A, 2, 60)))
    files = folder(tmp_path / "in", KeyFiles({1: B}))
    ring, _ = load_ring(Keys(security_keys=files), StorePaths(tmp_path / "keys.db", None))
    assert (ring.by_guid[1], tuple(ring.spares[1])) == (B, (A, MKey(0)))
    assert ring.is_protected(1)
    assert 1 not in ring.confirmed
