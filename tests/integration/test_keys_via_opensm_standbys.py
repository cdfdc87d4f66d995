"""The M_Key through OpenSM where standbys are there: they are stopped, get the keys, are started, and can take over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.keyed_standbys import CLOSED, KeyedSite, keyed_site, mode


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
        assert [mode(each.cache / name) for name in ("", "guid2mkey", "neighbors")] == [0o700, 0o600, 0o600]
        assert (each.cache / "guid2mkey").read_bytes() == (site.master.cache / "guid2mkey").read_bytes()
        assert site.master.conf.read_text().partition("m_key ")[2] == each.conf.read_text().partition("m_key ")[2]
    assert site.violations() == 0
    give(site, "mkey-remove", "--leave-open")
    assert site.key() == (0, 0, 0)
    assert len(site.typed) == 4
    assert site.states() == ["master", "standby", "standby"]
    takes_over(site)


@pytest.mark.parametrize("level", ["1", "2"])
@pytest.mark.parametrize("rotated", [False, True], ids=["deployed", "rotated"])
def test_a_standby_takes_over_with_every_key_and_level_as_it_was(site: KeyedSite, level: str, rotated: bool) -> None:
    give(site, "mkey-deploy", "--protect", level, "--lease", "60")
    if rotated:
        give(site, "mkey-rotate")
    assert site.key()[1:] == (int(level), 60)
    takes_over(site)
