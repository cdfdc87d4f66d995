"""journal: what it tells of each operation, and that no key is in it."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest

from ibkeys.host.replacing.conversions import NO_BYTES
from ibkeys.managers.opensm.references import key_references
from ibkeys.store.journal import FileImage, Journal, Stage
from ibkeys.store.journal.runs import NewRunPort, RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.lock import exclusive
from ibkeys.store.origin import this_process
from tests.cli.conftest import TWO_SWITCH, Cli, run


def test_journal_tells(cli: Cli, plan: Path) -> None:
    assert cli("journal").out.startswith("there is no journal yet: /")
    cli("pkey-set", 2, "3=0x8010", "--yes")
    cli("undo", 1, "--yes")
    cli("apply", plan, "--allow-removals", "--yes")
    document = cli("journal", "-f", "json").json
    assert document["schema"] == "ibkeys.journal/2"
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


def test_journal_tells_by_which_method(cli: Cli, plan: Path, tmp_path: Path) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    cli("undo", 1, "--yes")
    cli("apply", plan, "--allow-removals", "--yes")
    cli("undo", 3, "--yes")
    cli("mkey-deploy", "--same", "--yes")
    told = cli("journal", "-f", "json").json["operations"]
    assert [each["method"] for each in told] == [None, None, "direct", "direct", "direct"]
    assert "method: " not in cli("journal", 1).out
    assert "method: direct\n" in cli("journal", 3).out
    with Journal(path := tmp_path / "journal.db") as stored:
        for number, options in enumerate(("{}", '{"carrier": "ufm"}', "damaged")):
            stored.keep_options(stored.operation("apply", kept={}).put_on_disk(), options, str(number))
        Runs(stored).begin(stored.operation("mkey-rotate", kept={}).put_on_disk(), RunOptions(), [], {"name": "opensm"})
    told = cli("journal", "--journal", path, "-f", "json").json["operations"]
    assert [each["method"] for each in told] == ["direct", "ufm", "direct", "opensm"]


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
    assert (result.code, "fabric.journal has no operation 9" in result.error) == (3, True)


def test_a_journal_in_memory_is_no_journal(cli: Cli) -> None:
    result = run("journal", "--backend", TWO_SWITCH)
    assert result.code == 2
    assert "state=" in result.error


def begin_and_stop(journal: Journal, command: str) -> None:
    with journal.operation(command) as operation:
        operation.record_file(FileImage("/etc/opensm/opensm.conf", b"a", b"b"))
        raise KeyboardInterrupt


def test_an_open_operation_is_named_with_the_commands_that_end_it(cli: Cli, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with Journal(journal) as stored:
        for command in ("apply", "smkey-rotate"):
            with pytest.raises(KeyboardInterrupt):
                begin_and_stop(stored, command)
        with stored.operation("pkey-set") as operation:
            operation.record_file(FileImage("/etc/x", b"a", b"b")).done()
    out = cli("journal", "--journal", journal).out
    assert "operation 1 is open: `ibkeys resume 1` finishes it, `ibkeys undo 1` rolls it back\n" in out
    assert (
        "operation 2 is open: `ibkeys resume 2` finishes it, `ibkeys resume 2 --overtaken` only ends its record" in out
    )
    assert "operation 3" not in out
    told = cli("journal", "--journal", journal, "-f", "json").json["operations"]
    assert [(each["finish_with"], each["roll_back_with"]) for each in told] == [
        ("ibkeys resume 1", "ibkeys undo 1"),
        ("ibkeys resume 2", None),
        (None, None),
    ]
    doctor = cli("doctor", "--journal", journal)
    assert doctor.code == 1
    assert "operation 1 of the journal (apply, begun " in doctor.out
    assert "-> `ibkeys resume 2` finishes it, `ibkeys resume 2 --overtaken` only ends its record" in doctor.out


def test_an_open_operation_is_named_with_its_step_and_the_ports_that_wait(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as stored:
        begun = stored.operation("mkey-rotate", kept={})
        begun.begin_step("level 1")
        Runs(stored).begin(begun.put_on_disk(), RunOptions(), [NewRunPort(1, 2, 1), NewRunPort(1, 3, 2)])
        begun.end_step("done")
        begun.begin_step("the new M_Key at level 1")
    told = cli("journal", "1", "--journal", path, "-f", "json").json
    assert [(each["step"], each["waiting"]) for each in told["operations"]] == [("the new M_Key at level 1", 2)]
    assert [(each["name"], each["status"]) for each in told["steps"]] == [
        ("level 1", "done"),
        ("the new M_Key at level 1", "pending"),
    ]
    out = cli("journal", "1", "--journal", path).out
    assert "operation 1 is open, interrupted in step the new M_Key at level 1, 2 ports left to change: `ibkeys" in out


@pytest.mark.parametrize(
    ("stage", "words", "commands"),
    [
        ("going-back", "is not rolled back yet", "`ibkeys undo 1` rolls it back"),
        (
            "refused",
            "its rollback was refused, because another user or program has changed what it wrote",
            "`ibkeys resume 1` finishes it, `ibkeys undo 1` rolls it back, `ibkeys resume 1 --overtaken` only ends "
            "its record, if others have changed what it set or its ports are gone",
        ),
    ],
)
def test_an_operation_that_nobody_confirmed_and_that_is_not_rolled_back_is_named(
    cli: Cli, tmp_path: Path, stage: Stage, words: str, commands: str
) -> None:
    journal = tmp_path / "journal.db"
    with Journal(journal) as stored:
        with stored.begin("apply", "{}", "{}") as operation:
            operation.outcome = "done"
        assert stored.move_stage(1, "running", stage)
    assert f"operation 1 was not confirmed, and {words}: {commands}" in cli("journal", "--journal", journal).out
    [told] = cli("journal", "--journal", journal, "-f", "json").json["operations"]
    assert (told["state"], told["rollback"]) == ("open", "refused" if stage == "refused" else "unfinished")
    doctor = cli("doctor", "--journal", journal)
    assert doctor.code == 1
    assert f" was not confirmed, and {words}" in doctor.out
    assert f"-> {commands}\n" in doctor.out


def test_of_an_unconfirmed_operation_it_is_told_whether_its_command_still_waits(cli: Cli, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with Journal(journal) as stored:
        with stored.begin("apply", "{}", "{}") as operation:
            operation.outcome = "done"
        assert stored.move_stage(1, "running", "unconfirmed")
    with exclusive(journal, command="apply"):
        assert (
            "operation 1 rolls back unless it is confirmed: `ibkeys confirm 1`\n"
            in cli("journal", "--journal", journal).out
        )
    assert (
        "operation 1 is not confirmed, and the command that waited for that has ended; its guard rolls it back, unless "
        "that has ended too: `ibkeys confirm 1` confirms it, `ibkeys undo 1` rolls it back\n"
    ) in cli("journal", "--journal", journal).out


def test_files_of_an_operation_are_shown_by_their_sizes(cli: Cli, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with Journal(journal) as stored, stored.operation("apply") as operation:
        operation.record_file(FileImage("/etc/opensm/partitions.conf", b"secret tenants", None)).done()
        operation.record_file(FileImage("/etc/x", None, b"abc", host="sm-2"))
        recorded = key_references(KeyStore(None)).record(b"m_key 0x83f1c05e9a2d7b46\n")
        operation.record_file(FileImage("/etc/opensm.conf", recorded, NO_BYTES)).done()
    shown = cli("journal", 1, "--journal", journal).out
    assert "file /etc/opensm/partitions.conf: 14 bytes -> no file\n" in shown
    assert "file /etc/x on sm-2: no file -> 3 bytes (pending)\n" in shown
    assert "file /etc/opensm.conf: 25 bytes -> a file of keys\n" in shown  # not the size of the reference to the key
    assert "tenants" not in shown
    assert cli("journal", 1, "--journal", journal, "-f", "json").json["files"][1] == {
        "host": "sm-2", "path": "/etc/x", "status": "pending", "bytes_before": None, "bytes_after": 3,
        "mode_before": None, "mode_after": None,
    }  # fmt: skip
    assert cli("journal", 1, "--journal", journal, "-f", "json").json["files"][2]["bytes_before"] == 25
    assert cli("journal", 1, "--journal", journal, "-f", "json").json["files"][2]["bytes_after"] is None


def test_a_journal_that_the_user_names_must_be_there(cli: Cli, tmp_path: Path) -> None:
    for more in ([], ["1"]):
        result = cli("journal", *more, "--journal", tmp_path / "nosuch")
        assert (result.code, result.out) == (3, "")
        assert f"{tmp_path / 'nosuch'}: there is no such journal" in result.err
