"""`ibkeys rehearse` with the real OpenSM: on a copy of a fabric that another real OpenSM runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.process import opensm_processes
from ibkeys.rehearse.bundle import Bundle, bundle_bytes
from ibkeys.store.journal import Journal
from ibkeys.store.journal.rehearsals import last_rehearsal
from ibkeys.store.opensm import parse_m_keys
from tests.integration.hosted import BLUNT, last_operation, plan_for, undo, via
from tests.integration.ibsim import RUN_TIMEOUT, ibkeys, ibkeys_environment
from tests.integration.rehearsing import MOST, site
from tests.integration.simulated import AS_NOBODY, needs_root
from tests.integration.tenants import BY_GUID, BY_GUID_GREEN, GREEN, TENANTS
from tests.sample import sampled

pytestmark = pytest.mark.integration


def kinds(values: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(each["kind"], each["cause"]) for each in values}


def test_a_change_is_made_as_planned_and_then_as_rehearsed() -> None:
    with site() as here:
        plan_for(here.served, GREEN)
        files = {path: (path.read_bytes(), path.stat()) for path in (here.conf, here.running.policy, here.snapshot)}
        wire = here.served.wire()
        code, document, errors = here.rehearse(here.plan, "--allow-removals", *BLUNT)
        assert (code, document["verdict"]) == (0, "identical"), errors
        assert document["plan"] == json.loads(here.plan.read_text())["digest"]
        assert (document["at_start"], document["differences"], document["left_by_undo"]) == ([], [], [])
        assert (document["apply"]["exit_code"], document["undo"]["exit_code"]) == (0, 0)
        assert document["opensm"]["port"]["node_desc"] == here.served.net.nodes[0].description
        names = {each["node_desc"] for each in document["timeline"]}
        assert {"node02 mlx4_0", "node03 mlx4_0"} <= names
        assert document["apply"]["sets"] >= len(document["timeline"])
        assert (document["apply"]["most_cut"], document["apply"]["most_open"]) == (0, 0)
        with Journal.read(here.journal) as journal:
            noted = last_rehearsal(journal, document["plan"])
        assert noted is not None
        assert (noted.verdict, noted.snapshot, noted.opensm) == (
            "identical", document["snapshot"]["finished"], "named",
        )  # fmt: skip
        assert wire == here.served.wire()
        assert files == {path: (path.read_bytes(), path.stat()) for path in files}
        assert via(here.served).returncode == 0
        assert undo(here.served).returncode == 0


@pytest.mark.soak
def test_a_policy_is_planned_on_the_copy() -> None:
    with site() as here:
        new = here.served.folder / "new.conf"
        new.write_text(GREEN)
        code, document, errors = here.rehearse("--policy", new, "--allow-removals", *BLUNT)
        assert (code, document["verdict"]) == (0, "identical"), errors
        assert document["plan"] is not None
        new.write_text("no policy at all")
        code, _, errors = here.rehearse("--policy", new)
        assert code == 2
        assert "`ibkeys plan` of the policy fails on the copy" in errors


@pytest.mark.soak
def test_a_restart_of_an_opensm_that_read_all_its_files_changes_nothing() -> None:
    with site() as here:
        code, document, errors = here.rehearse("--now")
        assert (code, document["verdict"], document["at_start"]) == (0, "identical", []), errors


def test_a_policy_that_was_edited_and_not_read_is_found() -> None:
    with site() as here:
        here.running.policy.write_text(GREEN)
        code, document, _ = here.rehearse("--now")
        assert (code, document["verdict"]) == (1, "differs")
        assert kinds(document["at_start"]) == {("pkey", "policy")}


@pytest.mark.soak
def test_a_policy_that_is_missing_is_found() -> None:
    with site() as here:
        here.running.policy.unlink()
        code, document, _ = here.rehearse("--now")
        assert (code, document["verdict"]) == (1, "differs")
        assert ("pkey", "no-policy") in kinds(document["at_start"])
        assert any("finds no policy" in note for note in document["notes"])


@pytest.mark.soak
def test_options_that_were_edited_and_not_read_are_found() -> None:
    with site() as here:
        here.conf.write_text("part_enforce off\nm_key 0x1234\nm_key_protection_level 1\n")
        _, document, _ = here.rehearse("--now")
        found = {cause for _, cause in kinds(document["at_start"])}
        assert found == {"enforcement", "m-key"}
        assert "1234" not in json.dumps([each["after"] for each in document["at_start"]])


def test_drift_is_found_and_stays_in_the_change_as_on_the_fabric() -> None:
    with site() as here:
        plan_for(here.served, GREEN)
        port = here.served.net.port("node06 mlx4_0", 1)
        keys = list(port.p_keys)
        keys[keys.index(0)] = 0x8077
        port.p_keys = keys
        here.take_snapshot()
        code, document, errors = here.rehearse(here.plan, "--allow-removals", *BLUNT)
        assert (code, document["verdict"], document["differences"]) == (0, "identical", []), errors
        [found] = document["at_start"]
        assert (found["node_desc"], found["before"], found["after"]) == ("node06 mlx4_0", "0x8077", None)
        assert found["cause"] == "policy"
        assert via(here.served).returncode == 0
        assert 0x8077 in port.p_keys


@pytest.mark.soak
def test_a_p_key_that_was_taken_away_by_hand_comes_back_where_the_sa_says() -> None:
    """The SM believes that the port has the P_Key, so a change of that block writes it at its index again."""
    with site() as here:
        port = here.served.net.port("node02 mlx4_0", 1)
        entries = list(port.p_keys)
        index = entries.index(0x8010)
        entries[index] = 0
        port.p_keys = entries
        here.take_snapshot("--sa", "--smkey", "1")
        plan_for(here.served, TENANTS + "More=0x30 : 0x2c903000a1021=full ;\n")
        words = (here.plan, "--allow-removals", *BLUNT, "--override", "drift")
        code, document, errors = here.rehearse(*words)
        done = via(here.served, *words)
        assert document["apply"]["exit_code"] == done.returncode, (errors, done.stderr)
        assert code in (0, 1), errors
        listed = {each["index"]: each["after"] for each in document["differences"] if each["node_desc"] == NODE2}
        assert all(int(listed[each] or "0", 16) == port.p_keys[each] for each in listed)
        assert port.p_keys[index] == 0x8010


NODE2 = "node02 mlx4_0"


@pytest.mark.soak
def test_an_interlock_refuses_the_change_as_on_the_fabric() -> None:
    with site() as here:
        plan_for(here.served, GREEN)
        code, document, _ = here.rehearse(here.plan)
        real = here.served.ibkeys("apply", here.plan, "--via", "opensm", "--yes")
        assert (code, document["verdict"], document["undo"]) == (4, "refused", None)
        assert document["apply"]["exit_code"] == real.returncode == 4


OPEN_SA = ("--override", "default-sa-key")
KEYED = "sweep_interval 3\nm_key 0x1122334455667788\nm_key_protection_level 2\nm_key_lease_period 60\n"


@pytest.mark.soak
def test_a_fabric_with_m_keys_is_rehearsed_where_its_keys_are_not_known() -> None:
    with site(conf=KEYED) as here:
        new = here.served.folder / "new.conf"
        new.write_text(GREEN)
        code, document, errors = here.rehearse("--policy", new, "--allow-removals", *BLUNT)
        assert (code, document["verdict"], document["at_start"]) == (0, "identical", []), errors
        assert any("it is assumed that m_key" in note for note in document["notes"])
        assert "1122334455667788" not in json.dumps(document) + errors


@pytest.mark.soak
def test_another_m_key_in_the_options_is_found_where_keys_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    with site(conf=KEYED) as here:
        monkeypatch.setenv("OSM_CACHE_DIR", str(here.served.folder))
        words = ("rehearse", "--now", "--from", here.snapshot, "-f", "json")
        command = f"opensm -F {here.conf} -P {here.running.policy}"
        for text, causes in ((KEYED, set()), (KEYED.replace("1122", "9922"), {"m-key"})):
            here.conf.write_text(text)
            done = here.served.ibkeys(*words, "--opensm", command, timeout=MOST)
            document = json.loads(done.stdout)
            assert {each["cause"] for each in document["at_start"]} == causes, done.stderr
            assert document["notes"] == []


@pytest.mark.soak
def test_m_keys_are_rotated_on_the_copy() -> None:
    with site(conf=KEYED) as here:
        before = {port.guid: port.m_key for node in here.served.net.nodes for port in node.end_ports}
        code, document, errors = here.rehearse(*OPEN_SA, "mkey-rotate", "--protect", "2")
        assert (code, document["verdict"], document["command"]) == (0, "identical", "mkey-rotate"), errors
        assert (document["differences"], document["left_by_undo"], document["plan"]) == ([], [], None)
        assert (document["apply"]["exit_code"], document["undo"]["exit_code"]) == (0, 0)
        assert before == {port.guid: port.m_key for node in here.served.net.nodes for port in node.end_ports}
        assert (here.served.folder / "opensm.conf").read_text().endswith(KEYED)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ("sweep_interval 3\n", ("mkey-deploy", "--protect", "2", "--lease", "60")),
        (KEYED, ("mkey-remove", "--leave-open")),
    ],
)
def test_m_keys_are_deployed_and_removed_on_the_copy(conf: str, words: tuple[str, ...]) -> None:
    with site(conf=conf) as here:
        code, document, errors = here.rehearse(*OPEN_SA, *words)
        assert (code, document["verdict"]) == (0, "identical"), (document, errors)


def test_an_edit_and_an_undo_are_rehearsed_and_the_real_journal_stays() -> None:
    with site() as here:
        words = ("partition-add", "Green=0x21", "--full", "node02*", *BLUNT)
        assert here.rehearse("partition-add", "Blue=0x21", "--full", "node02*")[0] == 2
        code, document, errors = here.rehearse(*words)
        assert (code, document["verdict"], document["command"]) == (0, "identical", "partition-add"), (document, errors)
        assert document["plan"] is not None
        plan_for(here.served, GREEN)
        assert via(here.served).returncode == 0
        here.take_snapshot()
        journal = here.served.folder / "stores" / "journal.db"
        kept = journal.read_bytes()
        code, document, errors = here.rehearse("--journal", journal, *BLUNT, "undo", last_operation(here.served))
        assert (code, document["verdict"], document["command"]) == (0, "identical", "undo"), (document, errors)
        assert document["timeline"]
        assert journal.read_bytes() == kept
        assert undo(here.served).returncode == 0


@pytest.mark.soak
def test_a_guid2mkey_that_does_not_fit_is_named_and_what_it_does_is_seen() -> None:
    with site(conf=KEYED.replace("level 2", "level 1")) as here:
        path = here.served.folder / "guid2mkey"
        keys = parse_m_keys(path.read_bytes(), "guid2mkey")
        wrong = {**keys, min(keys): MKey(0x77)}
        path.write_text("".join(f"0x{guid:016x} {key.hex()}\n\n" for guid, key in wrong.items()))
        _, document, errors = here.rehearse("--now")
        assert any("guid2mkey has another M_Key than 1 port" in note for note in document["notes"]), (document, errors)
        assert "77" not in json.dumps([note for note in document["notes"] if "guid2mkey" in note]).split()


def test_a_standby_with_another_policy_is_found_and_named() -> None:
    with site(BY_GUID) as here:  # SELF is the master, so it would be another port after a takeover
        other = here.served.folder / "other.conf"
        other.write_text(BY_GUID_GREEN)
        command = f"node05 mlx4_0:opensm -F {here.conf} -P "
        same = here.running.policy
        code, document, errors = here.rehearse("--now", "--standby", command + str(same))
        assert (code, document["verdict"], document["at_takeover"]) == (0, "identical", []), errors
        assert not any("another policy" in note for note in document["notes"])
        code, document, errors = here.rehearse("--now", "--standby", command + str(other))
        assert (code, document["verdict"], document["at_start"]) == (1, "differs", []), errors
        assert {(each["cause"], each["standby"]) for each in document["at_takeover"]} == {
            ("standby-policy", "node05 mlx4_0")
        }
        assert any("node05 mlx4_0 has another policy file than the master" in note for note in document["notes"])


@pytest.mark.soak
def test_a_change_is_rehearsed_beside_a_stand_in_of_a_standby() -> None:
    with site() as here:
        plan_for(here.served, GREEN)
        other = here.served.folder / "other.conf"
        other.write_text(GREEN)
        standby = f"node05 mlx4_0:opensm -F {here.conf} -P {other}"
        code, document, errors = here.rehearse("--allow-removals", *BLUNT, "--standby", standby, here.plan)
        assert (code, document["verdict"]) == (0, "identical"), (document, errors)
        assert document["at_takeover"]


@pytest.mark.soak
def test_a_table_one_entry_too_small_and_two_nodes_with_one_guid_are_named(tmp_path: Path) -> None:
    full = tmp_path / "full.conf"
    full.write_text(TENANTS + "".join(f"P{each:x}={each:#x} : 0x2c903000a1021=full ;\n" for each in range(0x30, 0x70)))
    with site() as here:
        code, document, errors = here.rehearse("--now", opensm=f"opensm -F {here.conf} -P {full}")
        assert code == 1, errors
        assert any("table of 1 port (node02 mlx4_0 port 1)" in note for note in document["notes"]), document["notes"]
        net = here.served.net
        net.node("node03 mlx4_0").guid = net.node("node02 mlx4_0").guid
        here.take_snapshot()
        code, document, errors = here.rehearse("--now")
        said = errors + "".join(document.get("notes", ()))
        assert "2 nodes have the GUID 0x0002c903000a1020 (node02 mlx4_0, node03 mlx4_0)" in said, (code, said)


@pytest.mark.soak
def test_an_opensm_that_packs_its_tables_does_not_do_what_the_plan_says() -> None:
    """The plan was made from the snapshot, which does not say what options OpenSM has."""
    with site() as here:
        (here.served.folder / "new.conf").write_text(TENANTS.replace("Red=0x10", "Low=0x08 : ALL ;\nRed=0x10"))
        here.conf.write_text("keep_pkey_indexes FALSE\n")
        new = here.served.folder / "new.conf"
        done = ibkeys("plan", "--policy", new, "--from", here.snapshot, "--out", here.plan)
        assert done.returncode == 1, done.stderr
        code, document, _ = here.rehearse(here.plan, "--allow-removals", *BLUNT)
        assert code in (1, 4)
        assert any(note.startswith("keep_pkey_indexes is FALSE") for note in document["notes"])
        assert document["verdict"] == {1: "differs", 4: "refused"}[code]


def test_options_can_neither_load_nor_write_nor_listen(tmp_path: Path) -> None:
    with site() as here:
        here.conf.write_text(
            f"event_plugin_name {tmp_path}/evil.so\nlog_file {tmp_path}/log\ndump_files_dir {tmp_path}\n"
            f"event_db_dump_file {tmp_path}/events\nsa_db_dump TRUE\nconsole loopback\ndaemon TRUE\nperfmgr TRUE\n"
        )
        pidfile = f"--pidfile {tmp_path}/pid -B -f {tmp_path}/other"
        command = f"opensm -F {here.conf} -P {here.running.policy} {pidfile}"
        code, document, errors = here.rehearse("--now", opensm=command)
        assert (code, document["verdict"]) == (0, "identical"), errors
        assert os.listdir(tmp_path) == []


@pytest.mark.soak
def test_an_option_that_opensm_lacks_has_no_effect_as_with_opensm() -> None:
    """OpenSM ignores it, so its own output of all options does not have it."""
    with site() as here:
        here.conf.write_text("no_such_option 1\n")
        assert here.rehearse("--now")[0] == 0


def test_a_program_that_is_no_opensm_is_refused() -> None:
    with site() as here:
        code, _, errors = here.rehearse("--now", opensm="/bin/true")
        assert code == 2
        assert "is it an OpenSM?" in errors


@pytest.mark.soak
def test_an_opensm_that_ends_is_reported(tmp_path: Path) -> None:
    """It writes its options, and then does not start."""
    program = tmp_path / "opensm"
    program.write_text('#!/bin/sh\ncase "$*" in *-c\\ *) exec /usr/sbin/opensm "$@";; *) exit 7;; esac\n')
    program.chmod(0o755)
    with site() as here:
        code, _, errors = here.rehearse("--now", opensm=str(program))
        assert code == 3, errors
        assert "OpenSM ended on the copy of the fabric (exit status 7)" in errors


@needs_root
def test_a_user_without_any_privilege_can_rehearse(tmp_path: Path) -> None:
    with site() as here:
        words = ["rehearse", "--now", "--from", "/dev/stdin", "--opensm", "opensm", "-f", "json"]
        copy = Path(f"/dev/shm/rehearse-{os.getpid()}.db")
        copy.write_bytes(here.snapshot.read_bytes())
        copy.chmod(0o644)
        try:
            words[words.index("/dev/stdin")] = str(copy)
            done = subprocess.run(
                [*AS_NOBODY, sys.executable, "-m", "ibkeys", *words],
                env=ibkeys_environment(),
                cwd="/",
                capture_output=True,
                text=True,
                timeout=MOST,
                check=False,
            )
        finally:
            copy.unlink()
        assert done.returncode == 1, done.stderr  # Without the policy every port is a full member.
        assert {each["cause"] for each in json.loads(done.stdout)["at_start"]} >= {"no-policy"}


MOMENTS = [0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize("seconds", sampled(MOMENTS, [3.0]))
def test_a_rehearsal_that_is_killed_leaves_nothing_and_nobody_sees_its_opensm(seconds: float, tmp_path: Path) -> None:
    with site() as here:
        plan_for(here.served, GREEN)
        mark = f"opensm -F {here.conf} -P {here.running.policy}"
        words = [
            "rehearse",
            here.plan,
            "--journal",
            here.journal,
            "--allow-removals",
            *BLUNT,
            "--from",
            here.snapshot,
            "--opensm",
            mark,
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "ibkeys", *map(str, words)],
            env={**ibkeys_environment(), "TMPDIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        with process.stdout:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and process.poll() is None:
                assert [each for each in opensm_processes() if each.config == Path("/mnt/opensm.conf")] == []
            process.send_signal(signal.SIGKILL)
            process.wait(RUN_TIMEOUT)
            process.stdout.read()  # Ends when every process that inherited it has ended.
        assert os.listdir(tmp_path) == []
        assert here.served.ibkeys("pkey-show", "--all").returncode == 0


@pytest.mark.parametrize("runs", sampled([1, 3, 12], [1]))
def test_faults_are_tried_and_the_documented_way_back_is_judged(runs: int) -> None:
    """The kinds take turns, first with resume, and then with undo."""
    with site() as here:
        plan_for(here.served, GREEN)
        words = ("--faults", "--fault-runs", str(runs), "--seed", "2")
        code, document, errors = here.rehearse(*words, here.plan, "--allow-removals", *BLUNT)
        assert document["verdict"] in ("identical", "differs"), errors
        tried = document["faults"]
        kinds_in_turn = ["opensm-killed", "silent-node", "ibkeys-killed"]
        assert [each["kind"] for each in tried] == [kinds_in_turn[number % 3] for number in range(runs)]
        assert {each["exit_code"] for each in tried if each["kind"] == "ibkeys-killed"} <= {137}
        for each in tried:
            assert each["set"] is not None
            assert each["worked"] == (not each["left"] and each["back_exit_code"] in (None, 0))
            assert each["way_back"] is None or each["way_back"].split()[1] in ("resume", "undo")
        assert (code == 0) == all(each["worked"] for each in tried)
        assert all(each["worked"] for each in tried[:3]), tried


def test_a_bundle_has_no_key_and_is_rehearsed_elsewhere(tmp_path: Path) -> None:
    with site(conf=KEYED + "sm_key 0x99aabbccddeeff01\n") as here:
        policy, bundle = here.served.folder / "new.conf", tmp_path / "site.bundle"
        policy.write_text(GREEN)
        command = f"opensm -F {here.conf} -P {here.running.policy} -k 0x77aabbccddeeff77"
        done = ibkeys(
            *("rehearse", "--pack", bundle, "--from", here.snapshot, "--opensm", command),
            env={**ibkeys_environment(), "OSM_CACHE_DIR": str(here.served.folder)},
            timeout=MOST,
        )
        assert (done.returncode, "partition_config_file" in done.stdout) == (0, True), done.stderr
        data = bundle.read_bytes()
        for key in ("1122334455667788", "99aabbccddeeff01", "77aabbccddeeff77"):
            assert key.encode() not in data.lower()
            assert bytes.fromhex(key) not in data
        words = ("--from", bundle, "--journal", here.journal, "--allow-removals", *BLUNT, "--policy", policy)
        done = ibkeys("rehearse", "-f", "json", *words, env=ibkeys_environment(), timeout=MOST)
        document = json.loads(done.stdout)
        assert (document["verdict"], document["at_start"]) == ("identical", []), done.stderr
        assert document["opensm"]["source"] == "packed"


@pytest.mark.soak
def test_a_hostile_bundle_can_neither_load_nor_write_nor_read_outside_its_folder(tmp_path: Path) -> None:
    """Its options name a plugin, outputs, and a policy of this host; an option that OpenSM lacks is refused."""
    marker = tmp_path / "policy.conf"
    marker.write_text("Default=0x7fff : ALL=full ;\nfound=0x1234 : ALL=full ;\n")
    with site() as here:
        options = (
            f"event_plugin_name {tmp_path}/evil.so\nlog_file {tmp_path}/log\ndump_files_dir {tmp_path}\n"
            f"event_db_dump_file {tmp_path}/events\nsa_db_dump TRUE\nconsole loopback\ndaemon TRUE\n"
            f"partition_config_file {marker}\nroot_guid_file ../../../../etc/passwd\n"
        )
        for text, code in ((options, 1), (options + "no_such_option 1\n", 2)):
            found = Bundle("/no/such/opensm", ("--x",), text.encode(), {}, here.snapshot.read_bytes())
            (here.served.folder / "evil.bundle").write_bytes(bundle_bytes(found))
            words = ("rehearse", "--now", "--from", here.served.folder / "evil.bundle", "-f", "json")
            done = ibkeys(*words, env=ibkeys_environment(), timeout=MOST)
            assert done.returncode == code, done.stderr
            assert "0x9234" not in done.stdout
        assert "no_such_option" in done.stderr
        assert os.listdir(tmp_path) == ["policy.conf"]


@pytest.mark.soak
def test_names_of_nodes_lead_nowhere(tmp_path: Path) -> None:
    with site() as here:
        names = ("..", "../../../../tmp/evil", "$(touch evil)", "a\nb\x1b[31m", "/etc/passwd")
        for node, name in zip(here.served.net.nodes, names, strict=False):
            node.description_bytes = name.encode().ljust(64, b"\0")
        here.take_snapshot()
        before = sorted(os.listdir("/tmp"))
        code, document, errors = here.rehearse("--now")
        assert (code, document["verdict"]) == (0, "identical"), errors
        assert not [each for each in sorted(os.listdir("/tmp")) if each not in before and "evil" in each]
        assert os.listdir(tmp_path) == []
        assert "\x1b" not in errors


def looked_at(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return the bytes, mode and time of change of each file in *folder*."""
    files = (each for each in folder.iterdir() if each.is_file())
    return {each.name: (each.read_bytes(), each.stat().st_mode, each.stat().st_mtime_ns) for each in files}


@pytest.mark.soak
def test_two_rehearsals_at_once_and_a_real_change_beside_them(tmp_path: Path) -> None:
    """What runs on the fabric neither sees the copies nor disturbs them."""
    with site() as here:
        plan_for(here.served, GREEN)

        def seen() -> object:
            """Return the OpenSMs on this host that sm-show finds. Other tests may run some that doctor finds, too."""
            managers = json.loads(here.served.ibkeys("sm-show", "-f", "json").stdout)
            assert "/mnt/" not in here.served.ibkeys("doctor", "-f", "json").stdout
            return [[each["pid"] for each in host["instances"]] for host in managers["hosts"]]

        before, files = seen(), looked_at(here.served.folder)
        words = ["rehearse", here.plan, "--allow-removals", *BLUNT, "--from", here.snapshot, "-f", "json"]
        command = f"opensm -F {here.conf} -P {here.running.policy}"
        both = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "ibkeys",
                    *map(str, words),
                    "--journal",
                    tmp_path / f"{name}.db",
                    "--opensm",
                    command,
                ],
                env=ibkeys_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in ("one", "two")
        ]
        for each in both:
            assert each.stderr is not None
            while "makes the change" not in (line := each.stderr.readline()):
                assert line, "it ended early"
        assert seen() == before
        assert looked_at(here.served.folder) == files
        assert via(here.served).returncode == 0
        for each in both:
            output, errors = each.communicate(timeout=MOST)
            assert json.loads(output)["verdict"] == "identical", errors
        assert undo(here.served).returncode == 0
        assert seen() == before
