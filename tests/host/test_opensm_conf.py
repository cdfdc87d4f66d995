"""The M_Key lines of an opensm.conf, as the real OpenSM takes them; and writing them without touching anything else."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys import files
from ibkeys.errors import FileFormatError, StoreError
from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm import m_key_lines as opensm_conf
from ibkeys.managers.opensm.m_key_lines import KeyLines, key_changes_at_start, read_conf, with_lines, write_lines
from ibkeys.managers.opensm.options_file import read_options
from tests.integration.ibsim import tool

KEY = MKey(0x83F1C05E9A2D7B46)
WANTED = KeyLines(KEY, 2, 60)
LINES = b"m_key 0x83f1c05e9a2d7b46\nm_key_protection_level 2\nm_key_lease_period 60\n"

# What opensm 3.3.23 makes of it: text → m_key, level, lease.
TAKEN = {
    b"m_key 0x5\n": (5, 0, 0),
    b"m_key \"0x5\"\nm_key_lease_period '7'\n": (5, 0, 7),
    b" \tm_key\t0x5  \n": (5, 0, 0),
    b"m_key 0x5 junk\n": (0, 0, 0),
    b"m_key 0x5#comment\n": (5, 0, 0),
    b"#m_key 0x5\n": (0, 0, 0),
    b"m_key=0x5\n": (0, 0, 0),
    b"m_key = 0x5\n": (0, 0, 0),
    b"M_KEY 5\n": (0, 0, 0),
    b"m_key 5\nm_key 6\n": (6, 0, 0),
    b"m_key 5\nm_key junk\nm_key\n": (5, 0, 0),
    b"m_key 0x5\r\n": (5, 0, 0),
    b"m_key 0x5": (5, 0, 0),
    b"m_key -1\n": (0xFFFF_FFFF_FFFF_FFFF, 0, 0),
    b"m_key +5\n": (5, 0, 0),
    b"m_key 0100\n": (64, 0, 0),
    b"m_key 08\n": (0, 0, 0),
    b"m_key 0x10000000000000000\n": (0, 0, 0),
    b'm_key "0x5\n': (0, 0, 0),
    b'm_key "5 "\n': (0, 0, 0),
    b"m_key\v5\n": (0, 0, 0),
    b"m_key 5\v\n": (5, 0, 0),
    b"m_key 5\0\nm_key_lease_period 7\n": (5, 0, 7),
    b"m_key_protection_level 256\nm_key_lease_period 70000\n": (0, 0, 0),
    b"m_key_protection_level 3\nm_key_lease_period 0x3c\n": (0, 3, 60),
    b"m_key_protection_level -1\n": (0, 0, 0),
    b"x" * 1100 + b" m_key 9\n": (0, 0, 0),
    b"#" * 1022 + b"m_key 9\n": (9, 0, 0),
}


def taken(data: bytes) -> tuple[int, int, int]:
    found = read_options(data)
    key, level, lease = map(found.value, ("m_key", "m_key_protection_level", "m_key_lease_period"))
    return key.reveal(), level, lease  # type: ignore[union-attr, return-value]


@pytest.mark.parametrize(("data", "expected"), TAKEN.items())
def test_lines_are_taken_as_opensm_takes_them(data: bytes, expected: tuple[int, int, int]) -> None:
    assert taken(data) == expected


def as_opensm_does(data: bytes, folder: Path) -> tuple[int, int, int]:
    """Return what the real OpenSM would start with: ``-c`` writes its options without touching a fabric."""
    (folder / "in.conf").write_bytes(data)
    command = [tool("opensm"), "-F", folder / "in.conf", "-c", folder / "out.conf"]
    subprocess.run(command, capture_output=True, timeout=60, check=False)
    text = (folder / "out.conf").read_text()
    names = ("m_key", "m_key_protection_level", "m_key_lease_period")
    key, level, lease = (int(re.findall(rf"^{name} (\S+)", text, re.MULTILINE)[0], 0) for name in names)
    return key, level, lease


@pytest.mark.integration
@pytest.mark.parametrize(("data", "expected"), TAKEN.items())
def test_the_real_opensm_takes_them_so(data: bytes, expected: tuple[int, int, int], tmp_path: Path) -> None:
    assert as_opensm_does(data, tmp_path) == expected


@pytest.mark.integration
@pytest.mark.parametrize("data", [*TAKEN, LINES, b""])
def test_the_real_opensm_reads_what_was_written(data: bytes, tmp_path: Path) -> None:
    assert as_opensm_does(with_lines(data, WANTED), tmp_path) == (KEY.reveal(), 2, 60)


PIECES = [
    *(b"m_key", b"m_key_protection_level", b"m_key_lease_period", b"sm_key", b"0x5", b"7", b"junk", b"x" * 600),
    *(b" ", b"\t", b"\n", b"#", b'"', b"=", b"\r", b"\0"),
]
text = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=40).map(b"".join)


@given(text, st.none() | st.integers(0, 3), st.none() | st.integers(0, 0xFFFF))
def test_whatever_is_there_the_lines_are_read_afterwards_and_no_other_line_changes(
    data: bytes, protect: int | None, lease: int | None
) -> None:
    wanted = KeyLines(KEY, protect, lease)
    try:
        after = with_lines(data, wanted)
    except FileFormatError:
        assert any(len(line) > 900 for line in data.split(b"\n"))
        return
    assert key_changes_at_start(after, wanted) == []
    assert with_lines(after, wanted) == after
    names = (b"m_key", b"m_key_protection_level", b"m_key_lease_period")
    kept = [line for line in data.split(b"\n") if not any(name in line for name in names)]
    left = iter(after.split(b"\n"))
    assert all(line in left for line in kept if line)


def test_only_the_value_of_the_last_line_is_replaced() -> None:
    before = b'# mine\nm_key 0x1 # old\n  m_key\t"0x2"  # and why\r\nsm_key 5\nm_key_lease_period 60'
    after = with_lines(before, WANTED)
    assert after == (
        b"# mine\nm_key 0x1 # old\n  m_key\t0x83f1c05e9a2d7b46  # and why\r\nsm_key 5\nm_key_lease_period 60\n"
        b"m_key_protection_level 2\n"
    )


def test_a_file_without_lines_gets_them_and_one_with_them_stays() -> None:
    assert with_lines(b"", WANTED) == LINES
    assert with_lines(b"sm_key 5", WANTED) == b"sm_key 5\n" + LINES
    assert with_lines(LINES, WANTED) == LINES


@pytest.mark.parametrize(
    ("data", "wanted", "said"),
    [
        (LINES, WANTED, []),
        (LINES, KeyLines(KEY), []),
        (b"", WANTED, ["m_key is not set", "level is not set, which means 0; the ports have 2", "period is not set"]),
        (b"m_key 0\n", KeyLines(KEY), ["m_key is 0: an OpenSM that starts with it removes every M_Key"]),
        (b"m_key 77\n", KeyLines(KEY), ["m_key is another key"]),
        (LINES + b"m_key_protection_level 1\n", WANTED, ["m_key_protection_level is 1; the ports have 2"]),
        (LINES + b"m_key_protection_level 9\n", WANTED, []),  # OpenSM makes 2 of it
        (b"", KeyLines(KEY, 0, 0), ["m_key is not set"]),
        (LINES, None, ["which no m_key can express: an OpenSM that starts with it replaces each of them"]),
        (b"", None, ["removes all of them (m_key is not set)"]),
        (LINES + b"m_key_per_port TRUE\n", None, []),
        (b"m_key_per_port TRUE\n", None, ["removes all of them (m_key is not set)"]),
    ],
)
def test_problems_say_what_opensm_would_do_and_no_key(data: bytes, wanted: KeyLines | None, said: list[str]) -> None:
    found = key_changes_at_start(data, wanted)
    assert len(found) == len(said)
    assert all(words in line for words, line in zip(said, found, strict=True))
    assert not any("77" in line or f"{KEY.reveal():x}" in line for line in found)


# --- the file ---------------------------------------------------------------------------------------------------------


def conf(folder: Path, data: bytes = b"sm_key 5\n", mode: int = 0o644) -> Path:
    path = folder / "opensm.conf"
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(("mode", "after"), [(0o644, 0o600), (0o600, 0o600), (0o400, 0o400), (0o664, 0o600)])
def test_the_file_is_put_in_place_whole_and_others_may_not_read_it_any_more(
    tmp_path: Path, mode: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = conf(tmp_path, mode=mode)
    done: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def noting(*args: object, _name: str = name, _real: object = real) -> object:
            done.append(_name)
            return _real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, noting)
    assert write_lines(path, WANTED)
    assert done == ["fsync", "replace", "fsync"]  # the file, its name, the directory
    assert path.read_bytes() == b"sm_key 5\n" + LINES
    assert path.stat().st_mode & 0o7777 == after
    assert [each.name for each in tmp_path.iterdir()] == ["opensm.conf"]


def test_a_file_that_is_not_there_is_made_for_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "opensm.conf"
    assert write_lines(path, WANTED)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (LINES, 0o600)
    with pytest.raises(StoreError):
        write_lines(tmp_path / "nowhere" / "opensm.conf", WANTED)


def test_a_file_that_has_the_lines_stays_as_it_is_but_for_its_mode(tmp_path: Path) -> None:
    path = conf(tmp_path, LINES)
    before = path.stat()
    assert not write_lines(path, WANTED)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_mode & 0o777) == (before.st_ino, before.st_mtime_ns, 0o600)


def test_links_fifos_and_what_is_no_configuration_are_refused(tmp_path: Path) -> None:
    path = conf(tmp_path)
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "long").write_bytes(b"#" * (files.SETTINGS + 1))
    os.link(path, tmp_path / "second")
    for name in ("link", "dangling", "fifo", "long", "second", "opensm.conf", "."):
        with pytest.raises((FileFormatError, StoreError)):
            write_lines(tmp_path / name, WANTED)
    assert path.read_bytes() == b"sm_key 5\n"
    assert not (tmp_path / "elsewhere").exists()
    for name in ("fifo", "long"):
        with pytest.raises(FileFormatError):
            read_conf(tmp_path / name)
    assert read_conf(tmp_path / "link") == b"sm_key 5\n"  # to look at it, a link is followed


def test_a_change_by_somebody_else_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = conf(tmp_path)
    real = opensm_conf.with_lines

    def meanwhile(data: bytes, wanted: KeyLines) -> bytes:
        path.write_bytes(b"sm_key 7\npolling_retry_number 4\n")
        return real(data, wanted)

    monkeypatch.setattr(opensm_conf, "with_lines", meanwhile)
    with pytest.raises(FileFormatError, match="changed by another user or program"):
        write_lines(path, WANTED)
    assert path.read_bytes() == b"sm_key 7\npolling_retry_number 4\n"
    assert [each.name for each in tmp_path.iterdir()] == ["opensm.conf"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = conf(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="no space left"):
        write_lines(path, WANTED)
    assert path.read_bytes() == b"sm_key 5\n"
    assert [each.name for each in tmp_path.iterdir()] == ["opensm.conf"]
