"""The archive of a report: no key is in it whatever a node says, and hashes where they were asked for."""

from __future__ import annotations

import base64
import errno
import gzip
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys import files
from ibkeys.errors import FileError
from ibkeys.hardware.archive.key_forms import KeyForms
from ibkeys.hardware.archive.mask import KEY, Mask
from ibkeys.hardware.archive.packing import check_place, write_archive
from ibkeys.hardware.catalogue import none_checked
from ibkeys.hardware.report import HardwareReport
from ibkeys.keys.classkey import ClassKey
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.keystore.keystore import KeyStore
from tests import documents
from tests.fabricsim import subnet, tool
from tests.hardware.looking import archived, forms, held, look_at, unpacked, written
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


def test_a_report_is_as_its_schema_says_and_lacks_no_name(tmp_path: Path) -> None:
    with tool(subnet("two-switch"), timeout=0.1) as fabric:
        report = json.loads(archived(look_at(fabric), tmp_path / "r.tar.gz")["report.json"])
    documents.check(json.dumps(report))
    for name in report.keys() - {"schema"}:
        with pytest.raises(AssertionError, match=f"'{name}' is a required property"):
            documents.check(json.dumps({key: value for key, value in report.items() if key != name}))


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
        reading = look_at(fabric, SECRET if kind == "SM_Key" else None)
        assert len(reading.topology.nodes) == 8
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
        found = written(HardwareReport(reading, none_checked("not of interest")), tmp_path / "r.tar.gz")
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
    report = HardwareReport(None, none_checked("gpu-a03: /home/alice/keys cannot be read"), hashed=True)
    found = written(report, tmp_path / "r.tar.gz")
    assert not [data for data in found.values() if b"gpu-a03" in data or b"alice" in data]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_file_is_private_and_names_no_user(tmp_path: Path) -> None:
    path = tmp_path / "r.tar.gz"
    found = written(HardwareReport(None, none_checked("no device")), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(found) == FILES
    assert b"root" not in b"".join(found.values())


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.tar.gz"
    write_archive(path, {"README.txt": b"an earlier one"}, KeyForms(()))
    earlier = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    report = HardwareReport(None, none_checked("no device"))
    with pytest.raises(FileError, match="No space left"):
        report.write(path)
    assert (path.read_bytes(), [each.name for each in tmp_path.iterdir()]) == (earlier, ["r.tar.gz"])


@pytest.mark.parametrize(
    "other", [b"Default=0x7fff: ALL=full;\n", b"SQLite format 3\0", gzip.compress(b"a log\n", mtime=0)]
)
def test_a_file_that_is_no_report_is_not_replaced(tmp_path: Path, other: bytes) -> None:
    """A mistyped name must not destroy a policy or a key store."""
    path = tmp_path / "keys.db"
    path.write_bytes(other)
    for replace in (check_place, lambda path: write_archive(path, {"README.txt": b""}, KeyForms(()))):
        with pytest.raises(FileError, match="exists and is not a report of ibkeys, so it is not replaced"):
            replace(path)
    assert path.read_bytes() == other


def test_an_earlier_report_and_an_empty_file_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "r.tar.gz"
    path.touch()
    for text in (b"first", b"second"):
        check_place(path)
        write_archive(path, {"README.txt": text}, KeyForms(()))
        assert unpacked(path) == {"README.txt": text}


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


# --- forms ------------------------------------------------------------------------------------------------------------

SAME = [
    ["LID 4711", "dlid 4711", "slid: 4711", "Lid 0x1267", "lid (4711)", "LID[4711]", "baselid=4711", "mlid 0x1267"],
    ["0x0002c903000a1011", "0002C903000A1011", "2c903000a1011", "00:02:c9:03:00:0a:10:11", "0002:c903:000a:1011"],
    ["fe80::2:c903:a:1011", "FE80:0000:0000:0000:0002:C903:000A:1011", "fe80::0002:c903:000a:1011"],
    ["fdfd::2:c903:a:1011", "fdfd:0:0:0:2:c903:a:1011"],
    ["24:8a:07:30:0b:10", "24-8A-07-30-0B-10"],
]


@pytest.mark.parametrize("spellings", SAME, ids=lambda row: row[0])
def test_an_address_has_one_hash_however_it_is_written(spellings: list[str]) -> None:
    mask = Mask(KeyForms(()), hashed=True)
    shown = [re.findall(r"(?:lid|guid|gid|mac|ip)-[g-v]{12}", mask.text(f"from {each} on")) for each in spellings]
    assert len(shown[0]) == 1
    assert shown == [shown[0]] * len(shown)


@pytest.mark.parametrize("text", ["LIDs 4711, 4712 and 4713", "lid 4711-4713", "10.20.4711.1 LID 4711"])
def test_each_of_several_lids_is_hashed(text: str) -> None:
    assert not re.search(r"\blids? 471|, 471|and 471|-471", Mask(KeyForms(()), hashed=True).text(text), re.IGNORECASE)


@pytest.mark.parametrize("address", ["10.1.2.3", "192.168.100.254", "2001:db8::17", "fe80::1%ib0"])
def test_an_ip_address_is_hashed(address: str) -> None:
    assert address.partition("%")[0] not in Mask(KeyForms(()), hashed=True).text(f"ssh: connect to {address} port 22")


@pytest.mark.parametrize(
    "text",
    [
        "Linux 5.14.0-427.13.1.el9_4.x86_64 x86_64, Python 3.11.2, ibkeys 0.1.0, umad ABI 5",
        "MT4123 firmware 20.31.1014",
        "all: 0xa651e848, some: 0x00000402",
        "6 x ca 0x0002c9:0x1003 with 1 port",
        "at 12:30:05, route 0,1,4",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    assert Mask(KeyForms(()), hashed=True).text(text) == text


def test_a_name_is_found_in_capitals_too() -> None:
    mask = Mask(KeyForms(()), hashed=True, names=["gpu-a03 mlx5_0"])
    shown = {mask.text(text) for text in ("no answer from gpu-a03", "no answer from GPU-A03")}
    assert len(shown) == 1
    assert "a03" not in shown.pop().lower()


def test_the_checks_of_this_host_keep_their_names_in_a_hashed_report(tmp_path: Path) -> None:
    rows = [{"name": "local port", "ok": True, "detail": "LID 4711", "advice": None}]
    report = HardwareReport(None, none_checked("no device"), rows, hashed=True)
    [row] = json.loads(written(report, tmp_path / "r.tar.gz")["host.json"])["checks"]
    assert (row["name"], "4711" in row["detail"]) == ("local port", False)


def test_the_user_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    report = HardwareReport(None, none_checked("/dev/infiniband/umad0: belongs to alice"), hashed=True)
    assert not [data for data in written(report, tmp_path / "r.tar.gz").values() if b"alice" in data]


@pytest.mark.parametrize("order", ["big", "little"])
def test_a_key_in_base64_is_left_out(order: Literal["big", "little"]) -> None:
    raw = SECRET.to_bytes(8, order)
    for text in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        assert KeyForms([SECRET]).in_text(f"node {text.decode()} of the fabric")
