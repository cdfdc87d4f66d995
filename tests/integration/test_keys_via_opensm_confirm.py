"""mkey-deploy and mkey-rotate with --confirm-within, through a real OpenSM: without a confirmation the level goes back,
whoever has died, and the key never changes."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.server.outbox import PassedMad
from tests.corpus import DATA
from tests.integration.hosted import Hosted
from tests.integration.keyed_opensm import CLOSED, KeyedOpensm, keyed, stage_of_last_run, stored_keys
from tests.integration.keyed_standbys import KeyedSite, keyed_site, through_ssh
from tests.integration.waiting import Waiting
from tests.sample import in_soak

NET = DATA / "fabrics" / "two-switch.net"
_LEVEL_AT = 64 + 34
_KEY_AT = slice(64, 72)


@pytest.fixture
def opensm() -> Iterator[KeyedOpensm]:
    with keyed(NET) as running:
        yield running


@contextmanager
def killed_at_a_set(opensm: KeyedOpensm, waiting: Waiting, level: int) -> Iterator[None]:
    """Kill an ibkeys when OpenSM first sets such a level on a port, with a key."""

    def watch(seen: PassedMad) -> None:
        is_set = seen.out and seen.mad[3] == Method.SET and seen.mad[16:18] == AttributeID.PORT_INFO.to_bytes(2)
        if is_set and seen.mad[_LEVEL_AT] >> 6 == level and any(seen.mad[_KEY_AT]):
            waiting.process.kill()

    opensm.served.watchers.append(watch)
    try:
        yield
    finally:
        opensm.served.watchers.remove(watch)


def only(keys: set[tuple[int, int, int]]) -> tuple[int, int, int]:
    assert len(keys) == 1, keys
    return keys.pop()


def stage(served: Hosted) -> tuple[str, str | None]:
    """Return how the last run stands, and the operation that has to be confirmed."""
    return stage_of_last_run(served.folder / "stores")


def said_in(conf: Path) -> list[str]:
    lines = conf.read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith(("m_key_protection_level", "m_key_lease_period"))]


def assert_gone_back(opensm: KeyedOpensm) -> int:
    """Every port has the key at level 1, with its lease; return the key."""
    key, *rest = only(opensm.keys())
    assert rest == [1, 60]
    assert said_in(opensm.conf) == ["1", "60"]
    assert stage(opensm.served) == ("open", "gone-back")
    opensm.assert_nothing_was_lost()
    folder = opensm.served.folder / "stores"
    assert key in stored_keys(folder)
    for path in folder.glob("journal*"):
        assert f"{key:x}".encode() not in path.read_bytes().lower()
    return key


def test_another_process_confirms(opensm: KeyedOpensm) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "600")
    waiting.hear("`ibkeys confirm 1`")
    done = opensm.served.ibkeys("confirm", "1")
    assert (done.returncode, done.stdout) == (0, "operation 1 is confirmed\n"), done.stderr
    assert waiting.wait() == 0, waiting.said
    assert only(opensm.keys())[1:] == (2, 60)
    assert stage(opensm.served) == ("done", "confirmed")
    done = opensm.served.ibkeys("confirm", "1")
    assert done.stdout == "operation 1 was confirmed already\n"
    code, said = opensm.ibkeys("undo", "--unconfirmed", "1")
    assert (code, "was confirmed" in said) == (3, True), said
    opensm.assert_nothing_was_lost()


def test_unconfirmed_the_level_goes_back_and_a_resume_raises_it_again(opensm: KeyedOpensm) -> None:
    code, said = opensm.ibkeys("mkey-deploy", *CLOSED, "--confirm-within", "1")
    assert code == 3, said
    assert "the level is lowered to 1 in 1 s, with the same M_Key" in said
    assert said.count("step: level 1: 8 of 8\n") == 2  # proven on every port, up and down
    key = assert_gone_back(opensm)
    done = opensm.served.ibkeys("confirm", "1")
    assert (done.returncode, "too late" in done.stderr) == (3, True), done.stderr
    code, said = opensm.ibkeys("resume", "--confirm-within", "1")
    assert code == 3, said
    assert assert_gone_back(opensm) == key
    code, said = opensm.ibkeys("resume")
    assert code == 0, said
    assert only(opensm.keys()) == (key, 2, 60)
    assert stage(opensm.served) == ("done", "confirmed")
    opensm.assert_nothing_was_lost()


def test_what_somebody_else_changed_while_it_waits_stays_and_is_not_said_to_be_rolled_back(opensm: KeyedOpensm) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "2")
    waiting.hear()
    conf = opensm.conf
    conf.write_text(conf.read_text().replace("m_key_protection_level 2", "m_key_protection_level 3"))
    assert waiting.wait() == 3, waiting.said
    assert "the run was not confirmed, and its level was not lowered: operation 1 " in waiting.said
    assert "`ibkeys resume 1 --overtaken`" in waiting.said
    assert "nothing was written" not in waiting.said
    assert stage(opensm.served) == ("done", "confirmed")
    code, said = opensm.ibkeys("undo", "--unconfirmed", "1")
    assert (code, "rolled back" in said) == (3, False), said


def test_killed_while_it_waits_its_child_lowers_the_level_and_an_abort_goes_back(opensm: KeyedOpensm) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "1")
    waiting.hear()
    waiting.process.kill()
    assert waiting.wait() == -signal.SIGKILL
    assert_gone_back(opensm)
    again = Waiting(opensm.served, "resume", "--confirm-within", "1")  # the second start
    again.hear()
    again.process.kill()
    assert again.wait() == -signal.SIGKILL
    assert_gone_back(opensm)
    code, said = opensm.ibkeys("undo")
    assert code == 0, said
    assert only(opensm.keys()) == (0, 0, 0)
    assert stage(opensm.served) == ("undone", "confirmed")
    opensm.assert_nothing_was_lost()


@pytest.mark.soak
def test_killed_while_it_goes_back_its_child_finishes_that(opensm: KeyedOpensm) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "1")
    waiting.hear()
    with killed_at_a_set(opensm, waiting, 1):
        assert waiting.wait() == -signal.SIGKILL
    assert_gone_back(opensm)


@pytest.mark.soak
def test_killed_while_the_level_rises_its_child_lowers_it_on_every_port(opensm: KeyedOpensm) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "1")
    with killed_at_a_set(opensm, waiting, 2):
        assert waiting.wait() == -signal.SIGKILL
    key = assert_gone_back(opensm)
    code, said = opensm.ibkeys("resume")
    assert code == 0, said
    assert only(opensm.keys()) == (key, 2, 60)
    opensm.assert_nothing_was_lost()


@pytest.mark.parametrize("level", [0, in_soak(1)])
def test_killed_before_the_level_is_above_1_nothing_goes_back(opensm: KeyedOpensm, level: int) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "1")
    with killed_at_a_set(opensm, waiting, level):
        assert waiting.wait() == -signal.SIGKILL
    key, *rest = only(opensm.keys())
    assert (rest, key in stored_keys(opensm.served.folder / "stores")) == ([level, 0], True)
    assert said_in(opensm.conf) == [str(level), "0"]
    assert stage(opensm.served) == ("open", "gone-back")
    code, said = opensm.ibkeys("resume")
    assert code == 0, said
    assert only(opensm.keys()) == (key, 2, 60)
    opensm.assert_nothing_was_lost()


@pytest.mark.parametrize("number", [signal.SIGINT, in_soak(signal.SIGTERM)])
def test_an_interrupt_goes_back_at_once(opensm: KeyedOpensm, number: signal.Signals) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "600")
    waiting.hear()
    waiting.process.send_signal(number)
    assert waiting.wait() == 3, waiting.said
    assert_gone_back(opensm)


def test_a_hangup_does_not_stop_the_time(opensm: KeyedOpensm) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "1")
    waiting.hear()
    waiting.process.send_signal(signal.SIGHUP)
    assert waiting.wait() == 3, waiting.said
    assert "not confirmed" in waiting.said
    assert_gone_back(opensm)


@pytest.mark.soak
def test_while_opensm_is_dead_the_child_goes_on_until_another_one_is_master(opensm: KeyedOpensm) -> None:
    waiting = Waiting(opensm.served, "mkey-deploy", *CLOSED, "--confirm-within", "1")
    waiting.hear()
    opensm.running.kill()
    waiting.hear("tries again for about an hour")
    waiting.hear("restore the former state with `ibkeys undo 1`")
    assert only(opensm.keys())[1:] == (2, 60)
    opensm.unanswered.clear()  # the SM that is not there
    opensm.running.start()
    assert waiting.wait() == 4, waiting.said
    key, *rest = only(opensm.keys())
    assert (rest, stage(opensm.served)) == ([1, 60], ("open", "gone-back"))
    assert key in stored_keys(opensm.served.folder / "stores")


def test_a_rotation_goes_back_to_the_former_level_with_the_new_key(opensm: KeyedOpensm) -> None:
    code, said = opensm.ibkeys("mkey-deploy", *CLOSED)
    assert code == 0, said
    first = only(opensm.keys())
    for words, why in ((["mkey-rotate"], "raises no level above 2"), (["mkey-remove", "--leave-open"], "mkey-remove")):
        code, said = opensm.ibkeys(*words, "--confirm-within", "1")
        assert (code, why in said) == (2, True), said
    assert only(opensm.keys()) == first
    code, said = opensm.ibkeys("mkey-rotate", "--protect", "3", "--confirm-within", "1")
    assert code == 3, said
    key, *rest = only(opensm.keys())
    assert (key != first[0], rest) == (True, [2, 60])
    code, said = opensm.ibkeys("undo")
    assert code == 0, said
    assert only(opensm.keys()) == first
    opensm.assert_nothing_was_lost()


def standby_confs(site: KeyedSite) -> Sequence[list[str]]:
    return [said_in(each.conf) for each in site.opensms]


@pytest.mark.soak
def test_a_standby_has_the_level_of_its_master_and_takes_over() -> None:
    with keyed_site(2) as site:
        code, said = site.ibkeys("mkey-deploy", *CLOSED, "--confirm-within", "1")
        assert code == 3, said
        before = site.key()
        assert before[1:] == (1, 60)
        assert standby_confs(site) == [["1", "60"]] * 2
        assert site.states() == ["master", "standby"]
        site.kill_master()
        assert site.key() == before
        assert site.violations() == 0


@pytest.mark.soak
def test_the_standby_that_took_over_lowers_the_level_and_the_former_master_is_not_started() -> None:
    with keyed_site(2) as site:
        waiting = Waiting(site.served, "mkey-deploy", *CLOSED, "--confirm-within", "10")
        waiting.hear(answer=site.answer)
        site.kill_master()
        before = site.key()
        assert before[1:] == (2, 60)
        waiting.process.kill()
        assert waiting.wait() == -signal.SIGKILL
        assert site.key() == (before[0], 1, 60)
        assert standby_confs(site) == [["1", "60"]] * 2
        assert site.states() == ["master"]
        assert site.violations() == 0


@pytest.mark.soak
def test_the_child_goes_through_ssh_to_another_host(tmp_path: Path) -> None:
    with ExitStack() as stack:
        _, words = through_ssh(stack, tmp_path)
        site = stack.enter_context(keyed_site(1, words))
        waiting = Waiting(site.served, "mkey-deploy", *CLOSED, "--confirm-within", "1", *words)
        waiting.hear()
        waiting.process.kill()
        assert waiting.wait() == -signal.SIGKILL
        before = site.key()
        assert before[1:] == (1, 60)
        code, said = site.ibkeys("resume", "--confirm-within", "1")
        assert (code, site.key()) == (3, before), said
        code, said = site.ibkeys("resume")
        assert code == 0, said
        assert site.key() == (before[0], 2, 60)
        site.assert_no_key_is_lost()
        assert site.violations() == 0
