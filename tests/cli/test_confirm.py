"""apply --confirm-within: who confirms, and that without it everything goes back, whoever has died."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ibkeys.change.confirming.confirmation import block_confirmation
from ibkeys.store.journal import Journal
from ibkeys.store.lock import exclusive
from tests.apply.lab import Lab
from tests.cli.conftest import TWO_SWITCH, WITH_SA, Cli, pkeys, waiting
from tests.corpus import DATA

ROOT = Path(__file__).parents[2]
TIMEOUT = 60


def test_enter_confirms(cli: Cli, plan: Path) -> None:
    with waiting(lambda seconds: True, [0.0]):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert result.code == 0
    assert "rolling back in 60 s unless confirmed: press Enter, or run `ibkeys confirm 1`" in result.err
    assert pkeys(cli, 2)[1] == "0x8001"
    assert cli("journal", "-f", "json").json["operations"][0]["state"] == "done"


def test_without_a_confirmation_it_goes_back_by_itself(cli: Cli, plan: Path) -> None:
    clock = [0.0]

    def pass_time(seconds: float) -> bool:
        clock[0] += seconds
        return False

    with waiting(pass_time, clock):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert result.code == 3
    assert result.out.endswith("rolled back: the tables are as they were\n")
    assert clock[0] == 60
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff"}] * 2
    apply, undo = cli("journal", "-f", "json").json["operations"]
    assert (apply["state"], undo["command"], undo["state"], undo["undoes"]) == ("undone", "undo", "done", 1)
    late = cli("confirm", 1)
    assert late.code == 3
    assert "it is too late to confirm" in late.error


def test_enter_that_is_read_when_the_time_is_over_comes_too_late(cli: Cli, plan: Path) -> None:
    clock = [0.0]

    def stopped_meanwhile(seconds: float) -> bool:
        clock[0] += 61
        return True

    with waiting(stopped_meanwhile, clock):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert (result.code, "not confirmed: rolling back" in result.err) == (3, True)


def test_a_rollback_names_the_ports_where_it_kept_what_somebody_else_wrote(cli: Cli, plan: Path) -> None:
    clock, lab = [0.0], Lab()

    def pass_time(seconds: float) -> bool:
        lab.host(2).p_keys = [0xFFFF, 0x8021]
        lab.host(3).p_keys = [0x7FFF, 0x8001, 0, 0x8022]
        clock[0] += seconds
        return False

    with waiting(pass_time, clock), pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.sim.subnet.Subnet.from_file", lambda *args, **rest: lab.net)
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert result.code == 3
    assert result.out.endswith("not everything is rolled back, as listed above; see `ibkeys journal 1`\n")
    for name, entry in (("node02", "index 1 is 0x8021"), ("node03", "index 3 is 0x8022")):
        [line] = [line for line in result.err.splitlines() if f"not written: {name} mlx4_0" in line]
        assert line.endswith(f"{entry}; what another user or program wrote is kept")
    assert lab.host(2).p_keys[:2] == [0xFFFF, 0x8021]
    assert lab.host(3).p_keys[:4] == [0xFFFF, 0, 0, 0x8022]


def test_another_shell_confirms(cli: Cli, plan: Path) -> None:
    told = []

    def confirm(seconds: float) -> bool:
        told.append(cli("journal").out)
        told.append(cli("confirm", 1).out)
        return False

    with waiting(confirm, [0.0]):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert result.code == 0
    assert "operation 1 rolls back unless it is confirmed: `ibkeys confirm 1`" in told[0]
    assert told[1] == "operation 1 is confirmed\n"
    assert cli("confirm", 1).out == "operation 1 was confirmed already\n"


def test_one_that_never_waited_is_not_confirmed(cli: Cli, plan: Path) -> None:
    assert cli("apply", plan, "--allow-removals", "--yes").code == 0
    answer = cli("confirm", 1)
    assert (answer.code, answer.error) == (3, "operation 1 (apply) is not waiting for a confirmation")


def test_without_an_id_the_one_that_waits_is_confirmed(cli: Cli, plan: Path) -> None:
    assert "no operation is waiting for a confirmation" in cli("confirm").error
    told = []

    def confirm(seconds: float) -> bool:
        told.append(cli("confirm").out)
        return False

    with waiting(confirm, [0.0]):
        assert cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60).code == 0
    assert told == ["operation 1 is confirmed\n"]


def test_what_is_resumed_is_rolled_back_whole_and_that_is_said(cli: Cli, plan: Path) -> None:
    clock = [0.0]

    def pass_time(seconds: float) -> bool:
        clock[0] += seconds
        return False

    part = ("--allow-removals", "--yes", "--first", 1, "--confirm-within", 60)
    with waiting(lambda seconds: True, [0.0]):
        first = cli("apply", plan, *part)
    assert (first.code, "all of operation" in first.err) == (0, False)
    with waiting(pass_time, clock):
        second = cli("resume", "--yes", "--confirm-within", 60)
    assert second.code == 3
    assert "all of operation 1 is rolled back then, also the part that was confirmed before" in second.err
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff"}] * 2


def test_several_that_wait_are_named(cli: Cli, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        for _ in range(2):
            identity = journal.begin("apply", "{}", "{}").id
            assert identity is not None
            assert journal.move_stage(identity, "running", "unconfirmed")
    result = cli("confirm", "--journal", tmp_path / "journal.db")
    assert (result.code, "operations 1, 2 wait for a confirmation: name one" in result.error) == (3, True)


@pytest.fixture
def of_an_earlier_version(tmp_path: Path) -> Path:
    """A journal that 3eed0cee left, in which an apply waits for its confirmation."""
    path = tmp_path / "earlier.db"
    shutil.copyfile(DATA / "stores" / "3eed0cee" / "apply-first" / "journal.db", path)
    path.chmod(0o600)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE plans SET stage = 'unconfirmed'")
        connection.commit()
    return path


def test_the_journal_of_an_earlier_version_that_waits_stays_as_it_is(cli: Cli, of_an_earlier_version: Path) -> None:
    path = of_an_earlier_version
    before = path.read_bytes()
    with exclusive(path, command="apply"):
        for words in (("confirm", 1), ("confirm",), ("resume", "--yes"), ("pkey-add", 3, "0x8021", "--yes")):
            result = cli(*words, "--journal", path)
            assert (result.code, f"apply, pid {os.getpid()}" in result.err) == (3, True)
    assert block_confirmation(path, 1)  # a guard that asks: the command that goes back writes it down
    assert path.read_bytes() == before


def test_what_an_earlier_version_left_waiting_is_confirmed(cli: Cli, of_an_earlier_version: Path) -> None:
    assert cli("confirm", "--journal", of_an_earlier_version).code == 0
    with Journal.read(of_an_earlier_version) as journal:
        assert journal.find(1).stage == "confirmed"


@pytest.mark.parametrize("command", ["apply", "mkey-deploy", "mkey-rotate", "mkey-remove"])
def test_the_former_option_names_the_command(cli: Cli, command: str) -> None:
    result = cli(command, "--confirm", 1)
    assert (result.code, "--confirm is gone: use `ibkeys confirm ID`" in result.error) == (2, True)


def test_an_interrupt_while_it_waits_goes_back_at_once(cli: Cli, plan: Path) -> None:
    def interrupt(seconds: float) -> bool:
        raise KeyboardInterrupt

    with waiting(interrupt, [0.0]):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert result.code == 3
    assert pkeys(cli, 2) == {0: "0xffff"}


def test_nothing_to_confirm_says_why(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    result = cli("confirm", 1)
    assert (result.code, "is not waiting for a confirmation" in result.error) == (3, True)


def test_the_documents_of_apply_are_json_on_standard_output_alone(cli: Cli, plan: Path) -> None:
    with waiting(lambda seconds: True, [0.0]):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60, "-f", "json")
    assert json.loads(result.out)["complete"] is True


# --- apply as a process of its own -----------------------------------------------------------------------------------


class Started:
    """``ibkeys apply`` as a process of its own. Its end, and that of what it leaves behind, closes a pipe."""

    def __init__(self, backend: str, *args: object, **variables: str) -> None:
        self.end, kept = os.pipe()
        own = {name: value for name, value in os.environ.items() if not name.startswith("IBKEYS_")}
        command = [sys.executable, "-m", "ibkeys", "apply", *map(str, args), "--backend", backend]
        self.process = subprocess.Popen(
            command,
            env={**own, **variables, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[kept],
        )
        os.close(kept)

    def read_until(self, words: str) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if words in line:
                return
        raise AssertionError(f"it ended without saying {words!r}")

    def wait(self) -> int:
        code = self.process.wait(TIMEOUT)
        with os.fdopen(self.end) as end:
            end.read()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


def backend_of(tmp_path: Path) -> str:
    return f"{TWO_SWITCH},state={tmp_path / 'fabric'}"


def test_when_the_shell_dies_with_the_change_somebody_else_goes_back(cli: Cli, plan: Path, tmp_path: Path) -> None:
    started = Started(backend_of(tmp_path), plan, "--allow-removals", "--yes", "--confirm-within", 1)
    started.read_until("rolling back in 1 s unless confirmed")
    started.process.kill()
    assert started.wait() == -signal.SIGKILL
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff"}] * 2
    assert cli("journal", "-f", "json").json["operations"][0]["state"] == "undone"


def test_who_goes_back_has_the_keys_of_the_sa_and_no_format_of_the_environment(
    cli: Cli, plan: Path, tmp_path: Path, sa_key: str
) -> None:
    variables = {"IBKEYS_FORMAT": "html", "IBKEYS_SA_KEYS": "1", "IBKEYS_SMKEY": sa_key}
    words = ("--allow-removals", "--yes", "--force", "-f", "table", "--confirm-within", 1)
    started = Started(f"{backend_of(tmp_path)},{WITH_SA}", plan, *words, **variables)
    started.read_until("rolling back in 1 s unless confirmed")
    started.process.kill()
    assert started.wait() == -signal.SIGKILL
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff"}] * 2


def test_a_hangup_does_not_stop_the_time(cli: Cli, plan: Path, tmp_path: Path) -> None:
    started = Started(backend_of(tmp_path), plan, "--allow-removals", "--yes", "--confirm-within", 1)
    started.read_until("rolling back in 1 s unless confirmed")
    started.process.send_signal(signal.SIGHUP)
    assert started.process.stderr is not None
    started.process.stderr.close()  # from now on nobody hears what it says
    assert started.wait() == 3
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff"}] * 2


def test_confirmed_in_time_nobody_goes_back(cli: Cli, plan: Path, tmp_path: Path) -> None:
    started = Started(backend_of(tmp_path), plan, "--allow-removals", "--yes", "--confirm-within", 60)
    started.read_until("rolling back in 60 s unless confirmed")
    assert cli("confirm", 1).code == 0
    assert started.wait() == 0
    assert pkeys(cli, 2)[1] == "0x8001"


@pytest.mark.parametrize("stays", [True, False])
def test_at_a_terminal_enter_confirms_and_without_it_the_time_runs_on(
    cli: Cli, plan: Path, tmp_path: Path, stays: bool
) -> None:
    terminal, own = os.openpty()
    command = [
        sys.executable,
        "-m",
        "ibkeys",
        "apply",
        str(plan),
        "--allow-removals",
        "--backend",
        backend_of(tmp_path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    environment.pop("IBKEYS_BACKEND")
    end, kept = os.pipe()
    seconds = "60" if stays else "1"
    process = subprocess.Popen(
        [*command, "--confirm-within", seconds], env=environment, stdin=own, stdout=own, stderr=own, pass_fds=[kept]
    )
    os.close(own)
    os.close(kept)
    said = b""
    for words, answer in ((b"[y/N] ", b"y\n"), (b"rolling back in", b"\n")):
        while words not in said:
            said += os.read(terminal, 4096)
        if stays or words.startswith(b"["):
            os.write(terminal, answer)
    if stays:
        while b"is confirmed\r\n" not in said:
            said += os.read(terminal, 4096)
    os.close(terminal)
    assert process.wait(TIMEOUT) == (0 if stays else 3)
    with os.fdopen(end) as gone:
        gone.read()
    assert (1 in pkeys(cli, 2)) == stays
