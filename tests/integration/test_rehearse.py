"""`ibkeys rehearse` with the real OpenSM: on a copy of a fabric that another real OpenSM runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.mkey import MKey
from ibkeys.store.journal import Journal
from ibkeys.store.journal.rehearsals import last_rehearsal
from ibkeys.store.opensm import parse_m_keys
from tests.integration.hosted import BLUNT, last_operation, plan_for, undo, via
from tests.integration.ibsim import ibkeys
from tests.integration.rehearsing import KEYED, MOST, site
from tests.integration.tenants import BY_GUID, BY_GUID_GREEN, GREEN, TENANTS
from tests.sample import in_soak, sampled

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
        code, _, errors = here.rehearse("--journal", here.served.folder / "none.db", "undo", "1")
        assert (code, "no journal here has operation 1" in errors) == (2, True), errors
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


@pytest.mark.soak
def test_a_node_that_refuses_sets_and_m_key_lookup_false_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of node03 the snapshot shows another M_Key than OpenSM's, of node05 none at all, for it is hidden there."""
    with site(conf=KEYED) as here:
        monkeypatch.setenv("OSM_CACHE_DIR", str(here.served.folder))
        here.running.kill()
        for name, level in (("node03 mlx4_0", 0), ("node05 mlx4_0", 1)):
            port = here.served.net.port(name, 1)
            port.m_key, port.protect_bits = 0x77, level
        here.take_snapshot()
        here.conf.write_text(KEYED + "m_key_lookup FALSE\n")
        command = f"opensm -F {here.conf} -P {here.running.policy}"
        words = ("rehearse", "--now", "--from", here.snapshot, "--opensm", command, "-f", "json")
        document = json.loads(here.served.ibkeys(*words, timeout=MOST).stdout)
        notes = "\n".join(document["notes"])
        assert "m_key_lookup is FALSE" in notes
        assert "another M_Key has 1 port (node03 mlx4_0 port 1), which refuses its Sets" in notes
        assert "does not show the M_Key of 1 port (node05 mlx4_0 port 1)" in notes
        assert document["opensm_errors"], "OpenSM gets no answer to its Sets"


@pytest.mark.soak
def test_indexes_that_a_restart_forgets_are_named() -> None:
    with site() as here:
        plan_for(here.served, GREEN)
        assert via(here.served).returncode == 0
        here.take_snapshot()
        back = here.served.folder / "back.conf"
        back.write_text(TENANTS)
        words = ("--journal", here.served.folder / "stores" / "journal.db", "--allow-removals", *BLUNT)
        code, document, errors = here.rehearse(*words, "--policy", back)
        assert code in (0, 1), errors
        assert any("OpenSM remembers an index of P_Keys that 2 ports" in note for note in document["notes"]), document


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


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        (KEYED, ("mkey-rotate", "--protect", "2")),
        in_soak("sweep_interval 3\n", ("mkey-deploy", "--protect", "2", "--lease", "60")),
        in_soak(KEYED, ("mkey-remove", "--leave-open")),
    ],
)
def test_faults_of_a_change_of_m_keys(conf: str, words: tuple[str, ...]) -> None:
    """Each kind with each way back. The SA shows all links, so a link that OpenSM resets at a silent node is proven."""
    with site("Default=0x7fff, ipoib : ALL=full ;\n", conf) as here:
        code, document, errors = here.rehearse(*OPEN_SA, "--faults", "--seed", "3", *words)
        tried = document["faults"]
        assert tried is not None, errors
        assert [each["kind"] for each in tried] == 2 * ["opensm-killed", "silent-node", "ibkeys-killed"]
        assert all(each["set"] is not None for each in tried)
        assert [each["way_back"].split()[1] for each in tried if each["way_back"]] == 3 * ["resume"] + 3 * ["undo"]
        assert [each for each in tried if not each["worked"]] == []
        assert (code, document["verdict"]) == (0, "identical")
