"""Setting M_Keys on the simulator: no key is lost, no violation is counted that need not be."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ibkeys.change.engine import Engine
from ibkeys.errors import KeyGone, MKeyNeeded, NoReply, NotStored, Refused, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.const import Method
from ibkeys.managers.opensm import on_this_host as opensm_here
from ibkeys.managers.opensm.command_line import read_command_line
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.mkeys.key_edit import KeyEdit
from ibkeys.mkeys.set import plan_mkey_set
from ibkeys.store.journal import Image, Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.origin import this_process
from ibkeys.store.paths import StorePaths
from tests.change.refusing import refused
from tests.fabricsim import interlocks, subnet, tool, writer
from tests.spy import interrupt_at_a_set, is_set, sets, spy

OLD, NEW = MKey(0x83F1C05E9A2D7B46), MKey(0xD75E0B93A4C81F62)
NAME = "node02 mlx4_0"


def apply(
    net: Any, new: MKey | None = None, protect: int | None = None, lease: int | None = None, **options: Any
) -> Any:
    """Set one port as the command does and return the key store's rows afterwards."""
    overrides = options.pop("overrides", ())
    with tool(net, **options) as fabric, writer(fabric, *overrides) as w:
        plan = plan_mkey_set(w, fabric.find_port(2), new, protect, lease)
        w.apply(plan)
        return w.keystore.rows()


def state(net: Any) -> tuple[int, int, int, int]:
    port = net.port(NAME, 1)
    return port.m_key, port.protect_bits, port.lease_period, port.m_key_violations


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_every_level_from_every_level(before: int, level: int) -> None:
    net = subnet("two-switch")
    port = net.port(NAME, 1)
    port.m_key, port.protect_bits, port.lease_period = OLD.reveal(), before, 20
    rows = apply(net, NEW, level, 30, m_key=OLD)
    assert state(net) == (NEW.reveal(), level, 30, 0)
    assert [(row.state, row.m_key) for row in rows] == [("former", OLD), ("current", NEW)]


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_the_first_key_and_its_removal(level: int) -> None:
    net = subnet("two-switch")
    apply(net, NEW, level, 30)
    assert state(net) == (NEW.reveal(), level, 30, 0)
    rows = apply(net, NO_MKEY, 0, 0, m_key=NEW)
    assert state(net) == (0, 0, 0, 0)
    assert ("former", NEW) in [(row.state, row.m_key) for row in rows]


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_one_lost_reply_to_the_set_counts_no_violation(level: int) -> None:
    net = subnet("two-switch")
    port = net.port(NAME, 1)
    port.m_key, port.protect_bits = OLD.reveal(), level
    with tool(net, m_key=OLD) as fabric, writer(fabric, "lease-0") as w:
        plan = plan_mkey_set(w, fabric.find_port(2), NEW, level)
        record = spy(fabric)
        net.faults.lose_next("reply", method=Method.SET)
        w.apply(plan)
    assert state(net) == (NEW.reveal(), level, 0, 0)
    assert len(sets(record)) == 1


@pytest.mark.parametrize("level", [0, 1])
def test_a_lost_set_is_found_out_and_not_repeated(level: int) -> None:
    net = subnet("two-switch")
    port = net.port(NAME, 1)
    port.m_key, port.protect_bits = OLD.reveal(), level
    with tool(net, m_key=OLD) as fabric, writer(fabric) as w:
        plan = plan_mkey_set(w, fabric.find_port(2), NEW)
        record = spy(fabric)
        net.faults.lose_next("request", method=Method.SET)
        with pytest.raises(NotStored, match="still has its old M_Key"):
            w.apply(plan)
        states = {row.m_key: row.state for row in w.keystore.rows()}
    assert len(sets(record)) == 1
    assert state(net) == (OLD.reveal(), level, 0, 0)
    assert states == {OLD: "current", NEW: "former"}


def test_a_lost_set_at_level_2_asks_the_new_key_once_before_the_old_one() -> None:
    net = subnet("two-switch")
    port = net.port(NAME, 1)
    port.m_key, port.protect_bits = OLD.reveal(), 2
    with tool(net, m_key=OLD) as fabric, writer(fabric, "lease-0") as w:
        plan = plan_mkey_set(w, fabric.find_port(2), NEW)
        net.faults.lose_next("request", method=Method.SET)
        with pytest.raises(NotStored):
            w.apply(plan)
    assert port.m_key_violations == 1


def test_a_port_that_falls_silent_leaves_both_keys_in_the_store(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.port(NAME, 1).m_key = OLD.reveal()
    with tool(net, m_key=OLD) as fabric:
        fabric.stores = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")
        with writer(fabric) as w:
            plan = plan_mkey_set(w, fabric.find_port(2), NEW)
            spy(fabric, after=lambda out: net.silence(NAME) if is_set(out) else None)
            with pytest.raises(NoReply, match="neither to the new nor to the old"):
                w.apply(plan)
    with KeyStore(tmp_path / "keys.db", create=False) as store:
        assert store.all_keys().get(net.port(NAME, 1).guid, []) == [OLD, NEW]
        assert {row.state for row in store.rows()} == {"current", "pending"}


def test_the_new_key_is_on_disk_before_the_set_and_no_key_is_in_the_journal(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.port(NAME, 1).m_key = OLD.reveal()
    with tool(net) as fabric:
        fabric.stores = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")
        spy(fabric, before=interrupt_at_a_set)
        with writer(fabric) as w, pytest.raises(KeyboardInterrupt):
            w.apply(plan_mkey_set(w, fabric.find_port(2), NEW, 1, 60))
    with KeyStore(tmp_path / "keys.db", create=False) as store:
        assert set(store.all_keys().get(net.port(NAME, 1).guid, [])) == {OLD, NEW}
    with Journal(tmp_path / "journal.db", create=False) as journal:
        [operation] = journal.list_operations()
        [entry] = journal.entries(operation.id)
        assert entry.image.key_name is not None
    with KeyStore(tmp_path / "keys.db", create=False) as store:
        assert store.named(entry.image.key_name).m_key == NEW
    with KeyStore(None) as another:
        another.put_imported(1, MKey(5))
        another.put_imported(2, MKey(6))
        with pytest.raises(KeyGone, match="lost or replaced"):
            another.named(entry.image.key_name)
    for key in (OLD, NEW):
        for file in tmp_path.glob("journal.db*"):
            assert key.reveal().to_bytes(8) not in file.read_bytes()
            assert key.hex()[2:].encode() not in file.read_bytes()


def test_the_key_store_opens_the_port_in_the_next_run(tmp_path: Path) -> None:
    net = subnet("two-switch")
    with tool(net, keystore=tmp_path / "keys.db") as fabric, writer(fabric) as w:
        w.apply(plan_mkey_set(w, fabric.find_port(2), NEW, 2, 60))
    with tool(net, keystore=tmp_path / "keys.db") as fabric:
        assert fabric.find_port(2).read_port_info().m_key == NEW.reveal()
    assert state(net) == (NEW.reveal(), 2, 60, 0)


def test_protection_alone_changes_no_key() -> None:
    net = subnet("two-switch")
    net.port(NAME, 1).m_key = OLD.reveal()
    with tool(net, m_key=OLD) as fabric, writer(fabric) as w:
        plan = plan_mkey_set(w, fabric.find_port(2), None, 1, 60)
        assert [change.kind for change in plan.changes] == ["m_key_protect_bits", "m_key_lease_period"]
        w.apply(plan)
        # what was readable until now is not readable afterwards: it must be on disk
        assert [(row.state, row.m_key) for row in w.keystore.rows()] == [("current", OLD)]
        w.apply(plan_mkey_set(w, fabric.find_port(2), None, 0, 60))
        assert len(w.keystore.rows()) == 1
    assert state(net) == (OLD.reveal(), 0, 60, 0)


def test_protection_with_key_0_is_set_and_said_to_have_no_effect() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_mkey_set(w, fabric.find_port(2), None, 1, 60)
        assert "no effect" in plan.notes[0]
        w.apply(plan)
    assert state(net) == (0, 1, 60, 0)


def test_a_hidden_key_must_be_given_and_nothing_is_tried_without_it() -> None:
    net = subnet("two-switch")
    port = net.port(NAME, 1)
    port.m_key, port.protect_bits = OLD.reveal(), 1
    with tool(net) as fabric, writer(fabric) as w, pytest.raises(MKeyNeeded):
        plan_mkey_set(w, fabric.find_port(2), NEW)
    assert port.m_key_violations == 0


def test_a_switch_is_guarded_by_port_0_only() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        with pytest.raises(UsageError, match="external ports"):
            plan_mkey_set(w, fabric.find_port(7, 2), NEW)
        w.apply(plan_mkey_set(w, fabric.find_port(7), NEW, 1, 60))
    assert net.port("MF0;switch-a:IS5023/U1", 0).m_key == NEW.reveal()


@pytest.mark.parametrize(("protect", "lease"), [(4, None), (-1, None), (None, 65536), (None, -1)])
def test_values_out_of_range(protect: int | None, lease: int | None) -> None:
    with tool(subnet("two-switch")) as fabric, writer(fabric) as w, pytest.raises(UsageError):
        plan_mkey_set(w, fabric.find_port(2), None, protect, lease)


def test_lease_expiry_opens_the_port() -> None:
    net = subnet("two-switch")
    apply(net, NEW, 2, 30)
    with tool(net, retries=0) as fabric:
        with pytest.raises(NoReply):
            fabric.find_port(2)
        assert state(net)[3] == 1
        net.advance(30)
        assert fabric.find_port(2).read_port_info().m_key == NEW.reveal()
    assert net.port(NAME, 1).protect_bits == 0


# --- interlocks, each both ways ----------------------------------------------------------------------------------


def test_mkey_under_sm_and_that_force_does_not_cover_it() -> None:
    net = subnet("two-switch")
    net.set_sm("node03 mlx4_0")
    with tool(net) as fabric:
        with writer(fabric, force=True) as w:
            plan = plan_mkey_set(w, fabric.find_port(2), NEW, 1, 60)
            assert interlocks(plan) == {"mkey-under-sm"}
            with pytest.raises(Refused, match=r"opensm\.conf"):
                w.apply(plan)
        with writer(fabric, "mkey-under-sm") as w:
            w.apply(plan_mkey_set(w, fabric.find_port(2), NEW, 1, 60))
    assert state(net)[0] == NEW.reveal()


def test_active_sm_when_the_key_stays() -> None:
    net = subnet("two-switch")
    net.set_sm("node03 mlx4_0")
    with tool(net) as fabric:
        with writer(fabric) as w:
            refused(w, plan_mkey_set(w, fabric.find_port(2), None, 0, 60), "active-sm")
        with writer(fabric, force=True) as w:
            w.apply(plan_mkey_set(w, fabric.find_port(2), None, 0, 60))


@pytest.mark.parametrize("level", [2, 3])
def test_lease_0(level: int) -> None:
    net = subnet("two-switch")
    with tool(net) as fabric:
        with writer(fabric) as w:
            refused(w, plan_mkey_set(w, fabric.find_port(2), NEW, level, 0), "lease-0")
        with writer(fabric, "lease-0") as w:
            w.apply(plan_mkey_set(w, fabric.find_port(2), NEW, level, 0))
    assert state(net) == (NEW.reveal(), level, 0, 0)


def test_a_lease_not_above_the_sweep_interval_of_the_sm_on_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "opensm.conf"
    config.write_text("# comment\nsweep_interval 30\n")
    running: list[OpensmProcess] = [OpensmProcess(7, tmp_path, True, config)]
    monkeypatch.setattr(opensm_here, "running_here", lambda: running)
    net = subnet("two-switch")
    net.set_sm("node01 mlx4_0")
    with tool(net) as fabric, writer(fabric) as w:
        fabric.is_simulated = False
        interval = partial(opensm_here.known_sweep_interval, fabric, w.ask_subnet_manager())
        assert interval() == 30
        running[:] = [OpensmProcess(7, tmp_path, True, config, read_command_line(["-s", "20"]))]
        assert interval() == 20, "its command line wins"
        running[:] = [OpensmProcess(7, tmp_path, True, tmp_path / "none")]
        assert interval() is None
        running[:] = [OpensmProcess(7, tmp_path, True, config), OpensmProcess(8, tmp_path, True, config)]
        assert interval() is None, "which of the two is master is not known"
        running[:] = []
        monkeypatch.setattr("ibkeys.managers.opensm.process.OPENSM_CONFIGS", (config, tmp_path / "none"))
        assert interval() == 30, "none is seen to run: a distribution's file"
        monkeypatch.setattr("ibkeys.mkeys.set.known_sweep_interval", lambda *_: 30)
        assert "lease-0" in interlocks(plan_mkey_set(w, fabric.find_port(2), NEW, 1, 30))
        assert "lease-0" not in interlocks(plan_mkey_set(w, fabric.find_port(2), NEW, 1, 31))


class Killed(BaseException):
    """The process ended here."""


def cut_off(net: Any, stores: Any, before_the_set: bool) -> None:
    """Let a process that sets a key die, before its Set or after it."""

    def die(*given: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*(Engine, "_change") if before_the_set else (KeyEdit, "prove"), die)
        with pytest.raises(Killed):
            apply(net, NEW, 1, 60, **stores)


@pytest.mark.parametrize("state", ["promote", "abandon"])
def test_one_that_was_cut_off_is_ended_after_its_key(tmp_path: Path, state: str) -> None:
    """Killed in between, its key is not pending without an operation that says so."""
    net, stores = subnet("two-switch"), {"keystore": tmp_path / "keys.db", "journal": tmp_path / "journal.db"}
    cut_off(net, stores, state == "abandon")

    def die(*given: Any) -> None:
        raise Killed

    def end() -> None:
        with tool(net, **stores) as fabric, writer(fabric) as w:
            plan_mkey_set(w, fabric.find_port(2)).close_if_complete(w)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeyStore, state, die)
        with pytest.raises(Killed):
            end()
    with Journal.read(stores["journal"]) as journal:
        assert [each.state for each in journal.list_operations()] == ["open"]
    end()
    with Journal.read(stores["journal"]) as journal, KeyStore(stores["keystore"]) as store:
        assert [each.state for each in journal.list_operations()] == ["done"]
        assert [row.state for row in store.rows() if row.state == "pending"] == []


@pytest.mark.parametrize("journal", ["kept", "lost", "of a run"])
def test_without_its_operation_a_pending_key_that_the_port_has_becomes_the_current_one(
    tmp_path: Path, journal: str
) -> None:
    """Of a run under way, which names it, it is left to that run."""
    net, stores = subnet("two-switch"), {"keystore": tmp_path / "keys.db", "journal": tmp_path / "journal.db"}
    apply(net, OLD, 1, 60, **stores)
    cut_off(net, stores, False)
    if journal != "kept":
        stores["journal"].unlink()
    if journal == "of a run":
        with Journal(stores["journal"]) as stored, KeyStore(stores["keystore"]) as store:
            [guid] = {row.port_guid for row in store.outline()}
            [name] = (store.name_of(row.ref) for row in store.outline() if row.state == "pending")
            image = Image(guid - 1, guid, "", "ca", 1, 2, "PortInfo", 0, bytes(64), bytes(64), name)
            stored.record(stored.begin_operation("mkey-rotate", this_process()), 0, [image])
    with tool(net, **stores, ask_unproven=True) as fabric, writer(fabric) as w:
        plan = plan_mkey_set(w, fabric.find_port(2), NEW)
        assert not plan.pending
        plan.close_if_complete(w)
        rows = [(row.state, row.m_key) for row in w.keystore.rows()]
    if journal == "of a run":
        assert rows == [("current", OLD), ("pending", NEW)]
    else:
        assert rows == [("former", OLD), ("current", NEW)]


@pytest.mark.parametrize("before_the_set", [True, False], ids=["before the Set", "after the Set"])
@pytest.mark.parametrize(("key", "lease"), [(NEW, 60), (NEW, 90), (None, 90), (OLD, 60), (None, None)])
def test_one_that_was_cut_off_is_ended_by_the_next_for_that_port(
    tmp_path: Path, before_the_set: bool, key: MKey | None, lease: int | None
) -> None:
    net, stores = subnet("two-switch"), {"keystore": tmp_path / "keys.db", "journal": tmp_path / "journal.db"}
    cut_off(net, stores, before_the_set)
    with Journal.read(stores["journal"]) as journal:
        assert [each.state for each in journal.list_operations()] == ["open"]
    with tool(net, **stores) as fabric, writer(fabric) as w:
        of_another = w.keystore.put_pending(1, 0x99, 1, KeySetting(OLD, 1, 60), None)
        plan_mkey_set(w, fabric.find_port(3), protect=0).close_if_complete(w)
        with Journal.read(stores["journal"]) as journal:
            assert [each.state for each in journal.list_operations()] == ["open"], "that is another port"
        plan = plan_mkey_set(w, fabric.find_port(2), key, None if key is None else 1, lease)
        w.apply(plan)
        plan.close_if_complete(w)
        assert w.keystore.get(of_another).state == "pending"
        rows = [(row.state, row.m_key.reveal()) for row in w.keystore.rows() if row.port_guid != 0x99]
    with Journal.read(stores["journal"]) as journal:
        assert {each.state for each in journal.list_operations()} == {"done"}
    has = state(net)[0]
    assert [state for state, _ in rows if state == "pending"] == []
    assert ("current", has) in rows or has == 0
    assert NEW.reveal() in {key for _, key in rows}
