"""Registry, inventory, GUID lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.audit.files import parse_guid, read_guids, read_registry
from ibkeys.errors import EncodeError, FileFormatError, StoreError


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "list"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_registry_names_an_owner_for_each_partition(tmp_path: Path) -> None:
    text = "# who owns what\n\n0x8010 tenant  a   # since May\n0x11\tstorage\n0x7fff -\n0x12:full b\n"
    assert read_registry(written(tmp_path, text)) == {0x10: "tenant a", 0x11: "storage", 0x7FFF: "-", 0x12: "b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0x10 a\n0x8010 b", "2:1: partition 0x0010 belongs to 'a' already"),
        ("tenant 0x10", "1:1: P_Key 'tenant' is not a number"),
        ("0x8000 a", "1:1: 0x8000 is not a P_Key"),
        ("\n0x10", "2:1: 0x10 has no owner"),
        ("0x10 # a", "1:1: 0x10 has no owner"),
    ],
)
def test_mistakes_in_a_registry(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError) as raised:
        read_registry(written(tmp_path, text))
    assert message in str(raised.value)


def test_an_inventory_is_a_list_of_guids(tmp_path: Path) -> None:
    path = written(tmp_path, "0x0002c903000a1020 node02\n0x2C903000A1030\n# 0x1\n")
    assert read_guids(path) == {0x2C903000A1020, 0x2C903000A1030}


@pytest.mark.parametrize("text", ["0x0", "12", "0x1ffffffffffffffff", "node", "0x", ""])
def test_what_is_no_guid(text: str) -> None:
    with pytest.raises(EncodeError):
        parse_guid(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        read_guids(tmp_path / "missing")
    with pytest.raises(FileFormatError, match="is not text"):
        read_registry(written(tmp_path, b"\xff\xfe0x10 a"))
    with pytest.raises(FileFormatError, match="1:1"):
        read_guids(written(tmp_path, "nonsense"))
