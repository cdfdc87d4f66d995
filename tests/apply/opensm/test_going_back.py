"""An unconfirmed change goes back in one step, wherever something fails on the way, and never over others' work."""

from __future__ import annotations

import pytest

from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
from ibkeys.errors import HostNotReached, Incomplete
from ibkeys.store.journal import Journal
from tests.apply.opensm.bench import GREEN, MORE, OLD, Bench, unconfirmed
from tests.apply.opensm.madeup import MadeUpHost, put


def cut_off(host: MadeUpHost) -> None:
    """Let nothing reach *host* any more."""

    def refuse(word: str) -> None:
        raise HostNotReached(f"no route to {host.name or 'the master'}", host.name)

    host.before_each = refuse


def test_intermediate_policies_are_left_out(bench: Bench) -> None:
    before = bench.tables()

    def ended(run: FinishedApply) -> None:
        bench.opensm.host.log.clear()
        unconfirmed(run)

    assert len(bench.apply(GREEN, hooks=ApplyHooks(on_end=ended)).phases) == 2
    assert bench.opensm.host.log.count("signal") == bench.opensm.host.log.count("replace") == 1
    assert bench.tables() == before
    assert bench.states() == {1: "undone", 2: "done"}
    with Journal.read(bench.journal) as journal:
        assert [(each.name, each.status) for each in journal.steps(2)] == [("former", "done")]


def test_a_standby_that_is_not_reached_is_named_and_the_master_goes_back(bench: Bench) -> None:
    before, standby = bench.tables(), bench.opensm.add_standby(OLD)

    def ended(run: FinishedApply) -> None:
        cut_off(standby)
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=ended))
    assert bench.done.failed == [(None, "no route to sm2")]
    assert not bench.done.is_rollback_refused
    assert (bench.opensm.host.file.data, standby.file.data) == (OLD.encode(), MORE.encode())
    assert bench.tables() == before
    assert bench.states() == {1: "done", 2: "open"}


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_master_that_is_not_reached_is_named_and_its_standby_goes_back(bench: Bench, is_deaf: bool) -> None:
    """No port is waited for, also where OpenSM has not read the new policy either."""
    standby = bench.opensm.add_standby(OLD)
    bench.opensm.is_deaf = is_deaf

    def ended(run: FinishedApply) -> None:
        bench.opensm.host.log.clear()
        cut_off(bench.opensm.host)
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=ended))
    assert bench.done.failed == [(None, "no route to the master")]
    assert (bench.opensm.host.file.data, standby.file.data) == (MORE.encode(), OLD.encode())
    assert bench.opensm.host.log == ["look"]
    assert bench.opensm.clock == (10 if is_deaf else 0)  # only the change itself waited
    assert bench.states()[2] == "open"


def test_enforcement_is_not_waited_for_where_no_opensm_is_signalled(bench: Bench) -> None:
    bench.opensm.add_standby(OLD)
    for node in bench.opensm.net.nodes:
        for port in node.all_ports if node.is_switch else ():
            port.inbound_enforcement = port.outbound_enforcement = 0

    def ended(run: FinishedApply) -> None:
        cut_off(bench.opensm.host)
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=ended))
    assert bench.done.failed == [(None, "no route to the master")]
    assert bench.opensm.clock == 0


def test_enforcement_that_opensm_does_not_take_back_is_named(bench: Bench) -> None:
    leaf = bench.opensm.net.port("node02 mlx4_0", 1).peer
    assert leaf is not None
    leaf.inbound_enforcement = leaf.outbound_enforcement = 0
    bench.apply(MORE, hooks=ApplyHooks(on_end=unconfirmed))
    assert (leaf.inbound_enforcement, leaf.outbound_enforcement) == (1, 1)
    assert (bench.done.failed, bench.opensm.clock) == ([], 0)
    assert (bench.opensm.host.file.data, bench.states()) == (OLD.encode(), {1: "undone", 2: "done"})
    assert any("off before the operation, in+out after the undo" in note for note in bench.done.late_notes)


@pytest.mark.parametrize("word", ["replace", "signal"])
def test_what_fails_at_the_master_leaves_the_undo_open(bench: Bench, word: str) -> None:
    standby = bench.opensm.add_standby(OLD)

    def ended(run: FinishedApply) -> None:
        def refuse(each: str) -> None:
            if each == word:
                raise HostNotReached("gone", "")

        bench.opensm.host.before_each = refuse
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=ended))
    assert bench.done.failed == [(None, "gone")]
    assert standby.file.data == OLD.encode()
    assert bench.states() == {1: "done", 2: "open"}
    bench.opensm.host.before_each = lambda word: None
    bench.undo(1)
    assert bench.opensm.host.file.data == OLD.encode()
    assert bench.states() == {1: "undone", 2: "done"}


def test_a_silent_port_is_named_and_the_files_go_back(bench: Bench) -> None:
    node = bench.opensm.net.port("node05 mlx4_0", 1).node

    def ended(run: FinishedApply) -> None:
        node.silent = True
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=ended))
    assert [port.node_desc for port, _ in bench.done.failed if port is not None] == ["node05 mlx4_0"]
    assert bench.opensm.host.file.data == OLD.encode()
    assert bench.states() == {1: "done", 2: "open"}


def test_a_policy_that_another_user_changed_keeps_that_of_the_standby_too(bench: Bench) -> None:
    standby = bench.opensm.add_standby(OLD)

    def ended(run: FinishedApply) -> None:
        bench.opensm.host.file.data = MORE.encode() + b"# theirs\n"
        unconfirmed(run)

    bench.apply(MORE, hooks=ApplyHooks(on_end=ended))
    assert bench.done.is_rollback_refused
    assert standby.file.data == MORE.encode()
    assert bench.states() == {1: "done"}


def test_a_standby_that_had_the_new_policy_before_keeps_it(bench: Bench) -> None:
    standby = bench.opensm.add_standby(MORE)
    bench.apply(MORE, "standby-differs", hooks=ApplyHooks(on_end=unconfirmed))
    assert (bench.opensm.host.file.data, standby.file.data) == (OLD.encode(), MORE.encode())
    assert bench.states() == {1: "undone", 2: "done"}


def fall_back(bench: Bench) -> None:
    """Let OpenSM read a faulty policy at the first signal, and the file that is there at the second."""

    def spoil(word: str) -> None:
        first, file = bench.opensm.host.log.count("signal") == 1, bench.opensm.host.file
        if word == "signal" and first:
            good, file.data = file.data, b"Oops=0x10 : nonsense\n"
            bench.opensm.write()
            file.data = good
        bench.opensm.is_deaf = first

    bench.opensm.host.before_each = spoil


def test_a_port_that_the_change_leaves_alone_is_proven_after_a_fallback(bench: Bench) -> None:
    """It lost its P_Keys by the fallback all the same."""
    fall_back(bench)
    port = bench.opensm.net.port("node06 mlx4_0", 1)

    def hear() -> None:
        bench.opensm.hear()
        put(port, {0: 0xFFFF})

    bench.opensm.host.sweep = hear
    with pytest.raises(Incomplete, match="it could not be restored everywhere; `ibkeys undo 1` tries again"):
        bench.apply(GREEN)
    assert "node06 mlx4_0" in {port.node_desc for port, _ in bench.done.failed if port is not None}
    assert bench.opensm.host.file.data == OLD.encode()
    assert bench.states() == {1: "open", 2: "open"}


def test_a_port_that_another_user_changed_does_not_keep_a_fallback_in_force(bench: Bench) -> None:
    before = bench.tables()
    fall_back(bench)

    def hear() -> None:
        bench.opensm.hear()
        if bench.opensm.is_deaf:
            put(bench.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8099})

    bench.opensm.host.sweep = hear
    with pytest.raises(Incomplete, match="the former policy is restored"):
        bench.apply(GREEN)
    assert bench.tables() == before
