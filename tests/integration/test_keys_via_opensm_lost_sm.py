"""The M_Key through OpenSM where one of the OpenSMs would be lost: nothing is changed, and what to do is said."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import opensms
from tests.integration.ibsim import RUN_TIMEOUT, tool
from tests.integration.keyed_opensm import CLOSED
from tests.integration.keyed_standbys import NODES, KeyedSite, keyed_site

[_, (NODE, GUID), _] = NODES.items()
TO_STDOUT = ("-f", "stdout", "-D", "0x07")


@pytest.fixture
def site() -> Iterator[KeyedSite]:
    with keyed_site(1) as running:
        yield running


def stand_by(site: KeyedSite, conf: Path, cache: Path, program: str | Path = "opensm") -> None:
    """Start a standby with this options file and this folder for its key files."""
    words = [program, "-F", conf, "-g", f"{GUID:#x}", *TO_STDOUT]
    process, log = opensms.start(site.served, words, cache, NODE)
    site.stack.callback(log.close)
    site.stack.callback(process.wait, RUN_TIMEOUT)
    site.stack.callback(process.kill)
    log.wait("ENTERING SM STANDBY STATE")


def refused(site: KeyedSite) -> str:
    """Try to give keys; nothing is changed, and the text says why."""
    before = site.master.conf.read_bytes()
    code, said = site.ibkeys("mkey-deploy", *CLOSED)
    assert code == 4, said
    assert site.key() == (0, 0, 0)
    assert site.master.conf.read_bytes() == before
    assert "nothing was changed" in said
    return said


def own_files(site: KeyedSite) -> tuple[Path, Path]:
    folder = site.served.folder / "other"
    folder.mkdir()
    conf = folder / "opensm.conf"
    conf.write_bytes(site.master.conf.read_bytes().replace(b"sm_priority 9", b"sm_priority 3"))
    return conf, folder


def test_a_standby_on_no_host_that_is_reached(site: KeyedSite) -> None:
    conf, folder = own_files(site)
    program = folder / "sm"  # under another name nobody sees that it is an OpenSM, as if it ran on another host
    program.symlink_to(tool("opensm"))
    stand_by(site, conf, folder, program)
    said = refused(site)
    assert "node05" in said
    assert "is not on any host that was examined" in said
    assert "--sm-host" in said


def test_two_with_the_same_key_files(site: KeyedSite) -> None:
    conf, _ = own_files(site)
    stand_by(site, conf, site.master.cache)
    said = refused(site)
    assert "share one folder for their key files" in said
    assert "OSM_CACHE_DIR" in said


def test_a_standby_without_an_options_file(site: KeyedSite) -> None:
    conf, folder = own_files(site)
    conf.unlink()
    stand_by(site, conf, folder)
    said = refused(site)
    assert f"({conf})" in said
    assert "umask 077; cd " in said
    assert f"-c {conf})" in said


def test_a_standby_that_has_read_another_sm_key_since(site: KeyedSite) -> None:
    conf, folder = own_files(site)
    conf.write_text(conf.read_text() + "sminfo_polling_timeout 60000\n")  # when it polls, it becomes master
    process, log = opensms.start(site.served, ["opensm", "-F", conf, "-g", f"{GUID:#x}", *TO_STDOUT], folder, NODE)
    site.stack.callback(log.close)
    site.stack.callback(process.wait, RUN_TIMEOUT)
    site.stack.callback(process.kill)
    log.wait("ENTERING SM STANDBY STATE")
    conf.write_text(conf.read_text() + "sm_key 0x5e11a7c0ffee\n")
    process.send_signal(signal.SIGHUP)
    log.wait("Loading Cached Option:sm_key")
    said = refused(site)
    assert "its sm_key is not that of the master" in said
    assert str(conf) in said
