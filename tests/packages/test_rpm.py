"""The RPM in a folder of its own: what it requires, installed without a Debian's packages, used, removed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ibkeys import __version__
from tests.packages.made import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.soak]

SITE = "usr/lib64/python3.12/site-packages"


def rpm(*args: object, root: Path | None = None) -> str:
    assert shutil.which("rpm"), "rpm is not installed: apt-get install rpm"
    command = ["rpm", *map(str, args)] if root is None else ["rpm", "--root", str(root), *map(str, args)]
    if root is not None and os.geteuid():
        command = ["unshare", "--map-root-user", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr  # on Debian it says there that one should not
    return done.stdout


@pytest.fixture
def package(dist: Path) -> Path:
    return next(dist.glob("*.rpm"))


def test_it_requires_what_the_wheel_requires(package: Path) -> None:
    needs = set(rpm("-qp", "--requires", package).splitlines())
    names = ("cffi", "click")
    assert {f"python3.12dist({name})" for name in names} == {
        need.partition(" ")[0] for need in needs if need.startswith("python3.12dist")
    }
    assert {"python(abi) = 3.12", "libibumad.so.3()(64bit)"} <= needs
    assert "diffutils" in needs  # cmp and diff, for ibkeys-audit-run


def test_it_is_installed_used_and_removed(package: Path, dist: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    rpm("--nodeps", "-i", package, root=root)
    assert rpm("-V", "--nodeps", "ibkeys", root=root) == ""
    assert oct((root / "var/lib/ibkeys").stat().st_mode)[-3:] == "700"
    units = list((root / "usr/lib/systemd/system").iterdir())
    assert {unit.name for unit in units} == {unit.name for unit in (ROOT / "contrib/systemd").iterdir()}
    assert (root / "usr/share/man/man1/ibkeys-audit.1.gz").exists()
    for completion in ("bash-completion/completions/ibkeys", "zsh/site-functions/_ibkeys", "fish/*/ibkeys.fish"):
        (script,) = (root / "usr/share").glob(completion)
        assert "_IBKEYS_COMPLETE" in script.read_text()

    # a Python that has what the package requires
    python = dist.parent / "build/packaging/installed/bin/python"
    environment = {"PYTHONPATH": str(root / SITE), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.defpath}
    fabric = f"sim:{ROOT}/tests/data/fabrics/two-switch.net"
    for args, says in [
        (["--version"], f"ibkeys {__version__}\n"),
        (["pkey-show", "2", "--backend", fabric], "node02 mlx4_0"),
    ]:
        command = [python, "-sP", root / "usr/bin/ibkeys", *args]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        assert says in done.stdout
    where = [python, "-sPc", "import ibkeys; print(ibkeys.__file__)"]
    assert subprocess.check_output(where, env=environment, text=True).startswith(str(root))

    # what root's Python compiled goes as well; keys stay
    (root / SITE / "ibkeys/__pycache__").mkdir()
    (root / SITE / "ibkeys/__pycache__/errors.cpython-312.pyc").touch()
    (root / "var/lib/ibkeys/keys.db").touch()
    rpm("--nodeps", "-e", "ibkeys", root=root)
    left = [path for path in root.rglob("*ibkeys*") if ".rpmdb" not in path.parts]
    assert left == [root / "var/lib/ibkeys"]
    assert [path.name for path in left[0].iterdir()] == ["keys.db"]


SYSTEMCTL = """
#include <stdio.h>
int main(int count, char **words)
{
    FILE *asked = fopen("/asked", "a");
    for (int at = 1; at < count; at++)
        fprintf(asked, at == 1 ? "%s" : " %s", words[at]);
    return fputs("\\n", asked) < 0;
}
"""


def test_what_runs_goes_on_after_an_upgrade_and_stops_at_removal(package: Path, tmp_path: Path) -> None:
    """There is no shell in that folder, so what writes down what systemd is asked is a program without libraries."""
    root = tmp_path / "root"
    systemctl = root / "usr/bin/systemctl"
    systemctl.parent.mkdir(parents=True)
    build = ["gcc", "-static", "-x", "c", "-o", str(systemctl), "-"]
    subprocess.run(build, input=SYSTEMCTL, text=True, check=True, timeout=60)
    units = "ibkeys-audit.timer ibkeys-export.service ibkeys-watch.service"
    rpm("--nodeps", "-i", package, root=root)
    assert not (root / "asked").exists()
    rpm("--nodeps", "--replacepkgs", "-U", package, root=root)
    assert (root / "asked").read_text().splitlines() == ["daemon-reload", f"try-restart {units}"]
    (root / "asked").unlink()
    rpm("--nodeps", "-e", "ibkeys", root=root)
    assert (root / "asked").read_text() == f"--no-reload disable --now {units}\n"
