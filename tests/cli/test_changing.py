"""The changing commands: plan, dry run, refusal, confirmation, effect."""

from __future__ import annotations

import errno
import json
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibkeys.change.edits import CountersEdit
from ibkeys.store.journal import Journal
from tests.cli.conftest import KEY, OTHER_KEY, TWO_SWITCH, Cli, between_commands, pkeys, run

CHANGED = "node02 mlx4_0 (ca 0x0002c903000a1020) port 1, LID 2\n  P_Key[3]: - -> 0x8010\n"


def test_pkey_set_writes_and_verifies(cli: Cli) -> None:
    result = cli("pkey-set", 2, "3=0x8010", "--yes")
    assert (result.code, result.out, result.err) == (0, CHANGED + "done, verified by a fresh read\n", "")
    assert pkeys(cli, 2) == {0: "0xffff", 3: "0x8010"}


def test_dry_run_changes_nothing_and_exits_1(cli: Cli, tmp_path: Path) -> None:
    result = cli("pkey-set", 2, "3=0x8010", "--dry-run")
    assert (result.code, result.out) == (1, CHANGED + "dry run: nothing was changed\n")
    assert pkeys(cli, 2) == {0: "0xffff"}
    assert not list(tmp_path.glob("*.journal*"))


def test_dry_run_names_the_interlocks(cli: Cli) -> None:
    result = cli("pkey-remove", 2, "0xffff", "--dry-run")
    assert result.code == 4
    refused = [line for line in result.err.splitlines() if line.startswith("ibkeys: would be refused: by interlock")]
    assert [line.split("interlock ")[1].split(":")[0] for line in refused] == ["index-0", "default-pkey"]


def test_dry_run_without_changes_exits_0(cli: Cli) -> None:
    result = cli("pkey-add", 2, "0xffff", "--dry-run")
    assert (result.code, result.out) == (0, "nothing to change\n")


def test_without_yes_and_terminal_nothing_is_changed(cli: Cli) -> None:
    result = cli("pkey-set", 2, "3=0x8010", stdin="y\n")
    assert (result.code, result.out) == (4, CHANGED)
    assert "--yes" in result.error
    assert pkeys(cli, 2) == {0: "0xffff"}


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 4), ("\n", 4), ("", 4)])
def test_a_terminal_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    monkeypatch.setattr("ibkeys.cli.changing.is_a_terminal", lambda: True)
    result = cli("pkey-set", 2, "3=0x8010", "-f", "json", stdin=answer)
    assert result.code == code
    assert "P_Key[3]: - -> 0x8010\nMake this change? [y/N] " in result.err
    assert (3 in pkeys(cli, 2)) == (code == 0)


def test_json_of_a_change(cli: Cli) -> None:
    document = cli("pkey-set", 2, "3=0x8010", "--yes", "-f", "json").json
    assert document == {
        "schema": "ibkeys.pkey-set/1",
        "dry_run": False,
        "applied": True,
        "ports": [
            {
                "node_guid": "0x0002c903000a1020",
                "port_guid": "0x0002c903000a1021",
                "node_desc": "node02 mlx4_0",
                "node_type": "ca",
                "port": 1,
                "lid": 2,
                "changes": [{"kind": "pkey", "index": 3, "before": None, "after": "0x8010"}],
            }
        ],
        "notes": [],
        "interlocks": [],
    }


def test_csv_of_a_change(cli: Cli) -> None:
    assert cli("pkey-set", 2, "3=0x8010", "--yes", "-f", "csv").out == (
        "node_guid,port_guid,node_desc,node_type,port,lid,kind,index,before,after\n"
        "0x0002c903000a1020,0x0002c903000a1021,node02 mlx4_0,ca,1,2,pkey,3,,0x8010\n"
    )


def test_interlock_refuses_and_override_goes_on(cli: Cli) -> None:
    result = cli("pkey-set", 2, "0=0x8001", "--yes")
    assert result.code == 4
    assert "--override index-0" in result.error
    result = cli("pkey-set", 2, "0=0x8001", "1=0xffff", "--yes", "--override", "index-0", "--override", "index-move")
    assert result.code == 0
    assert pkeys(cli, 2) == {0: "0x8001", 1: "0xffff"}


def test_force_covers_an_active_sm_only(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_BACKEND", f"{TWO_SWITCH},sm=node04 mlx4_0")
    for args in (["pkey-set", 2, "3=0x8010"], ["enforce-set", 7, 2, "--inbound", "on"]):
        error = cli(*args, "--yes").error
        assert "active-sm" in error
        assert "lasts only until OpenSM next writes that block" in error
        assert "--via" not in error
    assert cli("pkey-set", 2, "3=0x8010", "--yes", "--force").code == 0
    assert "index-0" in cli("pkey-set", 2, "0=", "--yes", "--force").error


def test_unknown_interlock_is_wrong_usage(cli: Cli) -> None:
    result = cli("pkey-set", 2, "3=0x8010", "--yes", "--override", "sm")
    assert result.code == 2
    assert "choose from active-sm, " in result.error


def test_words_before_p_keys_are_address_and_port(cli: Cli) -> None:
    assert cli("pkey-add", 7, 3, "0x8010", "--yes").code == 0
    assert pkeys(cli, 7, 3) == {0: "0xffff", 1: "0x8010"}


def test_without_address_the_local_port_is_meant(cli: Cli) -> None:
    assert cli("pkey-set", "5=0x1:full", "--yes").code == 0
    assert cli("pkey-add", "0x8010", "--yes").code == 0
    assert pkeys(cli) == {0: "0xffff", 1: "0x8010", 5: "0x8001"}


def test_a_lid_in_hex_needs_its_option(cli: Cli) -> None:
    assert cli("pkey-add", "-L", "0x2", "0x8010", "--yes").code == 0
    assert pkeys(cli, 2) == {0: "0xffff", 1: "0x8010"}


@pytest.mark.parametrize("command", ["pkey-add", "pkey-remove"])
def test_several_words_in_hex_need_to_say_what_the_first_is(cli: Cli, command: str) -> None:
    """`pkey-show 0x2` reads LID 2, so `pkey-add 0x2 0x8010` must not write to the local port."""
    result = cli(command, "0x2", "0x8010", "--yes")
    assert result.code == 2
    assert "-L 0x2 0x8010" in result.error
    assert "-D 0 0x2 0x8010" in result.error
    assert cli(command, "0x8010", "0x8011", "0x8012", "--yes").code == 2
    assert cli(command, "0x10:full", "0x11:full", "--yes").code == 2
    assert (pkeys(cli), pkeys(cli, 2)) == ({0: "0xffff"}, {0: "0xffff"})


@pytest.mark.parametrize("command", ["pkey-add", "pkey-remove"])
def test_a_port_number_in_hex_is_not_taken_for_a_p_key(cli: Cli, command: str) -> None:
    """`pkey-show 7 0x3` reads switch port 3, so `pkey-add 7 0x3 0x8010` must not write to port 0."""
    for address in ([7], ["-D", "0,1"]):
        result = cli(command, *address, "0x3", "0x8010", "--yes")
        assert result.code == 2
        assert "for port 3 write 3, for the P_Key 0x3:limited" in result.error
    assert cli(command, 7, "0x0003", "0x8010", "--yes").code == 0


def test_words_that_cannot_be_mistaken_are_taken(cli: Cli) -> None:
    assert cli("pkey-add", "-D", "0", "0x8010", "0x8011", "--yes").code == 0
    assert cli("pkey-add", "-L", "0x2", "0x8010", "0x8011", "--yes").code == 0
    assert cli("pkey-add", 3, "0x8010", "0x8011", "--yes").code == 0
    assert cli("pkey-add", 7, 3, "0x3", "0x8011", "--yes").code == 0
    assert pkeys(cli) == pkeys(cli, 2) == pkeys(cli, 3) == {0: "0xffff", 1: "0x8010", 2: "0x8011"}
    assert pkeys(cli, 7, 3) == {0: "0xffff", 1: "0x0003", 2: "0x8011"}


def test_what_may_be_an_m_key_is_not_repeated_as_an_address(cli: Cli) -> None:
    error = cli("pkey-add", f"0x{KEY:016x}", "0x8010", "--yes").error
    assert "-L" not in error


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_full_table_takes_no_other_key(cli: Cli, form: str) -> None:
    assert cli("pkey-add", 2, *(f"{key:#06x}" for key in range(1, 64)), "--yes").code == 0
    before = pkeys(cli, 2)
    assert len(before) == 64
    result = cli("pkey-add", 2, "0x8777", "--yes", "-f", form)
    assert (result.code, result.out) == (3, "")
    assert result.error == (
        "'node02 mlx4_0' 0x0002c903000a1020 port 1 (LID 2): "
        "no room for 0x8777: 1 entry is needed, and 0 of 64 are free; remove 1 P_Key first (pkey-remove)"
    )
    assert pkeys(cli, 2) == before


def test_of_two_keys_for_one_free_entry_neither_is_added(cli: Cli) -> None:
    assert cli("pkey-add", 2, *(f"{key:#06x}" for key in range(1, 63)), "--yes").code == 0
    before = pkeys(cli, 2)
    assert len(before) == 63
    result = cli("pkey-add", 2, "0x8777", "0x8778", "--yes")
    assert (result.code, result.out) == (3, "")
    assert result.error.endswith(
        "no room for 2 P_Keys: 2 entries are needed, and 1 of 64 is free; remove 1 P_Key first (pkey-remove)"
    )
    assert pkeys(cli, 2) == before


def test_more_keys_than_a_table_has_entries_count_each_key_once_and_those_there_not_at_all(cli: Cli) -> None:
    wanted = [f"{key:#06x}" for key in range(1, 68)]
    result = cli("pkey-add", 2, "0xffff", *wanted, *wanted, "--yes")
    assert (result.code, result.out) == (3, "")
    assert "no room for 67 P_Keys: 67 entries are needed, and 63 of 64 are free; so many never fit" in result.error
    assert len(pkeys(cli, 2)) == 1


def test_name_with_an_equals_sign_is_an_address(cli: Cli) -> None:
    assert "node 'a=b'" in cli("pkey-set", "-N", "a=b", "3=0x8010").error


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["pkey-add", 2, 1, 16], "write 0x10"),
        (["pkey-add", 2, 1], "begins with 0x"),
        (["pkey-remove", 2, 1], "nothing to remove: a P_Key is missing after ADDR and PORTNUM (it begins with 0x)"),
        (["pkey-set", 2, 3], "nothing to write: INDEX=PKEY is missing after ADDR and PORTNUM (as in 3=0x8010)"),
        (["pkey-add", 2, "0x10000"], "16 bits"),
        (["pkey-add", 2, "0x8000"], "invalid"),
        (["pkey-add", 2, "0x1:owner"], "full nor limited"),
        (["pkey-set", 2, "3=16"], "write 0x10"),
        (["pkey-set", 2, "3=0x10000"], "16 bits"),
        (["pkey-set", 2, "64=0x8001"], "64 entries"),
        (["pkey-set", 2, "010=0x8001"], "leading zero"),
        (["pkey-set", 2, "1=0x8001", "1=0x8002"], "twice"),
        (["pkey-set", 2, "1=0x8001", "x"], "INDEX=PKEY"),
        (["mkey-set", 2], "nothing to set"),
        (["mkey-set", 2, "--protect", 4], "0..3"),
        (["mkey-set", 2, "--lease", 65536], "0..65535"),
        (["mkey-set", 7, 3, "--protect", 1], "port 0"),
        (["enforce-set", 7, 3], "nothing to set"),
        (["enforce-set", 7, "--inbound", "on"], "PORTNUM"),
        (["enforce-set", 2, 1, "--inbound", "on"], "switch"),
        (["counters-clear", "--all", 2], "--all"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(cli: Cli, args: list[object], hint: str) -> None:
    result = cli(*args)
    assert result.code == 2
    assert result.out == ""
    assert hint in result.error


def test_mkey_set_reads_the_key_from_a_file(cli: Cli, key_file: Path) -> None:
    result = cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 1, "--lease", 60, "--yes")
    assert result.code == 0
    assert result.out == (
        "node02 mlx4_0 (ca 0x0002c903000a1020) port 1, LID 2\n"
        "  M_Key: zero -> set\n"
        "  M_KeyProtectBits: 0 -> 1\n"
        "  M_KeyLeasePeriod: 0 -> 60\n"
        "done, verified by a fresh read\n"
    )
    port = cli("mkey-show", 2, "-K", "-f", "json").json["ports"][0]
    assert (port["m_key"], port["m_key_lease_period"]) == (f"0x{KEY:016x}", 60)


def test_mkey_set_refuses_an_easy_key_and_asks_about_level_0(cli: Cli, tmp_path: Path, key_file: Path) -> None:
    easy = tmp_path / "easy"
    easy.touch(0o600)
    easy.write_text("0xdeadbeefdeadbeef\n")
    result = cli("mkey-set", 2, "--new-m-key", f"@{easy}", "--protect", 1, "--lease", 60, "--yes")
    assert result.code == 4
    assert "refused by interlock weak-key: the new M_Key appears in public documentation" in result.err
    assert "deadbeef" not in result.err
    result = cli("mkey-set", 2, "--new-m-key", f"@{key_file}")
    assert result.code == 4
    assert "gets its first M_Key at level 0" in result.err
    assert "--protect 0 confirms that this is intended" in result.err
    assert cli("mkey-show", 2, "-f", "json").json["ports"][0]["m_key_state"] == "zero"
    result = cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--yes")
    assert result.code == 0
    assert "--protect 0 confirms that this is intended" in result.err
    assert cli("mkey-set", 2, "--new-m-key", "-", "--yes", stdin="0\n").code == 0
    overridden = ("--override", "weak-key", "--protect", 0, "--yes")
    assert cli("mkey-set", 2, "--new-m-key", f"@{easy}", *overridden).code == 0


def test_mkey_set_reads_the_key_from_standard_input(cli: Cli) -> None:
    assert cli("mkey-set", 2, "--new-m-key", "-", "--protect", 0, "--yes", stdin=f"{OTHER_KEY:#x}\n").code == 0
    assert cli("mkey-show", 2, "-K", "-f", "json").json["ports"][0]["m_key"] == f"0x{OTHER_KEY:016x}"


def test_no_key_is_left_outside_the_key_store(cli: Cli, key_file: Path, tmp_path: Path) -> None:
    outputs = [
        cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 1, "--yes", "-d", "--pcap", tmp_path / "a.pcap"),
        cli("mkey-set", 2, "--protect", 0, "--yes", "-d", "-v", "-f", "json"),
        cli("pkey-set", 2, "3=0x8001", "--yes", "-d", "-f", "csv"),
        cli("port-show", "--counters", 2, "-d"),
        cli("mkey-show", "--all", "-d"),
    ]
    assert [result.code for result in outputs] == [0] * 5
    for result in outputs:
        for form in (f"{KEY:x}", str(KEY), f"{KEY:X}"):
            assert form not in result.out + result.err
    for path in (tmp_path / "a.pcap", tmp_path / "fabric.journal"):
        assert KEY.to_bytes(8) not in path.read_bytes()


def test_enforce_set(cli: Cli) -> None:
    result = cli("enforce-set", 7, 3, "--inbound", "on", "--outbound", "on", "--yes")
    assert result.code == 0
    assert "  PartitionEnforcementInbound: 0 -> 1\n  PartitionEnforcementOutbound: 0 -> 1\n" in result.out
    assert cli("port-show", "--enforcement", 7, 3, "-f", "csv").out.endswith(",3,7,1,1,,,,\n")
    assert cli("enforce-set", 7, 3, "--outbound", "off", "--yes").code == 0
    assert cli("port-show", "--enforcement", 7, 3, "-f", "csv").out.endswith(",3,7,1,0,,,,\n")


def test_counters_clear_all_keeps_the_old_values_in_the_journal(cli: Cli, key_file: Path, tmp_path: Path) -> None:
    cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes")
    lost = cli("mkey-show", 2, "-t", 10, "--retries", 0, "--keystore", tmp_path / "empty")
    assert lost.code == 3
    assert cli("port-show", "--counters", 2, "-f", "csv").out.splitlines()[1].endswith(",1,0,0,,,")
    result = cli("counters-clear", "--all", "--yes")
    assert (result.code, result.err) == (0, "")
    assert "  M_KeyViolations: 1 -> 0\n" in result.out
    assert cli("port-show", "--counters", 2, "-f", "csv").out.splitlines()[1].endswith(",0,0,0,,,")
    with sqlite3.connect(tmp_path / "fabric.journal") as journal:
        commands = [row[0] for row in journal.execute("SELECT command FROM operations")]
    journal.close()
    assert "counters-clear" in commands
    assert cli("counters-clear", 2).out == "nothing to change\n"


class Killed(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("left", ["all", "one", "none"])
def test_counters_clear_that_was_cut_off_is_ended_by_the_next(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    def count(names: Sequence[str]) -> None:
        with between_commands(tmp_path) as net:
            for name in ("node02 mlx4_0", "node03 mlx4_0"):
                net.port(name, 1).m_key_violations = 5 if name in names else 0

    def states() -> list[str]:
        with Journal.read(tmp_path / "fabric.journal") as journal:
            return [each.state for each in journal.list_operations()]

    def die(*given: object) -> None:
        raise Killed

    names = ["node02 mlx4_0", "node03 mlx4_0"]
    count(names)
    with monkeypatch.context() as patch:
        patch.setattr(CountersEdit, "prove", die)
        with pytest.raises(Killed):
            cli("counters-clear", "--all", "--yes")
    assert states() == ["open"]
    count({"all": names, "one": names[:1], "none": []}[left])
    assert cli("counters-clear", 4, "--yes").code == 0
    assert states() == ["open"], "that is another port"
    assert cli("counters-clear", "--all", "--yes").code == 0
    assert set(states()) == {"done"}


def test_nothing_is_changed_that_could_not_be_shown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.cli.streams.failure_of", lambda stream: OSError(errno.ENOSPC, "full"))
    assert cli("pkey-set", 2, "3=0x8010", "--yes").code == 3
    monkeypatch.undo()
    monkeypatch.setenv("IBKEYS_BACKEND", TWO_SWITCH)
    assert sys.stdout is not None
    assert 3 not in {entry["index"] for entry in json.loads(run("pkey-show", 2, "-f", "json").out)["ports"][0]["pkeys"]}
