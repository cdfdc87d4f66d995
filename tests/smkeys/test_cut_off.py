"""A change of sm_key and sa_key is cut off: the next one finishes it with the same keys, in the same files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from ibkeys.change.interlocks.overtaken import OVERTAKEN
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.smkey import SMKey
from ibkeys.smkeys.overtaken import close_overtaken
from ibkeys.smkeys.recorded_changes import COMMAND
from tests.fabricsim import tool
from tests.smkeys.madeup import CONF, POLLING, Killed, MadeUpSite
from tests.smkeys.outcomes import assert_done, kill_at

Patch = pytest.MonkeyPatch


def test_a_run_that_dies_at_any_step_is_finished_by_the_next(tmp_path: Path, monkeypatch: Patch) -> None:
    whole = MadeUpSite(tmp_path / "whole")
    whole.run(monkeypatch)
    for number in range(len(whole.steps)):
        three = MadeUpSite(tmp_path / str(number))
        counter = itertools.count()

        def die(step: str, at: int = number, counter: itertools.count[int] = counter) -> None:
            if next(counter) == at:
                raise Killed

        three.before_each = die
        with pytest.raises(Killed):
            three.run(monkeypatch)
        stored = {row.sm_key for row in three.stored()} if (three.folder / "keys.db").exists() else set()
        in_files = {key for host in three.hosts for key in host.keys.values()}
        assert in_files <= {*stored, SMKey(1)}
        three.before_each = lambda step: None
        three.sleep(POLLING + 1)  # nobody was in a hurry
        three.run(monkeypatch)
        assert_done(three)
        assert len({row.sm_key for row in three.stored()}) == 2  # the keys that it began with


def test_a_change_that_was_cut_off_on_one_subnet_does_not_go_on_in_another(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    """A host with two adapters may have two subnets, and one key store."""

    kill_at(three, monkeypatch, "signal node05")
    ours = [host.conf for host in three.hosts]
    for number, host in enumerate(three.hosts):
        host.conf = host.folder / "of-another-subnet.conf"
        host.conf.write_text(CONF.format(9 - number))
    with pytest.raises(Refused, match="interrupted, and it concerns other options files") as refused:
        three.run(monkeypatch)
    assert refused.value.interlock == OVERTAKEN
    assert all(str(host.conf) in str(refused.value) for host in three.hosts)
    assert three.confs() == [CONF.format(9 - number).encode() for number in range(3)]
    for host, conf in zip(three.hosts, ours, strict=True):
        host.conf = conf
    three.run(monkeypatch)
    assert_done(three)


def test_where_its_opensms_were_replaced_its_record_ends_and_a_new_change_begins(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    kill_at(three, monkeypatch, "signal node05")
    for number, host in enumerate(three.hosts):
        host.conf = host.folder / "replaced.conf"
        host.conf.write_text(CONF.format(9 - number))
    with pytest.raises(Refused) as refused:
        three.run(monkeypatch)
    assert "`ibkeys resume 1 --overtaken`" in str(refused.value)
    stores: dict[str, Any] = {"keystore": three.folder / "keys.db", "journal": three.folder / "journal.db"}
    with tool(three.net, **stores) as fabric, ChangeWriter(fabric, COMMAND) as writer:
        close_overtaken(writer, 1)
    assert not three.run(monkeypatch).goes_on
    assert_done(three)


def test_an_interrupt_while_it_is_proven_says_how_to_finish(three: MadeUpSite, monkeypatch: Patch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt("by SIGINT")

    monkeypatch.setattr(three, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"by SIGINT; the new keys are in .*: `ibkeys resume 1` finishes it"):
        three.run(monkeypatch)
    monkeypatch.undo()
    change = three.run(monkeypatch)
    assert change.goes_on
    assert_done(three)


def test_what_was_begun_in_the_layer_of_a_container_goes_on_without_overriding_it_again(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    three.hosts[1].is_layered = True
    kill_at(three, monkeypatch, "put node06", ["container-layer"])
    assert three.run(monkeypatch).goes_on
    assert_done(three)


def test_other_keys_than_those_that_were_begun_with_are_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    kill_at(three, monkeypatch, "put node06")
    with pytest.raises(UsageError, match="another sm_key was interrupted"):
        three.run(monkeypatch, {"sm_key": SMKey(0xA1A2A3A4A5A6A7B8)})
    three.run(monkeypatch)
    assert_done(three)


def test_keys_that_somebody_else_set_since_stay_and_the_record_can_end(three: MadeUpSite, monkeypatch: Patch) -> None:
    kill_at(three, monkeypatch, "signal node05")
    ours = {row.sm_key for row in three.stored()}
    theirs = CONF.format(9) + "sm_key 0x5d1c93b7a2e4f608\nsa_key 0x17c4e5906f2bd38a\n"
    for host in three.hosts:
        host.conf.write_text(theirs)
        host.read()
    with pytest.raises(Refused, match=r"begun .*says another sm_key and sa_key \(changed ") as caught:
        three.run(monkeypatch)
    assert caught.value.interlock == "overtaken"
    assert "another sm_key than" not in str(caught.value)
    assert three.confs() == [theirs.encode()] * 3
    stores: dict[str, Any] = {"keystore": three.folder / "keys.db", "journal": three.folder / "journal.db"}
    with tool(three.net, **stores) as fabric, ChangeWriter(fabric, COMMAND) as writer:
        close_overtaken(writer, 1)
    assert three.confs() == [theirs.encode()] * 3
    assert {row.sm_key for row in three.stored()} == ours
    three.run(monkeypatch)
    assert_done(three)


def test_where_the_files_have_different_sm_keys_the_refusal_names_them(three: MadeUpSite, monkeypatch: Patch) -> None:
    """The end of the record writes no file, so that these OpenSMs would have two masters."""
    kill_at(three, monkeypatch, "signal node05")
    master, *standbys = (host.conf for host in three.hosts)
    master.write_text(CONF.format(9) + "sm_key 0x5d1c93b7a2e4f608\nsa_key 0x17c4e5906f2bd38a\n")
    with pytest.raises(Refused) as caught:
        three.run(monkeypatch)
    assert caught.value.interlock == "overtaken"
    others = ", ".join(f"{conf} on sm{number}" for number, conf in enumerate(standbys, 1))
    assert f"{others}: another sm_key than {master}" in str(caught.value)


def test_a_default_that_somebody_put_back_after_a_proven_change_stays(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.run(monkeypatch)
    kill_at(three, monkeypatch, "stage node01")
    conf = three.hosts[0].conf
    conf.write_text(conf.read_text().replace("sm_key", "# sm_key"))
    theirs = three.confs()
    with pytest.raises(Refused) as caught:
        three.run(monkeypatch)
    assert caught.value.interlock == "overtaken"
    assert three.confs() == theirs


@pytest.mark.parametrize("step", ["stage node01", "put node06", "signal node05"])
def test_a_default_that_the_change_itself_found_after_a_proven_one_is_no_other_program(
    three: MadeUpSite, monkeypatch: Patch, step: str
) -> None:
    """The hosts were installed anew, while the key store still has the keys of before."""
    three.run(monkeypatch)
    for number, host in enumerate(three.hosts):
        host.conf.write_text(f"{CONF.format(9 - number)}sm_key 1\nsa_key 1\n")
        host.read()
    for _ in range(2):
        kill_at(three, monkeypatch, step)
    assert three.run(monkeypatch).goes_on
    assert_done(three)
