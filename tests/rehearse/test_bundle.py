"""A bundle comes back as it was packed, and a hostile one is one error: nothing of it is unpacked or followed."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys import files
from ibkeys.errors import FileFormatError
from ibkeys.rehearse.bundle import Bundle, bundle_bytes, is_bundle, read_bundle

BUNDLE = Bundle(
    "/usr/sbin/opensm",
    ("-F", "/etc/opensm/opensm.conf"),
    b"m_key 0x1234\n",
    {"partition_config_file": b"Default=0x7fff : ALL=full ;\n", "root_guid_file": b""},
    b"SQLite format 3\0",
)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "site.bundle"
    path.write_bytes(data)
    return path


def with_members(change: Callable[[tarfile.TarFile], object], form: int = tarfile.GNU_FORMAT) -> bytes:
    """Return the file of `BUNDLE` with further members."""
    target = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(bundle_bytes(BUNDLE))) as good,
        tarfile.open(fileobj=target, mode="w", format=form) as bad,
    ):
        for entry in good:
            bad.addfile(entry, good.extractfile(entry))
        change(bad)
    return target.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, size
    return entry


def test_what_was_packed_comes_back(tmp_path: Path) -> None:
    path = written(tmp_path, bundle_bytes(BUNDLE))
    assert is_bundle(path)
    assert read_bundle(path) == BUNDLE


def test_records_of_the_sa_are_not_packed(tmp_path: Path) -> None:
    data = bundle_bytes(Bundle("opensm", (), b"", {"sa_db_file": b"Service Record: key=0x99"}, b""))
    assert b"key=0x99" not in data


@pytest.mark.parametrize(
    "entry",
    [
        member("../../etc/cron.d/evil"),
        member("/etc/passwd"),
        member("files/../../evil"),
        member("files/sa_db_file"),
        member("files/event_plugin_name"),
        member("files/"),
        member("files/root_guid_file", tarfile.DIRTYPE),
        member("files/torus_config", tarfile.SYMTYPE, "/etc/shadow"),
        member("files/torus_config", tarfile.LNKTYPE, "snapshot.db"),
        member("files/torus_config", tarfile.CHRTYPE),
        member("files/torus_config", tarfile.BLKTYPE),
        member("files/torus_config", tarfile.FIFOTYPE),
        member("files/torus_config", tarfile.GNUTYPE_SPARSE),
        member("snapshot.db"),
        member("x" * 5000),
        member("\x1b[31m"),
    ],
    ids=lambda entry: f"{entry.name[:20]!r} {entry.type!r}",
)
def test_a_member_that_no_bundle_has_is_refused(entry: tarfile.TarInfo, tmp_path: Path) -> None:
    path = written(tmp_path, with_members(lambda archive: archive.addfile(entry)))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileFormatError, match="is no bundle of `ibkeys rehearse --pack`") as caught:
        read_bundle(path)
    assert len(str(caught.value)) < 500
    assert "\x1b" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("size", [files.LIST + 1, files.STATE * 1000, (1 << 62)])
def test_a_huge_member_is_refused_by_its_header(size: int, tmp_path: Path) -> None:
    """The file has only its header: a program that reserved its size would have to have the memory."""
    entry = member("files/torus_config", size=size)
    path = written(tmp_path, with_members(lambda archive: archive.fileobj.write(entry.tobuf(tarfile.GNU_FORMAT))))  # type: ignore[union-attr]
    with pytest.raises(FileFormatError, match="is no bundle"):
        read_bundle(path)


def test_headers_that_rename_or_resize_a_member_are_refused(tmp_path: Path) -> None:
    entry = member("files/torus_config")
    entry.pax_headers = {"path": "/etc/passwd", "GNU.sparse.realsize": "9999999999"}
    path = written(tmp_path, with_members(lambda archive: archive.addfile(entry), tarfile.PAX_FORMAT))
    with pytest.raises(FileFormatError, match="is no bundle"):
        read_bundle(path)


@pytest.mark.parametrize(
    "about",
    [
        [],
        {},
        {"schema": "ibkeys.rehearsal-bundle/1"},
        {"schema": "ibkeys.rehearsal-bundle/2", "program": "opensm"},
        "x",
    ],
)
def test_another_description_is_refused(about: object, tmp_path: Path) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, data in (("about.json", json.dumps(about).encode()), ("opensm.conf", b""), ("snapshot.db", b"")):
            archive.addfile(member(name, size=len(data)), io.BytesIO(data))
    with pytest.raises(FileFormatError, match=r"about\.json is not that of"):
        read_bundle(written(tmp_path, target.getvalue()))


@given(st.binary(max_size=2000), st.integers(0, 4000), st.booleans())
def test_any_bytes_are_a_bundle_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, cuts: bool
) -> None:
    data = bundle_bytes(BUNDLE)
    data = data[:at] + noise + (b"" if cuts else data[at + len(noise) :])
    path = written(tmp_path_factory.getbasetemp(), data)
    with suppress(FileFormatError):
        read_bundle(path)
