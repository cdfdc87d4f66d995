"""What a change of sm_key and sa_key refuses: other SMs, files, keys, readers, and an unfinished run."""

from __future__ import annotations

import os

import pytest

from ibkeys.errors import Refused, UsageError
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.site import RunningOpensm
from ibkeys.sim.nodes import SimPort
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import NewRunPort, RunOptions, Runs
from tests.fabricsim import subnet
from tests.smkeys.madeup import POLLING, MadeUpSite
from tests.smkeys.outcomes import assert_back, assert_done, kill_at

A = SMKey(0xA1A2A3A4A5A6A7B8)
Patch = pytest.MonkeyPatch


def test_an_sm_on_no_host_that_was_reached_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[2].runs = False
    with pytest.raises(Refused, match=r"the SM at 'node06.*is not on any host that was examined.*hosts=") as refused:
        three.run(monkeypatch)
    assert refused.value.interlock == "opensm-keys"


def test_an_options_file_that_is_not_there_is_refused_with_the_command_that_makes_it(
    three: MadeUpSite, monkeypatch: Patch
) -> None:
    conf = three.hosts[1].conf
    conf.unlink()
    with pytest.raises(Refused, match=rf"create it, then restart.*umask 077; .*opensm .* -c {conf}"):
        three.run(monkeypatch)


def test_a_key_of_the_command_line_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[1].words += ["-k", "0x77"]
    with pytest.raises(Refused, match="has its sm_key from its command line") as refused:
        three.run(monkeypatch)
    assert "0x77" not in str(refused.value)


def test_two_masters_are_refused_unless_a_change_was_cut_off(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[1].conf.write_text("sm_key 5\n")
    three.hosts[1].read()
    three.sleep(POLLING + 1)
    with pytest.raises(Refused, match="2 subnet managers say that they are master"):
        three.run(monkeypatch)


def test_an_opensm_that_was_started_again_meanwhile_is_not_told(three: MadeUpSite, monkeypatch: Patch) -> None:
    def stop(step: str) -> None:
        if step.startswith("stage"):
            three.hosts[1].runs = False

    three.before_each = stop
    with pytest.raises(Refused, match="no longer runs") as refused:
        three.run(monkeypatch)
    assert refused.value.interlock == "stale"
    three.hosts[1].runs = True
    assert_back(three)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sm_key": SMKey(0)}, "the new sm_key is 0, which gives no protection"),
        ({"sa_key": SMKey(1)}, "the new sa_key is 1, the default"),
        ({"sa_key": A, "sm_key": A}, "are the same"),
    ],
)
def test_keys_that_are_none_are_refused(three: MadeUpSite, monkeypatch: Patch, given: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        three.run(monkeypatch, given)


def test_a_guessable_key_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    with pytest.raises(Refused, match="weak-key: the new sm_key fits 32 bits"):
        three.run(monkeypatch, {"sm_key": SMKey(0xABCD)})
    three.hosts[1].conf.write_text(f"m_key {A.hex()}\n")
    with pytest.raises(Refused, match="weak-key: the new sa_key is also the M_Key"):
        three.run(monkeypatch, {"sa_key": A})
    three.run(monkeypatch, {"sm_key": SMKey(0xABCD)}, ["weak-key"])
    assert three.hosts[0].keys["sm_key"] == SMKey(0xABCD)


def test_a_file_that_another_program_writes_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[2].conf.write_text("# Managed by Puppet\n")
    with pytest.raises(Refused, match=r"file-managed: .*opensm.conf on sm2 is managed by Puppet"):
        three.run(monkeypatch)
    three.run(monkeypatch, overrides=["file-managed"])
    assert_done(three)


def test_a_file_in_the_layer_of_a_container_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[2].is_layered = True
    with pytest.raises(Refused, match=r"opensm.conf on sm2 is on an overlay .*overrides=.*container-layer") as refused:
        three.run(monkeypatch)
    assert "on a volume that is mounted into the container" in refused.value.more
    assert_back(three)
    three.run(monkeypatch, overrides=["container-layer"])
    assert_done(three)


def test_an_options_file_that_others_can_read_afterwards_is_named(three: MadeUpSite, monkeypatch: Patch) -> None:
    host = three.hosts[1]
    mode = host.conf.stat().st_mode & 0o777
    monkeypatch.setattr(RunningOpensm, "read_user", lambda running: os.geteuid() + (running.machine is host))
    change = three.run(monkeypatch)
    assert [note for note in change.notes if "keeps its mode" in note] == [
        f"{host.conf} on sm1 holds keys and keeps its mode, {mode:04o}: it belongs to UID {os.geteuid()}, and its "
        f"OpenSM, which has to read it, runs as UID {os.geteuid() + 1}: chown {os.geteuid() + 1} and chmod 0600"
    ]
    assert_done(three)


def test_an_output_that_others_read_is_refused(three: MadeUpSite, monkeypatch: Patch) -> None:
    three.hosts[1].output = "/etc/passwd"
    with pytest.raises(Refused, match=r"sm-prints-keys: .*on sm1 .*its standard output goes to /etc/passwd"):
        three.run(monkeypatch)
    three.run(monkeypatch, overrides=["sm-prints-keys"])
    assert_done(three)


def test_an_edit_that_nobody_read_is_refused_but_not_our_own(three: MadeUpSite, monkeypatch: Patch) -> None:
    host = three.hosts[1]
    swept = host.folder / "opensm-subnet.lst"
    swept.touch()
    now = swept.stat().st_mtime
    host.started = now - 200
    os.utime(swept, (now - 100, now - 100))
    with pytest.raises(Refused, match=r"(?s)stale: .*opensm.conf on sm1.*activate that edit"):
        three.run(monkeypatch)

    kill_at(three, monkeypatch, "put node06", ["stale"])
    for _ in range(2):  # what nobody read are the keys that it wrote itself, which a standby reads without a sweep
        three.run(monkeypatch)
        assert_done(three)


def stop_a_standby(three: MadeUpSite, port: SimPort) -> int:
    """Let a run of M_Keys that is open have a port, and have stopped a standby; return its operation."""
    ports = [NewRunPort(port.node.guid, port.guid, port.number)]
    with Journal(three.folder / "journal.db") as journal:
        number = journal.operation("mkey-rotate").put_on_disk()
        Runs(journal).begin(number, RunOptions(True, 2, 60), ports, {"stopped": [{"guid": "0x1"}]})
    return number


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("of", ["node01 mlx4_0", "node03 mlx4_0"])
def test_standbys_that_a_run_of_m_keys_has_stopped_are_started_first(
    three: MadeUpSite, monkeypatch: Patch, dry_run: bool, of: str
) -> None:
    number = stop_a_standby(three, three.net.port(of, 1))
    with pytest.raises(Refused, match="mkey-rotate stopped 1 standby OpenSM and is not finished") as refused:
        three.run(monkeypatch, dry_run=dry_run)
    assert refused.value.interlock == "open-run"
    assert_back(three)
    with Journal(three.folder / "journal.db") as journal:
        journal.set_state(number, "done")
    three.run(monkeypatch, dry_run=dry_run)


def test_standbys_of_another_subnet_are_not_waited_for(three: MadeUpSite, monkeypatch: Patch) -> None:
    stop_a_standby(three, subnet("dual-home").port("db01 mlx5_0", 1))
    three.run(monkeypatch)
    assert_done(three)
