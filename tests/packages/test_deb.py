"""The Debian package on a bare Debian: installed, used, removed, purged. lintian is asked by `make deb`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys import __version__
from tests.packages.bare import in_bare_debian
from tests.packages.made import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.soak]

SCRIPT = """
find / -xdev | sort > /before
apt-get install -qq --no-install-recommends /in/ibkeys_*.deb >/dev/null 2>&1
echo "version: $(ibkeys --version)"
ibkeys pkey-show 2 --backend sim:/in/two-switch.net
ibkeys doctor || true
man -w ibkeys ibkeys-audit ibkeys-opensm
man ibkeys-audit | head -n 3
python3 -c 'import ibkeys; print("library:", ibkeys.__file__)'

echo "mode: $(stat -c '%a %U' /var/lib/ibkeys)"
echo "started: $(find /etc/systemd -name 'ibkeys*')"
sed -n 's/^ExecStart=//p' /lib/systemd/system/ibkeys-*.service | while read -r program rest; do test -x "$program"; done
for file in bash-completion/completions/ibkeys zsh/vendor-completions/_ibkeys fish/vendor_completions.d/ibkeys.fish; do
    grep -q _IBKEYS_COMPLETE "/usr/share/$file"
done
bash -c '. /usr/share/bash-completion/completions/ibkeys; complete -p ibkeys'
echo "completed: $(_IBKEYS_COMPLETE=bash_complete COMP_WORDS='ibkeys pkey-sh' COMP_CWORD=1 ibkeys)"

# as where systemd runs: what is it asked to do?
mkdir -p /run/systemd/system
rm -f /usr/sbin/policy-rc.d
printf '#!/bin/sh\\necho "$@" >> /asked\\n' > /usr/bin/systemctl
chmod 755 /usr/bin/systemctl
dpkg --install /in/ibkeys_*.deb >/dev/null 2>&1
sed 's/^/upgrade: /' /asked
rm /asked

dpkg --force-depends --remove libibumad3 >/dev/null 2>&1
echo "without libibumad: $(ibkeys pkey-show 2>&1)"

touch /var/lib/ibkeys/keys.db
dpkg --remove ibkeys
sed 's/^/removal: /' /asked
dpkg --purge ibkeys
find / -xdev -name '*ibkeys*' ! -path '/in/*' ! -path '/dev/*' ! -path '/var/cache/*' ! -path '/var/log/*' |
  sed 's/^/left: /'
ls /var/lib/ibkeys
"""


def test_it_is_installed_used_and_removed(dist: Path, tmp_path: Path) -> None:
    files = [*dist.glob("*.deb"), ROOT / "tests" / "data" / "fabrics" / "two-switch.net"]
    said = in_bare_debian(SCRIPT, files, tmp_path, "man-db,groff-base").splitlines()

    assert f"version: ibkeys {__version__}" in said
    assert "node02 mlx4_0 (ca" in "\n".join(said)
    assert [line for line in said if "libibumad is loaded" in line]
    assert {f"/usr/share/man/man{page}.gz" for page in ("1/ibkeys.1", "1/ibkeys-audit.1", "7/ibkeys-opensm.7")} <= {
        *said
    }
    assert "library: /usr/lib/python3/dist-packages/ibkeys/__init__.py" in said
    assert {"mode: 700 root", "started: ", "completed: plain,pkey-show"} <= {*said}
    (missing,) = [line for line in said if line.startswith("without libibumad: ")]
    assert "libibumad.so.3: cannot open shared object file" in missing
    assert "apt-get install libibumad3" in missing
    # what runs goes on with the new version, and stops when the package goes; nothing is started
    units = "ibkeys-audit.timer ibkeys-export.service ibkeys-watch.service"
    asked = [line for line in said if line.startswith(("upgrade: ", "removal: ")) and "ibkeys-" in line]
    assert asked == [f"upgrade: try-restart {units}", f"removal: stop {units}"]
    # the keys of the fabric stay, and that is said
    assert "/var/lib/ibkeys is kept: it may have the only copy of the M_Keys of your fabric." in said
    assert [line for line in said if line.startswith("left: ")] == ["left: /var/lib/ibkeys"]
    assert "keys.db" in said
