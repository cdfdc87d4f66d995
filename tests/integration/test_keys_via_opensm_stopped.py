"""A run of M_Keys through OpenSM is stopped: by a crash of OpenSM, by the user, or since OpenSM reads no options."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from tests.corpus import DATA
from tests.integration.hosted import Hosted, RunningOpensm, running_until_the_end
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_opensm import CONF, KeyedOpensm, keyed
from tests.integration.waiting import by_method
from tests.sample import SOAK, sampled

NET = DATA / "fabrics" / "two-switch.net"
CLOSED = ("--protect", "2", "--lease", "3600")
PORTS = 8
STEPS = {"mkey-deploy": 4, "mkey-rotate": 3, "mkey-remove": 2}
"""How many steps each command has, with `PORTS` Sets in each."""
SAMPLE = ((4, "undo"), (12, "resume"))
"""Sets at which OpenSM dies under `make test`, when some ports have the new key and after that, and how it goes on."""
STEP = 2
"""The step of a rotation, from 1, in which the user stops it under `make test`; under `make soak` in each one."""
MORE = {"mkey-deploy": CLOSED, "mkey-rotate": (), "mkey-remove": ("--leave-open",)}
Setting = tuple[int, int, int]


@pytest.fixture
def opensm() -> Iterator[KeyedOpensm]:
    with keyed(NET) as running:
        yield running


def only(opensm: KeyedOpensm) -> Setting:
    [found] = opensm.keys()
    return found


def must(opensm: KeyedOpensm, *words: str) -> str:
    code, said = opensm.ibkeys(*words)
    assert code == 0, said
    return said


# --- OpenSM dies ------------------------------------------------------------------------------------------------------


def lose_opensm_at(opensm: KeyedOpensm, number: int, way_on: str = "resume", command: str = "mkey-rotate") -> None:
    """Let OpenSM die at a Set of a command; repair, start it, and finish the command, or go back. No lease is waited
    for."""
    served, running = opensm.served, opensm.running
    former = only(opensm)
    with opensm.at_set(number, running.process.kill):
        code, said = opensm.ibkeys(command, *MORE[command])
    assert code == 4
    assert "no longer runs" in said
    repair = re.search(r"ibkeys (sm-repair .*?);", said)
    assert repair is not None, said
    assert "`ibkeys resume` or `ibkeys undo`" in said
    running.kill()
    refuse_while_it_is_dead(opensm)
    before = opensm.violations()
    assert before == 0
    done = served.ibkeys(*repair[1].split(), "--yes")
    assert done.returncode == 0, done.stderr
    counted = opensm.violations()
    running.start()
    running.sweep()
    assert opensm.all_active()
    must(opensm, way_on)
    key, level, lease = only(opensm)
    assert (key == former[0]) == (way_on == "undo")
    if way_on == "undo":
        assert (level, lease) == former[1:]
    else:
        assert (bool(key), level, lease) == ((False, 0, 0) if command == "mkey-remove" else (True, 2, 3600))
    assert (opensm.violations(), opensm.leases_ended()) == (counted, 0)
    for port in opensm.end_ports():
        port.m_key_violations = 0


def refuse_while_it_is_dead(opensm: KeyedOpensm) -> None:
    """Without a master nothing goes on; while keys are mixed there is no way back, whoever is master."""
    code, said = opensm.ibkeys("resume")
    assert code == 4, said
    assert "sm-repair" in said
    code, said = opensm.ibkeys("undo")
    assert code == 4, said
    assert ("can only be finished" in said) == (opensm.number_of_keys() > 1)
    code, said = opensm.ibkeys("mkey-rotate")
    assert code == 4, said
    assert "is not finished" in said


def test_after_opensm_died_in_the_middle_it_is_repaired_started_and_the_rotation_finished(opensm: KeyedOpensm) -> None:
    must(opensm, "mkey-deploy", *CLOSED)
    for number, way_on in SAMPLE:
        lose_opensm_at(opensm, number, way_on)


@pytest.mark.soak
@pytest.mark.parametrize("way_on", ["resume", "undo"])
@pytest.mark.parametrize(("command", "step"), [(command, step) for command in STEPS for step in range(STEPS[command])])
def test_after_opensm_died_at_any_set_of_a_step(opensm: KeyedOpensm, command: str, step: int, way_on: str) -> None:
    for number in range(PORTS):
        if command == "mkey-deploy" and only(opensm)[0]:
            must(opensm, "mkey-remove", "--leave-open")
        elif command != "mkey-deploy" and not only(opensm)[0]:
            must(opensm, "mkey-deploy", *CLOSED)
        lose_opensm_at(opensm, 1 + step * PORTS + number, way_on, command)


# --- the user stops it ------------------------------------------------------------------------------------------------


def interrupt(
    opensm: KeyedOpensm, command: str, step: int, number: signal.Signals = signal.SIGINT, *, back: str = ""
) -> str:
    """Send ibkeys a signal in the middle of a step, from 1, and return all that it said. OpenSM stands still then.

    *back*: the operation whose undo is stopped instead.
    """
    asked = ("undo", back) if back else (command, *MORE[command])
    words = opensm.served.ibkeys_command(*by_method(asked), "--yes")
    with opensm.served.begin(words) as process:

        def stop() -> None:
            opensm.running.process.send_signal(signal.SIGSTOP)
            process.send_signal(number)

        with opensm.at_set((step - 1) * PORTS + PORTS // 2, stop):
            said, _ = process.communicate(timeout=RUN_TIMEOUT)
    assert process.returncode == 130, said
    assert f"by {number.name}" in said
    assert "`ibkeys resume` finishes it, `ibkeys undo` rolls it back" in said
    return said


def go_on(opensm: KeyedOpensm) -> None:
    """Let OpenSM finish what it was at."""
    opensm.running.process.send_signal(signal.SIGCONT)
    opensm.running.sweep()


def assert_no_way_back_while_keys_are_mixed(opensm: KeyedOpensm, command: str) -> None:
    if opensm.number_of_keys() > 1:
        code, said = opensm.ibkeys("undo")
        assert code == 4, said
        assert "can only be finished" in said


@pytest.mark.parametrize("command", sampled(STEPS, ["mkey-rotate"]))
def test_what_the_user_stopped_in_a_step_goes_back(opensm: KeyedOpensm, command: str) -> None:
    if command != "mkey-deploy":
        must(opensm, "mkey-deploy", *CLOSED)
    for step in range(1, STEPS[command] + 1) if SOAK else (STEP,):
        former = only(opensm)
        interrupt(opensm, command, step)
        assert_no_way_back_while_keys_are_mixed(opensm, command)
        go_on(opensm)
        must(opensm, "undo")
        assert only(opensm) == former
    assert (opensm.violations(), opensm.traps) == (0, 0)


def test_a_way_back_that_was_stopped_is_finished_and_nothing_else(opensm: KeyedOpensm) -> None:
    must(opensm, "mkey-deploy", *CLOSED)
    for number, step in enumerate(range(1, STEPS["mkey-rotate"] + 1) if SOAK else (STEP,), 1):
        former = only(opensm)
        must(opensm, "mkey-rotate")
        rotation = str(2 * number)  # between them are the undos
        interrupt(opensm, "mkey-rotate", step, back=rotation)
        go_on(opensm)
        code, said = opensm.ibkeys("resume", "--confirm-within", "5")
        assert code == 2, said
        why = "is being undone, and the undo has no such option: omit --confirm-within"
        assert f"operation {rotation} (mkey-rotate) {why}" in said
        must(opensm, "resume")
        assert only(opensm) == former
        code, said = opensm.ibkeys("undo", rotation)
        assert (code, "has already been undone" in said) == (3, True), said
        assert only(opensm) == former
    opensm.assert_nothing_was_lost()


def stop_and_finish(opensm: KeyedOpensm, command: str, step: int) -> None:
    former = only(opensm)
    interrupt(opensm, command, step, signal.SIGTERM)
    go_on(opensm)
    must(opensm, "resume")
    key, level, lease = only(opensm)
    assert key != former[0]
    assert (level, lease) == ((0, 0) if command == "mkey-remove" else (2, 3600))


def test_what_the_user_stopped_in_a_step_is_finished(opensm: KeyedOpensm) -> None:
    stop_and_finish(opensm, "mkey-deploy", 2)
    stop_and_finish(opensm, "mkey-rotate", 2)
    stop_and_finish(opensm, "mkey-remove", 1)
    opensm.assert_nothing_was_lost()


@pytest.mark.soak
def test_what_the_user_stopped_in_any_step_is_finished(opensm: KeyedOpensm) -> None:
    for step in range(1, STEPS["mkey-deploy"] + 1):
        stop_and_finish(opensm, "mkey-deploy", step)
        must(opensm, "mkey-remove", "--leave-open")
    must(opensm, "mkey-deploy", *CLOSED)
    for step in range(1, STEPS["mkey-rotate"] + 1):
        stop_and_finish(opensm, "mkey-rotate", step)
    for step in range(1, STEPS["mkey-remove"] + 1):
        stop_and_finish(opensm, "mkey-remove", step)
        must(opensm, "mkey-deploy", *CLOSED)
    opensm.assert_nothing_was_lost()


# --- OpenSM reads no options file -------------------------------------------------------------------------------------


def test_where_opensm_never_reads_its_file_nothing_is_armed_and_the_run_waits_for_a_restart() -> None:
    with Hosted(NET) as served:
        running = RunningOpensm(
            served, served.opensm_arguments(extra=("-f", "stdout", "-D", "0x07")), served.folder / "none"
        )
        conf = served.folder / "opensm.conf"
        conf.unlink()
        with running_until_the_end(running):
            opensm = KeyedOpensm(served, running)
            code, said = opensm.ibkeys("mkey-deploy", *CLOSED)
            assert code == 4
            assert "OpenSM reads only a file that exists when it starts" in said
            conf.write_text(CONF)
            running.sweep()  # or it is an edit that nobody has read
            code, said = opensm.ibkeys("mkey-deploy", *CLOSED, "--wait", "1", "-v")
            assert code == 3, said
            assert "no further port changed" in said
            assert "which has its former values again" in said
            assert conf.read_text() == CONF + NO_KEY
            assert opensm.mode(conf) == 0o600
            running.kill()
            running.start()  # what is in the file now comes into force
            assert opensm.keys() == {(0, 0, 0)}
            must(opensm, "resume")
            assert only(opensm)[1:] == (2, 3600)


NO_KEY = "m_key 0x0000000000000000\nm_key_protection_level 0\nm_key_lease_period 0\n"


# --- undo and journal -------------------------------------------------------------------------------------------------


def test_only_the_last_run_is_undone_and_the_journal_shows_no_key(opensm: KeyedOpensm) -> None:
    must(opensm, "mkey-deploy", *CLOSED)
    interrupt(opensm, "mkey-rotate", 2)
    go_on(opensm)
    served, before = opensm.served, opensm.conf.read_bytes()
    done = served.ibkeys("undo", "1", "--yes")
    assert done.returncode == 2, done.stdout
    assert "is not the last run of M_Keys" in done.stderr
    assert opensm.conf.read_bytes() == before
    done = served.ibkeys("journal", "2", "-f", "json")
    assert str(opensm.conf) in done.stdout
    shown = served.ibkeys("journal", "2").stdout + done.stdout
    must(opensm, "resume")
    keys = {int(found, 16) for found in re.findall(rb"^m_key (\S+)$", before, re.MULTILINE)} | {only(opensm)[0]}
    assert not [key for key in keys if f"{key:x}" in shown or str(key) in shown]
