"""The archive of a report: no key is in it whatever a node says, and hashes where they were asked for."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys import files
from ibkeys.errors import FileError
from ibkeys.hardware.archive.key_forms import KeyForms
from ibkeys.hardware.archive.mask import KEY, Mask
from ibkeys.hardware.archive.packing import check_place, write_archive
from ibkeys.hardware.catalogue import none_made
from ibkeys.hardware.report import Report
from ibkeys.keys.classkey import ClassKey
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.keys.keystore import KeyStore
from tests.fabricsim import subnet, tool
from tests.hardware.looking import archived, forms, held, look_at, unpacked
from tests.keyedsite import Site

FILES = ["README.txt", "report.txt", "report.json", "fabric.json", "host.json"]
SECRET = 0x9C4E21D7B05A63F8


def keys_of(site: Site) -> list[int]:
    return [port.m_key for port in site.ports()]


def test_no_key_of_a_protected_fabric_is_in_the_archive(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.open() as fabric:
        found = archived(look_at(fabric, sm_key=1), tmp_path / "r.tar.gz")
    assert list(found) == FILES
    assert held(found, keys_of(site)) == []
    report = json.loads(found["report.json"])
    assert (report["schema"], report["keys_looked_for"], report["short_keys"]) == ("ibkeys.hardware/1", 9, 1)


@pytest.mark.parametrize("hashed", [False, True])
def test_keys_that_a_hostile_fabric_says_are_not_in_the_archive(tmp_path: Path, hashed: bool) -> None:
    """Every node calls itself by another form of a key; others hold one as a GUID, and in their counters."""
    site = Site(tmp_path)
    keys = keys_of(site)
    hidden = [form for key in keys[:3] for form in forms(key)]
    for node, form in zip(site.net.nodes[1:], hidden[:: len(hidden) // 7], strict=False):
        node.description_bytes = b"\x1b[2J " + form + b"\x00\x07 end"
    site.net.nodes[3].system_image_guid = keys[0]
    site.net.nodes[4].revision = keys[1] & 0xFFFFFFFF
    with site.open() as fabric:
        found = archived(look_at(fabric), tmp_path / "r.tar.gz", hashed)
    assert held(found, keys) == []
    assert all(data.isascii() and b"\x1b" not in data for data in found.values())
    assert json.loads(found["fabric.json"])["nodes"]


@pytest.mark.parametrize("at", range(10))
def test_a_description_that_is_any_form_of_a_key_is_left_out(tmp_path: Path, at: int) -> None:
    net = subnet("two-switch")
    net.node("node03 mlx4_0").description_bytes = forms(SECRET)[at]
    with tool(net, timeout=0.1, m_key=SECRET) as fabric:
        found = archived(look_at(fabric), tmp_path / "r.tar.gz")
    assert held(found, [SECRET]) == []
    assert KEY in [node["node_desc"] for node in json.loads(found["fabric.json"])["nodes"]]


KINDS = ("M_Key of a port", "spare", "fallback", "class key", "SM_Key", "former key of the store")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_key_that_is_known_is_looked_for(tmp_path: Path, kind: str) -> None:
    net = subnet("two-switch")
    net.node("node03 mlx4_0").description_bytes = f"old {SECRET:x} name".encode()
    store = tmp_path / "keys.db"
    with tool(net, timeout=0.1, keystore=store) as fabric:
        look = look_at(fabric, SECRET if kind == "SM_Key" else None)
        assert len(look.found.nodes) == 8
        ring = fabric.ring
        if kind == "M_Key of a port":
            ring.by_guid[0x1234] = MKey(SECRET)
        elif kind == "spare":
            ring.spares[0x1234] = (MKey(SECRET),)
        elif kind == "fallback":
            ring.fallback = MKey(SECRET)
        elif kind == "class key":
            ring.class_keys = {"vs": {0x1234: ClassKey(SECRET)}}
        elif kind == "former key of the store":
            with KeyStore(store) as opened:
                opened.abandon(opened.put_pending(1, 2, 1, KeySetting(MKey(SECRET), 0, 0), None))
        report = Report(look, none_made("not of interest"))
        report.write(tmp_path / "r.tar.gz", report.mask())
    found = unpacked(tmp_path / "r.tar.gz")
    assert held(found, [SECRET]) == []
    assert KEY in [node["node_desc"] for node in json.loads(found["fabric.json"])["nodes"]]


def test_a_node_with_the_guid_of_a_key_is_left_out(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.node("node03 mlx4_0").guid = net.port("node03 mlx4_0", 1).guid = SECRET
    with tool(net, timeout=0.1, m_key=SECRET) as fabric:
        found = archived(look_at(fabric), tmp_path / "r.tar.gz")
    assert held(found, [SECRET]) == []
    assert KEY in [node["node_guid"] for node in json.loads(found["fabric.json"])["nodes"]]


def test_a_key_that_everybody_may_read_is_not_in_the_archive_either(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.port("node03 mlx4_0", 1).m_key = SECRET
    net.node("node04 mlx4_0").description_bytes = f"{SECRET:x}".encode()
    with tool(net, timeout=0.1) as fabric:
        assert held(archived(look_at(fabric), tmp_path / "r.tar.gz"), [SECRET]) == []


def test_a_file_in_which_a_key_stands_all_the_same_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r.tar.gz"
    contents = {str(at): b"before " + form + b" after" for at, form in enumerate(forms(SECRET)) if b":" not in form}
    write_archive(path, {**contents, "good": b"nothing"}, KeyForms([SECRET]))
    found = unpacked(path)
    assert found.pop("good") == b"nothing"
    assert set(found.values()) == {b"left out: a key stood in this file\n"}


# --- hashes -----------------------------------------------------------------------------------------------------------


def hashed_report(tmp_path: Path) -> tuple[dict[str, bytes], list[str], list[int]]:
    """Return the files of a hashed report, with the names of the fabric and its GUIDs."""
    net = subnet("two-switch")
    net.set_sm("node04 mlx4_0")
    net.silence("node05 mlx4_0")
    with tool(net, timeout=0.1) as fabric:
        found = archived(look_at(fabric), tmp_path / "r.tar.gz", hashed=True)
    guids = {guid for node in net.nodes for guid in (node.guid, *(port.guid for port in node.end_ports))}
    return found, [node.description for node in net.nodes], sorted(guids)


def test_a_hashed_report_holds_no_name_and_no_guid(tmp_path: Path) -> None:
    found, names, guids = hashed_report(tmp_path)
    for name, data in found.items():
        text = data.decode().lower()
        assert not [word for word in (*names, *(name.split()[0] for name in names)) if word.lower() in text], name
        assert not [guid for guid in guids if f"{guid:x}" in text or str(guid) in text], name


def test_a_hashed_report_holds_no_lid_and_equal_ones_are_equal_everywhere(tmp_path: Path) -> None:
    found, _, _ = hashed_report(tmp_path)
    fabric = json.loads(found["fabric.json"])
    lids = [port["lid"] for node in fabric["nodes"] for port in node["ports"] if port["lid"]]
    assert all(isinstance(lid, str) and lid.startswith("lid-") for lid in lids)
    text = found["report.txt"].decode()
    assert not re.search(r"lids?[ =]+[0-9]", text, re.IGNORECASE)
    assert set(re.findall(r"lid-[a-z]+", text)) <= set(lids)
    ends = {port["peer"]["node_guid"] for node in fabric["nodes"] for port in node["ports"] if port["peer"]}
    assert ends <= {node["node_guid"] for node in fabric["nodes"]}


@pytest.mark.parametrize(
    "text", ["LID 4711", "LIDs 4711", "lid=4711", "endport_lid=4711 port_num=1", "SM LID 4711, master", "LID: 4711"]
)
def test_a_lid_in_a_sentence_is_hashed(text: str) -> None:
    assert "4711" not in Mask(KeyForms(()), hashed=True).text(text)


def test_two_reports_of_one_fabric_cannot_be_compared(tmp_path: Path) -> None:
    one, other = (hashed_report(tmp_path)[0]["fabric.json"] for _ in range(2))
    assert not set(re.findall(rb"guid-[a-z]+", one)) & set(re.findall(rb"guid-[a-z]+", other))


@given(guid=st.integers(1 << 32, (1 << 64) - 1))
def test_a_guid_has_one_hash_however_it_is_written(guid: int) -> None:
    mask = Mask(KeyForms(()), hashed=True)
    digits = f"{guid:016x}"
    fours = ":".join(digits[at : at + 4] for at in range(0, 16, 4))
    shown = {mask.text(f"port {text} is") for text in (f"0x{digits}", f"0x{digits.upper()}", digits, fours)}
    assert len(shown) == 1
    assert digits not in shown.pop()


@given(document=st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_without_a_key_and_without_hashes_a_document_stays(document: Any) -> None:
    mask = Mask(KeyForms([SECRET]))
    assert json.dumps(mask.document(document)).count(KEY) == 0


def test_this_host_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-a03.example.org")
    monkeypatch.setenv("HOME", "/home/alice")
    report = Report(None, none_made("gpu-a03: /home/alice/keys cannot be read"), hashed=True)
    report.write(tmp_path / "r.tar.gz", report.mask())
    assert not [data for data in unpacked(tmp_path / "r.tar.gz").values() if b"gpu-a03" in data or b"alice" in data]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_file_is_private_and_names_no_user(tmp_path: Path) -> None:
    path = tmp_path / "r.tar.gz"
    report = Report(None, none_made("no device"))
    report.write(path, report.mask())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(unpacked(path)) == FILES
    assert b"root" not in b"".join(unpacked(path).values())


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.tar.gz"
    path.write_bytes(b"an earlier one")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    report = Report(None, none_made("no device"))
    with pytest.raises(FileError, match="No space left"):
        report.write(path, report.mask())
    assert (path.read_bytes(), [each.name for each in tmp_path.iterdir()]) == (b"an earlier one", ["r.tar.gz"])


def test_a_place_that_cannot_be_written_is_said_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_place(tmp_path / "r.tar.gz")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileError, match="no directory"):
        check_place(tmp_path / "missing" / "r.tar.gz")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match="directory"):
        check_place(tmp_path / "folder")

    def read_only(path: Path, mode: int = 0o600) -> object:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(files, "create_beside", read_only)
    with pytest.raises(FileError, match="Read-only file system"):
        check_place(tmp_path / "r.tar.gz")
