"""``make demo`` on a bare Debian, by a user who may not become root, with nothing but make and python3-venv."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages.bare import in_bare_debian
from tests.packages.made import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.soak]

SCRIPT = """
useradd --create-home tester
tar -xf /in/ibkeys.tar -C /home/tester
cp -r /in/wheelhouse /home/tester
chown -R tester: /home/tester
as_user() { su tester -c "cd && export PIP_NO_INDEX=1 PIP_FIND_LINKS=~/wheelhouse && $1" 2>&1 || echo "exit $?"; }

echo "without venv: $(as_user 'make -C ibkeys demo' | tr '\\n' ' ')"
apt-get install -qq --no-install-recommends python3-venv >/dev/null 2>&1
as_user 'make -C ibkeys demo && echo the demo is done'
echo "sudo: $(command -v sudo || echo none), gcc: $(command -v gcc || echo none)"
echo "made: $(ls -A /home/tester/ibkeys | grep venv)"
"""


def test_a_user_without_root_runs_the_demo(tmp_path: Path) -> None:
    house, tar = tmp_path / "wheelhouse", tmp_path / "ibkeys.tar"
    house.mkdir()
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(house)]
    subprocess.run([*pip, "click"], check=True, timeout=600)
    archive = ["git", "-C", str(ROOT), "archive", "--prefix=ibkeys/", "--output", str(tar), "HEAD"]
    subprocess.run(archive, check=True, timeout=60)

    said = in_bare_debian(SCRIPT, [house, tar], tmp_path, "make,python3")
    (refused,) = (line for line in said.splitlines() if line.startswith("without venv: "))
    assert "as root: apt-get install python3-venv" in refused
    assert "exit 2" in refused
    for shown in ("  can talk", "  cannot talk", "the demo is done", "sudo: none, gcc: none", "made: .venv-demo"):
        assert shown in said.splitlines(), said
