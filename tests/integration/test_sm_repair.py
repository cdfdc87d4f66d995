"""``sm-repair`` with the real OpenSM: it dies in the middle of a change of M_Keys, and is started again.

No lease is waited for: the simulator's time stands, but for what passes by itself, and every lease is an hour.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server.outbox import Attached, PassedMad
from ibkeys.sim.server.umad.directed_routes import is_local
from ibkeys.sim.server.umad.open_ports import ProgramPort
from ibkeys.store.opensm import read_key_files
from tests.fattree import fat_tree
from tests.integration import opensms
from tests.integration.hosted import Hosted, RunningOpensm
from tests.integration.ibsim import RUN_TIMEOUT
from tests.sample import in_soak

A, B = 0xA94F13D02E7C5B68, 0x17C4E5906F2BD38A
LEASE = 3600
PORTS = 24
ACTIVE = 4


class Site(Hosted):
    """A served subnet with an OpenSM that has its cache in a folder of its own."""

    def __init__(self, netfile: Path, level: int) -> None:
        super().__init__(netfile)
        self.level = level
        self.cache = self.folder / "cache"
        self.cache.mkdir()
        self.conf = self.folder / "opensm.conf"
        words = self.opensm_arguments(self.conf_text(A), extra=("-f", "stdout", "-D", "0x07"))
        self.running = RunningOpensm(self, words, self.folder / "partitions.conf", folder=self.cache)

    def conf_text(self, key: int, lookup: str = "TRUE") -> str:
        keys = f"m_key {key:#x}\nm_key_protection_level {self.level}\nm_key_lease_period {LEASE}\n"
        return f"{keys}m_key_lookup {lookup}\nsweep_interval 0\n"

    def end_ports(self) -> list[SimPort]:
        return [port for node in self.net.nodes for port in node.end_ports if port.is_up or node.is_switch]

    def count(self, key: int) -> int:
        return sum(port.m_key == key for port in self.end_ports())

    def violations(self) -> int:
        return sum(port.m_key_violations for port in self.end_ports())

    def keep_keys(self) -> None:
        """Take what OpenSM has into the key store, before it is changed."""
        self.running.sweep()
        done = self.ibkeys("keystore", "import", self.cache, "--opensm-conf", self.conf)
        assert done.returncode == 0, done.stderr

    def crash_at(self, number: int) -> None:
        """Change the key from A to B, and let OpenSM die when it sends the Set with *number*."""
        self.conf.write_text(self.conf_text(B))
        done = self.ibkeys("keystore", "import", "--opensm-conf", self.conf)
        assert done.returncode == 0, done.stderr
        process, sets = self.running.process, 0

        def watch(seen: PassedMad) -> None:
            nonlocal sets
            mad = seen.mad
            if seen.out and mad[3] == Method.SET and mad[16:18] == AttributeID.PORT_INFO.to_bytes(2):
                sets += mad[64:72] == B.to_bytes(8)
                if sets == number:
                    os.kill(process.pid, signal.SIGKILL)

        self.watchers.append(watch)
        process.send_signal(signal.SIGHUP)
        process.wait(RUN_TIMEOUT)
        self.watchers.remove(watch)
        self.running.kill()

    def repair(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        done = self.ibkeys("sm-repair", "--cache-dir", self.cache, "--opensm-conf", self.conf, "--yes", *words)
        for key in (A, B):
            assert f"{key:x}" not in done.stdout + done.stderr
        return done

    def file(self) -> dict[int, int]:
        """What guid2mkey says, by port GUID."""
        return {guid: key.reveal() for guid, key in read_key_files(self.cache).m_keys.items()}

    def wire(self) -> dict[int, int]:
        return {port.guid: port.m_key for port in self.end_ports()}

    def all_active(self) -> bool:
        return all(port.info[32] & 0x0F == ACTIVE for port in self.end_ports() if port.is_up and port.number)

    def starts_with(self, key: int, violations: int) -> None:
        """OpenSM starts, and every port is up with *key*; no port refused anything, no lease ran out."""
        self.running.start()
        self.running.sweep()
        assert self.count(key) == len(self.end_ports())
        assert self.violations() == violations
        assert self.all_active()
        assert self.leases_ended() == 0

    def leases_ended(self) -> int:
        return sum(event.kind == "lease-expired" for event in self.net.events)


@contextmanager
def site_with_keys(netfile: Path, level: int) -> Iterator[Site]:
    with Site(netfile, level) as site:
        site.running.start()
        try:
            site.keep_keys()
            yield site
        finally:
            if site.running.process.poll() is None:
                site.running.kill()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree.net"
    path.write_text(fat_tree(2, 3, 2, pods=2, cores=2))
    return path


def test_without_it_opensm_waits_for_ever_after_a_crash_at_level_2(tree: Path) -> None:
    """It asks its own port first, with the former key. Of such an SMP that gets no answer the kernel reports nothing,
    not even a timeout (handle_outgoing_dr_smp).
    """
    with site_with_keys(tree, 2) as site:
        site.crash_at(6)
        assert 0 < site.count(B) < len(site.end_ports())
        assert set(site.file().values()) == {A}
        refused, opened = threading.Event(), list[Attached]()

        def watch(seen: PassedMad) -> None:
            if seen.note == "no answer: m_key" and is_local(seen.mad):
                opened.append(seen.client)
                refused.set()

        site.watchers.append(watch)
        process, log = opensms.start(site, site.running.words, site.cache)
        try:
            assert refused.wait(RUN_TIMEOUT)
            site.steer("counts")  # is answered when the server has done with that SMP
            [port] = opened
            assert isinstance(port, ProgramPort)
            assert not port.sends
            assert not any("SUBNET UP" in line for line in log.lines)
        finally:
            process.kill()
            process.wait(RUN_TIMEOUT)
            log.close()


@pytest.mark.parametrize("level", [in_soak(1), 2])
@pytest.mark.parametrize("at", [7, *(pytest.param(at, marks=pytest.mark.soak) for at in (1, 2, 15, PORTS))])
def test_after_a_crash_opensm_starts_and_gives_all_ports_its_key(tree: Path, level: int, at: int) -> None:
    with site_with_keys(tree, level) as site:
        site.crash_at(at)
        mixture = site.wire()
        assert len(mixture) == PORTS
        assert set(mixture.values()) <= {A, B}
        done = site.repair("-f", "json")
        assert done.returncode == 0, done.stderr
        assert {port["result"] for port in json.loads(done.stdout)["ports"]} == {"answered"}
        assert site.file() == mixture
        assert stat.S_IMODE(site.cache.stat().st_mode) == 0o700
        assert {stat.S_IMODE((site.cache / name).stat().st_mode) for name in ("guid2mkey", "neighbors")} == {0o600}
        before = site.violations()
        assert before <= (PORTS if level == 2 else 0)
        site.starts_with(B, before)


def test_opensm_may_also_go_back_to_the_former_key(tree: Path) -> None:
    with site_with_keys(tree, 2) as site:
        site.crash_at(9)
        assert site.repair().returncode == 0
        before = site.violations()
        site.conf.write_text(site.conf_text(A))
        site.starts_with(A, before)


def test_a_port_that_is_silent_meanwhile_is_named_and_reached_when_it_is_back(tree: Path) -> None:
    with site_with_keys(tree, 2) as site:
        site.crash_at(9)
        away = next(port for port in reversed(site.end_ports()) if port.number and port.m_key == A)
        away.node.silent = 1_000_000
        done = site.repair("-f", "json")
        assert done.returncode == 3, done.stderr
        [kept] = [port for port in json.loads(done.stdout)["ports"] if port["result"] == "kept"]
        assert kept["port_guid"] == f"0x{away.guid:016x}"
        assert site.file() == site.wire()
        away.node.silent = 0
        site.starts_with(B, site.violations())


def test_refused_while_opensm_runs_and_no_port_is_asked(tree: Path) -> None:
    with site_with_keys(tree, 2) as site:
        before = site.file()
        done = site.repair()
        assert done.returncode == 4
        assert f"process {site.running.process.pid}" in done.stderr
        elsewhere = site.folder / "elsewhere"
        done = site.repair("--cache-dir", elsewhere)
        assert done.returncode == 4
        assert "interlock mkey-under-sm" in done.stderr
        assert not elsewhere.exists()
        assert site.file() == before
        assert site.violations() == 0


def test_the_cache_folder_is_that_of_osm_cache_dir(tree: Path) -> None:
    with site_with_keys(tree, 1) as site:
        site.crash_at(9)
        words = ("sm-repair", "--opensm-conf", site.conf, "--yes")
        done = site.ibkeys(*words, env={"OSM_CACHE_DIR": str(site.cache)})
        assert done.returncode == 0, done.stderr
        assert site.file() == site.wire()
