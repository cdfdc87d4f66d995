"""The M_Key through OpenSMs of another host: a real sshd on loopback leads there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_opensm import CLOSED
from tests.integration.keyed_standbys import NODES, KeyedSite, keyed_site, through_ssh
from tests.mounts import needs_mounts


@pytest.fixture
def there(tmp_path: Path) -> Iterator[KeyedSite]:
    with ExitStack() as stack:
        _, words = through_ssh(stack, tmp_path)
        yield stack.enter_context(keyed_site(2, words))


@pytest.mark.soak
def test_keys_come_change_and_go_on_another_host(there: KeyedSite) -> None:
    [standby] = there.standbys
    code, said = there.ibkeys("mkey-deploy", *CLOSED)
    assert code == 0, said
    assert "type on smhost" in said
    first = there.key()
    assert first[1:] == (2, 60)
    code, said = there.ibkeys("mkey-rotate")
    assert code == 0, said
    assert there.key()[1:] == (2, 60)
    assert there.key()[0] != first[0]
    for each in there.opensms:
        assert [there.mode(each.cache), there.mode(each.conf)] == [0o700, 0o600]
    assert [there.mode(standby.cache / name) for name in ("guid2mkey", "neighbors")] == [0o600, 0o600]
    before = there.key()
    there.kill_master()
    assert there.key() == before
    code, said = there.ibkeys("mkey-remove", "--leave-open")
    assert code == 0, said
    assert there.key() == (0, 0, 0)
    assert there.violations() == 0


class Apart:
    """The master on another host than the standby: each host's view of processes lacks that of the other."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.sshd, words = through_ssh(stack, folder, own_mounts=True)
        (folder / "sm.toml").write_text("")
        self.site = stack.enter_context(keyed_site(2, words))
        self.hide(self.site.standbys[0].process.pid)
        self.site.user = self.type_hidden
        self.site.before = [
            "unshare",
            "-m",
            "sh",
            "-c",
            f'{_HIDE.format(self.site.master.process.pid)}; exec "$@"',
            "-",
        ]

    def hide(self, pid: int | str) -> None:
        """Let the other host not see a process."""
        command = ["nsenter", "-m", "-r", "-t", str(self.sshd.pid), "sh", "-c", _HIDE.format(pid)]
        subprocess.run(command, check=True, timeout=RUN_TIMEOUT)

    def type_hidden(self, guid: int, command: str) -> None:
        assert guid == NODES[self.site.standbys[0].node]
        hide = f"nsenter -m -r -t {self.sshd.pid} " + _HIDE.format("$$")
        self.site.type(guid, f"{hide} && {command}")


_HIDE = "mount -t tmpfs none /proc/{}"


@needs_mounts
def test_the_master_is_on_another_host_and_its_standby_on_this_one(tmp_path: Path) -> None:
    with ExitStack() as stack:
        site = Apart(stack, tmp_path).site
        code, said = site.ibkeys("mkey-deploy", *CLOSED)
        assert code == 0, said
        assert "type on this host" in said
        before = site.key()
        assert before[1:] == (2, 60)
        [standby] = site.standbys
        assert (standby.cache / "guid2mkey").read_bytes() == (site.master.cache / "guid2mkey").read_bytes()
        site.kill_master()
        assert site.key() == before
        assert site.violations() == 0


@pytest.mark.soak
@needs_mounts
def test_a_host_that_is_gone_in_the_middle_can_be_left_out(tmp_path: Path) -> None:
    with ExitStack() as stack:
        apart = Apart(stack, tmp_path)
        site, [standby] = apart.site, apart.site.standbys
        config = apart.sshd.config.read_text()
        apart.sshd.config.write_text(
            config + config.partition("Host stranger")[0].replace("Host smhost", "Host smhost2")
        )

        def loses_the_host(guid: int, command: str) -> None:
            apart.type_hidden(guid, command)
            standby.log.wait("ENTERING SM STANDBY STATE")
            site.master.process.kill()

        site.user = loses_the_host
        code, said = site.ibkeys("mkey-deploy", *CLOSED)
        assert code == 4, said
        standby.log.wait("SUBNET UP", standby.place("ENTERING SM MASTER STATE"))
        site.user = apart.type_hidden
        site.words = ["smhost2" if word == "smhost" else word for word in site.words]
        code, said = site.ibkeys("resume")
        assert code == 0, said
        assert "before you start the standby OpenSM on smhost (port GUID 0x0002c903000a1011) again" in said
        assert site.key()[1:] == (2, 60)
        assert site.states() == ["master"]
