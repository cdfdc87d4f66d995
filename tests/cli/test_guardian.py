"""The child that rolls back a change that nobody confirms: when it acts, and which options it gets."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ibkeys.apply.confirm import rollback_arguments
from ibkeys.change.confirming.guardian import GuardedStart, GuardianWatch, run_rollback
from ibkeys.change.consent import INTERLOCKS
from ibkeys.change.interrupts import Interrupts
from ibkeys.cli.guarding import LEFT_OUT, command_for_child, discard_typed, hand_over, wait_for_enter
from ibkeys.cli.mkeys.confirming import awaiting_confirmation
from ibkeys.cli.options import ConsentOptions, SmHosts, Where
from ibkeys.errors import UsageError
from ibkeys.own_program import own_program
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.paths import StorePaths
from tests.cli.conftest import Cli, waiting


def watch(lines: list[str], unconfirmed: bool = True) -> tuple[GuardedStart | None, float]:
    """Let the guardian's child listen to *lines*, two seconds apart; return what it would undo, and when."""
    clock = [0.0]

    def speaking() -> Iterator[str]:
        for line in lines:
            yield line
            clock[0] += 2

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    ends = list[float]()
    found = GuardianWatch(lambda operation, start: unconfirmed, lambda: clock[0], sleep, ends.append).listen(
        speaking(), 60
    )
    assert ends == [60] * ("waiting \n" in lines)
    return found, clock[0]


def test_the_guardian_undoes_when_the_time_is_over_and_not_before() -> None:
    assert watch(["began 7 2\n", "waiting \n"]) == ((7, 2), 62)
    assert watch(["began 7 1\n"]) == ((7, 1), 62)
    assert watch(["key 0x1\n", "began 7 1\n", "waiting \n", "over \n"])[0] is None
    assert watch([]) == (None, 0)
    assert watch(["began 7 1\n", "waiting \n"], unconfirmed=False) == (None, 4)


def test_a_waiting_process_that_is_stopped_goes_on_when_the_time_is_over() -> None:
    script = """
import os, signal
from pathlib import Path
from ibkeys.change.confirming.guardian import Guardian

guardian = Guardian(["false"], lambda operation, start: False, 0.01)
waiting = os.getpid()
if os.fork() == 0:
    while Path(f"/proc/{waiting}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        pass
    guardian.send("waiting")
    os._exit(0)
os.kill(waiting, signal.SIGSTOP)
guardian.close()
print("goes on")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert ran.stdout == "goes on\n"


def test_the_way_back_goes_through_the_port_that_was_open_and_chooses_none(tmp_path: Path) -> None:
    heard, tried = tmp_path / "heard", tmp_path / "tried"
    os.mkfifo(heard)
    script = f"""
import os
from pathlib import Path
from ibkeys.change.confirming.guardian import Guardian

command = ["sh", "-c", 'touch {tried}; echo "$*" > {heard}', "sh"]
guardian = Guardian(command, lambda operation, start: not Path({str(tried)!r}).exists(), 0)
guardian.send_start(7)
guardian.send_port("mlx5_1", 2)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert heard.read_text() == "--Ca=mlx5_1 --Port=2 7\n"


def test_a_command_tells_its_guardian_which_port_it_opened() -> None:
    told = list[tuple[str, int]]()
    guardian: Any = SimpleNamespace(send_port=lambda ca, port: told.append((ca, port)))
    for is_simulated in (True, False):
        local = partial(SimpleNamespace, ca_name="mlx5_1", port=2)
        fabric: Any = SimpleNamespace(is_simulated=is_simulated, local=local)
        hand_over(guardian, Where(), fabric)
    assert told == [("mlx5_1", 2)]


def test_the_key_that_was_typed_reaches_undo_through_a_file_in_memory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = (
        "import sys; from ibkeys.cli.secrets import read_key; from ibkeys.keys.mkey import MKey\n"
        "operation, option = sys.argv[1:]\n"
        "key = read_key(MKey, option.removeprefix('--m_key='), 'x')\n"
        f"open({str(out)!r}, 'w').write(f'{{key.reveal():#x}} {{operation}}')"
    )
    answers = iter([True, False])
    run_rollback([sys.executable, "-c", script], 7, "0x0000000000001234", lambda: next(answers))
    assert out.read_text() == "0x1234 7"


def test_no_variable_sets_an_option_of_the_command_that_rolls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setenv("IBKEYS_FORMAT", "html")
    kept = {"IBSIM_SOCKNAME": "lab", "IBKEYS_SIM_SOCKET": "lab", "IBKEYS_SIM_HOST": "a", "IBKEYS_SIM_FOLDER": "/a"}
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    answers = iter([True, False])
    run_rollback(["sh", "-c", f"env > {out}"], 7, "", lambda: next(answers))
    lines = out.read_text().splitlines()
    assert {line for line in lines if line.startswith(("IBKEYS_", "IBSIM_"))} == {
        f"{name}={value}" for name, value in kept.items()
    }


def test_the_way_back_is_tried_longer_than_another_command_holds_the_lock() -> None:
    pauses = list[float]()
    run_rollback(["false"], 7, "", lambda: True, pauses.append)
    assert pauses[0] <= 2  # a command that has just ended
    assert max(pauses) <= 60
    assert sum(pauses) >= 1800


def test_nothing_is_started_once_it_was_confirmed_in_a_pause(tmp_path: Path) -> None:
    started, confirmed = tmp_path / "started", list[float]()
    run_rollback(["sh", "-c", f"echo >> {started}"], 7, "", lambda: not confirmed, confirmed.append)
    assert started.read_text() == "\n"


def test_the_child_runs_no_code_of_the_folder_that_it_is_started_in(tmp_path: Path) -> None:
    (tmp_path / "ibkeys").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (tmp_path / "ibkeys" / name).write_text("print('not ours')")
    script = (
        "import subprocess\nfrom ibkeys.own_program import own_program\nsubprocess.run([*own_program(), '--version'])"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ran.stdout.startswith("ibkeys"), "not ours" in ran.stdout) == (True, False)


def test_the_command_of_the_guardian_has_no_key_in_it(tmp_path: Path) -> None:
    values = {**dict.fromkeys(field.name for field in dataclasses.fields(Where)), "m_key": "0xabcdef", "timeout": 77}
    values["smkey"] = "0xabcdef"  # of a command that asks the SA for something else
    stores = StorePaths(tmp_path / "keys", tmp_path / "journal")
    hosts = SmHosts(("root@sm1", "sm2"), True, "/etc/own_ssh_config", None)
    command = command_for_child(rollback_arguments(60), Where(**values), stores, hosts)
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
    kept = command_for_child(rollback_arguments(60), where, stores, hosts)
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


def test_only_an_enter_after_the_question_confirms(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = os.openpty()
    with os.fdopen(terminal) as stdin, os.fdopen(keyboard, "wb", buffering=0) as keys:
        monkeypatch.setattr("sys.stdin", stdin)
        wait = wait_for_enter(Interrupts())
        keys.write(b"\ny")
        discard_typed()
        assert not wait(0)
        keys.write(b"\n")
        assert wait(60)


def test_what_was_typed_is_discarded_when_all_is_written(cli: Cli, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = list[str]()
    monkeypatch.setattr("ibkeys.cli.partitions.apply.discard_typed", lambda: order.append("discard"))
    with waiting(lambda seconds: not order.append("wait"), [0.0]):
        assert cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60).code == 0
    assert order == ["discard", "wait"]


def test_a_run_of_m_keys_discards_it_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order = list[str]()
    monkeypatch.setattr("ibkeys.cli.mkeys.confirming.discard_typed", lambda: order.append("discard"))
    monkeypatch.setattr("ibkeys.cli.mkeys.confirming.wait_for_enter", lambda interrupts: order.append("wait"))
    monkeypatch.setattr("ibkeys.mkeys.confirming.start_guardian", lambda *_: SimpleNamespace(close=bool))
    where = Where(keystore=str(tmp_path / "keys"), journal=str(tmp_path / "journal"))
    given: Any = SimpleNamespace(where=where, consent=ConsentOptions(), sm_hosts=SmHosts())
    opensm: Any = SimpleNamespace(sm_wait=1, standby_wait=1)
    through: Any = None
    with awaiting_confirmation(given, opensm, 60, through) as awaited:
        assert awaited is not None
        awaited.wait(Interrupts())
    assert order == ["discard", "wait"]


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
