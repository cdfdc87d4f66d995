"""What `make release` puts into dist/: all of it, with the same bytes in another folder."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from ibkeys import __version__
from tests.packages.made import ROOT, made

pytestmark = [pytest.mark.integration, pytest.mark.soak]


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_it_has_every_form(dist: Path) -> None:
    names = set(hashes(dist))
    wheel = {name for name in names if name.startswith(f"ibkeys-{__version__}-cp311-abi3-manylinux_2_34_")}
    assert len(wheel) == 1
    assert names - wheel == {
        f"ibkeys-{__version__}.tar.gz",
        f"ibkeys-{__version__}-py3-none-any.whl",
        f"ibkeys-{__version__}.cdx.json",
        f"ibkeys_{__version__}_amd64.deb",
        f"ibkeys-{__version__}-1.x86_64.rpm",
        "SHA256SUMS",
    }


def test_the_sums_are_those_of_the_files(dist: Path) -> None:
    sums = hashes(dist)
    del sums["SHA256SUMS"]
    assert {line.split()[1]: line.split()[0] for line in (dist / "SHA256SUMS").read_text().splitlines()} == sums


def test_made_in_another_folder_with_another_umask_it_has_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    assert hashes(made(tmp_path / "elsewhere" / "ibkeys", dist.parent, umask=0o077)) == hashes(dist)


def test_the_sdist_has_what_it_takes_to_build_and_test(dist: Path) -> None:
    with tarfile.open(dist / f"ibkeys-{__version__}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    folders = ("ibkeys", "man", "native", "contrib", "packaging", "tests/cli")
    missing = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.*")
        if not {".so", ".pyc"} & set(path.suffixes)
        and path.is_file()
        and path.relative_to(ROOT).as_posix() not in names
    ]
    assert not missing


def test_all_that_is_compiled_needs_the_c_library_alone_and_brings_no_search_path(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*-abi3-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        compiled = {name: archive.extract(name, tmp_path) for name in archive.namelist() if ".so" in name}
    assert {name.rpartition("/")[2].partition(".")[0] for name in compiled} == {"_libibumad", "kernel", "libibumad"}
    for path in compiled.values():
        dynamic = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
        found = re.findall(r"\((NEEDED|RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
        # on aarch64 the loader has what guards the stack
        assert set(found) - {("NEEDED", "ld-linux-aarch64.so.1")} == {("NEEDED", "libc.so.6")}, path


def test_the_sbom_names_ibkeys_and_what_it_needs(dist: Path) -> None:
    bom = json.loads((dist / f"ibkeys-{__version__}.cdx.json").read_text())
    assert (bom["bomFormat"], bom["metadata"]["component"]["version"]) == ("CycloneDX", __version__)
    names = {each["name"].lower() for each in bom["components"]}
    needed = {"cffi", "click", "jinja2", "cryptography", "httpx"}
    assert needed <= names
    assert not names & {"meson", "pytest", "auditwheel"}
