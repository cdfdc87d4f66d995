"""Going back through OpenSM: the same policies in reverse, the former file, and what may not be overwritten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
from ibkeys.change.confirming.confirmation import block_confirmation
from ibkeys.errors import HostRefused, Incomplete, Refused, StoreError
from ibkeys.sim.nodes import SimPort
from ibkeys.store.journal import Journal
from tests.apply.opensm.bench import GREEN, MORE, OLD, Bench
from tests.apply.opensm.madeup import MadeUpOpensm, StillSite, put, valid


def test_an_undo_of_the_undo_is_the_plan_again(bench: Bench) -> None:
    bench.apply(GREEN)
    after = bench.tables()
    bench.undo()
    bench.undo(2)
    assert bench.opensm.host.file.data == GREEN.encode()
    # The P_Key comes back to the index that OpenSM remembers.
    assert bench.tables() == after


def test_an_undo_that_leaves_p_keys_at_other_indexes_says_so(bench: Bench) -> None:
    red = bench.opensm.net.port("node02 mlx4_0", 1)
    assert valid(red) == {0: 0x7FFF, 1: 0x8010}
    done = bench.apply(GREEN)
    assert (done.other_indexes, done.late_notes) == ([], [])
    write = bench.opensm.write

    def write_elsewhere() -> None:  # as an OpenSM that was restarted meanwhile
        write()
        if (table := valid(red)).get(1) == 0x8010:
            put(red, {3 if index == 1 else index: key for index, key in table.items()})

    bench.opensm.write = write_elsewhere  # type: ignore[method-assign]
    undone = bench.undo()
    assert [(each.port.port_guid, each.p_key, each.index, each.expected) for each in undone.other_indexes] == [
        (red.guid, 0x8010, 3, 1)
    ]
    assert undone.to_json()["other_indexes"][0]["expected"] == 1
    [note] = undone.late_notes
    assert "1 port has P_Keys at other indexes than before the change: 'node02 mlx4_0'" in note
    assert "(0x8010 at index 3, not 1)" in note


def test_no_file_is_a_former_state_too(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(MadeUpOpensm(None), monkeypatch, tmp_path)
    before = bench.tables()
    bench.apply(OLD)
    assert bench.opensm.host.file.data == OLD.encode()
    bench.undo()
    assert bench.opensm.host.file.data is None
    assert bench.tables() == before


def test_what_somebody_wrote_after_us_is_shown_and_not_overwritten(bench: Bench) -> None:
    bench.apply(GREEN)
    bench.opensm.host.file.data = GREEN.encode() + b"# a colleague\n"
    with pytest.raises(Refused) as refused:
        bench.undo()
    assert "+# a colleague" in refused.value.details.splitlines()
    assert refused.value.interlock == "stale"
    assert "\n+# a colleague" in refused.value.details
    assert "\n" not in str(refused.value)
    assert bench.opensm.host.file.data == GREEN.encode() + b"# a colleague\n"
    assert bench.states() == {1: "done"}


def test_an_operation_is_undone_after_those_that_wrote_the_same_file_later(bench: Bench) -> None:
    bench.apply(MORE)
    bench.apply(OLD + "More=0x31 : ALL_CAS=full ;\n")
    with pytest.raises(Refused, match="operation 2 of the journal wrote it later: `ibkeys undo 2` first"):
        bench.undo(1)


def test_the_advice_to_undo_later_changes_first_leads_to_the_older_one(bench: Bench) -> None:
    texts = [
        OLD + "".join(f"P{number}=0x{number:x} : ALL_CAS=full ;\n" for number in range(49, 49 + n))
        for n in (1, 2, 3, 4)
    ]
    for text in texts:
        bench.apply(text)
    bench.undo(4)  # operation 5
    with pytest.raises(
        Refused, match=r"operations 2 and 3 .* wrote it later: `ibkeys undo 3` first, then `ibkeys undo 2`"
    ) as refused:
        bench.undo(1)
    assert any("opposite edit with a partition-* command" in each for each in refused.value.way_on)
    bench.undo(5)  # makes operation 4 again
    with pytest.raises(Refused, match=r"operations 2, 3 and 4 .* wrote it later: `ibkeys undo 4` first, then"):
        bench.undo(1)
    for operation in (4, 3, 2, 1):
        bench.undo(operation)
    assert bench.opensm.host.file.data == OLD.encode()


def test_a_change_that_was_made_again_later_is_undone_before_another_is_made_again(bench: Bench) -> None:
    bench.apply(MORE)
    bench.undo()  # operation 2
    bench.apply(GREEN)  # 3
    bench.undo()  # 4
    bench.undo(2)  # operation 1 again
    with pytest.raises(Refused, match="operation 1 of the journal wrote it later: `ibkeys undo 1` first"):
        bench.undo(4)
    bench.undo(1)
    bench.undo(4)
    assert bench.opensm.host.file.data == GREEN.encode()


def test_an_undo_that_would_not_reach_the_file_that_opensm_reads_now_is_refused(bench: Bench) -> None:
    bench.apply(GREEN)
    bench.opensm.host.leads_to = Path("/etc/opensm/other.conf")
    with pytest.raises(Refused, match=r"reads /etc/opensm/other.conf, which the operation did not write") as refused:
        bench.undo()
    assert refused.value.interlock == "stale"
    assert bench.states() == {1: "done"}


def test_an_undo_that_gives_a_port_what_it_did_not_have_is_an_interlock(bench: Bench) -> None:
    quarantined = bench.opensm.net.port("node02 mlx4_0", 1)
    put(quarantined, {0: 0x7FFF})  # by hand; the former policy has it in Red
    bench.apply(OLD.replace("0x2c903000a1021=full, ", ""))
    bench.apply(GREEN.replace("Green", "Lime"))
    bench.undo()
    with pytest.raises(Refused, match=r"node02 mlx4_0.*: it has 0x7fff, and it would get 0x7fff, 0x8010") as refused:
        bench.undo()
    assert refused.value.interlock == "drift"
    assert {*valid(quarantined).values()} == {0x7FFF}


def test_a_host_that_was_away_during_the_change_and_got_it_when_it_came_back_loses_it(bench: Bench) -> None:
    before, away = bench.tables(), bench.opensm.net.port("node05 mlx4_0", 1)
    away.node.silent = True
    bench.apply(MORE)
    away.node.silent = False  # OpenSM gives it what its policy says
    assert 0x8030 in valid(away).values()
    bench.undo()
    assert bench.tables() == before
    assert bench.states() == {1: "undone", 2: "done"}


@pytest.mark.parametrize("entries", [{0: 0x7FFF, 1: 0x8010, 2: 0x8030, 7: 0x8099}, {0: 0x7FFF, 2: 0x8030}])
def test_p_keys_that_somebody_set_on_a_port_of_the_change_stop_the_undo(bench: Bench, entries: dict[int, int]) -> None:
    """OpenSM would write the whole block: what was added since, and what was taken away."""
    port = bench.opensm.net.port("node02 mlx4_0", 1)
    bench.apply(MORE)
    put(port, entries)
    bench.opensm.host.log.clear()
    with pytest.raises(Refused, match=r"node02.* neither found nor wrote") as refused:
        bench.undo()
    assert refused.value.interlock == "stale"
    assert valid(port) == entries
    assert not {"replace", "signal"} & {*bench.opensm.host.log}
    assert bench.states() == {1: "done"}


def test_an_armed_file_is_taken_back_by_undo_with_a_signal(bench: Bench) -> None:
    before = bench.tables()
    with pytest.raises(HostRefused):
        bench.cut_off_at_the_signal(MORE, "gone")
    bench.undo()
    assert (bench.opensm.host.file.data, bench.tables()) == (OLD.encode(), before)
    assert bench.states() == {1: "undone", 2: "done"}


@pytest.fixture
def edited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """MORE is applied, and then somebody edits the options file, which OpenSM has not read."""
    bench.apply(MORE)
    edit = "/etc/opensm/opensm.conf was edited and is not in force"
    monkeypatch.setattr(StillSite, "unread_edit", lambda site, role: edit if role == "options" else "")
    bench.opensm.host.log.clear()
    return bench


def test_an_undo_does_not_bring_an_unread_edit_of_the_options_into_force(edited: Bench) -> None:
    bench = edited
    with pytest.raises(Refused, match=r"opensm.conf was edited and is not in force: .* let OpenSM read it") as refused:
        bench.undo()
    assert refused.value.interlock == "stale"
    assert not {"replace", "signal"} & {*bench.opensm.host.log}
    assert bench.states() == {1: "done"}


def test_an_undo_that_signals_nobody_has_nothing_to_do_with_such_an_edit(edited: Bench) -> None:
    bench = edited
    bench.opensm.host.file.data = OLD.encode()
    bench.opensm.write()
    bench.undo()
    assert not {"replace", "signal"} & {*bench.opensm.host.log}
    assert bench.states() == {1: "undone", 2: "done"}


def test_a_rollback_that_nobody_stops_is_not_stopped_by_such_an_edit(edited: Bench) -> None:
    bench = edited
    with Journal(bench.journal) as journal:
        assert journal.move_stage(1, "ended", "unconfirmed")
    with pytest.raises(StoreError, match=r"operation 1 \(apply\) can still be confirmed: `ibkeys undo 1` rolls it"):
        bench.undo_by_child(1)
    assert block_confirmation(bench.journal, 1)
    bench.undo_by_child(1)
    assert (bench.opensm.host.file.data, bench.states()) == (OLD.encode(), {1: "undone", 2: "done"})


def test_nor_is_that_of_the_process_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(run: FinishedApply) -> None:
        monkeypatch.setattr(StillSite, "unread_edit", lambda site, role: "edited" if role == "options" else "")
        assert run.plan.carrier.go_back(run.operation).failed == []

    bench.apply(MORE, hooks=ApplyHooks(on_end=ended))
    assert bench.opensm.host.file.data == OLD.encode()


def test_a_port_that_the_change_wrote_and_that_is_gone_at_the_undo_is_named(bench: Bench) -> None:
    bench.apply(MORE)
    bench.opensm.net.silence(bench.opensm.net.node("Infiniscale-IV Mellanox Technologies"))
    bench.undo()
    [note] = [note for note in bench.done.notes if "changed by the operation, and not on the fabric now" in note]
    assert "'node04 mlx4_0' 0x0002c903000a1040 port 1" in note


def switch_on_with_a_change(bench: Bench, before: int, policy: str = MORE) -> SimPort:
    """Set inbound enforcement of a leaf port to *before*, and outbound to 0; then let a change set both to 1."""
    leaf = bench.opensm.net.port("node02 mlx4_0", 1).peer
    assert leaf is not None
    leaf.inbound_enforcement, leaf.outbound_enforcement = before, 0
    bench.apply(policy)
    assert (leaf.inbound_enforcement, leaf.outbound_enforcement) == (1, 1)
    return leaf


@pytest.mark.parametrize("policy", [MORE, GREEN])  # GREEN takes two policies, and the first switches enforcement on
@pytest.mark.parametrize(("before", "word"), [(0, "off"), (1, "in")])
def test_enforcement_that_opensm_does_not_take_back_is_named_and_not_waited_for(
    bench: Bench, before: int, word: str, policy: str
) -> None:
    tables = bench.tables()
    leaf = switch_on_with_a_change(bench, before, policy)
    bench.undo()
    assert (bench.opensm.host.file.data, bench.opensm.clock) == (OLD.encode(), 0)
    assert (leaf.inbound_enforcement, leaf.outbound_enforcement) == (1, 1)
    assert bench.states() == {1: "undone", 2: "done"}
    [note] = [note for note in bench.done.notes if "enforce-set" in note]
    assert f"port {leaf.number} ({word} before the operation, in+out after the undo)" in note
    assert f"`ibkeys enforce-set -G 0x{leaf.node.guid:016x} {leaf.number} " in note
    assert bench.tables() == tables


def test_enforcement_that_opensm_does_not_set_although_it_should_is_an_error(bench: Bench) -> None:
    leaf = switch_on_with_a_change(bench, before=1)
    bench.opensm.options = replace(bench.opensm.options, part_enforce="in")
    write = bench.opensm.write

    def write_only_tables() -> None:
        write()
        leaf.inbound_enforcement = leaf.outbound_enforcement = 0

    bench.opensm.write = write_only_tables  # type: ignore[method-assign]
    with pytest.raises(Incomplete, match=r"enforcement is off instead of in"):
        bench.undo()
    assert not any("enforce-set" in note for note in bench.done.notes)
    assert bench.states() == {1: "done", 2: "open"}

    def write_enforcement() -> None:
        leaf.inbound_enforcement = 1

    bench.opensm.write = write_enforcement  # type: ignore[method-assign]
    bench.undo(1)
    assert leaf.inbound_enforcement == 1
    assert bench.states() == {1: "undone", 2: "done"}


def test_an_undo_names_other_enforcement_than_before_and_still_waits_for_it(bench: Bench) -> None:
    leaf = switch_on_with_a_change(bench, before=0)
    leaf.outbound_enforcement = 0
    bench.undo()
    assert (leaf.inbound_enforcement, leaf.outbound_enforcement) == (1, 1)
    assert [(each.before.bits, each.after.bits) for each in bench.done.remaining.enforcement] == [
        ((True, False), (True, True))
    ]
    assert any("off before the operation, in+out after the undo" in note for note in bench.done.notes)
