"""Installing: all files of the package are in the wheel, and a machine without a compiler gets one as well."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ibkeys import __version__
from tests.sample import in_soak

ROOT = Path(__file__).parents[2]


def build(folder: Path, **environment: str) -> zipfile.ZipFile:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += [f"--config-settings=build-dir={folder / 'build'}", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(
        command, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"are the build tools here (make setup)?\n{done.stdout}{done.stderr}"
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def package_files() -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "ibkeys").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".so" not in path.suffixes
    }


def test_wheel_has_every_file_and_the_extension(tmp_path: Path) -> None:
    with build(tmp_path) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"ibkeys-{__version__}.dist-info/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in metadata
    inside = {name for name in names if name.startswith("ibkeys/")}
    extension = {name for name in inside if ".so" in name}
    assert inside - extension == package_files()
    assert extension == {
        "ibkeys/umad/_libibumad.abi3.so",
        "ibkeys/sim/hosted/kernel.abi3.so",
        "ibkeys/sim/lib/libibumad.so.3",
    }
    assert "-abi3-linux_" in Path(str(wheel.filename)).name
    pages = {name.rpartition("/")[2].removesuffix(".gz") for name in names if "/data/share/man/man" in name}
    assert pages == {page.name for page in (ROOT / "man").iterdir()}


def test_the_version_stands_in_one_place() -> None:
    files = [ROOT / "pyproject.toml", ROOT / "meson.build", ROOT / "README.md", *(ROOT / "man").iterdir()]
    version = re.compile(rf"(?<![0-9.]){re.escape(__version__)}(?![0-9.])")  # an IP address may have its digits
    assert not [path.name for path in files if version.search(path.read_text())]


@pytest.mark.parametrize("compiler", ["false", in_soak("cc -nostdinc")], ids=["no compiler", "no headers"])
def test_wheel_without_the_extension(tmp_path: Path, compiler: str) -> None:
    with build(tmp_path, CC=compiler) as wheel:
        names = wheel.namelist()
        assert Path(str(wheel.filename)).name.endswith("-py3-none-any.whl")
    assert {name for name in names if name.startswith("ibkeys/")} == package_files()
