"""apply --confirm-within: who confirms, and that without it everything goes back, whoever has died."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ibkeys.apply.confirm import rolls_back
from ibkeys.change.confirming.confirmation import may_go_back
from ibkeys.change.confirming.guardian import GuardedStart, Watch, go_back, own_program
from ibkeys.change.consent import INTERLOCKS
from ibkeys.cli.guarding import LEFT_OUT, command_for_child
from ibkeys.cli.options import SmHosts, Where
from ibkeys.errors import UsageError
from ibkeys.store.journal import Journal
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.lock import exclusive
from ibkeys.store.paths import StorePaths
from tests.apply.lab import Lab
from tests.cli.conftest import TWO_SWITCH, WITH_SA, Cli, pkeys
from tests.corpus import DATA

ROOT = Path(__file__).parents[2]
TIMEOUT = 60


@contextmanager
def waiting(answer: Callable[[float], bool], seconds: list[float]) -> Iterator[None]:
    """Let `apply` wait on a clock that *answer* moves: it gets the seconds to wait, and says whether Enter came."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.cli.partitions.apply.wait_for_enter", lambda interrupts: answer)
        patch.setattr("ibkeys.apply.confirm.time.monotonic", lambda: seconds[0])
        yield


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
    assert result.out.endswith("rolled back, except as listed above\n")
    for name, entry in (("node02", "index 1 is 0x8021"), ("node03", "index 3 is 0x8022")):
        [line] = [line for line in result.err.splitlines() if f"not written: {name} mlx4_0" in line]
        assert line.endswith(f"{entry}; what somebody else wrote is kept")
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
    assert "all of operation 1 is rolled back then, also what was confirmed before it was resumed" in second.err
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
    assert may_go_back(path, 1)  # a guard that asks: the command that goes back writes it down
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


# --- the guardian ----------------------------------------------------------------------------------------------------


def watch(lines: list[str], unconfirmed: bool = True) -> tuple[GuardedStart | None, float]:
    """Let the guardian's child listen to *lines*, two seconds apart; return what it would undo, and when."""
    clock = [0.0]

    def speaking() -> Iterator[str]:
        for line in lines:
            yield line
            clock[0] += 2

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    found = Watch(lambda operation, start: unconfirmed, lambda: clock[0], sleep).listen(speaking(), 60)
    return found, clock[0]


def test_the_guardian_undoes_when_the_time_is_over_and_not_before() -> None:
    assert watch(["began 7 2\n", "waiting \n"]) == ((7, 2), 62)
    assert watch(["began 7 1\n"]) == ((7, 1), 62)
    assert watch(["key 0x1\n", "began 7 1\n", "waiting \n", "over \n"])[0] is None
    assert watch([]) == (None, 0)
    assert watch(["began 7 1\n", "waiting \n"], unconfirmed=False) == (None, 4)


def test_the_key_that_was_typed_reaches_undo_through_a_file_in_memory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = (
        "import sys; from ibkeys.cli.secrets import read_key; from ibkeys.keys.mkey import MKey\n"
        "operation, option = sys.argv[1:]\n"
        "key = read_key(MKey, option.removeprefix('--m_key='), 'x')\n"
        f"open({str(out)!r}, 'w').write(f'{{key.reveal():#x}} {{operation}}')"
    )
    answers = iter([True, False])
    go_back([sys.executable, "-c", script], 7, "0x0000000000001234", lambda: next(answers))
    assert out.read_text() == "0x1234 7"


def test_no_variable_sets_an_option_of_the_command_that_rolls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setenv("IBKEYS_FORMAT", "html")
    monkeypatch.setenv("IBSIM_SOCKNAME", "kept")
    answers = iter([True, False])
    go_back(["sh", "-c", f"env > {out}"], 7, "", lambda: next(answers))
    lines = out.read_text().splitlines()
    assert "IBSIM_SOCKNAME=kept" in lines
    assert [line for line in lines if line.startswith("IBKEYS_")] == []


def test_the_way_back_is_tried_longer_than_another_command_holds_the_lock() -> None:
    pauses = list[float]()
    go_back(["false"], 7, "", lambda: True, pauses.append)
    assert pauses[0] <= 2  # a command that has just ended
    assert max(pauses) <= 60
    assert sum(pauses) >= 1800


def test_nothing_is_started_once_it_was_confirmed_in_a_pause(tmp_path: Path) -> None:
    started, confirmed = tmp_path / "started", list[float]()
    go_back(["sh", "-c", f"echo >> {started}"], 7, "", lambda: not confirmed, confirmed.append)
    assert started.read_text() == "\n"


def test_the_child_runs_no_code_of_the_folder_that_it_is_started_in(tmp_path: Path) -> None:
    (tmp_path / "ibkeys").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (tmp_path / "ibkeys" / name).write_text("print('not ours')")
    script = (
        "import subprocess\nfrom ibkeys.change.confirming.guardian import own_program\n"
        "subprocess.run([*own_program(), '--version'])"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ran.stdout.startswith("ibkeys"), "not ours" in ran.stdout) == (True, False)


def test_the_command_of_the_guardian_has_no_key_in_it(tmp_path: Path) -> None:
    values = {**dict.fromkeys(field.name for field in dataclasses.fields(Where)), "m_key": "0xabcdef", "timeout": 77}
    values["smkey"] = "0xabcdef"  # of a command that asks the SA for something else
    stores = StorePaths(tmp_path / "keys", tmp_path / "journal")
    hosts = SmHosts(("root@sm1", "sm2"), True, "/etc/own_ssh_config", None)
    command = command_for_child(rolls_back(60), Where(**values), stores, hosts)
    assert command[: command.index("undo")] == own_program()
    assert command[command.index("undo") :] == [
        "undo",
        "--unconfirmed",
        "--yes",
        "--force",
        "--at-once",
        "--allow-break",
        *(f"--override={name}" for name in INTERLOCKS),
        "--wait=60",
        "--site=none",
        "--timeout=77",
        f"--keystore={tmp_path / 'keys'}",
        f"--journal={tmp_path / 'journal'}",
        "--ssh-config=/etc/own_ssh_config",
        "--sm-host=root@sm1",
        "--sm-host=sm2",
        "--sudo",
    ]
    where = Where(**{**values, "m_key": "@/etc/key", "keystore_passphrase": "@/etc/phrase"})
    kept = command_for_child(rolls_back(60), where, stores, hosts)
    assert {"--m_key=@/etc/key", "--keystore-passphrase=@/etc/phrase"} <= set(kept)


@pytest.mark.parametrize("typed", [(), ("--keystore-passphrase", "-")])
def test_an_encrypted_store_needs_a_file_that_the_child_can_read_too(
    cli: Cli, plan: Path, tmp_path: Path, typed: tuple[str, ...]
) -> None:
    phrase = tmp_path / "phrase"
    phrase.write_text("open sesame\n")
    phrase.chmod(0o600)
    KeyStore(tmp_path / "fabric.keys").close()
    assert cli("keystore", "encrypt", "--new-passphrase", f"@{phrase}").code == 0
    words = ("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    result = cli(*words, *typed)
    assert (result.code, "give --keystore-passphrase @FILE" in result.error) == (2, True), result.err
    assert not (tmp_path / "fabric").exists()
    with waiting(lambda seconds: True, [0.0]):
        assert cli(*words, "--keystore-passphrase", f"@{phrase}").code == 0


def other_than_default(name: str, key_file: Path) -> Any:
    """Return a value of an option of the fabric that nobody has by default."""
    default = getattr(Where(), name)
    if name in ("m_key", "smkey", "keystore_passphrase"):
        return f"@{key_file}"
    return not default if isinstance(default, bool) else {"limit": ("nodes=7", "hops=9")}.get(name, 5)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Where)])
def test_each_option_of_the_fabric_reaches_the_command_or_is_left_out_for_a_reason(
    tmp_path: Path, key_file: Path, name: str
) -> None:
    def words(where: Where) -> list[str]:
        stores = StorePaths(Path(str(where.keystore)), Path(str(where.journal)))
        return command_for_child(["undo"], where, stores, SmHosts())

    value = other_than_default(name, key_file)
    plain = Where(sa_keys=name == "smkey")
    added = [word for word in words(dataclasses.replace(plain, **{name: value})) if word not in words(plain)]
    if name in LEFT_OUT:
        assert (added, len(LEFT_OUT[name]) > 10) == ([], True)
        return
    option = {"ca": "Ca", "port": "Port"}.get(name, name)
    option = option if name in ("m_key", "outstanding_smps") else option.replace("_", "-")
    assert added == [
        f"--{option}" if value is True else f"--{option}={each}"
        for each in (value if isinstance(value, tuple) else (value,))
    ]


def test_an_sm_key_that_was_typed_cannot_be_read_again(tmp_path: Path) -> None:
    stores = StorePaths(tmp_path / "keys", tmp_path / "journal")
    for typed in ("-", "0x1234"):
        with pytest.raises(UsageError, match="--smkey @FILE"):
            command_for_child(["undo"], Where(sa_keys=True, smkey=typed), stores, SmHosts())
    words = command_for_child(["undo"], Where(sa_keys=True), stores, SmHosts())  # ibdiag.conf has it
    assert "--sa-keys" in words


@pytest.mark.parametrize("path", ["/dev/stdin", "/dev/fd/63", "/proc/self/fd/0", "fifo"])
def test_a_secret_that_can_be_read_only_once_is_refused(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    file = tmp_path / path
    values = dict.fromkeys(field.name for field in dataclasses.fields(Where))
    stores = StorePaths(tmp_path / "keys", tmp_path / "journal")
    for name, option in (("m_key", "--m_key"), ("keystore_passphrase", "--keystore-passphrase"), ("smkey", "--smkey")):
        where: Any = {**values, name: f"@{file}", "sa_keys": True}
        with pytest.raises(UsageError, match=f"{option}: .*{file}.*regular file"):
            command_for_child(["undo"], Where(**where), stores, SmHosts((), False, None, None))


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
