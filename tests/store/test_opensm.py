"""The reader of guid2mkey, neighbors and guid2lid."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError, StoreError
from ibkeys.keys.mkey import MKey
from ibkeys.store.opensm import KEY_FILES, KeyFiles, parse_m_keys, read_key_files, write_key_files

SECRET = "0x00000000deadbeef"
G1 = f"0x{1:016x}"
G3 = f"0x{3:016x}"


def read(directory: Path, **files: bytes | str) -> KeyFiles:
    for name, content in files.items():
        (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_key_files(directory)


def test_files_as_opensm_writes_them(tmp_path: Path) -> None:
    files = read(
        tmp_path,
        guid2mkey="0x0002c90300aa0010 0x0000000000000042\n\n0x0002c90300bb0001 0xffffffffffffffff\n\n",
        guid2lid="0x0002c90300bb0001 0x0001 0x0001\n\n0x0002c90300aa0010 0x0002 0x0005\n\n",
        neighbors="0x0002c90300aa0010:8 0x0002c90300aa0020:9\n\n0x0002c90300aa0020:9 0x0002c90300aa0010:8\n\n",
    )
    assert files.m_keys == {0x0002C90300AA0010: MKey(0x42), 0x0002C90300BB0001: MKey(0xFFFFFFFFFFFFFFFF)}
    assert files.lids == {0x0002C90300BB0001: (1, 1), 0x0002C90300AA0010: (2, 5)}
    near, far = (0x0002C90300AA0010, 8), (0x0002C90300AA0020, 9)
    assert files.neighbors == {near: far, far: near}
    assert files.warnings == []


@pytest.mark.parametrize("name", ["guid2mkey", "neighbors", "guid2lid"])
def test_one_file_is_enough_even_an_empty_one(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, **{name: ""}) == KeyFiles()


def test_no_file_at_all_is_an_error(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FileFormatError, match="none of OpenSM's files") as error:
            read_key_files(directory)
        assert error.value.path == str(directory)


def test_file_that_cannot_be_read_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "guid2mkey").mkdir()
    with pytest.raises(StoreError, match="guid2mkey"):
        read_key_files(tmp_path)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (f"{G1} 0x2", {1: 2}),
        (f"{G1} 0x2\n", {1: 2}),
        (f"\n\n{G1} 0x2\n\n\n\n{G3} 0x4\n", {1: 2, 3: 4}),
        (f"{G1}\t 0x2\t \n\n", {1: 2}),
        (f"{G1} 010\n\n{G3} 0Xa\n\n", {1: 8, 3: 10}),
        (f"{G1} 0\n\n", {1: 0}),
        ("0xffffffffffffffff 18446744073709551615\n\n", {2**64 - 1: 2**64 - 1}),
    ],
)
def test_records_and_numbers(tmp_path: Path, text: str, keys: dict[int, int]) -> None:
    files = read(tmp_path, guid2mkey=text)
    assert files.m_keys == {guid: MKey(value) for guid, value in keys.items()}
    assert files.warnings == []
    assert parse_m_keys(text.encode(), "guid2mkey") == files.m_keys


@pytest.mark.parametrize(
    ("text", "read_here", "unpadded"),
    [
        ("0x1 0x2\n\n10 3\n\n0X1F 4\n\n", {1: 2, 10: 3, 31: 4}, 3),
        ("0x" + "0" * 900 + "1 00000\n\n", {1: 0}, 1),
        ("0x000000000000001F 0x5\n\n", {31: 5}, 1),
        (f"0x1 0x2\n\n{G1} 0x3\n\n", {1: 3}, 1),
        (f"{G1} 0x3\n\n0x1 0x2\n\n", {1: 3}, 0),
    ],
)
def test_a_guid_that_opensm_does_not_find(tmp_path: Path, text: str, read_here: dict[int, int], unpadded: int) -> None:
    """As OpenSM 3.3.23 looks for it."""
    files = read(tmp_path, guid2mkey=text)
    assert files.m_keys == {guid: MKey(value) for guid, value in read_here.items()}
    assert sum("OpenSM does not find" in each for each in files.warnings) == unpadded
    assert parse_m_keys(text.encode(), "guid2mkey") == ({1: MKey(3)} if G1 in text else {})


def test_a_guid_in_another_form_in_the_other_files(tmp_path: Path) -> None:
    files = read(tmp_path, guid2lid=f"0x1 1 1\n\n{G1} 2 2\n\n", neighbors=f"0x1:1 {G3}:1\n\n{G1}:1 {G3}:2\n\n")
    assert (files.lids, files.neighbors) == ({1: (2, 2)}, {(1, 1): (3, 2)})
    assert len(files.warnings) == 2
    assert files.is_whole


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("0x5", 5),
        ("0x5 junk", 5),
        ("0x5,", 5),
        ("junk", 0),
        ("", 0),
        ("0x", 0),
        ("08", 0),
        ("+5", 5),
        ("-1", 2**64 - 1),
        ("0x1ffffffffffffffff", 2**64 - 1),
        ("18446744073709551616", 2**64 - 1),
        ("0x5\r\n\r", 5),
        (f"0x5\n{G3} 0x6", 0x50),
        (f"0x5 \n{G3} 0x6", 5),
        ("\n0x5", 5),
    ],
)
def test_the_value_that_opensm_reads(value: str, key: int) -> None:
    """As the database of OpenSM 3.3.23 gives it."""
    assert parse_m_keys(f"{G1} {value}\n\n".encode(), "guid2mkey") == {1: MKey(key)}


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        ("guid2mkey", f"{G1} 0x2\n\n{G1} {SECRET}\n\n", 3, "second record"),
        ("guid2mkey", f"{G1} 0x2\n\n1 {SECRET}\n\n", 3, "second record"),
        ("guid2mkey", f"{G1} 0x2\n\nnode-a {SECRET}\n\n", 3, "first word"),
        ("guid2mkey", f"{G1} 0x2\n\n08 {SECRET}\n\n", 3, "first word"),
        ("guid2mkey", f"{G1} 0x2\n\n0x10000000000000000 {SECRET}\n\n", 3, "first word"),
        ("guid2mkey", f"{G1} 0x2\n\n{G3} {SECRET}z\n\n", 3, "value"),
        ("guid2mkey", f"{G1} 0x2\n\n{G3} 0xdeadbeef000000001\n\n", 3, "value"),
        ("guid2mkey", f"{G1} 0x2\n\n{G3} 3735928559373592855937359285593735928559\n\n", 3, "value"),
        ("guid2mkey", f"{G1} 0x2\n\n{G3} -3735928559\n\n", 3, "value"),
        ("guid2mkey", f"{G1} 0x2\n\n{G3}\n\n", 3, "value"),
        ("guid2mkey", f"{G1} 0x2\r\n\n", 1, "value"),
        ("guid2mkey", f"{G1} 0x2\n\n\0 {SECRET}\n\n", 3, "first word"),
        ("guid2mkey", f"{G1} 0x2\n{G3} {SECRET}\n\n", 1, "empty line"),
        ("guid2lid", f"{G1} 0xc000 0xc000\n\n", 1, "value"),
        ("guid2lid", f"{G1} 0x1\n\n", 1, "value"),
        ("guid2lid", f"{G1} 0x1 0x1 0x1\n\n", 1, "value"),
        ("neighbors", f"{G1}:1 0x2\n\n", 1, "value"),
        ("neighbors", f"{G1}:1 0x2:256\n\n", 1, "value"),
        ("neighbors", f"{G1} 0x2:1\n\n", 1, "first word"),
        ("neighbors", "0x1:-1 0x2:1\n\n", 1, "first word"),
    ],
)
def test_record_that_is_dropped_is_named_without_its_text(
    tmp_path: Path, name: str, text: str, line: int, words: str
) -> None:
    files = read(tmp_path, **{name: text})
    [warning] = files.warnings
    assert warning.startswith(f"{tmp_path / name}:{line}: ")
    assert words in warning
    assert "deadbeef" not in warning
    assert "3735928559" not in warning
    if line == 3 or words == "empty line":
        assert files.m_keys == {1: MKey(2)}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (f" 0x1 {SECRET}\n", 1, 1),
        (f"\t0x1 {SECRET}\n", 1, 1),
        (f"0x1 0x2\n\n {SECRET}\n", 3, 1),
        ("0x1 0x2\n\n \n", 3, 1),
        ("0x1 " + "0" * 1019 + "\n", 1, 1023),
        ("0x1 0x2\n" + "x" * 1023, 2, 1023),
    ],
)
def test_line_that_is_no_record_is_an_error_with_its_place(tmp_path: Path, text: str, line: int, column: int) -> None:
    with pytest.raises(FileFormatError) as error:
        read(tmp_path, guid2mkey=text)
    assert (error.value.path, error.value.line, error.value.column) == (str(tmp_path / "guid2mkey"), line, column)
    assert "deadbeef" not in str(error.value)


def test_longest_line_that_opensm_reads_whole(tmp_path: Path) -> None:
    assert read(tmp_path, guid2mkey="0x1 0x" + "0" * 1016 + "\n").m_keys == {1: MKey(0)}


def test_what_was_read_shows_no_key(tmp_path: Path) -> None:
    assert "deadbeef" not in repr(read(tmp_path, guid2mkey=f"0x1 {SECRET}\n")).lower()


alphabet = st.sampled_from([b"0", b"x", b"1", b"9", b"f", b":", b" ", b"\t", b"\n", b"\r", b"\0", b"z", b"-", b"\xff"])
contents = st.binary(max_size=200) | st.lists(alphabet, max_size=60).map(b"".join)


@given(content=contents)
@example(content=b"0x1 0x2\n\n" * 2)
@example(content=b"\n" * 10)
def test_any_bytes_parse_or_raise_the_documented_error(content: bytes) -> None:
    with TemporaryDirectory() as directory:
        for name in ("guid2mkey", "neighbors", "guid2lid"):
            (Path(directory) / name).write_bytes(content)
            files, where = KeyFiles(), (1, 1)
            try:
                files = read_key_files(Path(directory))
            except FileFormatError as error:
                where = (error.line, error.column)
            assert min(where) >= 1
            assert all(0 <= guid < 2**64 for guid in files.m_keys)
            assert all(0 <= lid < 0xC000 for lids in files.lids.values() for lid in lids)
            (Path(directory) / name).unlink()


guids = st.integers(0, 2**64 - 1)


@given(keys=st.dictionaries(guids, guids, max_size=20))
def test_every_file_that_opensm_can_write_is_read_whole(keys: dict[int, int]) -> None:
    text = "".join(f"0x{guid:016x} 0x{key:016x}\n\n" for guid, key in keys.items())
    with TemporaryDirectory() as directory:
        files = read(Path(directory), guid2mkey=text)
    assert files.m_keys == {guid: MKey(key) for guid, key in keys.items()}
    assert files.warnings == []


# --- writing ----------------------------------------------------------------------------------------------------------


def test_the_bytes_are_opensms_own(tmp_path: Path) -> None:
    """The records of the fact sheet, which OpenSM 3.3.23 wrote."""
    near, far = (0x0002C90300AA0010, 8), (0x0002C90300AA0020, 8)
    files = KeyFiles({0x0002C90300AA0010: MKey(0x42)}, {near: far}, {0x0002C90300BB0001: (1, 1)})
    write_key_files(tmp_path / "new" / "dir", files, KEY_FILES)
    written = {file.name: file.read_bytes() for file in (tmp_path / "new" / "dir").iterdir()}
    assert written == {
        "guid2mkey": b"0x0002c90300aa0010 0x0000000000000042\n\n",
        "guid2lid": b"0x0002c90300bb0001 0x0001 0x0001\n\n",
        "neighbors": b"0x0002c90300aa0010:8 0x0002c90300aa0020:8\n\n",
    }
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "new" / "dir").iterdir()} == {0o600}
    assert (tmp_path / "new" / "dir").stat().st_mode & 0o777 == 0o700


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(tmp_path: Path) -> None:
    (tmp_path / "guid2mkey").write_text("old")
    (tmp_path / "guid2mkey").chmod(0o644)
    write_key_files(tmp_path, KeyFiles(), ["guid2mkey"])
    assert [(file.name, file.stat().st_mode & 0o777) for file in tmp_path.iterdir()] == [("guid2mkey", 0o600)]


def test_where_nothing_can_be_written_is_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "guid2mkey").mkdir()
    (tmp_path / "guid2mkey" / "x").touch()
    with pytest.raises(StoreError, match="guid2mkey") as error:
        write_key_files(tmp_path, KeyFiles({1: MKey(0xDEADBEEF)}), ["guid2mkey"])
    assert "\n" not in str(error.value)
    assert "deadbeef" not in str(error.value)
    assert [file.name for file in tmp_path.iterdir()] == ["guid2mkey"]
    with pytest.raises(StoreError):
        write_key_files(tmp_path / "guid2mkey" / "x" / "y", KeyFiles(), ["guid2mkey"])


ends = st.tuples(guids, st.integers(0, 255))
lid_ranges = st.tuples(st.integers(0, 0xBFFF), st.integers(0, 0xBFFF))


@given(
    keys=st.dictionaries(guids, guids.map(MKey), max_size=20),
    neighbors=st.dictionaries(ends, ends, max_size=20),
    lids=st.dictionaries(guids, lid_ranges, max_size=20),
)
def test_what_is_written_is_read_again(
    keys: dict[int, MKey], neighbors: dict[tuple[int, int], tuple[int, int]], lids: dict[int, tuple[int, int]]
) -> None:
    files = KeyFiles(keys, neighbors, lids)
    with TemporaryDirectory() as directory:
        write_key_files(Path(directory), files, KEY_FILES)
        assert read_key_files(Path(directory)) == files
