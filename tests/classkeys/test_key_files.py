"""The files guid2vskey, guid2cckey and guid2_m2n_key, as ibdiagnet and as NVIDIA's opensm write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.classkeys.key_files import CLASS_KEY_FILES, parse_class_keys, read_class_key_files
from ibkeys.errors import FileFormatError, StoreError
from ibkeys.keys.classkey import ClassKey

GUID, OTHER, KEY = 0x0002C9030000ABCD, 0x0002C9030000ABCE, 0xA1A2A3A4A5A6A7A8


@pytest.mark.parametrize("between", ["\n", "\n\n", "\n\n\n"])
def test_records_with_and_without_an_empty_line_between_them(tmp_path: Path, between: str) -> None:
    text = between.join([f"0x{GUID:016x} 0x{KEY:016x}", f"0x{OTHER:016x} 0x1"]) + "\n"
    for file in CLASS_KEY_FILES.values():
        (tmp_path / file).write_text(text)
    keys, warnings = read_class_key_files(tmp_path)
    assert warnings == []
    assert keys == {name: {GUID: ClassKey(KEY), OTHER: ClassKey(1)} for name in ("vs", "cc", "n2n")}


def test_a_file_that_is_not_there_has_no_keys(tmp_path: Path) -> None:
    (tmp_path / "guid2cckey").write_text("")
    assert read_class_key_files(tmp_path) == ({"cc": {}}, [])


def test_lines_that_are_no_records_are_left_out_and_not_shown(tmp_path: Path) -> None:
    warnings: list[str] = []
    data = b"0x1 0xSECRET\n0x2 0x3 0x4\nhello\n0x5 0x6\n0x5 0x7\n0x10000000000000000 0x1\n"
    assert parse_class_keys(data, "guid2vskey", warnings) == {5: ClassKey(6)}
    assert [each.split(":")[1] for each in warnings] == ["1", "2", "3", "5", "6"]
    assert "SECRET" not in str(warnings)


def test_a_line_without_end_and_a_directory_in_the_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError):
        parse_class_keys(b"0x1 " + b"9" * 2000, "guid2vskey", [])
    (tmp_path / "guid2vskey").mkdir()
    with pytest.raises(StoreError):
        read_class_key_files(tmp_path)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_records_or_warnings(data: bytes) -> None:
    warnings: list[str] = []
    keys = parse_class_keys(data, "f", warnings)
    lines = sum(bool(line.split()) for line in data.split(b"\n"))
    assert len(keys) + len(warnings) == lines
