"""New sm_key and sa_key on three made-up hosts: all or none get them, no key is lost, and one SM stays master."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.errors import FileChanged, FileError, HostNotReached, HostRefused, Incomplete, Refused, UsageError
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.const import SMState
from ibkeys.smkeys.managers import KINDS
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.keys.runs import RunOptions, Runs
from tests.smkeys.madeup import CONF, POLLING, Killed, MadeUpSite

A, B = SMKey(0xA1A2A3A4A5A6A7B8), SMKey(0xB1B2B3B4B5B6B7C8)
Patch = pytest.MonkeyPatch


@pytest.fixture
def three(tmp_path: Path) -> MadeUpSite:
    return MadeUpSite(tmp_path)


def state_of(three: MadeUpSite) -> list[tuple[str, str]]:
    return [(row.kind, row.state) for row in three.stored()]


def assert_done(three: MadeUpSite) -> None:
    """All hosts have the keys that the store has as current, and one SM is master."""
    current = {row.kind: row.sm_key for row in three.stored() if row.state == "current"}
    assert {*current} == {*KINDS}
    assert [host.keys for host in three.hosts] == [current] * 3
    assert not any(row.state == "pending" for row in three.stored())
    assert three.masters == 1
    assert three.left_over() == []
    with three.journal() as journal:
        operation = journal.list_operations()[-1]
        assert operation.state == "done"
        assert not any(entry.status == "pending" for entry in journal.files(operation.id))


def assert_back(three: MadeUpSite) -> None:
    """No host has a new key, and nothing is left to be done."""
    assert three.confs() == [CONF.format(9 - number).encode() for number in range(3)]
    assert not any(row.state in ("pending", "current") for row in three.stored())
    assert {host.node.sm.sm_key for host in three.hosts if host.node.sm} == {1}
    assert three.masters == 1
    assert three.left_over() == []


def test_all_hosts_get_the_same_new_keys(three: MadeUpSite, monkeypatch: Patch) -> None:
    change = three.run(monkeypatch)
    assert_done(three)
    assert change.managers.window == POLLING
    words = [step.split()[0] for step in three.steps]
    last = {word: len(words) - 1 - words[::-1].index(word) for word in words}
    assert max(last["stage"], last["close"]) < words.index("put")
    assert last["put"] < words.index("signal")
    assert [step for step in three.steps if step.startswith("signal")] == [
        "signal node05",
        "signal node06",
        "signal node01",
    ]
    for host in three.hosts:
        assert host.conf.read_bytes().startswith(CONF.format(host.priority).encode())
        assert (host.conf.stat().st_mode & 0o777, host.log.stat().st_mode & 0o777) == (0o600, 0o600)
    assert three.time > POLLING


def test_the_keys_are_in_the_store_before_any_file_and_never_in_the_journal(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    seen = []

    def look(step: str) -> None:
        if step.startswith("stage"):
            seen.append(state_of(three))

    three.before_each = look
    three.run(monkeypatch)
    assert seen[0][:2] == [("sm_key", "pending"), ("sa_key", "pending")]
    data = (three.folder / "journal.db").read_bytes()
    for key in (row.sm_key for row in three.stored()):
        assert key.hex().encode() not in data
        assert key.hex()[2:].encode() not in data
    with three.journal() as journal:
        [operation] = journal.list_operations()
        files = journal.files(operation.id)
    assert [b"sm_key @sm_key:1:x16l" in (entry.image.after or b"") for entry in files] == [True] * 3
    assert [entry.image.host for entry in files] == ["sm1", "sm2", ""]


def test_a_log_that_is_thrown_away_is_not_closed(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[0].words += ["-f", "/dev/null"]
    before = Path("/dev/null").stat().st_mode
    three.run(monkeypatch)
    assert_done(three)
    assert Path("/dev/null").stat().st_mode == before


@pytest.mark.parametrize("dry_run", [False, True])
def test_standbys_that_a_run_of_m_keys_has_stopped_are_started_first(
    three: MadeUpSite, monkeypatch: Patch, dry_run: bool
) -> None:
    with KeyStore(three.folder / "keys.db") as store:
        number = Runs(store).begin("mkey-rotate", RunOptions(True, 2, 60), [], {"stopped": [{"guid": "0x1"}]})
    with pytest.raises(Refused, match="mkey-rotate stopped 1 standby OpenSM and is not finished") as refused:
        three.run(monkeypatch, dry_run=dry_run)
    assert refused.value.interlock == "open-run"
    assert_back(three)
    with KeyStore(three.folder / "keys.db") as store:
        Runs(store).finish(number, "ended")
    three.run(monkeypatch, dry_run=dry_run)


def test_a_host_that_was_named_and_runs_no_opensm_is_named(three: MadeUpSite, monkeypatch: Patch) -> None:
    """It would come up with the former keys later, and become a second master."""
    three.hosts[2].runs = False
    three.net.set_sm(three.hosts[2].node, SMState.NOT_ACTIVE, 1, 1, 1)
    change = three.run(monkeypatch)
    assert [note for note in change.notes if note.startswith("host sm2: no OpenSM runs there: ")]


def test_a_second_change_replaces_the_keys_of_the_first(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.run(monkeypatch, {"sm_key": A, "sa_key": B})
    three.run(monkeypatch)
    assert_done(three)
    assert [(row.kind, row.state, row.sm_key) for row in three.stored()][:2] == [
        ("sm_key", "former", A),
        ("sa_key", "former", B),
    ]


def test_one_sm_alone_is_not_watched_for_long(three: MadeUpSite, monkeypatch: Patch) -> None:
    for host in three.hosts[1:]:
        host.runs = False
        three.net.set_sm(host.node, None)
    change = three.run(monkeypatch)
    assert (change.managers.window, change.managers.longest) == (None, 0)
    assert three.time < 2
    assert len({row.sm_key for row in three.stored() if row.state == "current"}) == 2


def test_a_dry_run_changes_nothing(three: MadeUpSite, monkeypatch: Patch) -> None:
    change = three.run(monkeypatch, dry_run=True)
    assert [each["changes"] for each in change.to_json()["files"]] == [{"sm_key": "default", "sa_key": "default"}] * 3
    assert three.confs() == [CONF.format(9 - number).encode() for number in range(3)]
    assert not (three.folder / "keys.db").exists()
    assert not any(step.split()[0] in ("stage", "put", "signal", "close") for step in three.steps)


# --- what goes wrong --------------------------------------------------------------------------------------------------


def failing_at(step: str, error: Exception) -> Callable[[str], None]:
    """Fail at the first *step*, and at no later one."""
    left = [error]

    def fail(done: str) -> None:
        if done == step and left:
            raise left.pop()

    return fail


STEPS = [
    *("close node05", "stage node05", "stage node06", "stage node01"),
    *("put node05", "put node06", "put node01", "signal node05", "signal node06", "signal node01"),
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [FileError("no room"), FileChanged("changed"), HostNotReached("cut", "sm1")])
def test_what_fails_leaves_every_host_as_it_was(
    three: MadeUpSite, monkeypatch: Patch, step: str, error: Exception
) -> None:
    three.before_each = failing_at(step, error)
    with pytest.raises((Incomplete, type(error))) as raised:
        three.run(monkeypatch)
    assert_back(three)
    may_be_begun = step == "put node05" and isinstance(error, HostNotReached)
    was_begun = step.split()[0] == "signal" or step in ("put node06", "put node01")
    assert isinstance(raised.value, Incomplete) == (was_begun or may_be_begun)
    with three.journal() as journal:
        assert {each.state for each in journal.list_operations()} <= {"undone"}
        assert not any(each.unproven == 0 for each in journal.list_operations())
    three.before_each = lambda step: None
    three.run(monkeypatch)
    assert_done(three)


def test_an_opensm_that_does_not_read_its_file_lets_all_go_back(three: MadeUpSite, monkeypatch: Patch) -> None:
    for deaf, words in ((0, "node01"), (2, "node06")):
        three.hosts[deaf].is_deaf = True
        with pytest.raises(Incomplete, match=f"{words}.*every file has its former keys again"):
            three.run(monkeypatch)
        three.hosts[deaf].is_deaf = False
        assert_back(three)


def test_an_sa_that_still_takes_the_former_key_lets_all_go_back(three: MadeUpSite, monkeypatch: Patch) -> None:
    sa_of = three.net.managers.sa_of

    def keep(step: str) -> None:
        if step == "signal node01":
            monkeypatch.setattr(three.net.managers.sa_at.__self__, "sa_of", lambda node: type("Sa", (), {})())

    three.before_each = keep
    with pytest.raises(Incomplete, match=r"the SA does not answer who shows the new sa_key.*former keys again"):
        three.run(monkeypatch)
    assert sa_of(three.hosts[0].node).sa_key == 1


def test_too_slow_for_the_polling_time_goes_back_within_it(three: MadeUpSite, monkeypatch: Patch) -> None:
    def slow(step: str) -> None:
        if step.startswith("put") and three.time < 22:
            three.time += POLLING / 4 + 1

    three.before_each = slow
    with pytest.raises(Incomplete, match=r"took 22.0 s, and a standby takes over after 40 s.*former keys again"):
        three.run(monkeypatch)
    assert_back(three)


def test_a_host_that_is_cut_off_in_the_middle_is_named_and_finished_later(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    def cut(step: str) -> None:
        if step == "was put node06":
            three.hosts[2].is_cut = True
            raise HostNotReached("host sm2: the connection is closed", "sm2")

    three.before_each = cut
    with pytest.raises(Incomplete, match=r"could not be put back everywhere: host sm2.*smkey-rotate.*finishes it"):
        three.run(monkeypatch)
    assert [host.keys["sm_key"] == SMKey(1) for host in three.hosts] == [True, True, False]
    assert state_of(three)[:2] == [("sm_key", "pending"), ("sa_key", "pending")]
    three.hosts[2].read()  # as at the next sweep
    three.sleep(POLLING + 1)
    assert three.masters == 2
    three.hosts[2].is_cut, three.before_each = False, lambda step: None
    change = three.run(monkeypatch)
    assert change.goes_on
    assert_done(three)


def test_somebody_elses_edit_in_the_middle_stays(three: MadeUpSite, monkeypatch: Patch) -> None:
    theirs = b"sm_priority 3\n"

    def edit(step: str) -> None:
        if step == "signal node06":
            three.hosts[1].conf.write_bytes(theirs)
            raise HostRefused("it runs no more", "sm2")

    three.before_each = edit
    with pytest.raises(Incomplete, match="somebody else changed it meanwhile; it stays as it is"):
        three.run(monkeypatch)
    assert three.confs()[1] == theirs
    three.before_each = lambda step: None
    three.run(monkeypatch)
    assert_done(three)
    assert three.confs()[1].startswith(theirs)


# --- a process that dies ----------------------------------------------------------------------------------------------


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

    def die(step: str) -> None:
        if step == "signal node05":
            raise Killed

    three.before_each = die
    with pytest.raises(Killed):
        three.run(monkeypatch)
    three.before_each = lambda step: None
    ours = [host.conf for host in three.hosts]
    for number, host in enumerate(three.hosts):
        host.conf = host.folder / "of-another-subnet.conf"
        host.conf.write_text(CONF.format(9 - number))
    with pytest.raises(UsageError, match="cut off that is of other options files"):
        three.run(monkeypatch)
    assert three.confs() == [CONF.format(9 - number).encode() for number in range(3)]
    for host, conf in zip(three.hosts, ours, strict=True):
        host.conf = conf
    three.run(monkeypatch)
    assert_done(three)


def test_an_interrupt_while_it_is_proven_says_how_to_finish(three: MadeUpSite, monkeypatch: Patch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt("by SIGINT")

    monkeypatch.setattr(three, "sleep", interrupt)
    with pytest.raises(
        KeyboardInterrupt, match=r"by SIGINT; the new keys are in .*: `ibkeys smkey-rotate .* finishes it"
    ):
        three.run(monkeypatch)
    monkeypatch.undo()
    change = three.run(monkeypatch)
    assert change.goes_on
    assert_done(three)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_an_sm_on_no_host_that_was_reached_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[2].runs = False
    with pytest.raises(Refused, match=r"the SM at 'node06.*is on no host that was looked at.*--sm-host") as refused:
        three.run(monkeypatch)
    assert refused.value.interlock == "opensm-keys"


def test_an_options_file_that_is_not_there_is_refused_with_the_command_that_makes_it(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    conf = three.hosts[1].conf
    conf.unlink()
    with pytest.raises(Refused, match=rf"never read: make it.*umask 077; .*opensm .* -c {conf}"):
        three.run(monkeypatch)


def test_a_key_of_the_command_line_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[1].words += ["-k", "0x77"]
    with pytest.raises(Refused, match="has its sm_key from its command line") as refused:
        three.run(monkeypatch)
    assert "0x77" not in str(refused.value)


def test_two_masters_are_refused_unless_a_change_was_cut_off(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[1].conf.write_text("sm_key 5\n")
    three.hosts[1].read()
    three.sleep(POLLING + 1)
    with pytest.raises(Refused, match="2 subnet managers say that they are master"):
        three.run(monkeypatch)


def test_an_opensm_that_was_started_again_meanwhile_is_not_told(three: MadeUpSite, monkeypatch: Patch) -> None:
    def stop(step: str) -> None:
        if step.startswith("stage"):
            three.hosts[1].runs = False

    three.before_each = stop
    with pytest.raises(Refused, match="runs no more") as refused:
        three.run(monkeypatch)
    assert refused.value.interlock == "stale"
    three.hosts[1].runs = True
    assert_back(three)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sm_key": SMKey(0)}, "the new sm_key is 0, which is no key"),
        ({"sa_key": SMKey(1)}, "the new sa_key is 1, the default"),
        ({"sa_key": A, "sm_key": A}, "are the same"),
    ],
)
def test_keys_that_are_none_are_refused(three: MadeUpSite, monkeypatch: Patch, given: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        three.run(monkeypatch, given)


def test_other_keys_than_those_that_were_begun_with_are_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    def die(step: str) -> None:
        if step == "put node06":
            raise Killed

    three.before_each = die
    with pytest.raises(Killed):
        three.run(monkeypatch)
    three.before_each = lambda step: None
    with pytest.raises(UsageError, match="another sm_key was cut off"):
        three.run(monkeypatch, {"sm_key": A})
    three.run(monkeypatch)
    assert_done(three)


def test_a_guessable_key_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    with pytest.raises(Refused, match="weak-key: the new sm_key fits 32 bits"):
        three.run(monkeypatch, {"sm_key": SMKey(0xABCD)})
    three.hosts[1].conf.write_text(f"m_key {A.hex()}\n")
    with pytest.raises(Refused, match="weak-key: the new sa_key is also the M_Key"):
        three.run(monkeypatch, {"sa_key": A})
    three.run(monkeypatch, {"sm_key": SMKey(0xABCD)}, ["weak-key"])
    assert three.hosts[0].keys["sm_key"] == SMKey(0xABCD)


def test_a_file_that_another_program_writes_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[2].conf.write_text("# Managed by Puppet\n")
    with pytest.raises(Refused, match=r"file-managed: .*opensm.conf on sm2 is managed by Puppet"):
        three.run(monkeypatch)
    three.run(monkeypatch, overrides=["file-managed"])
    assert_done(three)


def test_an_output_that_others_read_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[1].output = "/etc/passwd"
    with pytest.raises(Refused, match=r"sm-prints-keys: .*on sm1 .*its standard output goes to /etc/passwd"):
        three.run(monkeypatch)
    three.run(monkeypatch, overrides=["sm-prints-keys"])
    assert_done(three)


def test_an_edit_that_nobody_read_is_refused_but_not_our_own(three: MadeUpSite, monkeypatch: Patch) -> None:
    host = three.hosts[1]
    swept = host.folder / "opensm-subnet.lst"
    swept.touch()
    now = swept.stat().st_mtime
    host.started = now - 200
    os.utime(swept, (now - 100, now - 100))
    with pytest.raises(Refused, match=r"stale: .*opensm.conf on sm1.*bring that edit into force too"):
        three.run(monkeypatch)

    def die(step: str) -> None:
        if step == "put node06":
            raise Killed

    three.before_each = die
    with pytest.raises(Killed):
        three.run(monkeypatch, overrides=["stale"])
    three.before_each = lambda step: None
    three.run(monkeypatch)  # what nobody read are the keys that it wrote itself
    assert_done(three)
