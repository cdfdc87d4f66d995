"""sm-repair: who is asked with which key and how often, what goes into the key store and into OpenSM's files."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.errors import NoReply, Refused, UsageError
from ibkeys.host.replacing.contents import NO_BYTES
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.managers.key_files import Exported, export_key_files
from ibkeys.managers.opensm.process import OpensmConfig, OpensmProcess, read_opensm_config
from ibkeys.mkeys.repair.outlook import RepairOutlook
from ibkeys.mkeys.repair.repair import plan_repair
from ibkeys.mkeys.repair.result import Repaired
from ibkeys.mkeys.repair.start import advise
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.opensm import KeyFiles, read_key_files, write_key_files
from tests.fabricsim import subnet, tool, writer
from tests.fattree import fat_tree
from tests.mkeys.rollout import deploy, resume, rotate, site_of
from tests.protectedsim import end_ports, keep_counters, listen, ring_of, store_of, violations
from tests.sample import SOAK

A, B, C = (MKey(0xA94F13D02E7C5B68 + number) for number in range(3))
LEASE = 60


class Lab:
    """A subnet of which the store says that every port has A, or B which was not confirmed; without an SM."""

    def __init__(self, net: Subnet, folder: Path, level: int = 2) -> None:
        self.net, self.folder = net, folder
        self.cache = folder / "cache"
        self.options: dict[str, bool] = {}
        self.stores = {"keystore": folder / "keys.db", "journal": folder / "journal.db"}
        self.ports = [port for port in end_ports(net) if port.is_up or port.node.is_switch]
        ring = ring_of(net)
        ring.by_guid = {port.guid: A for port in self.ports}
        keep_counters(net, ring)
        store_of(net, ring, folder / "keys.db", level)
        with KeyStore(folder / "keys.db") as store:
            for port in self.ports:
                store.put_pending(
                    port.node.guid, port.guid, port.number, KeySetting(B, level, LEASE), KeySetting(A, level, LEASE)
                )
        self.give([A] * len(self.ports), level)
        write_key_files(self.cache, KeyFiles(dict.fromkeys(ring.by_guid, A)), ["guid2mkey"])

    @property
    def own(self) -> SimPort:
        return self.net.nodes[0].end_ports[0]

    def give(self, keys: Sequence[MKey], level: int = 2) -> None:
        """Give the ports these keys, as a crash has left them."""
        for port, key in zip(self.ports, keys, strict=True):
            port.m_key, port.protect_bits, port.lease_period = key.reveal(), level, LEASE

    def repair(self, *processes: OpensmProcess, overrides: Sequence[str] = ()) -> Repaired:
        options = {**self.stores, **self.options}
        with tool(self.net, timeout=0.1, **options) as fabric, writer(fabric, *overrides) as changing:
            repair = plan_repair(changing, self.cache, lambda: processes)
            repair.check()
            return repair.run()

    def outlook(self) -> RepairOutlook:
        with tool(self.net, timeout=0.1, **self.stores) as fabric, writer(fabric, dry_run=True) as changing:
            return plan_repair(changing, self.cache, lambda: ()).outlook()

    def file(self) -> dict[int, MKey]:
        return read_key_files(self.cache).m_keys

    def wire(self) -> dict[int, MKey]:
        return {port.guid: MKey(port.m_key) for port in self.ports}

    def first_keys(self) -> dict[int, MKey]:
        with KeyStore(self.folder / "keys.db", create=False) as store:
            return {guid: keys[0] for guid, keys in store.all_keys().items()}


def small(folder: Path, level: int = 2) -> Lab:
    return Lab(subnet("two-switch"), folder, level)


def tree(folder: Path, level: int = 2) -> Lab:
    path = folder / "tree.net"
    path.write_text(fat_tree(2, 2, 2, pods=2, cores=2))
    return Lab(Subnet.from_file(path), folder, level)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return small(tmp_path)


def mixed(lab: Lab) -> list[MKey]:
    return [(A, B)[number % 2] for number in range(len(lab.ports))]


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


def _cut_off_after_neighbors(*args: Any) -> Exported:
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
    assert (outlook.leases, outlook.unknown_leases, outlook.never) == ((LEASE,), 0, 0)
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


# --- refused: nothing was asked, nothing written ----------------------------------------------------------------------


def is_refused(lab: Lab, interlock: str, *processes: OpensmProcess) -> str:
    before = [(path.name, path.read_bytes()) for path in lab.cache.iterdir()]
    wire = listen(lab.net)
    with pytest.raises(Refused) as refused:
        lab.repair(*processes)
    assert refused.value.interlock == interlock
    assert not wire.heard
    assert not wire.keyless
    assert [(path.name, path.read_bytes()) for path in lab.cache.iterdir()] == before
    return f"{refused.value} {refused.value.more}"


def test_refused_while_an_opensm_uses_the_cache(lab: Lab) -> None:
    assert "process 4711" in is_refused(lab, "running-opensm", OpensmProcess(4711, lab.cache, True, None))


def test_an_opensm_with_another_cache_is_no_matter_of_these_files(lab: Lab) -> None:
    assert not lab.repair(OpensmProcess(4711, lab.folder, True, None)).kept


def test_refused_where_the_file_has_keys_that_the_store_has_not(lab: Lab) -> None:
    write_key_files(lab.cache, KeyFiles({lab.own.guid: C}), ["guid2mkey"])
    assert "keystore import" in is_refused(lab, "unknown-keys")


def test_refused_for_the_folder_of_another_user(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    another = SimpleNamespace(geteuid=lambda: lab.cache.stat().st_uid + 1)  # for this question alone
    monkeypatch.setattr("ibkeys.mkeys.repair.repair.os", another)
    said = is_refused(lab, "foreign-folder")
    assert "belongs to another user" in said
    assert f"`chown -R {lab.cache.stat().st_uid} FOLDER`" in said


def test_refused_for_a_folder_that_everybody_may_write_to(lab: Lab) -> None:
    """As /tmp, which would get mode 0700."""
    lab.cache.mkdir(exist_ok=True)
    lab.cache.chmod(0o1777)
    assert "everybody may write" in is_refused(lab, "foreign-folder")
    assert lab.cache.stat().st_mode & 0o7777 == 0o1777


def test_refused_while_the_sa_of_a_master_answers(lab: Lab) -> None:
    lab.net.set_sm("node03 mlx4_0")
    assert "its SM is master" in is_refused(lab, "mkey-under-sm")


def test_refused_while_an_sm_runs_on_the_own_port(lab: Lab) -> None:
    lab.net.set_sm(lab.net.nodes[0])
    assert "its IsSM bit is set" in is_refused(lab, "mkey-under-sm")


def test_a_standby_that_the_sweep_meets_refuses_the_files(lab: Lab) -> None:
    lab.net.set_sm("node03 mlx4_0", state=2)
    before = lab.file()
    with pytest.raises(Refused, match="no SM is master") as refused:
        lab.repair()
    assert refused.value.interlock == "mkey-under-sm"
    assert lab.file() == before
    assert not lab.repair(overrides=["mkey-under-sm"]).kept


def test_a_store_without_keys_has_nothing_to_ask_with(tmp_path: Path) -> None:
    lab = small(tmp_path)
    lab.stores["keystore"] = tmp_path / "empty.db"
    (lab.cache / "guid2mkey").unlink()
    with pytest.raises(UsageError, match="keystore import"):
        lab.repair()


# --- any mixture ------------------------------------------------------------------------------------------------------


@settings(max_examples=100 if SOAK else 12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
