"""The M_Key through OpenSM where standbys are there: they are stopped, get the keys, are started, and can take over."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from ibkeys.mad.const import SMState
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_opensm import CLOSED
from tests.integration.keyed_standbys import KeyedSite, keyed_site
from tests.integration.standin_systemd import StandInSystemd


@pytest.fixture
def site() -> Iterator[KeyedSite]:
    with keyed_site() as running:
        yield running


def give(site: KeyedSite, *words: str) -> str:
    code, said = site.ibkeys(*words)
    assert code == 0, said
    return said


def takes_over(site: KeyedSite) -> None:
    """The master dies: one MASTER, every port as it was."""
    before = site.key()
    site.kill_master()
    assert site.key() == before
    assert site.violations() == 0
    assert site.states() == ["master", "standby"]


@pytest.mark.soak
def test_keys_come_change_and_go_while_two_standbys_are_stopped_and_started(site: KeyedSite) -> None:
    give(site, "mkey-deploy", *CLOSED)
    first = site.key()
    assert first[1:] == (2, 60)
    assert len(site.typed) == 2
    give(site, "mkey-rotate")
    second = site.key()
    assert second[1:] == (2, 60)
    assert second[0] not in (0, first[0])
    assert len(site.typed) == 4
    for each in site.standbys:
        assert [site.mode(each.cache / name) for name in ("", "guid2mkey", "neighbors")] == [0o700, 0o600, 0o600]
        assert (each.cache / "guid2mkey").read_bytes() == (site.master.cache / "guid2mkey").read_bytes()
        assert site.master.conf.read_text().partition("m_key ")[2] == each.conf.read_text().partition("m_key ")[2]
    assert site.violations() == 0
    give(site, "mkey-remove", "--leave-open")
    assert site.key() == (0, 0, 0)
    assert len(site.typed) == 4
    assert site.states() == ["master", "standby", "standby"]
    takes_over(site)


@pytest.mark.parametrize(
    ("level", "rotated"),
    [("2", True), *(pytest.param(*each, marks=pytest.mark.soak) for each in (("1", True), ("1", False), ("2", False)))],
)
def test_a_standby_takes_over_with_every_key_and_level_as_it_was(site: KeyedSite, level: str, rotated: bool) -> None:
    give(site, "mkey-deploy", "--protect", level, "--lease", "60")
    if rotated:
        give(site, "mkey-rotate")
    assert site.key()[1:] == (int(level), 60)
    takes_over(site)


def other_command(site: KeyedSite, command: str) -> str:
    """Return what starts the second standby, where *command* starts the first one."""
    first, second = (each.node.partition(" ")[0] for each in site.standbys)
    return command.replace(first, second).replace("a1051", "a1061")


@pytest.mark.soak
def test_a_standby_that_the_user_starts_too_early_is_stopped_and_started_once_more(site: KeyedSite) -> None:
    give(site, "mkey-deploy", *CLOSED)
    first, second = site.standbys

    def types_both(guid: int, command: str) -> None:
        site.type(guid, command)
        if len(site.typed) == 3:
            site.type(0x2C903000A1061, other_command(site, command))
            second.log.wait("ENTERING SM STANDBY STATE")

    site.user = types_both
    said = give(site, "mkey-rotate")
    assert "once more" in said
    assert len(site.typed) == 5
    assert site.key()[1:] == (2, 60)
    before = site.violations()  # the one that was started too early was refused
    first.process.send_signal(signal.SIGKILL)
    site.kill_master(second)
    assert site.key()[1:] == (2, 60)
    assert site.violations() == before


def test_an_sm_that_is_not_active_is_no_newcomer_when_a_standby_was_started() -> None:
    with keyed_site(2) as site:
        site.served.net.set_sm("node06 mlx4_0", SMState.NOT_ACTIVE, 1, 1, 1)
        give(site, "mkey-deploy", *CLOSED)
        assert site.key()[1:] == (2, 60)


@pytest.mark.soak
def test_a_standby_that_nobody_starts_leaves_the_level_low_and_resume_goes_on(site: KeyedSite) -> None:
    site.user = lambda guid, command: None
    code, said = site.ibkeys("mkey-deploy", *CLOSED, "--wait", "60", "--standby-wait", "6")
    assert code == 3, said
    assert "after 6 s it does not answer" in said
    assert "`ibkeys resume`" in said
    assert site.key()[1:] == (0, 0)
    site.user = None
    code, said = site.ibkeys("resume", via=False)
    assert code == 0, said
    assert site.key()[1:] == (2, 60)
    assert len(site.typed) == 2
    takes_over(site)


def another_cache(command: str) -> str:
    return re.sub(r"OSM_CACHE_DIR=(\S+)", r"OSM_CACHE_DIR=\1/other", command)


def another_key(command: str) -> str:
    """Edit the options file by hand before the start."""
    return re.sub(r"^(.*--config )(\S+)", r"sed -i s/^m_key.0x.*/m_key\\ 0x7/ \2; \1\2", command)


@pytest.mark.soak
@pytest.mark.parametrize(("wrong", "words"), [(another_cache, "OSM_CACHE_DIR"), (another_key, "another M_Key")])
def test_a_standby_that_is_started_otherwise_does_not_let_the_level_rise(
    site: KeyedSite, wrong: Callable[[str], str], words: str
) -> None:
    site.user = lambda guid, command: site.type(guid, wrong(command))
    code, said = site.ibkeys("mkey-deploy", *CLOSED)
    assert code == 3, said
    assert words in said
    assert site.key()[1:] == (0, 0)
    site.kill_standbys()
    site.user = None
    if wrong is another_key:
        code, said = site.ibkeys("resume")
        assert code == 4, said
        assert "another user or program has changed what it set" in said
        right = re.findall("^m_key .*$", site.master.conf.read_text(), re.MULTILINE)[-1]
        for conf in [each.conf for each in site.standbys]:
            assert f"{conf} says another M_Key" in said
            conf.write_text(re.sub("^m_key.*0x0*7$", right, conf.read_text(), flags=re.MULTILINE))
    code, said = site.ibkeys("resume")
    assert code == 0, said
    takes_over(site)


def master_dies_while_a_standby_is_started(site: KeyedSite) -> None:
    """The first standby is master when this returns, and no port is closed yet."""

    def kills(guid: int, command: str) -> None:
        site.type(guid, command)
        site.standbys[0].log.wait("ENTERING SM STANDBY STATE")
        site.master.process.kill()

    site.user = kills
    code, said = site.ibkeys("mkey-deploy", *CLOSED)
    assert code == 4, said
    heir = site.standbys[0]
    heir.log.wait("SUBNET UP", heir.place("ENTERING SM MASTER STATE"))
    assert site.key()[1:] == (0, 0)
    site.user = None


@pytest.mark.soak
def test_the_master_dies_while_a_standby_is_started(site: KeyedSite) -> None:
    master_dies_while_a_standby_is_started(site)
    # as it stands there it would take the subnet back
    site.master.conf.write_text(site.master.conf.read_text().replace("sm_priority 9", "sm_priority 3"))
    code, said = site.ibkeys("resume")
    assert code == 0, said
    assert site.key()[1:] == (2, 60)
    assert site.states() == ["master", "standby", "standby"]
    assert len(site.typed) == 3
    assert "m_key_protection_level 2\n" in site.master.conf.read_text()


@pytest.mark.soak
def test_a_former_master_that_takes_the_subnet_back_ends_the_run_and_resume_goes_on_through_it(site: KeyedSite) -> None:
    master_dies_while_a_standby_is_started(site)
    code, said = site.ibkeys("resume", timeout=60)
    assert (code, "is master now" in said) == (3, True), said
    assert site.key()[1:] == (0, 0)
    code, said = site.ibkeys("resume")
    assert code == 0, said
    assert site.key()[1:] == (2, 60)
    assert site.states() == ["master", "standby", "standby"]


def test_systemd_stops_and_starts_its_own(site: KeyedSite) -> None:
    site.systemd = StandInSystemd(site.served.folder / "systemd", site.opensms, site.stack.callback)
    said = give(site, "mkey-deploy", *CLOSED)
    assert "to do" not in said
    assert site.systemd.asked("stop") == site.systemd.asked("start") == [f"opensm@node0{n}.service" for n in (5, 6)]
    assert site.key()[1:] == (2, 60)
    assert site.states() == ["master", "standby", "standby"]


def interrupt(site: KeyedSite) -> None:
    assert site.asked is not None
    site.asked.send_signal(signal.SIGINT)


@pytest.mark.soak
@pytest.mark.parametrize("rotated", [False, True], ids=["deployed", "rotated"])
def test_abort_gives_the_former_key_back_and_starts_what_was_stopped(site: KeyedSite, rotated: bool) -> None:
    if rotated:
        give(site, "mkey-deploy", *CLOSED)
    before, typed = site.key(), len(site.typed)
    site.user = lambda guid, command: interrupt(site)
    words = ["mkey-rotate"] if rotated else ["mkey-deploy", *CLOSED]
    code, said = site.ibkeys(*words)
    assert code == 130, said
    assert site.key() != before
    site.user = None
    give(site, "undo")
    assert site.key() == before
    assert len(site.typed) == typed + 2
    site.assert_no_key_is_lost()
    takes_over(site)


@pytest.mark.soak
@pytest.mark.parametrize("way_on", ["resume", "undo"])
def test_a_kill_when_the_standbys_are_stopped_is_finished_or_undone(site: KeyedSite, way_on: str) -> None:
    give(site, "mkey-deploy", *CLOSED)
    before = site.key()
    last = site.standbys[-1].process

    def kills() -> None:
        last.wait(RUN_TIMEOUT)
        assert site.asked is not None
        site.asked.kill()

    killer = threading.Thread(target=kills)
    killer.start()
    code, said = site.ibkeys("mkey-rotate")
    killer.join()
    assert code == -signal.SIGKILL, said
    site.assert_no_key_is_lost()
    give(site, way_on)
    assert (site.key() == before) == (way_on == "undo")
    assert site.key()[1:] == (2, 60)
    takes_over(site)
