"""sm-repair: who is asked with which key and how often, what goes into the key store and into OpenSM's files."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.errors import NoReply
from ibkeys.host.replacing.conversions import NO_BYTES
from ibkeys.managers.key_files import ExportSummary, export_key_files
from ibkeys.managers.opensm.process import OpensmConfig, read_opensm_config
from ibkeys.mkeys.repair.repair import plan_repair
from ibkeys.mkeys.repair.start_advice import advise
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.opensm import KeyFiles, read_key_files, write_key_files
from tests.fabricsim import tool, writer
from tests.mkeys.repair.lab import LEASE, A, B, C, Lab, mixed, small, tree
from tests.mkeys.rollout import deploy, resume, rotate, site_of
from tests.protectedsim import listen, ring_of, violations
from tests.sample import SOAK


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_the_files_say_of_every_port_what_it_has(tmp_path: Path, level: int) -> None:
    lab = tree(tmp_path, level)
    lab.give(mixed(lab), level)
    done = lab.repair()
    assert lab.file() == lab.wire() == lab.first_keys()
    assert not done.kept
    assert not done.troubles
    assert done.answers[0].port_guid == lab.own.guid
    assert {each.key for each in done.answers} == {"current", "pending"}
    files = read_key_files(lab.cache)
    assert files.neighbors == ring_of(lab.net).neighbors
    assert {path.name for path in lab.cache.iterdir()} == {"guid2mkey", "neighbors"}
    assert stat.S_IMODE(lab.cache.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in lab.cache.iterdir()} == {0o600}


def test_what_it_writes_is_an_operation_that_has_no_byte_of_the_files(lab: Lab) -> None:
    lab.give(mixed(lab))
    lab.repair()
    with Journal(lab.folder / "journal.db") as journal:
        [done] = journal.list_operations()
        files = [each.image for each in journal.files(done.id)]
    assert (done.command, done.state) == ("test", "done")
    assert [Path(each.path) for each in files] == [lab.cache / "neighbors", lab.cache / "guid2mkey"]
    assert [(each.before, each.after) for each in files] == [(None, NO_BYTES), (NO_BYTES, NO_BYTES)]
    lab.repair()
    with Journal(lab.folder / "journal.db") as journal:
        assert journal.list_operations() == [done]  # the files were right already


def test_one_that_was_cut_off_is_open_until_the_next_one_has_ended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.give(mixed(lab))
    with monkeypatch.context() as patch:
        patch.setattr("ibkeys.mkeys.repair.repair.export_key_files", _cut_off_after_neighbors)
        with pytest.raises(KeyboardInterrupt):
            lab.repair()
    with Journal(lab.folder / "journal.db") as journal:
        assert [each.state for each in journal.list_operations()] == ["open"]
    lab.repair()
    assert lab.file() == lab.wire()
    with Journal(lab.folder / "journal.db") as journal:
        assert [each.state for each in journal.list_operations()] == ["done", "done"]


def test_what_one_that_was_cut_off_left_is_removed_or_named(lab: Lab) -> None:
    part, whole = (lab.cache / f".guid2mkey.ibkeys-4711-0123456789abcdef{end}" for end in (".part", ""))
    for path in (part, whole):
        path.write_bytes(b"0x")
    lab.give(mixed(lab))
    notes = lab.repair().notes
    assert [part.exists(), whole.exists()] == [False, True]
    assert [note for note in notes if str(whole) in note and "may hold a key" in note]


def _cut_off_after_neighbors(*args: Any) -> ExportSummary:
    *rest, write = args

    def once(path: Path, data: bytes) -> None:
        write(path, data)
        raise KeyboardInterrupt

    return export_key_files(*rest, once)


def test_each_port_gets_each_wrong_key_once_over_whichever_link(tmp_path: Path) -> None:
    lab = tree(tmp_path)
    lab.give(mixed(lab))
    wire = listen(lab.net)
    lab.repair()
    for port in lab.ports:
        wrong = {key: count for (at, key), count in wire.heard.items() if at is port and key != port.m_key.to_bytes(8)}
        assert all(count == 1 for count in wrong.values()), port
        assert port.m_key_violations == sum(wrong.values()) <= 1
        assert port not in wire.keyless
        assert port.lease_deadline is None, f"{port}: the lease runs, though it answered"


def test_the_own_port_is_asked_first_and_shows_which_key_the_others_have(lab: Lab) -> None:
    lab.give([B] * len(lab.ports))
    lab.repair()
    assert violations(lab.net) == lab.own.m_key_violations == 1


def test_an_own_port_with_another_key_ends_it_before_anybody_else_is_asked(lab: Lab) -> None:
    lab.own.m_key = C.reveal()
    before, wire = lab.file(), listen(lab.net)
    with pytest.raises(NoReply, match="it was queried with its known M_Key"):
        lab.repair()
    assert {port for port, _ in wire.heard} == {lab.own}
    assert lab.own.m_key_violations == 2
    assert lab.file() == before


def test_an_own_port_that_hides_its_key_at_level_1_is_named_and_no_other_port_is_taken_for_it(
    lab: Lab, tmp_path: Path
) -> None:
    lab.give([A] * len(lab.ports), level=1)
    lab.own.m_key = C.reveal()
    done = lab.repair()
    [kept] = done.kept
    assert kept.port["port_guid"] == f"0x{lab.own.guid:016x}"
    assert lab.file() == dict.fromkeys(lab.wire(), A)
    advice = advise(done, dict.fromkeys(lab.wire(), ()), False, tmp_path, conf_of(tmp_path, f"m_key {A.reveal():#x}\n"))
    assert (advice.holds, advice.own_has_it) == (len(lab.ports) - 1, False)


def test_a_port_that_does_not_answer_is_named_and_keeps_what_the_store_says_first(lab: Lab) -> None:
    lab.give([B] * len(lab.ports))
    lost = lab.net.port("node02 mlx4_0", 1)
    lost.m_key = C.reveal()
    done = lab.repair()
    [kept] = done.kept
    assert kept.port["port_guid"] == f"0x{lost.guid:016x}"
    assert kept.port["port"] == 1
    assert kept.reason == "it answered to none of its keys (2), each sent once"
    assert done.missing == [kept]
    assert lost.m_key_violations == 2
    assert lost.lease_deadline is not None
    assert lab.file() == {**lab.wire(), lost.guid: A}


def test_what_is_behind_a_closed_switch_is_named_too(lab: Lab) -> None:
    closed = next(node for node in lab.net.nodes if node.is_switch and lab.own.peer not in node.ports)
    closed.ports[0].m_key = C.reveal()
    done = lab.repair()
    reasons = {each.port["port_guid"]: each.reason for each in done.kept}
    behind = [port.peer for port in closed.ports[1:] if port.peer is not None and not port.peer.node.is_switch]
    assert len(reasons) == 1 + len(behind)
    for port in behind:
        assert reasons[f"0x{port.guid:016x}"] == "it was not queried: no link that was found leads to it"
        assert not port.m_key_violations
    assert not done.troubles


def test_a_port_at_level_1_with_another_key_hides_it_and_counts_nothing(tmp_path: Path) -> None:
    lab = small(tmp_path, 1)
    lost = lab.net.port("node02 mlx4_0", 1)
    lost.m_key = C.reveal()
    [kept] = lab.repair().kept
    assert kept.reason == "it hides its key (ProtectBits 1), and none of its keys (2) in the key store is right"
    assert violations(lab.net) == 0
    assert lab.file()[lost.guid] == A


def test_a_key_that_an_open_port_shows_is_in_the_store_before_it_is_in_the_file(tmp_path: Path) -> None:
    lab = small(tmp_path, 0)
    lab.net.port("node02 mlx4_0", 1).m_key = C.reveal()
    done = lab.repair()
    assert [each.m_key for each in done.answers if each.key == "new"] == [C]
    assert lab.first_keys() == lab.file() == lab.wire()


def test_a_port_that_lost_its_key_is_written_without_one(lab: Lab) -> None:
    reset = lab.net.port("node02 mlx4_0", 1)
    reset.m_key = reset.protect_bits = 0
    done = lab.repair()
    assert [each.port_guid for each in done.answers if each.key == "none"] == [reset.guid]
    assert lab.file() == lab.wire()


def test_the_key_of_an_opensm_conf_is_tried_last(tmp_path: Path) -> None:
    lab = small(tmp_path)
    with KeyStore(tmp_path / "keys.db") as store:
        store.put_subnet_key(C)
    lab.give([C] * len(lab.ports))
    done = lab.repair()
    assert {each.key for each in done.answers} == {"subnet"}
    assert lab.file() == lab.wire() == lab.first_keys()
    assert lab.own.m_key_violations == violations(lab.net) == 2


def test_what_it_may_cost_is_said_before_anything_is_sent(lab: Lab) -> None:
    wire = listen(lab.net)
    outlook = lab.outlook()
    count = len(lab.ports)
    assert (outlook.ports, outlook.protected, outlook.violations) == (count, count, 2 * count)
    assert outlook.orders == {("current", "pending"): count}
    assert (outlook.leases, outlook.unknown_leases, outlook.never_open) == ((LEASE,), 0, 0)
    assert not wire.heard
    assert not wire.keyless


def test_at_level_1_it_costs_nothing(tmp_path: Path) -> None:
    lab = small(tmp_path, 1)
    assert (lab.outlook().protected, lab.outlook().violations, lab.outlook().leases) == (0, 0, ())


def test_links_that_only_opensm_knows_lead_to_ports_too(lab: Lab) -> None:
    known = ring_of(lab.net).neighbors
    with KeyStore(lab.folder / "keys.db") as store, store.database.transaction() as connection:
        connection.execute("DELETE FROM links")
    write_key_files(lab.cache, KeyFiles(neighbors=known), ["neighbors"])
    assert not lab.repair().kept
    assert read_key_files(lab.cache).neighbors == known


# --- any mixture ------------------------------------------------------------------------------------------------------


@settings(max_examples=100 if SOAK else 5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_mixture_of_keys_and_levels(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("mixture")
    lab = tree(folder)
    for port in lab.ports:
        keys = (A, B) if port is lab.own else (A, B, C)
        port.m_key = data.draw(st.sampled_from(keys)).reveal()
        port.protect_bits = data.draw(st.integers(0, 3))
    before = lab.wire()
    wire = listen(lab.net)
    done = lab.repair()
    answered = {each.port_guid: each.m_key for each in done.answers}
    assert all(before[guid] == key for guid, key in answered.items())
    assert lab.wire() == before
    lost = [port for port in lab.ports if port.m_key == C.reveal() and port.protect_bits]
    if not lost:
        assert answered == before
    assert {port.guid for port in lost}.isdisjoint(answered)
    assert len(answered) + len(done.kept) == len(lab.ports)
    assert lab.file() == {guid: answered.get(guid, A) for guid in before}
    for port in lab.ports:
        assert port.m_key_violations <= 2
        assert not wire.keyless.get(port, 0)


# --- links, places, opensm.conf ---------------------------------------------------------------------------------------


def test_what_is_behind_a_link_that_is_not_proven_is_not_asked(lab: Lab) -> None:
    host = lab.net.port("node02 mlx4_0", 1)
    assert host.peer is not None
    host.peer.count("link_downed_counter", 1)
    wire = listen(lab.net)
    [kept] = lab.repair().kept
    assert kept.port["port_guid"] == f"0x{host.guid:016x}"
    assert "LinkDownedCounter of the port before it is 1, not 0" in kept.reason
    assert not [port for port, _ in wire.heard if port is host]
    assert host not in wire.keyless
    lab.options = {"trust_topology": True}
    assert not lab.repair().kept


def test_a_port_that_was_settled_is_kept_and_not_waited_for(lab: Lab) -> None:
    gone = lab.net.port("node02 mlx4_0", 1)
    lab.net.unplug("node02 mlx4_0", 1)
    with KeyStore(lab.folder / "keys.db") as store:
        store.settle([gone.guid])
    done = lab.repair()
    assert [each.port["port_guid"] for each in done.kept] == [f"0x{gone.guid:016x}"]
    assert not done.missing
    assert lab.file()[gone.guid] == A


def conf_of(folder: Path, text: str) -> OpensmConfig | None:
    path = folder / "opensm.conf"
    path.write_text(text)
    return read_opensm_config(path)


def test_what_is_said_of_an_opensm_conf(lab: Lab, tmp_path: Path) -> None:
    lab.give([A] + [B] * (len(lab.ports) - 1))
    done = lab.repair()
    known = dict.fromkeys(lab.wire(), ())
    texts = [f"m_key {key.reveal():#x}\n" for key in (A, B)]
    first, second = (advise(done, known, False, tmp_path, conf_of(tmp_path, text)) for text in texts)
    has_a = sum(key == A for key in lab.wire().values())
    assert (first.holds, first.ports, first.is_most) == (has_a, len(lab.ports), False)
    assert (second.holds, second.is_most) == (len(lab.ports) - has_a, True)
    assert first.own_has_it != second.own_has_it
    assert not first.problems + second.problems
    for conf, problem in (
        (None, "it cannot be read"),
        (conf_of(tmp_path, "m_key nonsense\n"), "not a number"),
        (conf_of(tmp_path, "m_key 0\n"), "removes every M_Key"),
        (conf_of(tmp_path, f"m_key {C.reveal():#x}\n"), "not in the key store"),
        (conf_of(tmp_path, f"{texts[0]}m_key_lookup yes\n"), "m_key_lookup is not TRUE"),
    ):
        advice = advise(done, known, False, tmp_path, conf)
        assert [problem in each for each in advice.problems] == [True], problem
    assert advise(done, known, True, tmp_path, conf_of(tmp_path, "m_key 0\n")).problems == []


def test_a_rotation_that_stopped_half_way_goes_on_after_it(tmp_path: Path) -> None:
    site = site_of("two-switch", tmp_path)
    site.run(deploy(RunOptions(protect=2, lease=LEASE, same=True)))
    site.run(rotate(RunOptions(protect=2, lease=LEASE, same=True, first=3)))
    with tool(site.net, timeout=0.1, **site.stores) as fabric, writer(fabric) as changing:
        done = plan_repair(changing, tmp_path / "cache", lambda: ()).run()
    assert not done.kept
    assert len(done.keys) == 2
    site.run(resume)
    assert len({port.m_key for node in site.net.nodes for port in node.end_ports if port.is_up or node.is_switch}) == 1
    assert violations(site.net) == 0
