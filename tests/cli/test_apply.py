"""apply, undo, journal: what they write, their exit codes, confirming and going back."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibkeys.cli.guardian import Watch, _undo, arguments
from ibkeys.cli.options import Where
from ibkeys.policy.planfile import PlanFile, write_plan
from ibkeys.store.origin import this_process
from ibkeys.store.paths import StorePaths
from tests.cli.conftest import TWO_SWITCH, Cli, run
from tests.policy.lab import Lab
from tests.policy.plans import entries

ROOT = Path(__file__).parents[2]
TIMEOUT = 60


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan that adds a key to node02 and node03, and limits the default of node03."""
    return written(tmp_path, Lab().plan({2: entries(0xFFFF, 0x8001), 3: entries(0x7FFF, 0x8001)}, {2: "io"}))


def written(folder: Path, plan: PlanFile) -> Path:
    path = folder / "plan.json"
    write_plan(plan, path)
    return path


def pkeys(cli: Cli, *where: object) -> dict[int, str]:
    port = cli("pkey-show", *where, "-f", "json").json["ports"][0]
    return {entry["index"]: entry["pkey"] for entry in port["pkeys"]}


STEPS = """\
to be done, in this order:
  additions, leaf ports: 2 ports, 2 Sets
  additions, end ports: 2 ports, 2 Sets
  removals, end ports: 1 port, 1 Set
  removals, leaf ports: 1 port, 1 Set
  enforcement on: 1 port, 1 Set
P_Keys that go, full to limited included: 2
"""


def shown(plan: Path) -> str:
    """What `apply` says that it will do: first which plan it is."""
    return f"digest of the plan: {json.loads(plan.read_text())['digest']}\n{STEPS}"


def test_apply_shows_writes_and_verifies(cli: Cli, plan: Path) -> None:
    result = cli("apply", plan, "--allow-removals", "--yes")
    assert (result.code, result.err) == (0, "")
    assert result.out == shown(plan) + "done, verified by a fresh read; `ibkeys undo 1` goes back\n"
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff", 1: "0x8001"}, {0: "0x7fff", 1: "0x8001"}]
    assert cli("enforce-show", 7, 2, "-f", "json").json["ports"][0]["partition_enforcement_inbound"] == 1


def test_a_dry_run_names_what_would_be_refused_and_exits_1(cli: Cli, plan: Path, tmp_path: Path) -> None:
    result = cli("apply", plan, "--dry-run")
    assert (result.code, result.out) == (1, shown(plan) + "dry run: nothing was changed\n")
    assert result.err.startswith("ibkeys: would be refused: the plan removes 2 P_Keys (full to limited counts) from 2")
    assert pkeys(cli, 2) == {0: "0xffff"}
    assert not list(tmp_path.glob("*.journal*"))


def test_removals_without_permission_are_refused(cli: Cli, plan: Path) -> None:
    result = cli("apply", plan, "--yes")
    assert result.code == 4
    assert "--allow-removals goes ahead" in result.error
    assert pkeys(cli, 2) == {0: "0xffff"}


def test_without_yes_and_terminal_nothing_is_changed(cli: Cli, plan: Path) -> None:
    result = cli("apply", plan, "--allow-removals", stdin="y\n")
    assert (result.code, result.out) == (4, shown(plan))
    assert "--yes" in result.error


def test_a_plan_that_is_true_already_exits_0(cli: Cli, plan: Path) -> None:
    cli("apply", plan, "--allow-removals", "--yes")
    result = cli("apply", plan, "--yes", "--override", "stale")
    assert result.code == 0
    assert result.out.endswith("\nnothing to change\n")


def test_json_of_an_apply(cli: Cli, plan: Path) -> None:
    document = cli("apply", plan, "--allow-removals", "--yes", "-f", "json").json
    assert document == {
        "schema": "ibkeys.apply/1",
        "dry_run": False,
        "applied": True,
        "complete": True,
        "gone_back": False,
        "operation": 1,
        "digest": json.loads(plan.read_text())["digest"],
        "phases": [
            {"phase": "leaf-add", "ports": 2, "sets": 2},
            {"phase": "end-add", "ports": 2, "sets": 2},
            {"phase": "end-remove", "ports": 1, "sets": 1},
            {"phase": "leaf-remove", "ports": 1, "sets": 1},
            {"phase": "enforcement-on", "ports": 1, "sets": 1},
        ],
        "left_for_later": 0,
        "removals": 2,
        "breaks": [],
        "notes": [],
        "interlocks": [],
        "errors": [],
    }


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "nothing to apply: name a PLAN"),
        (["missing.json"], "missing.json: No such file or directory"),
        (["--confirm", "1", "--resume"], "--confirm ID stands alone"),
        (["--confirm", "1", "--dry-run"], "--confirm ID stands alone"),
        (["--confirm", "1", "--first", "1"], "--confirm ID stands alone"),
        (["--confirm", "1", "--allow-removals"], "--confirm ID stands alone"),
        (["--confirm", "1", "--allow-break"], "--confirm ID stands alone"),
        (["--first", "0", "--resume"], "0 is not in 1..65535"),
    ],
)
def test_wrong_usage(cli: Cli, args: list[str], says: str) -> None:
    result = cli("apply", *args)
    assert result.code == 2
    assert says in result.error


def test_a_file_that_is_no_plan_is_named_with_the_place(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"schema": ')
    result = cli("apply", path, "--yes")
    assert result.code == 2
    assert result.error.startswith(f"{path}:1:12: is no JSON")


def test_an_edited_plan_is_refused(cli: Cli, plan: Path) -> None:
    plan.write_text(plan.read_text().replace("0x8001", "0x8002"))
    for args in ([], ["--dry-run"], ["--resume"]):
        result = cli("apply", plan, "--allow-removals", "--yes", *args)
        assert result.code == 2
        assert f"{plan}: was edited after it was made" in result.error
    assert pkeys(cli, 2) == {0: "0xffff"}


def test_plan_and_apply_and_resume_show_the_same_digest(cli: Cli, tmp_path: Path) -> None:
    policy, plan = tmp_path / "p.conf", tmp_path / "plan.json"
    policy.write_text("Default=0x7fff : ALL=full ;\nBlue=0x10 : ALL_CAS=full ;\n")
    told = cli("plan", "--policy", policy, "--out", plan).out
    line = next(line for line in told.splitlines() if line.startswith("digest of the plan: "))
    assert line == f"digest of the plan: {json.loads(plan.read_text())['digest']}"
    assert line in cli("apply", plan, "--dry-run").out
    assert line in cli("apply", plan, "--first", 1, "--yes").out
    assert line in cli("apply", plan, "--resume", "--yes", "--dry-run").out
    other = written(tmp_path, Lab().plan({2: entries(0xFFFF, 0x8001)}))
    assert "follows another plan" in cli("apply", other, "--resume", "--yes").error
    assert cli("apply", "--resume", "--yes", "-f", "json").json["digest"] in line


def test_canary_then_resume_then_undo(cli: Cli, tmp_path: Path) -> None:
    plan = written(tmp_path, Lab().plan({number: entries(0xFFFF, 0x8001) for number in (2, 5)}))
    result = cli("apply", plan, "--yes", "--first", 1)
    assert result.code == 0
    assert result.out.endswith("done in part: operation 1 is open, `ibkeys apply --resume` goes on\n")
    assert (pkeys(cli, 2)[1], 1 in pkeys(cli, 5)) == ("0x8001", False)
    again = cli("apply", plan, "--yes", "--dry-run")
    assert "operation 1 of the journal (apply) was never finished" in again.err
    result = cli("apply", "--resume", "--yes")
    assert (result.code, pkeys(cli, 5)[1]) == (0, "0x8001")
    result = cli("undo", "--yes")
    assert result.out.endswith("done, verified by a fresh read; `ibkeys undo 2` brings it back\n")
    assert [pkeys(cli, lid) for lid in (2, 5)] == [{0: "0xffff"}] * 2


def test_undo_of_pkey_set(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    cli("pkey-set", 3, "3=0x8011", "--yes")
    assert cli("undo", 1, "--yes").code == 0
    assert (pkeys(cli, 2), pkeys(cli, 3)) == ({0: "0xffff"}, {0: "0xffff", 3: "0x8011"})
    assert cli("undo", "--yes").code == 0
    assert pkeys(cli, 3) == {0: "0xffff"}
    result = cli("undo", "--yes")
    assert result.code == 3
    assert "there is nothing to undo" in result.error


def test_undo_does_not_write_over_what_came_later(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    cli("pkey-set", 2, "3=0x8011", "--yes")
    result = cli("undo", 1, "--yes")
    assert result.code == 4
    assert "interlock stale: 1 port changed meanwhile or cannot be read: 'node02 mlx4_0'" in result.error
    assert pkeys(cli, 2)[3] == "0x8011"


def test_undo_dry_run_and_refusal_without_yes(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    assert cli("undo", "--dry-run").code == 1
    assert cli("undo").code == 4
    assert pkeys(cli, 2)[3] == "0x8010"


def test_journal_tells(cli: Cli, plan: Path) -> None:
    assert cli("journal").out == "the journal is empty\n"
    cli("pkey-set", 2, "3=0x8010", "--yes")
    cli("undo", "--yes")
    cli("apply", plan, "--allow-removals", "--yes")
    document = cli("journal", "-f", "json").json
    assert document["schema"] == "ibkeys.journal/1"
    told = [(each["id"], each["command"], each["state"], each["ports"]) for each in document["operations"]]
    assert told == [(1, "pkey-set", "undone", 1), (2, "undo", "done", 1), (3, "apply", "done", 4)]
    assert [(each["undoes"], each["undone_by"]) for each in document["operations"]] == [
        (None, 2),
        (1, None),
        (None, None),
    ]
    assert all(each["finished"] >= each["started"] for each in document["operations"])
    assert set(document["operations"][0]) >= {"id", "command", "state", "started", "finished", "ports"}
    lines = cli("journal").out.splitlines()
    assert lines[0].split() == [
        *("Id", "Command", "State", "Started", "Finished", "Ports", "Unproven", "Sets", "User", "Host", "Overrides"),
    ]
    assert lines[1].split()[:3] == ["1", "pkey-set", "undone"]
    assert lines[2].split()[:5] == ["2", "undo", "of", "1", "done"]


def test_journal_tells_who_and_how(cli: Cli) -> None:
    host, user = os.uname().nodename, this_process().user
    cli(
        "pkey-set", 2, "0=", "--yes", "--force", "--override", "index-0", "--override", "default-pkey", "--timeout", 900
    )
    [told] = cli("journal", "-f", "json").json["operations"]
    assert (told["user"], told["host"]) == (user, host)
    assert told["overrides"] == ["active-sm", "default-pkey", "index-0"]
    assert told["options"] == ["--backend", "--timeout 900"]
    assert told["starts"] == [
        {name: told[name] for name in ("started", "user", "host", "overrides", "options")},
    ]
    row = next(csv.DictReader(io.StringIO(cli("journal", "-f", "csv").out)))
    # A cell that begins with - is quoted as data.
    assert (row["user"], row["host"], row["options"]) == (user, host, "'--backend --timeout 900")
    assert row["overrides"] == "active-sm default-pkey index-0"
    by = f"by {user} on {host}; overridden: active-sm, default-pkey, index-0; with --backend --timeout 900"
    assert f"started {told['started']} {by}\n" in cli("journal", 1).out


def test_no_key_comes_into_the_journal_with_the_options(cli: Cli, tmp_path: Path) -> None:
    """Not as a literal, not from a file, not with a backend's SA_Key; the names of the options are there."""
    key, other, sa_key = 0x1A2B3C4D5E6F7081, 0x0BADC0FFEE0DDF00, 0x7A7A1234
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(f"{other:#x}")
    backend = f"{TWO_SWITCH},state={tmp_path / 'fabric'},sm=node04 mlx4_0,sa-key={sa_key:#x}"
    done = cli("mkey-set", 2, "--new-m-key", f"@{file}", "--yes", "-y", hex(key), "--override", "mkey-under-sm",
               "--protect", 1, "--lease", 60, "--backend", backend)  # fmt: skip
    assert done.code == 0, done.err
    [told] = cli("journal", "-f", "json").json["operations"]
    assert {"--m_key", "--new-m-key", "--backend", "--protect 1", "--lease 60"} <= {*told["options"]}
    raw = (tmp_path / "fabric.journal").read_bytes().lower()
    for secret in (key, other, sa_key):
        assert f"{secret:x}".encode() not in raw
        assert secret.to_bytes(8) not in raw
        assert str(secret).encode() not in raw


def test_an_undo_is_undone_and_says_so(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    [before] = cli("journal", "-f", "json").json["operations"]
    document = cli("undo", "--yes", "-f", "json").json
    assert (document["operation"], document["undoes"], document["complete"]) == (2, 1, True)
    again = cli("undo", 1, "--yes")
    assert (again.code, "was undone already by operation 2; `ibkeys undo 2` brings it back" in again.error) == (3, True)
    first = cli("journal", "-f", "json").json["operations"][0]
    assert (first["started"], first["finished"]) == (before["started"], before["finished"])
    assert "there is nothing to undo" in cli("undo", "--yes").error
    assert cli("undo", 2, "--yes").code == 0
    assert pkeys(cli, 2)[3] == "0x8010"
    told = [
        (each["command"], each["state"], each["undoes"]) for each in cli("journal", "-f", "json").json["operations"]
    ]
    assert told == [("pkey-set", "done", None), ("undo", "undone", 1), ("undo", "done", 2)]
    assert cli("undo", "--yes").code == 0
    assert pkeys(cli, 2) == {0: "0xffff"}


def test_journal_of_one_operation_tells_what_it_overwrote(cli: Cli, plan: Path) -> None:
    cli("apply", plan, "--allow-removals", "--yes")
    out = cli("journal", 1).out
    assert "node03 mlx4_0 (ca 0x0002c903000a1030) port 1, LID 3\n  pkey[1]: - -> 0x8001\n" in out
    assert "  pkey[0]: 0xffff -> 0x7fff\n" in out
    assert "  partition_enforcement_inbound: 0 -> 1\n" in out
    rows = cli("journal", 1, "-f", "json").json["changes"]
    assert len(rows) == 4 + 2 + 2
    assert {row["status"] for row in rows} == {"done"}
    result = cli("journal", 9)
    assert (result.code, "has no operation 9" in result.error) == (3, True)


def test_counters_that_were_cleared_are_in_the_journal_and_not_given_back(cli: Cli) -> None:
    lab = Lab()
    lab.host(2).p_key_violations = 7
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.sim.subnet.Subnet.from_file", lambda *args, **rest: lab.net)
        cli("counters-clear", 2, "--yes")
    assert "p_key_violations: 7 -> 0" in cli("journal", 1).out
    result = cli("undo", "--yes")
    assert result.code == 2
    assert "a counter cannot be given back" in result.error


def test_a_journal_in_memory_is_no_journal(cli: Cli) -> None:
    result = run("journal", "--backend", TWO_SWITCH)
    assert result.code == 2
    assert "state=" in result.error


# --- confirming ------------------------------------------------------------------------------------------------------


@contextmanager
def waiting(answer: Callable[[float], bool], seconds: list[float]) -> Iterator[None]:
    """Let `apply` wait on a clock that *answer* moves: it gets the seconds to wait, and says whether Enter came."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.cli.apply.wait_for_enter", lambda interrupts: answer)
        patch.setattr("ibkeys.cli.apply.time.monotonic", lambda: seconds[0])
        yield


def test_enter_confirms(cli: Cli, plan: Path) -> None:
    with waiting(lambda seconds: True, [0.0]):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert result.code == 0
    assert "going back in 60 s unless this is confirmed: press Enter, or `ibkeys apply --confirm 1`" in result.err
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
    assert result.out.endswith("gone back: the tables are as they were\n")
    assert clock[0] == 60
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff"}] * 2
    apply, undo = cli("journal", "-f", "json").json["operations"]
    assert (apply["state"], undo["command"], undo["state"], undo["undoes"]) == ("undone", "undo", "done", 1)
    late = cli("apply", "--confirm", 1)
    assert late.code == 3
    assert "it was too late" in late.error


def test_another_shell_confirms(cli: Cli, plan: Path) -> None:
    told = []

    def confirm(seconds: float) -> bool:
        told.append(cli("journal").out)
        told.append(cli("apply", "--confirm", 1).out)
        return False

    with waiting(confirm, [0.0]):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert result.code == 0
    assert "operation 1 goes back unless it is confirmed: `ibkeys apply --confirm 1`" in told[0]
    assert told[1] == "operation 1 is confirmed\n"
    assert cli("apply", "--confirm", 1).out == "operation 1 was confirmed already\n"


def test_an_interrupt_while_it_waits_goes_back_at_once(cli: Cli, plan: Path) -> None:
    def interrupt(seconds: float) -> bool:
        raise KeyboardInterrupt

    with waiting(interrupt, [0.0]):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60)
    assert result.code == 3
    assert pkeys(cli, 2) == {0: "0xffff"}


def test_nothing_to_confirm_says_why(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    result = cli("apply", "--confirm", 1)
    assert (result.code, "waits for no confirmation" in result.error) == (3, True)


def watch(lines: list[str], unconfirmed: bool = True) -> tuple[int | None, float]:
    """Let the guardian's child listen to *lines*, two seconds apart; return what it would undo, and when."""
    clock = [0.0]

    def speaking() -> Iterator[str]:
        for line in lines:
            yield line
            clock[0] += 2

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    found = Watch(lambda operation: unconfirmed, lambda: clock[0], sleep).listen(speaking(), 60)
    return found, clock[0]


def test_the_guardian_undoes_when_the_time_is_over_and_not_before() -> None:
    assert watch(["began 7\n", "waiting \n"]) == (7, 62)
    assert watch(["began 7\n"]) == (7, 62)
    assert watch(["key 0x1\n", "began 7\n", "waiting \n", "over \n"])[0] is None
    assert watch([]) == (None, 0)
    assert watch(["began 7\n", "waiting \n"], unconfirmed=False) == (None, 4)


def test_the_key_that_was_typed_reaches_undo_through_a_file_in_memory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = (
        "import sys; from ibkeys.cli.secrets import read_m_key\n"
        "option, operation = sys.argv[1:]\n"
        "key = read_m_key(option.removeprefix('--m_key='), 'x')\n"
        f"open({str(out)!r}, 'w').write(f'{{key.reveal():#x}} {{operation}}')"
    )
    _undo([sys.executable, "-c", script], 7, "0x0000000000001234", lambda: False)
    assert out.read_text() == "0x1234 7"


def test_the_command_of_the_guardian_has_no_key_in_it(tmp_path: Path) -> None:
    values = {**dict.fromkeys(field.name for field in dataclasses.fields(Where)), "m_key": "0xabcdef", "timeout": 77}
    stores = StorePaths(tmp_path / "keys", tmp_path / "journal")
    command = arguments(Where(**values), stores, ["--force"])
    assert command[3:] == [
        "undo",
        "--yes",
        "--force",
        "--timeout=77",
        f"--keystore={tmp_path / 'keys'}",
        f"--journal={tmp_path / 'journal'}",
    ]
    kept = arguments(Where(**{**values, "m_key": "@/etc/key"}), stores, [])
    assert "--m_key=@/etc/key" in kept


def test_ports_that_could_not_be_written_are_named(cli: Cli, plan: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.sim.nodes.Port.set_p_key_block", lambda self, block, data: None)
        result = cli("apply", plan, "--allow-removals", "--yes", "-f", "json")
    assert result.code == 3
    document = json.loads(result.out)
    assert (document["complete"], len(document["errors"])) == (False, 2)
    assert document["errors"][0]["error"].endswith("was accepted but not stored: index 1 is 0x0000 instead of 0x8001")
    lines = result.err.splitlines()
    assert [line.split(":")[1] for line in lines] == [" not written", " not written", " error"]
    assert lines[-1].endswith("`ibkeys apply --resume` finishes it, `ibkeys undo 1` goes back")


class Started:
    """``ibkeys apply`` as a process of its own. Its end, and that of what it leaves behind, closes a pipe."""

    def __init__(self, backend: str, *args: object) -> None:
        self.end, kept = os.pipe()
        own = {name: value for name, value in os.environ.items() if not name.startswith("IBKEYS_")}
        command = [sys.executable, "-m", "ibkeys", "apply", *map(str, args), "--backend", backend]
        self.process = subprocess.Popen(
            command,
            env={**own, "PYTHONPATH": str(ROOT)},
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
    started.read_until("going back in 1 s unless this is confirmed")
    started.process.kill()
    assert started.wait() == -signal.SIGKILL
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff"}] * 2
    assert cli("journal", "-f", "json").json["operations"][0]["state"] == "undone"


def test_a_hangup_does_not_stop_the_time(cli: Cli, plan: Path, tmp_path: Path) -> None:
    started = Started(backend_of(tmp_path), plan, "--allow-removals", "--yes", "--confirm-within", 1)
    started.read_until("going back in 1 s unless this is confirmed")
    started.process.send_signal(signal.SIGHUP)
    assert started.process.stderr is not None
    started.process.stderr.close()  # from now on nobody hears what it says
    assert started.wait() == 3
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff"}] * 2


def test_confirmed_in_time_nobody_goes_back(cli: Cli, plan: Path, tmp_path: Path) -> None:
    started = Started(backend_of(tmp_path), plan, "--allow-removals", "--yes", "--confirm-within", 60)
    started.read_until("going back in 60 s unless this is confirmed")
    assert cli("apply", "--confirm", 1).code == 0
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
    for words, answer in ((b"[y/N] ", b"y\n"), (b"going back in", b"\n")):
        while words not in said:
            said += os.read(terminal, 4096)
        if stays or words.startswith(b"["):
            os.write(terminal, answer)
    if stays:
        while b"goes back\r\n" not in said:
            said += os.read(terminal, 4096)
    os.close(terminal)
    assert process.wait(TIMEOUT) == (0 if stays else 3)
    with os.fdopen(end) as gone:
        gone.read()
    assert (1 in pkeys(cli, 2)) == stays


def test_the_documents_of_apply_are_json_on_standard_output_alone(cli: Cli, plan: Path) -> None:
    with waiting(lambda seconds: True, [0.0]):
        result = cli("apply", plan, "--allow-removals", "--yes", "--confirm-within", 60, "-f", "json")
    assert json.loads(result.out)["complete"] is True


def test_a_signal_at_the_question_ends_it_and_changes_nothing(
    cli: Cli, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: io.StringIO) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "y\n"

    monkeypatch.setattr("ibkeys.cli.changing._is_a_terminal", lambda: True)
    monkeypatch.setattr("tests.cli.conftest.io.StringIO", type("Input", (io.StringIO,), {"readline": interrupted}))
    result = cli("apply", plan, "--allow-removals")
    assert result.code == 130
    monkeypatch.undo()
    assert "Make this change?" in result.err
    assert "operation" not in result.err
