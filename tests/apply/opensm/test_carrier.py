"""The OpenSM carrier against a made-up OpenSM: what is proven, what is waited for, when it goes back by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.apply.apply import Permissions, plan_apply, plan_resume
from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan, FinishedApply
from ibkeys.apply.carriers import CARRIERS
from ibkeys.apply.opensm.course import Settings
from ibkeys.apply.opensm.interlocks import objections_to_standbys
from ibkeys.apply.opensm.policy_files import PolicyFile, distinct
from ibkeys.apply.undo import plan_undo
from ibkeys.change.writer import Writer
from ibkeys.errors import FileError, HostRefused, Incomplete, Refused, UsageError
from ibkeys.host.replacing.seen import FoundFile, Metadata, SeenFile
from ibkeys.plan.model import SmOptions
from ibkeys.store.journal import Journal
from tests.apply.opensm.madeup import POLICY, MadeUpOpensm, put, valid
from tests.fabricsim import interlocks, tool, writer

OLD = """Default=0x7fff, ipoib : ALL=limited, SELF=full ;
Red=0x10 : 0x2c903000a1021=full, 0x2c903000a1031=full ;
Blue=0x20 : 0x2c903000a1041=full, 0x2c903000a1051 ;
"""
GREEN = OLD.replace("Red=0x10", "Green=0x11")
MORE = OLD + "More=0x30 : ALL_CAS=full ;\n"
ALL = Permissions(removals=True)


@pytest.fixture
def opensm() -> MadeUpOpensm:
    return MadeUpOpensm(OLD)


class Bench:
    """One place to apply and undo, with stores on disk."""

    def __init__(self, opensm: MadeUpOpensm, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.opensm, self.monkeypatch = opensm, monkeypatch
        self.journal = folder / "journal.db"
        self.stores = {"keystore": folder / "keys.db", "journal": self.journal}
        self.settings = Settings(wait=5)
        self.done: ApplyPlan

    def run(self, plan: Callable[[Writer, Any], ApplyPlan], *overrides: str) -> ApplyPlan:
        with tool(self.opensm.net, "node03 mlx4_0", **self.stores) as fabric, writer(fabric, *overrides) as changing:
            fabric.is_simulated = False
            carrier = self.opensm.carrier(self.monkeypatch, changing, self.settings)
            self.done = plan(changing, carrier)
            changing.apply(self.done)
        return self.done

    def apply(self, text: str, *overrides: str, hooks: ApplyHooks | None = None) -> ApplyPlan:
        with tool(self.opensm.net, "node03 mlx4_0") as fabric:
            plan = self.opensm.plan(fabric, text)
        return self.run(lambda changing, carrier: plan_apply(changing, plan, ALL, hooks, carrier), *overrides)

    def resume(self) -> ApplyPlan:
        return self.run(lambda changing, carrier: plan_resume(changing, ALL, carrier=carrier))

    def undo(self, operation: int | None = None) -> ApplyPlan:
        return self.run(lambda changing, carrier: plan_undo(changing, operation, carrier=carrier))

    def states(self) -> dict[int, str]:
        with Journal.read(self.journal) as journal:
            return {each.id: each.state for each in journal.list_operations()}

    def tables(self) -> dict[str, dict[int, int]]:
        return {f"{port}": dict(valid(port)) for node in self.opensm.net.nodes for port in node.all_ports}


@pytest.fixture
def bench(opensm: MadeUpOpensm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench(opensm, monkeypatch, tmp_path)


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


def test_an_undo_of_the_undo_is_the_plan_again(bench: Bench) -> None:
    bench.apply(GREEN)
    after = bench.tables()
    bench.undo()
    bench.undo(2)
    assert bench.opensm.host.file.data == GREEN.encode()
    # The P_Key comes back to the index that OpenSM remembers.
    assert bench.tables() == after


def test_no_file_is_a_former_state_too(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(MadeUpOpensm(None), monkeypatch, tmp_path)
    before = bench.tables()
    bench.apply(OLD)
    assert bench.opensm.host.file.data == OLD.encode()
    bench.undo()
    assert bench.opensm.host.file.data is None
    assert bench.tables() == before


def test_an_opensm_that_takes_its_time_is_waited_for(bench: Bench) -> None:
    bench.opensm.late = 3
    bench.apply(MORE)
    assert bench.opensm.host.log.count("signal") == 1
    assert bench.states() == {1: "done"}


def test_a_deaf_opensm_is_told_twice_and_then_each_port_is_named(bench: Bench) -> None:
    bench.opensm.is_deaf = True
    with pytest.raises(
        Incomplete, match="the policy of the plan, which is in place; operation 1 of the journal is open"
    ):
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
    with pytest.raises(Incomplete, match=r"most ports full members .* the former policy is back"):
        bench.apply(GREEN)
    assert bench.tables() == before
    assert bench.opensm.host.file.data == OLD.encode()
    assert bench.states() == {1: "undone", 2: "done"}
    assert bench.done.gone_back
    assert bench.opensm.clock == 0  # nobody waits for more of that


def test_everybody_full_before_is_no_fallback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(MadeUpOpensm(None), monkeypatch, tmp_path)
    bench.opensm.late = 4
    bench.apply(OLD)
    assert bench.states() == {1: "done"}


@pytest.mark.parametrize("moment", range(8))
def test_an_edit_of_somebody_else_stops_it_and_stays(bench: Bench, moment: int) -> None:
    """At whichever look, replacement or signal it happens."""
    theirs = (OLD + "# mine\n").encode()
    words: list[str] = []

    def edit(word: str) -> None:
        words.append(word)
        if len(words) == moment + 1:
            bench.opensm.host.file.data, bench.opensm.host.file.inode = theirs, 99

    bench.opensm.host.before_each = edit
    if moment == 0:  # that is before the change is planned
        bench.apply(GREEN)
        return
    with pytest.raises(Refused) as refused:
        bench.apply(GREEN)
    assert refused.value.interlock == "stale"
    assert bench.opensm.host.file.data == theirs
    if moment == 1:  # none of ours was in place yet
        bench.undo(1)
    else:
        with pytest.raises((Refused, UsageError)):
            bench.undo(1)
    assert bench.opensm.host.file.data == theirs


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


@pytest.mark.parametrize("is_linked_elsewhere", [False, True])
def test_what_somebody_wrote_after_us_is_not_brought_into_force_by_going_back(
    bench: Bench, is_linked_elsewhere: bool
) -> None:
    theirs = OLD.encode() + b"Theirs=0x66 : ALL_CAS=full ;\n"
    failed: list[tuple[Any, str]] = []

    def ended(run: FinishedApply) -> None:
        bench.opensm.host.file.data = theirs
        if is_linked_elsewhere:
            bench.opensm.host.leads_to = Path("/etc/opensm/other.conf")
        bench.opensm.host.log.clear()
        failed.extend(run.plan.carrier.go_back(run.operation))

    bench.apply(GREEN, hooks=ApplyHooks(ended=ended))
    [(port, text)] = failed
    assert port is None
    assert ("leads to /etc/opensm/other.conf now" if is_linked_elsewhere else "\n+Theirs=0x66") in text
    assert "signal" not in bench.opensm.host.log
    assert bench.opensm.host.file.data == theirs


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
    with pytest.raises(Refused, match=r"node02 mlx4_0.*: 0x7fff, 0x8010 instead of 0x7fff") as refused:
        bench.undo()
    assert refused.value.interlock == "drift"
    assert {*valid(quarantined).values()} == {0x7FFF}


def test_canaries_do_not_go_through_opensm_when_resumed_either(bench: Bench) -> None:
    bench.opensm.is_deaf = True
    with pytest.raises(Incomplete):
        bench.apply(MORE)
    first = Permissions(removals=True, first=1)
    with pytest.raises(UsageError, match="leave --first out"):
        bench.run(lambda changing, carrier: plan_resume(changing, first, carrier=carrier))


def test_a_resumed_run_does_not_write_over_what_somebody_else_wrote_meanwhile(bench: Bench) -> None:
    bench.opensm.is_deaf = True
    with pytest.raises(Incomplete):
        bench.apply(MORE)
    bench.opensm.is_deaf = False
    bench.opensm.host.file.data = OLD.encode() + b"# theirs\n"
    with pytest.raises(Refused, match="neither what the operation found nor what it wrote") as refused:
        bench.resume()
    assert refused.value.interlock == "stale"
    assert bench.opensm.host.file.data.endswith(b"# theirs\n")


def test_what_stops_it_says_what_it_leaves(bench: Bench) -> None:
    def die(word: str) -> None:
        if word == "signal":
            raise HostRefused("process 7: runs no more", "")

    bench.opensm.host.before_each = die
    with pytest.raises(HostRefused, match=r"runs no more; operation 1 .* is open: `ibkeys apply --resume` finishes it"):
        bench.apply(GREEN)


def test_what_hinders_is_refused_before_anything_is_written(bench: Bench) -> None:
    bench.opensm.host.reason = "/etc/opensm/partitions.conf: is a mount point itself"
    with pytest.raises(Refused, match="mount point itself; nothing was changed"):
        bench.apply(GREEN)
    assert bench.states() == {}
    assert "signal" not in bench.opensm.host.log


def test_a_signal_that_cannot_be_sent_leaves_the_operation_open_and_resume_sends_it(bench: Bench) -> None:
    def refuse(word: str) -> None:
        if word == "signal":
            raise HostRefused("not permitted", "")

    bench.opensm.host.before_each = refuse
    with pytest.raises(HostRefused):
        bench.apply(MORE)
    assert bench.states() == {1: "open"}
    assert bench.opensm.host.file.data == MORE.encode()
    bench.opensm.host.before_each = lambda word: None
    bench.resume()
    assert bench.states() == {1: "done"}


def test_an_armed_file_is_taken_back_by_undo_with_a_signal(bench: Bench) -> None:
    before = bench.tables()

    def die(word: str) -> None:
        if word == "signal":
            raise HostRefused("gone", "")

    bench.opensm.host.before_each = die
    with pytest.raises(HostRefused):
        bench.apply(MORE)
    bench.opensm.host.before_each = lambda word: None
    bench.undo()
    assert (bench.opensm.host.file.data, bench.tables()) == (OLD.encode(), before)
    assert bench.states() == {1: "undone", 2: "done"}


def test_drift_that_opensm_would_not_write_is_an_interlock_and_rewrite_mends_it(bench: Bench) -> None:
    leaver = bench.opensm.net.port("node02 mlx4_0", 1)
    put(leaver, {0: 0x7FFF})  # by hand; OpenSM remembers Red
    with pytest.raises(Refused) as refused:
        bench.apply(OLD + "More=0x30 : 0x2c903000a1051=full ;\n")
    assert refused.value.interlock == "drift"
    assert "node02" in str(refused.value)
    bench.settings = Settings(wait=5, rewrite=True)
    plan = bench.apply(OLD + "More=0x30 : 0x2c903000a1051=full ;\n")
    assert [phase.name for phase in plan.phases] == ["rewrite", "policy"]
    assert valid(leaver)[1] == 0x8010
    assert not any(0x7001 in {key & 0x7FFF for key in table.values()} for table in bench.tables().values())


def test_a_rewrite_cuts_nobody_and_joins_nobody(bench: Bench) -> None:
    one, other = (bench.opensm.net.port(f"{name} mlx4_0", 1) for name in ("node02", "node03"))
    put(one, {0: 0x7FFF, 6: 0x8033})  # taken out of Red by hand, and joined with the other one
    put(other, {0: 0x7FFF, 1: 0x8010, 6: 0x8033})
    seen: list[set[int]] = []
    bench.opensm.host.before_each = lambda word: seen.append({*valid(one).values()})
    bench.settings = Settings(wait=5, rewrite=True)
    new = OLD.replace("0x2c903000a1021=full, 0x2c903000a1031=full", "0x2c903000a1031=full")
    new += "Gold=0x33 : 0x2c903000a1021=full, 0x2c903000a1031=full ;\nMore=0x34 : 0x2c903000a1021=full ;\n"
    plan = bench.apply(new)
    assert plan.phases[0].name == "rewrite"
    assert {0x7FFF, 0x8033, 0x7001} in seen
    assert all(0x8033 in keys and 0x8010 not in keys for keys in seen)
    assert {*valid(one).values()} == {0x7FFF, 0x8033, 0x8034}
    assert bench.states() == {1: "done"}


def test_a_rewrite_does_not_fill_a_table_so_that_its_leaf_port_enforces_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = OLD + "".join(f"P{number}=0x{number:x} : 0x2c903000a1021=full ;\n" for number in range(0x100, 0x100 + 61))
    bench = Bench(MadeUpOpensm(full), monkeypatch, tmp_path)
    end = bench.opensm.net.port("node02 mlx4_0", 1)
    assert (len(valid(end)), end.p_key_capacity) == (63, 64)
    seen: list[int] = []
    bench.opensm.host.before_each = lambda word: seen.append(len(valid(end)))
    bench.settings = Settings(wait=5, rewrite=True)
    bench.apply(full + "More=0x30 : 0x2c903000a1051=full ;\n")
    assert {*seen} == {63}


def test_drift_that_the_change_writes_over_is_a_note(bench: Bench) -> None:
    put(bench.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8010, 5: 0x8099})
    plan = bench.apply(GREEN)
    assert "drift" not in interlocks(plan)
    assert any("not have what OpenSM's present policy says" in note for note in plan.notes)


def test_drift_elsewhere_is_a_note_and_does_not_hinder_the_undo(bench: Bench) -> None:
    stranger = bench.opensm.net.port("node06 mlx4_0", 1)
    before = bench.tables()
    bench.apply(GREEN)
    put(stranger, {0: 0x7FFF, 5: 0x8055})
    plan = bench.undo()
    assert any("node06" in note and "leaves alone" in note for note in plan.notes)
    assert valid(stranger) == {0: 0x7FFF, 5: 0x8055}
    assert bench.states() == {1: "undone", 2: "done"}
    put(stranger, {0: 0x7FFF})
    assert bench.tables() == before


def test_an_edit_elsewhere_in_the_middle_stops_it_and_resume_goes_on(bench: Bench) -> None:
    stranger = bench.opensm.net.port("node06 mlx4_0", 1)
    hooks = ApplyHooks(began=lambda operation: put(stranger, {0: 0x7FFF, 5: 0x8055}))
    with pytest.raises(Incomplete, match="index 5 is 0x8055"):
        bench.apply(GREEN, hooks=hooks)
    bench.resume()
    assert valid(stranger)[5] == 0x8055
    assert bench.states() == {1: "done"}


def test_drift_elsewhere_that_is_older_than_the_change_is_a_note(bench: Bench) -> None:
    stranger = bench.opensm.net.port("node06 mlx4_0", 1)
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, GREEN)
    put(stranger, {0: 0x7FFF, 5: 0x8055})
    done = bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert any("node06" in note and "leaves alone" in note for note in done.notes)
    assert bench.states() == {1: "done"}


def test_drift_elsewhere_in_a_partition_of_the_change_is_an_interlock(bench: Bench) -> None:
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, GREEN)
    put(bench.opensm.net.port("node06 mlx4_0", 1), {0: 0x7FFF, 5: 0x8011})
    with pytest.raises(Refused, match="node06") as refused:
        bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert refused.value.interlock == "drift"


def test_who_does_not_confirm_goes_back_whatever_drifted_elsewhere(bench: Bench) -> None:
    stranger = bench.opensm.net.port("node06 mlx4_0", 1)

    def ended(run: FinishedApply) -> None:
        put(stranger, {0: 0x7FFF, 5: 0x8055})
        assert run.plan.carrier.go_back(run.operation) == []

    before = bench.tables()
    bench.apply(GREEN, hooks=ApplyHooks(ended=ended))
    put(stranger, {0: 0x7FFF})
    assert bench.tables() == before


def test_a_plan_for_other_options_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(MadeUpOpensm(OLD, SmOptions(part_enforce="off")), monkeypatch, tmp_path)
    with pytest.raises(UsageError, match=r"enforcement both .* works with enforcement off .* --enforce off"):
        bench.apply(GREEN)


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


def test_a_file_that_opensm_does_not_see_goes_back_and_undo_leaves_it(bench: Bench) -> None:
    """As where the service has the old file mounted: another name leads to what it really reads."""
    bench.opensm.host.files = Unseen()
    with pytest.raises(FileError, match="OpenSM does not see the new file"):
        bench.apply(MORE)
    assert bench.opensm.host.file.data == OLD.encode()
    assert "signal" not in bench.opensm.host.log
    bench.opensm.host.files = None
    bench.undo()
    assert bench.opensm.host.file.data == OLD.encode()
    assert bench.states() == {1: "undone", 2: "done"}


class Unseen:
    """The files of a host on which the policy's other name still leads to the old one."""

    def read(self, path: Path, limit: int) -> bytes:
        return OLD.encode()


def test_the_journal_knows_the_way_of_each_operation() -> None:
    assert set(CARRIERS) == {"direct", "opensm"}


def test_a_standby_that_came_meanwhile_is_told_from_one_that_the_change_has_been_at() -> None:
    def file(data: bytes) -> Any:
        found = FoundFile(data, Metadata(0o644, 0, 0), 1, 1, 1, 1)
        return PolicyFile(cast(Any, SimpleNamespace(name="")), POLICY, SeenFile(POLICY, found))

    site = cast(Any, SimpleNamespace(out_of_reach=()))
    files = [file(b"before"), file(b"after")]
    assert list(objections_to_standbys(site, files, {b"before", b"after"})) == []
    (objection,) = objections_to_standbys(site, [file(b"theirs"), *files], {b"before", b"after"})
    assert objection.interlock == "standby-differs"


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
    assert any("that the plan does not name gets what the policy says" in note for note in done.notes)
    assert valid(newcomer)[1] == 0x8030
    assert bench.states() == {1: "done"}


def test_a_policy_that_two_hosts_have_from_one_server_is_one_file() -> None:
    def file(host: str, inode: int, data: bytes = b"the same") -> Any:
        found = FoundFile(data, Metadata(0o644, 0, 0), 1, inode, 5, 1)
        return PolicyFile(cast(Any, SimpleNamespace(name=host)), POLICY, SeenFile(POLICY, found))

    master = file("", 7)
    assert distinct([file("sm2", 7), master]) == [master]
    for other in (file("sm2", 8), file("sm2", 7, b"another"), file("", 7)):
        assert distinct([other, master]) == [other, master]
