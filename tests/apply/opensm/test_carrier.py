"""The OpenSM carrier against a made-up OpenSM: what is proven, what is waited for, when it goes back by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.apply.apply import plan_apply
from ibkeys.apply.carriers import CARRIERS
from ibkeys.errors import Incomplete, Refused
from ibkeys.plan.model import SmOptions
from ibkeys.store.journal import Journal
from tests.apply.opensm.bench import ALL, GREEN, MORE, OLD, Bench
from tests.apply.opensm.madeup import MadeUpOpensm, put, valid
from tests.fabricsim import tool


def test_each_policy_is_proven_before_the_next_and_undone_in_reverse(bench: Bench) -> None:
    before, given = bench.tables(), []
    bench.opensm.host.before_each = lambda word: given.append(bench.opensm.host.file.data) if word == "signal" else None
    plan = bench.apply(GREEN)
    assert [phase.name for phase in plan.phases] == ["between", "policy"]
    assert given[-1] == GREEN.encode()
    assert b"Step 1 of 2" in given[0]
    assert valid(bench.opensm.net.port("node02 mlx4_0", 1))[2] == 0x8011
    middle = given[0]
    given.clear()
    bench.undo()
    assert given == [middle, OLD.encode()]
    assert bench.tables() == before
    assert bench.states() == {1: "undone", 2: "done"}


def test_the_former_tables_and_the_file_are_in_the_journal_before_the_file_changes(bench: Bench) -> None:
    seen = []

    def look(word: str) -> None:
        if word == "replace":
            with Journal.read(bench.journal) as journal:
                seen.append(([each.image.before for each in journal.files(1)], len(journal.entries(1))))

    bench.opensm.host.before_each = look
    bench.apply(GREEN)
    assert seen[0] == ([OLD.encode()], 4)
    assert len(seen) == 2


def test_an_opensm_that_takes_its_time_is_waited_for(bench: Bench) -> None:
    bench.opensm.late = 3
    bench.apply(MORE)
    assert bench.opensm.host.log.count("signal") == 1
    assert bench.states() == {1: "done"}


def test_a_deaf_opensm_is_told_twice_and_then_each_port_is_named(bench: Bench) -> None:
    bench.opensm.is_deaf = True
    with pytest.raises(Incomplete, match="in place: the policy of the plan; operation 1 of the journal is open"):
        bench.apply(MORE)
    assert bench.opensm.host.log.count("signal") == 2
    assert 10 <= bench.opensm.clock < 12
    named = {str(port) for port, _ in bench.done.failed}
    assert len(named) == 12
    assert all("is empty instead of 0x8030" in error for _, error in bench.done.failed)
    assert bench.opensm.host.file.data == MORE.encode()
    bench.opensm.is_deaf = False
    bench.resume()
    assert bench.states() == {1: "done"}
    assert valid(bench.opensm.net.port("node02 mlx4_0", 1))[2] == 0x8030


def test_a_port_that_falls_silent_is_named_and_not_waited_for(bench: Bench) -> None:
    node = bench.opensm.net.port("node05 mlx4_0", 1).node

    def hear(word: str) -> None:
        if word == "signal":
            node.silent = True

    bench.opensm.host.before_each = hear
    with pytest.raises(Incomplete):
        bench.apply(MORE)
    assert [port.node_desc for port, _ in bench.done.failed if port is not None] == ["node05 mlx4_0"]
    assert bench.opensm.host.log.count("signal") == 1
    assert bench.opensm.clock == 0


@pytest.mark.parametrize("odd", ["", "node06 mlx4_0"])
def test_the_fallback_is_noticed_and_the_former_policy_put_back_in_one_step(bench: Bench, odd: str) -> None:
    """Also where one port refuses what OpenSM writes."""
    before = bench.tables()
    faults = ["one"]

    def spoil(word: str) -> None:
        if word == "signal" and faults:
            faults.pop()
            good, bench.opensm.host.file.data = bench.opensm.host.file.data, b"Oops=0x10 : nonsense\n"
            bench.opensm.write()
            if odd:
                put(bench.opensm.net.port(odd, 1), {0: 0x7FFF})
            bench.opensm.host.file.data, bench.opensm.is_deaf = good, True
        elif word == "signal":
            bench.opensm.is_deaf = False

    bench.opensm.host.before_each = spoil
    with pytest.raises(Incomplete, match=r"most ports full members .* the former policy is restored"):
        bench.apply(GREEN)
    assert bench.tables() == before
    assert bench.opensm.host.file.data == OLD.encode()
    assert bench.states() == {1: "undone", 2: "done"}
    with Journal.read(bench.journal) as journal:
        assert [[each.status for each in journal.steps(number)] for number in (1, 2)] == [["failed"], ["done"]]
        assert {each.status for each in journal.entries(1)} == {"failed"}
    assert bench.done.gone_back
    assert bench.opensm.clock == 0  # nobody waits for more of that


def test_the_fallback_is_not_ended_over_a_policy_that_somebody_else_wrote(bench: Bench) -> None:
    """Then the rollback is refused, and an undo would be too: what works is named."""
    theirs = OLD.encode() + b"# theirs\n"
    faults = ["one"]

    def spoil(word: str) -> None:
        if word == "signal" and faults:
            faults.pop()
            bench.opensm.host.file.data = b"Oops=0x10 : nonsense\n"
            bench.opensm.write()
            bench.opensm.host.file.data, bench.opensm.is_deaf = theirs, True

    bench.opensm.host.before_each = spoil
    with pytest.raises(Incomplete, match=r"most ports full members .*; nothing was rolled back") as caught:
        bench.apply(GREEN)
    assert "tries again" not in str(caught.value)
    assert "to keep what is there: `ibkeys resume 1 --overtaken`" in str(caught.value)
    assert bench.opensm.host.file.data == theirs
    assert bench.done.is_rollback_refused
    assert bench.states() == {1: "open"}
    bench.opensm.host.before_each, bench.opensm.is_deaf = lambda word: None, False
    with pytest.raises(Refused):
        bench.undo(1)
    bench.assert_overtaken()
    bench.close()
    assert bench.states() == {1: "undone"}


def test_everybody_full_before_is_no_fallback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(MadeUpOpensm(None), monkeypatch, tmp_path)
    bench.opensm.late = 4
    bench.apply(OLD)
    assert bench.states() == {1: "done"}


def test_packed_tables_are_compared_index_by_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(MadeUpOpensm(OLD, SmOptions(keep_pkey_indexes=False)), monkeypatch, tmp_path)
    with pytest.raises(Refused) as refused:
        bench.apply(OLD + "Less=0x0f00 : 0x2c903000a1021=full ;\n")
    assert refused.value.interlock == "index-move"
    bench.apply(OLD + "Less=0x0f00 : 0x2c903000a1021=full ;\n", "index-move")
    assert set(valid(bench.opensm.net.port("node02 mlx4_0", 1)).values()) == {0x7FFF, 0x8010, 0x8F00}


def test_a_plan_that_is_there_already_needs_nothing_but_perhaps_the_file(bench: Bench) -> None:
    plan = bench.apply(OLD)
    assert not plan.pending
    assert bench.states() == {}
    plan = bench.apply(OLD + "# another comment\n")
    assert [phase.steps for phase in plan.phases] == [()]
    assert bench.opensm.host.file.data == (OLD + "# another comment\n").encode()


def test_the_journal_knows_the_way_of_each_operation() -> None:
    assert set(CARRIERS) == {"direct", "opensm", "ufm"}


def test_a_port_that_came_after_the_plan_gets_what_the_policy_says_and_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a node that booted: OpenSM has given it what the present policy says."""
    newcomer = bench.opensm.net.port("node06 mlx4_0", 1)
    newcomer.node.silent = 1
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, MORE)
    newcomer.node.silent = 0
    done = bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert any("that the plan does not name also" in note for note in done.notes)
    assert valid(newcomer)[1] == 0x8030
    assert bench.states() == {1: "done"}
