"""partition-add and partition-remove: names to GUIDs, what is written where, and what is not."""

from __future__ import annotations

import csv
import io
import os
import stat
from pathlib import Path

import pytest

from ibkeys.change.interlocks import file_owners
from ibkeys.managers.instance import NO_ENTRY
from tests.change.policyhost import host
from tests.cli.conftest import DUAL_HOME, TWO_SWITCH, Result, run
from tests.cli.saved import save
from tests.fabricsim import subnet

TEXT = (
    "# our policy\n"
    "Default=0x7fff : ALL=limited, SELF=full ;\n"
    "lustre=0x21, ipoib :   # storage network\n"
    "    0x0002c903000a1031=full,  # node03\n"
    "    0x0002c903000a1041=limited ;  # node04\n"
    "# the end\n"
)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "partitions.conf"
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


def edit(command: str, policy: Path, *args: object, backend: str = TWO_SWITCH) -> Result:
    return run(command, "--backend", backend, "--policy", policy, *args)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("partition-add", "lustre=0x21", "--limited", "node[01-02]", "--full", "node04"),
            [
                "full instead of limited in lustre (0x0021): node04 mlx4_0",
                "added to lustre (0x0021), limited: node[01-02] mlx4_0",
            ],
        ),
        (("partition-add", "gpu=0x30", "--full", "ALL_CAS"), ["added to gpu (0x0030), full: ALL_CAS"]),
        (
            ("partition-add", "gpu=0x30", "--out-of", "lustre", "node[03-04]"),
            [
                "removed from lustre (0x0021): node[03-04] mlx4_0",
                "added to gpu (0x0030), full: node03 mlx4_0",
                "added to gpu (0x0030), limited: node04 mlx4_0",
            ],
        ),
        (
            ("partition-add", "lustre", "--full", "0x00000000000000aa"),
            ["added to lustre (0x0021), full: 0x00000000000000aa"],
        ),
        (("partition-remove", "lustre", "node03"), ["removed from lustre (0x0021): node03 mlx4_0"]),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_it_is_said_who_is_where_now(
    policy: Path, words: tuple[str, ...], said: list[str], more: tuple[str, ...]
) -> None:
    result = edit(words[0], policy, *words[1:], *more)
    lines = [line for line in result.out.splitlines() if line.startswith(("added", "removed", "full", "limited"))]
    assert sorted(lines) == sorted(said), result.out


@pytest.mark.parametrize("port", ["node03", "node01"])
def test_a_removal_says_that_self_keeps_the_port_of_the_sm(policy: Path, port: str) -> None:
    """The file does not tell which port that is, so no port is refused as it is for ALL."""
    policy.write_text(TEXT.replace("=limited ;  # node04", "=limited, SELF=full ;  # node04"))
    result = edit("partition-remove", policy, "lustre", port)
    assert (result.code, result.err) == (
        0,
        "ibkeys: note: the port of the master SM stays a member, by SELF in line 5\n",
    )


def test_an_error_names_the_guid_that_was_typed(policy: Path) -> None:
    result = edit("partition-add", policy, "lustre", "0x0002c903000a1011")
    assert result.code == 2
    assert "0x0002c903000a1011: give its membership" in result.err


@pytest.mark.parametrize("items", ["=full, SELF=full ;  # node04", "=limited, SELF=full ;  # node04"])
def test_an_addition_says_that_a_later_self_decides_for_the_port_of_the_sm(policy: Path, items: str) -> None:
    policy.write_text(TEXT.replace("=limited ;  # node04", items))
    result = edit("partition-add", policy, "lustre", "--limited", "node04")
    note = "ibkeys: note: the port of the master SM stays a full member, by SELF in line 5\n"
    assert (result.code, result.err) == (0, note)
    assert edit("partition-add", policy, "lustre", "--limited", "node02").err == "", "its item is after SELF"
    policy.write_text("Default=0x7fff : SELF=full, ALL=limited ;\n")
    assert edit("partition-add", policy, "Default", "--limited", "node02").err == "", "ALL is after SELF"
    policy.write_text("Default=0x7fff : ;\n")
    assert edit("partition-add", policy, "Default", "--limited", "node02").err == ""


def test_hosts_join_by_their_names_and_every_other_byte_stays(policy: Path) -> None:
    result = edit("partition-add", policy, "lustre=0x21", "--limited", "node[01-02]", "--full", "node04")
    assert (result.code, result.err) == (0, "")
    assert policy.read_text() == (
        "# our policy\n"
        "Default=0x7fff : ALL=limited, SELF=full ;\n"
        "lustre=0x21, ipoib :   # storage network\n"
        "    0x0002c903000a1031=full,  # node03\n"
        "    0x0002c903000a1041=full,  # node04\n"
        "    0x0002c903000a1011=limited,  # node01 mlx4_0\n"
        "    0x0002c903000a1021=limited ;  # node02 mlx4_0\n"
        "# the end\n"
    )
    assert stat.S_IMODE(policy.stat().st_mode) == 0o640
    assert os.listdir(policy.parent) == ["partitions.conf"]
    assert "-    0x0002c903000a1041=limited ;  # node04\n+    0x0002c903000a1041=full,  # node04\n" in result.out
    assert result.out.endswith(f"written: {policy}; what it changes on the fabric: ibkeys plan {policy}\n")
    again = edit("partition-add", policy, "lustre", "--limited", "node[01-02]", "--full", "node0[3-4]")
    assert (again.code, again.out) == (0, "4 ports are already as requested\nnothing to change\n")


def test_a_dry_run_shows_the_difference_and_writes_nothing(policy: Path) -> None:
    result = edit("partition-remove", policy, "lustre", "node04", "--dry-run")
    assert result.code == 1
    assert "-    0x0002c903000a1041=limited ;  # node04\n" in result.out
    assert result.out.endswith("dry run: nothing was written\n")
    assert policy.read_text() == TEXT
    assert edit("partition-remove", policy, "lustre", "node05", "--dry-run").code == 0


def test_elsewhere_is_a_new_file_with_the_same_mode(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.conf"
    assert edit("partition-add", policy, "gpu=0x30", "--out-of", "lustre", "node04", "--out", out).code == 0
    assert policy.read_text() == TEXT
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert out.read_text() == TEXT.replace(
        "full,  # node03\n    0x0002c903000a1041=limited ;  # node04", "full ;  # node03"
    ) + ("\ngpu=0x0030 :\n    0x0002c903000a1041=limited ;  # node04 mlx4_0\n")


def test_of_names_that_are_not_there_none_is_written(policy: Path) -> None:
    result = edit("partition-add", policy, "lustre", "--limited", "node[05-08]", "--full", "node01")
    assert (result.code, result.out) == (2, "")
    assert "'node[07-08]': nothing that was read has this name; a host that is down is named by its port GUIDs, " in (
        result.error
    )
    assert "; did you mean node0" in result.error
    assert policy.read_text() == TEXT


def test_who_does_not_answer_is_named_and_one_thing_is_not_many(policy: Path, tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.silence("node05 mlx4_0")
    file = save(net, tmp_path / "a.db")
    result = run("partition-add", "--policy", policy, "lustre", "--limited", "node[01-06]", "--from", file)
    assert result.code == 2
    first, error = result.err.splitlines()
    assert first == "ibkeys: warning: 1 thing could not be read, so a name may belong to more ports: see discover"
    assert error.startswith(
        "ibkeys: error: 'node05': nothing that was read has this name; a host that is down is named"
    )
    assert "; did you mean node06" in error
    assert error.endswith("(1 port could not be read: see discover)")


def test_both_ports_of_a_host_join_and_that_is_said_with_v(policy: Path) -> None:
    result = edit("partition-add", policy, "lustre", "--full", "db01", "--full", "db02 mlx5_0", "-v", backend=DUAL_HOME)
    assert result.code == 0
    assert result.err.endswith(
        "ibkeys: note: db01: a host with several ports; all of them are selected: db01 mlx5_0 port 1-2\n"
        "ibkeys: note: db02 mlx5_0: a host with several ports; all of them are selected: db02 mlx5_0 port 1-2\n"
    )
    assert "    0x248a070300b10202=full ;  # db02 mlx5_0 port 2\n" in policy.read_text()


def test_switches_are_meant_by_port_0_and_a_guid_may_be_still_to_come(policy: Path) -> None:
    result = edit("partition-add", policy, "lustre", "--full", "MF0*", "--full", "0x0002c903000a9999")
    assert result.code == 0
    assert "note: 1 of the selected ports is of a switch: MF0;switch-a:IS5023/U1 port 0" in result.err
    assert "warning: 0x0002c903000a9999: no port that was read has this GUID" in result.err
    assert (
        "    0x0002c90200401000=full,  # MF0;switch-a:IS5023/U1\n    0x0002c903000a9999=full ;\n" in policy.read_text()
    )


def test_names_come_from_a_snapshot_and_a_map(policy: Path, tmp_path: Path) -> None:
    snapshot, names = tmp_path / "monday.db", tmp_path / "names"
    assert run("snapshot", "--backend", TWO_SWITCH, snapshot).code == 0
    names.write_text('0x0002c903000a1050 "tank1 mlx4_0"\n')
    added = run(
        "partition-add", "--policy", policy, "lustre", "--full", "tank*", "--from", snapshot, "--node-name-map", names
    )
    assert added.code == 0
    assert "    0x0002c903000a1051=full ;  # tank1 mlx4_0\n" in policy.read_text()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("partition-add", "lustre"), "--full WHO or --limited WHO"),
        (("partition-add", "lustre", "--full", "node01", "--limited", "node01"), "with --full and with --limited"),
        (("partition-add", "lustre", "--full", "node01", "--limited", "node0*"), "two names select it"),
        (
            ("partition-add", "lustr", "--full", "node01"),
            "(to make one, give its P_Key too: lustr=0x21); did you mean lustre?",
        ),
        (("partition-add", "lustre", "--full", "ALL"), "exists already"),
        (("partition-add", "0x8000", "--full", "node01"), "P_Key"),
        (("partition-add", "lustre=", "--full", "node01"), "is not a partition"),
        (("partition-add", "lustre=0x22", "--full", "node01"), "has the number 0x0021 there"),
        (("partition-remove", "Default", "node01"), "by ALL in line 2"),
        (("partition-remove", "lustre", "SELF"), "stands for a group of ports"),
        (("partition-add", "gpu=0x30", "--out-of", "lustre"), "--full WHO or --limited WHO"),
        (("partition-add", "gpu=0x30", "--out-of", "lustre", "node01"), "no member of partition lustre"),
        (("partition-add", "0x21", "--out-of", "lustre", "node04"), "the same partition"),
        (("partition-add", "lustre", "node04"), "node04: give its membership, --full WHO or --limited WHO"),
        (("partition-add", "gpu=0x30", "--out-of", "lustre", "node04", "--full", "node04"), "and without one"),
        (("partition-add", "gpu=0x30", "--out-of", "lustre", "ALL"), "stands for a group of ports"),
        (("partition-add", "lustre", "--full", "node[1-"), "is not a set of names"),
    ],
)
def test_wrong_usage_writes_nothing(policy: Path, args: tuple[str, ...], said: str) -> None:
    result = edit(args[0], policy, *args[1:])
    assert result.code == 2
    assert said in result.err
    assert policy.read_text() == TEXT


def test_a_policy_that_opensm_would_refuse_or_that_is_not_there_is_not_edited(policy: Path, tmp_path: Path) -> None:
    policy.write_bytes(TEXT.replace("\n", "\r\n").encode())
    result = edit("partition-add", policy, "lustre", "--full", "node01")
    assert result.code == 2
    assert "FULL MEMBER OF THE DEFAULT PARTITION" in result.error
    assert "there is no such policy" in edit("partition-add", tmp_path / "none.conf", "x=0x5", "--full", "node01").error
    assert edit("partition-add", tmp_path / "none" / "p.conf", "x=0x5", "--full", "node01").code == 2
    assert edit("partition-add", tmp_path, "x=0x5", "--full", "node01").code == 2


def test_a_link_of_the_users_own_leads_to_the_file_that_is_replaced(policy: Path) -> None:
    link = policy.parent / "link.conf"
    link.symlink_to(policy)
    assert edit("partition-remove", link, "lustre", "node04").code == 0
    assert link.is_symlink()
    assert "node04" not in policy.read_text()


def test_what_cannot_be_written_is_said_and_the_policy_stays(policy: Path, tmp_path: Path) -> None:
    result = edit("partition-remove", policy, "lustre", "node04", "--out", tmp_path / "none" / "p.conf")
    assert (result.code, policy.read_text()) == (3, TEXT)
    assert edit("partition-remove", policy, "lustre", "node04", "--out", "/dev/stdout").code == 3


def test_json_and_csv_have_each_port(policy: Path) -> None:
    document = edit("partition-add", policy, "lustre", "--full", "node0[3-4]", "--dry-run", "-f", "json").json
    assert document["schema"] == "ibkeys.partition-add/1"
    assert (document["written"], document["out"]) == (False, str(policy))
    [change] = document["changes"]
    assert (change["node_desc"], change["port_guid"]) == ("node04 mlx4_0", "0x0002c903000a1041")
    assert (change["partition"], change["name"], change["who"]) == ("0x0021", "lustre", "GUID")
    assert (change["before"], change["after"]) == ("limited", "full")
    assert [port["node_desc"] for port in document["unchanged"]] == ["node03 mlx4_0"]
    assert "+    0x0002c903000a1041=full ;  # node04" in document["diff"].split("\n")
    rows = csv.DictReader(io.StringIO(edit("partition-remove", policy, "lustre", "3", "4", "-f", "csv").out))
    assert [(row["node_desc"], row["before"], row["after"]) for row in rows] == [
        ("node03 mlx4_0", "full", ""),
        ("node04 mlx4_0", "limited", ""),
    ]


def test_what_is_to_be_remarked_from_now_on_is_said(policy: Path) -> None:
    result = edit("partition-add", policy, "new=0x33", "--limited", "node01", "--limited", "node02", "-v")
    assert "partition 0x0033 has only limited members: none may talk to another [limited-only]" in result.err
    assert "note: partition new=0x0033 is new" in result.err


def test_the_policy_of_a_running_opensm_needs_force(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = host("-P", str(policy))
    real = file_owners.report_on_host
    monkeypatch.setattr(file_owners, "report_on_host", lambda *_: real(running, NO_ENTRY))
    dry = edit("partition-add", policy, "lustre", "--full", "node01", "--dry-run")
    assert dry.code == 4
    assert "would be refused: by interlock active-sm" in dry.err
    refused = edit("partition-add", policy, "lustre", "--full", "node01")
    assert refused.code == 4
    assert policy.read_text() == TEXT
    assert edit("partition-add", policy, "lustre", "--full", "node01", "--force").code == 0
    assert policy.read_text() != TEXT


def test_the_policy_of_a_running_opensm_needs_force_as_out_too(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = host("-P", str(policy))
    real = file_owners.report_on_host
    monkeypatch.setattr(file_owners, "report_on_host", lambda *_: real(running, NO_ENTRY))
    mine = policy.with_name("mine.conf")
    mine.write_text(TEXT)
    words = ("partition-add", mine, "lustre", "--full", "node01")
    assert edit(*words).code == 0
    assert edit(*words, "--dry-run").code == 0, "nothing is left to be changed"
    assert edit(*words, "--out", policy, "--dry-run").code == 4
    assert edit(*words, "--out", policy).code == 4
    assert policy.read_text() == TEXT
    assert edit(*words, "--out", policy, "--force").code == 0
    assert policy.read_text() == mine.read_text() != TEXT


def test_a_file_that_another_program_makes_needs_an_override(policy: Path) -> None:
    policy.write_text("# Ansible managed\n" + TEXT)
    assert edit("partition-remove", policy, "lustre", "node04").code == 4
    assert edit("partition-remove", policy, "lustre", "node04", "--override", "file-managed").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("partition-add", "lustre", "--full", "node01"),
        ("partition-remove", "lustre", "3"),
        ("partition-delete", "lustre"),
        ("partition-rename", "lustre", "tank"),
    ],
)
def test_only_a_typed_policy_is_edited_as_a_file(
    policy: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment names the policy that is in force: a forgotten --policy must not edit that."""
    monkeypatch.setenv("IBKEYS_POLICY", str(policy))
    result = run(*words, "--backend", TWO_SWITCH, "--yes")
    assert (result.code, result.out) == (2, "")
    assert result.error == (
        "a simulated subnet has no OpenSM on this host: name the policy file; "
        "with --policy FILE it edits that file only"
    )
    assert policy.read_text() == TEXT


def test_flags_and_groups_are_set_and_removed(policy: Path) -> None:
    flags = ("--mtu", "4096", "--rate", "100", "--sl", "3", "--q-key", "0x80000001", "--scope", "2", "--scope", "5")
    added = edit("partition-add", policy, "lustre", *flags, "--defmember", "full", "--mgid", "ff12::1", "--no-ipoib")
    assert added.code == 0, added.err
    assert policy.read_text() == TEXT.replace(
        "lustre=0x21, ipoib :   # storage network\n",
        "lustre=0x21, mtu=5, rate=16, sl=3, Q_Key=0x80000001, scope=2, scope=5, defmember=full :   # storage network\n"
        "    mgid=ff12::1\n",
    )
    none = [
        word for name in ("--mtu", "--rate", "--sl", "--q-key", "--scope", "--defmember") for word in (name, "default")
    ]
    removed = edit("partition-add", policy, "0x21", *none, "--ipoib", "--without-mgid", "ff12::1")
    assert removed.code == 0, removed.err
    assert policy.read_text() == TEXT


def test_a_new_partition_gets_its_flags_and_groups_in_the_typed_order(policy: Path) -> None:
    new = ("gpu=0x30", "--full", "node01", "--ipoib", "--mtu", "2048", "--mgid", "ff12::1", "--mgid", "ff12::2")
    result = edit("partition-add", policy, *new)
    assert (result.code, result.err) == (0, "")
    assert policy.read_text() == TEXT + (
        "\ngpu=0x0030, ipoib, mtu=4 :\n    mgid=ff12::1\n    mgid=ff12::2\n"
        "    0x0002c903000a1011=full ;  # node01 mlx4_0\n"
    )


@pytest.mark.parametrize(("more", "is_remarked"), [((), True), (("--ipoib",), False), (("--no-ipoib",), False)])
def test_a_file_edit_only_notes_that_a_new_partition_lacks_ipoib(
    policy: Path, more: tuple[str, ...], is_remarked: bool
) -> None:
    result = edit("partition-add", policy, "gpu=0x30", "--full", "node01", *more)
    assert result.code == 0
    assert ("note: 1 of 1 other partition has ipoib" in result.err) == is_remarked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mtu", "9000"), "--mtu: '9000' is none of 256, 512, 1024, 2048, 4096, or default"),
        (("--rate", "11"), "--rate: '11' is none of 2.5, 10,"),
        (("--sl", "16"), "--sl: '16' is not a number from 0 to 15, or default"),
        (("--sl", "x"), "--sl"),
        (("--q-key", "0"), "is not a number from 1 to 4294967295"),
        (("--scope", "16"), "--scope: '16' is not a number from 1 to 15"),
        (("--mgid", "ff12"), "--mgid: 'ff12' is not a GID, such as ff12::77"),
        (("--mgid", "ff12::1%0"), "is not a GID"),
        (("--mgid", "fe80::1"), "it is not multicast"),
        (("--mgid", "ff12::1", "--without-mgid", "ff12:0::1"), "given with --mgid and with --without-mgid"),
    ],
)
def test_a_flag_that_opensm_would_not_take_writes_nothing(policy: Path, options: tuple[str, ...], said: str) -> None:
    result = edit("partition-add", policy, "lustre", *options)
    assert result.code == 2
    assert said in result.err
    assert policy.read_text() == TEXT


@pytest.mark.parametrize("option", ["--allow-removals", "--allow-break", "--wait 9", "--sm-host sm2", "--sudo"])
def test_an_edit_of_a_file_has_no_option_of_a_change_of_the_fabric(policy: Path, option: str) -> None:
    result = edit("partition-remove", policy, "lustre", "node04", *option.split())
    assert (result.code, policy.read_text()) == (2, TEXT)
    assert f"{option.split()[0]} is for a change of the fabric: omit it" in result.error


def test_index_0_is_never_changed_unasked(policy: Path) -> None:
    assert edit("partition-add", policy, "lustre", "--indx0").code == 4
    assert policy.read_text() == TEXT
    assert edit("partition-add", policy, "lustre", "--indx0", "--override", "index-0").code == 0
    assert "lustre=0x21, ipoib, indx0 :" in policy.read_text()
    assert edit("partition-add", policy, "lustre", "--no-indx0").code == 4
    assert edit("partition-add", policy, "lustre", "--indx0").code == 0, "it is so already"


def test_a_partition_is_renamed_and_deleted_without_a_fabric(policy: Path) -> None:
    renamed = run("partition-rename", "--policy", policy, "lustre", "tank", "-f", "json")
    assert renamed.code == 0
    assert (renamed.json["schema"], renamed.json["written"]) == ("ibkeys.partition-rename/1", True)
    assert policy.read_text() == TEXT.replace("lustre=", "tank=")
    dry = run("partition-delete", "--policy", policy, "tank", "--dry-run")
    assert dry.code == 1
    assert dry.out.endswith("dry run: nothing was written\n")
    deleted = run("partition-delete", "--policy", policy, "0x21", "-f", "json")
    assert deleted.json["schema"] == "ibkeys.partition-delete/1"
    assert policy.read_text() == "# our policy\nDefault=0x7fff : ALL=limited, SELF=full ;\n# the end\n"
    assert run("partition-delete", "--policy", policy, "tank").code == 2
