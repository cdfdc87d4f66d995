"""Changes on another host, through a real sshd, under a real OpenSM: this machine once more, by another name."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ibkeys.host.replacing.conversions import NO_BYTES, NOT_KEPT
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.machines.opening import open_machine
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.managers.opensm.process import OpensmProcess, opensm_processes
from ibkeys.store.journal import Journal
from tests.corpus import DATA
from tests.integration.served import Served
from tests.integration.sm_files import UP_SECONDS, opensm, write
from tests.integration.sshd import Sshd
from tests.managers.machines.there import Held

GUID = "0x0002c903000a1011"
OLD = "Default=0x7fff : ALL=full ;\n"
NEW = OLD + "Red=0x8010 : ALL=full ;\n"


@pytest.fixture
def fabric(serve: Callable[[Path], Served]) -> Served:
    return serve(DATA / "fabrics" / "two-switch.net")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "ssh") as server:
        yield server


def smhost(server: Sshd) -> SmHost:
    return SmHost(SshHost("smhost", config=str(server.config)))


def has_red(fabric: Served) -> bool:
    done = fabric.ibkeys("pkey-show", "-G", GUID)
    assert done.returncode == 0, done.stderr
    return "0x8010" in done.stdout


def until(fabric: Served, wanted: bool) -> None:
    deadline = time.monotonic() + UP_SECONDS
    while has_red(fabric) != wanted:
        assert time.monotonic() < deadline
        time.sleep(0.05)  # polls a condition


def process_of(host: OtherHost, process: subprocess.Popen[bytes]) -> OpensmProcess:
    [found] = [each for each in opensm_processes(host=host.files) if each.pid == process.pid]
    return found


def test_a_policy_is_replaced_there_and_opensm_reads_it(fabric: Served, server: Sshd) -> None:
    policy = fabric.folder / "osm" / "p.conf"
    write(policy, OLD)
    with (
        opensm(fabric, "-Pp.conf", "-g", GUID) as process,
        open_machine(smhost(server)) as host,
        Journal(None) as journal,
        journal.operation("apply") as operation,
    ):
        assert isinstance(host, OtherHost)
        running = process_of(host, process)
        assert host.may_signal(running) is None
        entry = host.replace(operation, host.look(policy), NEW.encode())
        host.signal(running)
        until(fabric, True)
        entry.done()
        assert (policy.read_text(), entry.image.host) == (NEW, "smhost")


def test_a_connection_that_dies_takes_nothing_along_but_the_new_policy(fabric: Served, server: Sshd) -> None:
    policy = fabric.folder / "osm" / "p.conf"
    write(policy, OLD)
    with opensm(fabric, "-Pp.conf", "-g", GUID) as process, Journal(None) as journal:
        with open_machine(smhost(server)) as host, journal.operation("apply") as operation:
            assert isinstance(host, OtherHost)
            running = process_of(host, process)
            guard = host.guard(3)
            guard.start(host.look(policy), running)
            held = Held(guard.pid)
            guard.announce(NEW.encode())
            host.replace(operation, host.look(policy), NEW.encode()).done()
            host.signal(running)
            until(fabric, True)
            host.writer.conversation.channel.process.kill()
        held.ended()
        assert policy.read_text() == OLD
        until(fabric, False)


def test_another_connection_confirms(fabric: Served, server: Sshd) -> None:
    policy = fabric.folder / "osm" / "p.conf"
    write(policy, OLD)
    with opensm(fabric, "-Pp.conf", "-g", GUID) as process:
        with open_machine(smhost(server)) as host:
            assert isinstance(host, OtherHost)
            guard = host.guard(600)
            token = guard.start(host.look(policy), process_of(host, process))
            held = Held(guard.pid)
            guard.start_time_limit()
        with open_machine(smhost(server)) as host:
            assert host.confirm_guard(token)
            held.ended()
            assert not host.confirm_guard(token)
        assert not (Path("/tmp") / token).exists()


def test_a_key_file_loses_rights_and_an_opensm_is_stopped(fabric: Served, server: Sshd) -> None:
    options = fabric.folder / "osm" / "opensm.conf"
    write(options, "log_flags 0x03\n")
    options.chmod(0o644)
    with (
        opensm(fabric, "-g", GUID) as process,
        open_machine(smhost(server)) as host,
        Journal(None) as journal,
        journal.operation("apply") as operation,
    ):
        assert isinstance(host, OtherHost)
        running = process_of(host, process)
        entry = host.replace(operation, host.look(options), b"m_key 0xfeed\n", conversions=NOT_KEPT, rights=0o600)
        assert (options.stat().st_mode & 0o777, options.read_text()) == (0o600, "m_key 0xfeed\n")
        assert entry.image.after == NO_BYTES
        cache = running.cache
        former = cache.stat().st_mode & 0o777
        assert host.set_mode(cache, host.files.stat(cache), former & 0o700) == former
        assert cache.stat().st_mode & 0o077 == 0
        assert host.is_running(running)
        host.stop(running)
        process.wait(UP_SECONDS)
        assert not host.is_running(running)
