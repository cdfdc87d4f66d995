"""``ibkeys harden`` with a real OpenSM: from an open fabric to an audit that finds nothing but what it names as not its
own, and who may talk before and after is never cut."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ibkeys.sim.server.outbox import PassedMad
from ibkeys.store.journal import Journal
from tests.integration.crashes import run_to_a_point
from tests.integration.enforcing import NET, OPEN, enforcement, open_fabric
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_opensm import KeyedOpensm, keyed
from tests.integration.keyed_standbys import KeyedSite, keyed_site, through_ssh
from tests.integration.talking import History, talking
from tests.integration.trees import fabric

NODE02, NODE03, NODE04, NODE05 = (0x2C903000A1021 + 0x10 * number for number in range(4))
TENANTS = f"""\
Default=0x7fff, ipoib : ALL=limited, SELF=full ;
TenantA=0x0010 : {NODE02:#x}=full, {NODE04:#x}=full ;
Storage=0x0020 : {NODE03:#x}=full, {NODE05:#x}=limited, {NODE02:#x}=limited ;
"""


@pytest.fixture
def opensm() -> Iterator[KeyedOpensm]:
    with open_fabric() as running:
        yield running


def harden(opensm: KeyedOpensm, *words: str) -> tuple[int, dict[str, Any], str]:
    """Run it; return its exit code, its document and what it said beside."""
    done = opensm.served.ibkeys("harden", "-f", "json", "--via", "opensm", *words, timeout=300)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def failing(document: dict[str, Any]) -> set[str]:
    """Return the rules that fail with severity high or critical."""
    worse = ("high", "critical")
    return {
        each["rule"] for each in document["audit"]["results"] if each["result"] == "fail" and each["severity"] in worse
    }


OF_OPENSM = {"SM004"}
"""What every stock OpenSM does, and has no option against."""


def listed(document: dict[str, Any]) -> set[str]:
    """Return the rules that are named as not in its power."""
    return {each["rule"] for each in document["left"] if not each["in_power"]}


def steps(document: dict[str, Any]) -> list[str]:
    return [each["step"] for each in document["steps"]]


def assert_hardened(opensm: KeyedOpensm, document: dict[str, Any]) -> None:
    """Every port has one key at level 2, every leaf port enforces, no file shows a key, and nothing was lost."""
    [(key, level, lease)] = opensm.keys()
    assert key.bit_length() > 32
    assert (level, lease) == (2, 60)
    assert set(enforcement(opensm.served)) == {3}
    folder = opensm.served.folder
    assert [opensm.mode(path) for path in (folder, opensm.conf, folder / "guid2mkey")] == [0o700, 0o600, 0o600]
    opensm.assert_nothing_was_lost()
    assert document["audit"]["coverage"]["troubles"] == []


def test_from_an_open_fabric_to_one_that_is_hardened_but_for_its_p_keys(opensm: KeyedOpensm) -> None:
    history, before = History(opensm.served.net), talking(opensm.served.net)
    opensm.served.watchers.append(history.watch)
    code, document, said = harden(opensm, "--yes")
    assert code == 1, said
    assert steps(document) == ["folders", "sm-keys", "enforcement", "m-keys", "key-files"]
    assert_hardened(opensm, document)
    assert failing(document) == {"PK001", *OF_OPENSM}
    assert listed(document) == {*OF_OPENSM, "PK001", "PK002", "PK004", "PK005", "PK014"}
    assert talking(opensm.served.net) == before
    assert history.check(before, before) > 0
    code, document, said = harden(opensm, "--dry-run")
    assert (code, steps(document)) == (0, []), said


@pytest.mark.soak
def test_with_a_policy_only_what_opensm_has_no_option_for_is_left_of_severity_high(opensm: KeyedOpensm) -> None:
    policy = opensm.served.folder / "tenants.conf"
    policy.write_text(TENANTS)
    history, before = History(opensm.served.net), talking(opensm.served.net)
    opensm.served.watchers.append(history.watch)
    code, document, said = harden(opensm, "--policy", str(policy), "--allow-removals", "--yes")
    assert code == 1, said
    assert_hardened(opensm, document)
    assert (failing(document), listed(document)) == (OF_OPENSM, OF_OPENSM)
    after = talking(opensm.served.net)
    assert after < before
    assert history.check(before, after) > 0


@pytest.mark.soak
def test_150_hosts_are_hardened_and_nothing_is_lost(tmp_path: Path) -> None:
    with keyed(fabric("150 hosts", tmp_path), OPEN) as opensm:
        _, document, _ = harden(opensm, "--yes")
        assert_hardened(opensm, document)
        assert failing(document) == {"PK001", *OF_OPENSM}


def test_a_dry_run_changes_nothing_and_says_the_whole_plan(opensm: KeyedOpensm) -> None:
    before, text = opensm.served.wire(), opensm.conf.read_text()
    code, document, _ = harden(opensm, "--dry-run")
    assert (code, document["applied"]) == (1, False)
    assert all(each["changes"] and each["way_back"] and not each["refusals"] for each in document["steps"])
    assert (opensm.served.wire(), opensm.conf.read_text(), opensm.keys()) == (before, text, {(0, 0, 0)})
    assert opensm.mode(opensm.served.folder) == 0o755
    assert not (opensm.served.folder / "stores" / "keys.db").exists()


def test_a_folder_of_key_files_that_everybody_may_write_to_stops_it_before_any_step(opensm: KeyedOpensm) -> None:
    opensm.served.folder.chmod(0o1777)
    done = opensm.served.ibkeys("harden", "--via", "opensm", "--yes")
    assert done.returncode == 4, done.stderr
    assert "everybody may write to" in done.stderr
    assert opensm.mode(opensm.served.folder) == 0o1777
    assert opensm.keys() == {(0, 0, 0)}


def test_profile_lab_finds_nothing_that_is_worth_a_step(opensm: KeyedOpensm) -> None:
    _, document, said = harden(opensm, "--profile", "lab", "--yes")
    assert steps(document) == [], said
    assert opensm.keys() == {(0, 0, 0)}


KILLED: dict[str, Callable[[KeyedOpensm], bool]] = {
    "its options file has a new SA_Key": lambda opensm: "sa_key 0x" in opensm.conf.read_text(),
    "a leaf port enforces": lambda opensm: any(enforcement(opensm.served)),
    "a port has a key": lambda opensm: any(port.m_key for port in opensm.end_ports()),
    "a port is at level 2": lambda opensm: any(port.protect_bits == 2 for port in opensm.end_ports()),
}
"""When the first run is killed, by what is seen at a MAD."""


@pytest.mark.soak
@pytest.mark.parametrize("when", KILLED)
def test_killed_in_the_middle_the_same_command_goes_on(opensm: KeyedOpensm, when: str) -> None:
    it_is_time = threading.Event()

    def watch(seen: PassedMad) -> None:
        if KILLED[when](opensm):
            it_is_time.set()

    opensm.served.watchers.append(watch)
    words = opensm.served.arguments(opensm.served.ibkeys_command("harden", "--yes"))
    with subprocess.Popen(
        words,
        cwd=opensm.served.folder,
        env=opensm.served.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as first:
        assert it_is_time.wait(RUN_TIMEOUT)
        first.kill()
    opensm.served.watchers.remove(watch)
    code, document, said = harden(opensm, "--yes")
    assert code == 1, said
    assert "folders" not in steps(document)
    assert_hardened(opensm, document)
    assert failing(document) == {"PK001", *OF_OPENSM}
    operations = json.loads(opensm.served.ibkeys("journal", "-f", "json").stdout)["operations"]
    assert [each for each in operations if each["state"] != "done"] == []


@pytest.mark.soak
def test_part_enforce_goes_back_while_the_keys_stay(opensm: KeyedOpensm) -> None:
    harden(opensm, "--yes")
    keys = opensm.keys()
    operations = json.loads(opensm.served.ibkeys("journal", "-f", "json").stdout)["operations"]
    [enforced] = [each["id"] for each in operations if each["command"] == "harden"]
    made = ["harden files", "smkey-rotate", "harden", "mkey-deploy", "harden files"]
    assert [each["command"] for each in operations] == made
    refused = opensm.served.ibkeys("harden", "--abort", "--yes")
    assert (refused.returncode, "--abort is gone: use `ibkeys undo ID`" in refused.stderr) == (2, True)
    done = opensm.served.ibkeys("undo", str(enforced), "--yes")
    assert done.returncode == 0, done.stderr
    assert set(enforcement(opensm.served)) == {0}
    assert opensm.keys() == keys
    assert "\npart_enforce off\n" in opensm.conf.read_text()
    again = opensm.served.ibkeys("undo", str(enforced), "--dry-run")
    assert (again.returncode, "has already been undone by operation 6" in again.stderr) == (3, True)
    opensm.assert_nothing_was_lost()


@pytest.mark.soak
def test_enforcement_whose_line_was_removed_is_switched_on(opensm: KeyedOpensm) -> None:
    opensm.conf.write_text(opensm.conf.read_text().replace("part_enforce off\n", ""))
    opensm.running.sweep()
    assert set(enforcement(opensm.served)) == {0}
    code, _, said = harden(opensm, "--yes")
    assert (code, set(enforcement(opensm.served))) == (1, {3}), said


def harden_site(site: KeyedSite) -> None:
    """Harden a site whose leaf ports do not enforce and whose folders are open; look at the files of each OpenSM."""
    for each in site.opensms:
        with each.conf.open("a") as conf:
            conf.write("part_enforce off\n")
        each.cache.chmod(0o755)
    site.master.sweep()
    assert set(enforcement(site.served)) == {0}
    code, said = site.ibkeys("harden")
    assert code == 1, said
    for each in site.opensms:
        assert "\npart_enforce both\n" in each.conf.read_text()
        assert [site.mode(path) for path in (each.cache, each.conf, each.cache / "guid2mkey")] == [0o700, 0o600, 0o600]
    assert set(enforcement(site.served)) == {3}
    assert site.key()[1:] == (2, 60)
    assert site.violations() == 0


@pytest.mark.soak
def test_a_standby_gets_the_same_and_takes_over_without_a_change() -> None:
    with keyed_site(2) as site:
        harden_site(site)
        key = site.key()
        site.kill_master()
        assert site.key() == key
        assert set(enforcement(site.served)) == {3}
        assert site.violations() == 0


@pytest.mark.soak
def test_an_opensm_of_another_host_is_hardened_by_ssh(tmp_path: Path) -> None:
    with ExitStack() as stack:
        _, words = through_ssh(stack, tmp_path)
        harden_site(stack.enter_context(keyed_site(1, words)))


@pytest.mark.soak
def test_a_key_that_is_there_stays_while_its_level_rises() -> None:
    with keyed(NET) as opensm:
        code, said = opensm.ibkeys("mkey-deploy", "--protect", "1", "--lease", "20")
        assert code == 0, said
        [(key, _, _)] = opensm.keys()
        _, document, said = harden(opensm, "--fail-on", "medium", "--lease", "30", "--yes")
        assert "m-keys" in steps(document), said
        assert opensm.keys() == {(key, 2, 30)}
        opensm.assert_nothing_was_lost()


@pytest.mark.soak
def test_a_key_that_is_easy_to_guess_makes_room_for_a_new_one() -> None:
    with keyed(NET) as opensm:
        weak = opensm.served.folder / "weak.key"
        weak.touch(0o600)
        weak.write_text("0x1234\n")
        given = ("--new-m-key", f"@{weak}", "--override", "weak-key")
        code, said = opensm.ibkeys("mkey-deploy", *given, "--protect", "2", "--lease", "60")
        assert code == 0, said
        _, document, said = harden(opensm, "--yes")
        assert "new-m-key" in steps(document), said
        assert "m-keys" not in steps(document), said
        [(key, level, lease)] = opensm.keys()
        assert (key != 0x1234, level, lease) == (True, 2, 60)
        opensm.assert_nothing_was_lost()


def test_a_dry_run_lets_opensm_log_nothing_and_says_what_the_real_one_causes(opensm: KeyedOpensm) -> None:
    opensm.conf.write_text(opensm.conf.read_text() + "sa_key 0x5e11a7c0ffee\n")
    opensm.running.sweep()
    _, document, _ = harden(opensm, "--dry-run")
    assert not [line for line in opensm.running.log.lines if "1A04" in line]
    assert any("ERR 1A04" in note for note in document["notes"])


@pytest.mark.soak
def test_an_undo_leaves_an_enforcement_that_somebody_else_set_since(opensm: KeyedOpensm) -> None:
    harden(opensm, "--yes")
    text = opensm.conf.read_text().replace("part_enforce both", "part_enforce out")
    opensm.conf.write_text(text)
    done = opensm.served.ibkeys("undo", "3", "--yes", "-v")
    assert done.returncode == 4, done.stderr
    assert "another user or program has changed it since" in done.stderr
    assert "`ibkeys harden --via opensm`" in done.stderr
    assert opensm.conf.read_text() == text


@pytest.mark.soak
@pytest.mark.parametrize(("of_master", "of_standby"), [("off", "out"), ("off", "both")])
def test_an_undo_gives_each_options_file_the_value_that_it_had(of_master: str, of_standby: str) -> None:
    with keyed_site(2) as site:
        for each, value in zip(site.opensms, (of_master, of_standby), strict=True):
            with each.conf.open("a") as conf:
                conf.write(f"part_enforce {value}\n")
            each.cache.chmod(0o755)
        site.master.sweep()
        site.opensms[1].process.send_signal(signal.SIGHUP)
        code, said = site.ibkeys("harden")
        assert code == 1, said
        assert set(enforcement(site.served)) == {3}
        code, said = site.ibkeys("undo", "3")
        assert code == 0, said
        for each, value in zip(site.opensms, (of_master, of_standby), strict=True):
            assert f"\npart_enforce {value}\n" in each.conf.read_text()
        assert set(enforcement(site.served)) == {0}


@pytest.mark.soak
def test_an_undo_closes_a_hardening_that_was_cut_off_before_it_wrote(opensm: KeyedOpensm, preloaded: str) -> None:
    stores = opensm.served.folder / "stores"
    for each in (("harden", "--via", "opensm"), ("undo", "3")):  # only part_enforce is left to do then
        run_to_a_point(opensm.served, preloaded, stores, (*each, "--yes"), "off")
    text = opensm.conf.read_text()
    assert "\npart_enforce off\n" in text
    words = ("harden", "--via", "opensm", "--yes")
    done, _ = run_to_a_point(opensm.served, preloaded, stores, words, "kill", "before the first file")
    assert done.returncode == -signal.SIGKILL, done.stderr
    done, _ = run_to_a_point(opensm.served, preloaded, stores, ("undo", "--yes"), "off")
    assert (done.returncode, "nothing to change" in done.stdout) == (0, False), done.stderr
    assert opensm.conf.read_text() == text
    with Journal(stores / "journal.db", create=False) as journal:
        assert [each for each in journal.list_operations() if each.is_unfinished] == []
