"""Changing P_Key tables on the simulator; what is stored is looked at on the simulator's own side."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.change.pkeys import plan_add, plan_remove, plan_set, steps_between
from ibkeys.change.wanted import moves
from ibkeys.errors import MKeyNeeded, NoReply, NoRoom, NotStored, UsageError
from ibkeys.keys.pkey import EMPTY, PKey
from ibkeys.mad.const import Method
from ibkeys.store.journal import Journal
from ibkeys.store.paths import StorePaths
from tests.change.refusing import refused
from tests.fabricsim import interlocks, set_p_key_capacity, subnet, tool, writer
from tests.spy import interrupt_at_a_set, sets, spy

FULL, LIMITED = PKey(0xFFFF), PKey(0x7FFF)


def keys(*values: int) -> list[PKey]:
    return [PKey(value) for value in values]


def test_set_writes_only_the_block_that_differs_and_keeps_the_rest() -> None:
    net = subnet("two-switch")
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8001] + [0] * 38 + [0x8002]
    with tool(net) as fabric, writer(fabric) as w:
        port = fabric.find_port(2)
        plan = plan_set(w, port, {40: EMPTY, 41: PKey(0x8010)})
        assert [str(change) for change in plan.changes] == ["pkey[40]: 0x8002 -> -", "pkey[41]: - -> 0x8010"]
        record = spy(fabric)
        w.apply(plan)
    assert len(sets(record)) == 1
    table = net.port("node02 mlx4_0", 1).p_keys
    assert (table[0], table[1], table[40], table[41]) == (0xFFFF, 0x8001, 0, 0x8010)


def test_add_takes_the_first_free_index_and_moves_nothing() -> None:
    net = subnet("two-switch")
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8001, 0, 0x8003]
    with tool(net) as fabric, writer(fabric) as w:
        w.apply(plan_add(w, fabric.find_port(2), keys(0x8010, 0x8011, 0x8003)))
    assert net.port("node02 mlx4_0", 1).p_keys[:5] == [0xFFFF, 0x8001, 0x8010, 0x8003, 0x8011]


def test_add_of_what_is_there_changes_nothing() -> None:
    with tool(subnet("two-switch")) as fabric, writer(fabric) as w:
        plan = plan_add(w, fabric.find_port(2), [FULL])
        assert not plan.pending
        assert plan.notes == ["0xffff is already at index 0"]


def test_index_0_is_kept_for_the_default_while_another_is_free() -> None:
    net = subnet("two-switch")
    net.port("node02 mlx4_0", 1).p_keys = [0, 0]
    with tool(net) as fabric, writer(fabric) as w:
        w.apply(plan_add(w, fabric.find_port(2), keys(0x8010)))
        w.apply(plan_add(w, fabric.find_port(2), [LIMITED]))
    assert net.port("node02 mlx4_0", 1).p_keys[:2] == [0x7FFF, 0x8010]


def test_remove_clears_in_place() -> None:
    net = subnet("two-switch")
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8001, 0x8002, 0x8003]
    with tool(net) as fabric, writer(fabric) as w:
        w.apply(plan_remove(w, fabric.find_port(2), keys(0x8002, 0x0003)))
    assert net.port("node02 mlx4_0", 1).p_keys[:4] == [0xFFFF, 0x8001, 0, 0x8003]


def test_a_full_table_says_so() -> None:
    net = subnet("two-switch")
    set_p_key_capacity(net.node("node02 mlx4_0"), 2)
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8001]
    with (
        tool(net) as fabric,
        writer(fabric) as w,
        pytest.raises(NoRoom, match="1 entry is needed, and 0 of 2 are free"),
    ):
        plan_add(w, fabric.find_port(2), keys(0x8002))


@pytest.mark.parametrize("entries", [{64: 0x8001}, {-1: 0x8001}, {3: 0x8000}])
def test_indexes_past_the_table_and_invalid_keys_are_usage_errors(entries: dict[int, int]) -> None:
    with tool(subnet("two-switch")) as fabric, writer(fabric) as w, pytest.raises(UsageError):
        plan_set(w, fabric.find_port(2), {index: PKey(key) for index, key in entries.items()})


def test_the_other_port_of_an_hca_is_written_by_its_own_route() -> None:
    net = subnet("dual-home")
    with tool(net) as fabric, writer(fabric) as w:
        w.apply(plan_add(w, fabric.find_port(3, 2), keys(0x8010)))
    assert net.port("db02 mlx5_0", 1).p_keys[:2] == [0xFFFF, 0]
    assert net.port("db02 mlx5_0", 2).p_keys[:2] == [0xFFFF, 0x8010]


def test_what_is_overwritten_is_in_the_journal_before_the_set(tmp_path: Any) -> None:
    net = subnet("two-switch")
    journal = tmp_path / "journal.db"
    with tool(net) as fabric:
        fabric.stores = StorePaths(None, journal)
        spy(fabric, before=interrupt_at_a_set)
        with writer(fabric) as w, pytest.raises(KeyboardInterrupt):
            w.apply(plan_add(w, fabric.find_port(2), keys(0x8010)))
    with Journal(journal, create=False) as stored:
        [operation] = stored.list_operations()
        assert operation.state == "open"
        [entry] = stored.entries(operation.id)
        assert entry.image.before[:4] == bytes.fromhex("ffff0000")
        assert entry.image.after[:4] == bytes.fromhex("ffff8010")


def test_a_dry_run_locks_nothing_creates_nothing_and_sends_no_set(tmp_path: Any) -> None:
    net = subnet("two-switch")
    with tool(net) as fabric:
        fabric.stores = StorePaths(tmp_path / "k" / "keys.db", tmp_path / "k" / "journal.db")
        record = spy(fabric)
        with writer(fabric, dry_run=True) as w:
            assert plan_add(w, fabric.find_port(2), keys(0x8010)).pending
    assert not sets(record)
    assert not (tmp_path / "k").exists()


def test_a_set_that_is_accepted_but_not_stored_is_found_out() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_add(w, fabric.find_port(2), keys(0x8010))
        node = net.node("node02 mlx4_0")
        original = type(net.port(node, 1)).set_p_key_block
        try:
            type(net.port(node, 1)).set_p_key_block = lambda self, block, data: None  # type: ignore[method-assign]
            with pytest.raises(NotStored, match=r"index 1 is 0x0000 instead of 0x8010"):
                w.apply(plan)
        finally:
            type(net.port(node, 1)).set_p_key_block = original  # type: ignore[method-assign]


def test_a_lost_reply_to_the_set_is_settled_by_a_fresh_read() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_add(w, fabric.find_port(2), keys(0x8010))
        net.faults.lose_next("reply", method=Method.SET)
        w.apply(plan)
    assert net.port("node02 mlx4_0", 1).p_keys[1] == 0x8010


def test_a_lost_set_is_reported_not_repeated() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_add(w, fabric.find_port(2), keys(0x8010))
        net.faults.lose_next("request", method=Method.SET)
        record = spy(fabric)
        with pytest.raises(NotStored):
            w.apply(plan)
    assert len(sets(record)) == 1


def test_the_ports_m_key_goes_with_the_set() -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    port.m_key, port.protect_bits = 0xABCD, 1
    with tool(net) as fabric, writer(fabric) as w, pytest.raises(MKeyNeeded, match="hides its M_Key"):
        plan_add(w, fabric.find_port(2), keys(0x8010))
    with tool(net, m_key=0xABCD) as fabric, writer(fabric) as w:
        w.apply(plan_add(w, fabric.find_port(2), keys(0x8010)))
    assert port.p_keys[1] == 0x8010
    assert port.m_key_violations == 0


def test_a_key_that_the_port_shows_is_used_as_opensm_does() -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    port.m_key, port.protect_bits = 0xABCD, 0
    with tool(net) as fabric, writer(fabric) as w:
        w.apply(plan_add(w, fabric.find_port(2), keys(0x8010)))
    assert port.p_keys[1] == 0x8010
    assert port.m_key_violations == 0


# --- interlocks, each both ways ----------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [{0: EMPTY, 1: LIMITED}, {0: PKey(0x8001), 1: LIMITED}])
def test_index_0(entries: dict[int, PKey]) -> None:
    net = subnet("two-switch")
    with tool(net) as fabric:
        with writer(fabric) as w:
            refused(w, plan_set(w, fabric.find_port(2), entries), "index-0")
        with writer(fabric, "index-0", "index-move") as w:
            w.apply(plan_set(w, fabric.find_port(2), entries))
    assert net.port("node02 mlx4_0", 1).p_keys[0] == entries[0]


def test_index_move() -> None:
    net = subnet("two-switch")
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8001]
    entries = {1: EMPTY, 7: PKey(0x8001)}
    with tool(net) as fabric:
        with writer(fabric) as w:
            refused(w, plan_set(w, fabric.find_port(2), entries), "index-move")
        with writer(fabric, "index-move") as w:
            w.apply(plan_set(w, fabric.find_port(2), entries))
    assert net.port("node02 mlx4_0", 1).p_keys[7] == 0x8001


def test_default_pkey_of_any_end_port() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric:
        with writer(fabric, "index-0") as w:
            refused(w, plan_remove(w, fabric.find_port(2), [FULL]), "default-pkey")
            assert interlocks(plan_set(w, fabric.find_port(2), {0: LIMITED})) == {"index-0"}
        with writer(fabric, "index-0", "default-pkey") as w:
            w.apply(plan_remove(w, fabric.find_port(2), [FULL]))
    assert not any(net.port("node02 mlx4_0", 1).p_keys)


def test_default_pkey_of_the_sms_port_must_stay_full() -> None:
    net = subnet("two-switch")
    net.set_sm("node02 mlx4_0")
    with tool(net) as fabric:
        with writer(fabric, "index-0", force=True) as w:
            refused(w, plan_set(w, fabric.find_port(2), {0: LIMITED}), "default-pkey")
            assert interlocks(plan_set(w, fabric.find_port(3), {0: LIMITED})) == {"index-0", "active-sm"}
        with writer(fabric, "index-0", "default-pkey", force=True) as w:
            w.apply(plan_set(w, fabric.find_port(2), {0: LIMITED}))
    assert net.port("node02 mlx4_0", 1).p_keys[0] == 0x7FFF


def test_active_sm_and_that_force_covers_nothing_else() -> None:
    net = subnet("two-switch")
    net.set_sm("node01 mlx4_0")
    with tool(net) as fabric:
        with writer(fabric) as w:
            refused(w, plan_add(w, fabric.find_port(2), keys(0x8010)), "active-sm")
        with writer(fabric, force=True) as w:
            refused(w, plan_set(w, fabric.find_port(2), {0: LIMITED}), "index-0")
            w.apply(plan_add(w, fabric.find_port(2), keys(0x8010)))
    assert net.port("node02 mlx4_0", 1).p_keys[1] == 0x8010


@pytest.mark.parametrize(("state", "counts"), [(3, True), (2, True), (1, True), (0, False)])
def test_which_states_of_an_sm_count_as_active(state: int, counts: bool) -> None:
    net = subnet("two-switch")
    net.set_sm("node03 mlx4_0")
    net.node("node03 mlx4_0").sm.state = state  # type: ignore[union-attr]
    with tool(net) as fabric, writer(fabric) as w:
        assert w.ask_subnet_manager().may_be_master is counts


def test_a_silent_sm_with_its_bit_set_counts_as_active_and_one_that_left_does_not() -> None:
    net = subnet("two-switch")
    net.set_sm("node03 mlx4_0")
    net.faults.lose_next("reply", attribute=0x20, count=1000)
    with tool(net) as fabric, writer(fabric) as w:
        assert w.ask_subnet_manager().presence == "unknown"
    net.set_sm("node03 mlx4_0", None)
    with tool(net) as fabric, writer(fabric) as w:
        assert w.ask_subnet_manager().presence == "none"
    net.silence("node03 mlx4_0")
    with tool(net) as fabric, writer(fabric) as w:
        assert w.ask_subnet_manager().presence == "unknown"


def test_stale() -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    with tool(net) as fabric:
        with writer(fabric) as w:
            plan = plan_add(w, fabric.find_port(2), keys(0x8010))
            port.p_keys = [0xFFFF, 0x8020, 0x8030]
            refused(w, plan, "stale")
            assert port.p_keys[:3] == [0xFFFF, 0x8020, 0x8030]
        port.p_keys = [0xFFFF]
        with writer(fabric, "stale") as w:
            plan = plan_add(w, fabric.find_port(2), keys(0x8010))
            port.p_keys = [0xFFFF, 0x8020, 0x8030]
            w.apply(plan)
    assert port.p_keys[:3] == [0xFFFF, 0x8010, 0x8030]


def test_a_block_whose_write_nobody_answers_is_an_error() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_add(w, fabric.find_port(2), keys(0x8010))
        net.silence("node02 mlx4_0")
        with pytest.raises(NoReply):
            w.apply(plan)


# --- order -------------------------------------------------------------------------------------------------------

TABLE = st.lists(st.sampled_from([0, 0, 0, 0x8001, 0x8002, 0x8003, 0x8004]), min_size=96, max_size=96).map(
    lambda values: tuple(PKey(value) for value in values)
)


@given(TABLE, TABLE)
def test_additions_go_out_before_removals(before: tuple[PKey, ...], after: tuple[PKey, ...]) -> None:
    """At no moment between two Sets is a partition absent that is there before and after."""
    keep = {key.partition for key in before if key} & {key.partition for key in after if key}
    table = list(before)
    written = 0
    for start, block in steps_between(before, after):
        table[start : start + 32] = block
        written += 1
        assert keep <= {key.partition for key in table if key} or not _movable(before, after)
    assert tuple(table) == after
    assert written <= 6


def _movable(before: tuple[PKey, ...], after: tuple[PKey, ...]) -> bool:
    """Whether make before break is possible: an entry that a key moves to must be free beforehand."""
    return all(not before[target] for _, target, _ in moves(dict(enumerate(before)), dict(enumerate(after))))
